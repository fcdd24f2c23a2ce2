"""The documents as a site: it builds without a warning, has the reference, and fetches nothing from elsewhere."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from mkdocs.config import load_config
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "tools" / "site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SITE = hooks()


def build(tree: Path, to: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(to)]
    return subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT, folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_the_reference_has_every_public_name(built: Path) -> None:
    for name, (package, *_) in SITE.REFERENCE.items():
        page = (built / "reference" / f"{name}.html").read_text()
        there = {anchor.rpartition(".")[2] for anchor in re.findall(r'id="([\w.]+)"', page)}
        assert set(importlib.import_module(package).__all__) - there == set(), package


@pytest.mark.slow
def test_every_document_is_a_page(built: Path) -> None:
    names = {path.relative_to(DOCS).with_suffix("") for path in DOCS.rglob("*.md")} - {Path("README")}
    assert names - {path.relative_to(built).with_suffix("") for path in built.rglob("*.html")} == set()


@pytest.mark.slow
def test_nothing_is_fetched_from_elsewhere(built: Path) -> None:
    fetched = re.compile(r'<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)="(?:https?:)?//[^"]*"')
    for page in built.rglob("*.html"):
        assert fetched.findall(page.read_text()) == [], page


def moved(link: str, source: str) -> tuple[str, Files]:
    """Where a link of a page leads in the site, and the files that are added for it."""
    config = load_config(str(ROOT / "mkdocs.yml"))
    config.plugins._current_plugin = "tools/site.py"  # as in a build
    page = File(source, str(DOCS), str(ROOT / "out"), use_directory_urls=False)
    files = Files([page])
    return SITE.in_site(link, source, config, files), files


@pytest.mark.parametrize(
    ("link", "source", "found"),
    [
        ("broker.md", "how-to/testing.md", "broker.md"),
        ("../evidence/mutants.md", "how-to/testing.md", "../evidence/mutants.md"),
        ("../../README.md", "how-to/testing.md", "../project/README.md"),
        ("../../examples/README.md", "how-to/testing.md", "../project/examples/README.md"),
        ("../../examples", "how-to/testing.md", "../project/examples/README.md"),
        ("../../dlx/releases", "how-to/testing.md", "../files/dlx/releases/__init__.py"),
        ("../../dlx/deaths.py", "how-to/testing.md", "../files/dlx/deaths.py"),
        ("docs/how-to/broker.md", "project/README.md", "../how-to/broker.md"),
        ("../docs/how-to/compare.md", "project/examples/README.md", "../../how-to/compare.md"),
        ("topologies/README.md", "project/examples/README.md", "topologies/README.md"),
    ],
)
def test_a_link_leads_to_where_the_file_is_in_the_site(link: str, source: str, found: str) -> None:
    target, files = moved(link, source)
    assert target == found
    added = files.get_file_from_path(found.removeprefix("../"))
    assert (added is not None) == found.startswith("../files/")


@pytest.mark.parametrize("link", ["nothing.md", "../../nothing.py", "../../../outside.md"])
def test_a_link_to_nothing_is_a_warning(link: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        moved(link, "how-to/testing.md")
    assert f"how-to/testing.md links to '{link}', which does not exist" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize(
    "broken",
    [
        {
            "[no file](nothing.md)": "how-to/testing.md links to 'nothing.md', which does not exist",
            "[no anchor](broker.md#nothing)": "does not contain an anchor '#nothing'",
        },
        {"::: dlx.nothing": "dlx.nothing could not be found"},
    ],
    ids=["links", "name"],
)
def test_what_is_broken_fails_the_build(broken: dict[str, str], tmp_path: Path) -> None:
    for name in ("mkdocs.yml", "tools", "docs", "dlx", "simulator", *SITE.PROJECT):
        source, copy = ROOT / name, tmp_path / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.symlink_to(source) if name != "docs" else shutil.copytree(source, copy)
    with (tmp_path / "docs" / "how-to" / "testing.md").open("a") as document:
        document.writelines(f"\n{text}\n" for text in broken)
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode == 1
    assert [said for said in broken.values() if said not in done.stderr] == []
