"""The generated parts of the documents are what the code says."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dlx.releases import TABLE
from dlx.releases.versions import VERSIONS
from simulator.capture.schema import COLUMNS

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"


def check(script: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(script), "--check"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_nothing_is_stale() -> None:
    done = check(DOCS / "generate.py")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The documents in a folder of their own."""
    for name in ("generate.py", "rabbitmq_coverage.py", "management-endpoints.json"):
        shutil.copy(DOCS / name, tmp_path)
    for document in DOCS.rglob("*.md"):
        (tmp_path / document.relative_to(DOCS)).parent.mkdir(exist_ok=True)
        shutil.copy(document, tmp_path / document.relative_to(DOCS))
    return tmp_path


def test_what_is_stale_is_named_and_mended(copied: Path) -> None:
    document = copied / "reference" / "releases.md"
    right = document.read_text(encoding="utf-8")
    document.write_text(right.replace("recency", "chance"), encoding="utf-8")
    stale = check(copied / "generate.py")
    assert stale.returncode == 1
    assert "docs/reference/releases.md is stale: run python docs/generate.py" in stale.stderr
    subprocess.run([sys.executable, str(copied / "generate.py")], check=True, capture_output=True)
    assert document.read_text(encoding="utf-8") == right


def test_every_behaviour_and_every_column_is_there() -> None:
    documents = ("reference/releases.md", "how-to/capture.md")
    releases, capture = ((DOCS / name).read_text(encoding="utf-8") for name in documents)
    assert [row.name for row in TABLE if releases.count(row.name) < 2] == []
    assert [name for name, *_ in COLUMNS if f"| `{name}` |" not in capture] == []


def test_the_servers_behind_the_recordings_are_those_of_the_releases() -> None:
    table = (DOCS / "evidence" / "recordings.md").read_text(encoding="utf-8")
    assert dict(re.findall(r"^\| (\d\.\d+) \| (\d[\d.]+) \|", table, re.MULTILINE)) == VERSIONS
