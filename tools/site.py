"""What mkdocs does besides: a reference made from docstrings, and links that leave docs/.

On GitHub a document links to any file of the project. A site has what is below docs/ only, so
the Markdown files outside come under project/, and other files that a document links to under
files/. A link to what does not exist is a warning, which `mkdocs build --strict` makes an error.
"""

from __future__ import annotations

import logging
import os
import posixpath
import re
from importlib import import_module
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).absolute().parents[1]
DOCS = ROOT / "docs"
log = logging.getLogger("mkdocs.hooks.site")

REFERENCE = {
    "dlx": ("dlx",),
    "simulator": ("simulator",),
    "testing": ("simulator.testing",),
    "strategies": ("simulator.testing.strategies",),
    # The function has the name of its module, which is what static analysis finds in the package.
    "capture": ("simulator.capture", "simulator.capture.convert.convert"),
    "replay": ("simulator.replay",),
}
PROJECT = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docker/README.md",
    "examples/README.md",
    "examples/topologies/README.md",
    "tests/README.md",
    "tests/differential/README.md",
    "tests/vectors/README.md",
)
_LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?(?=\))")
_FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2 *$", re.M | re.S)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the reference and the project's documents outside docs/."""
    for name, (package, *others) in REFERENCE.items():
        names = [name for name in import_module(package).__all__ if f"{package}.{name}.{name}" not in others]
        page = f"# {package}\n\n::: {package}\n    options: {{show_root_heading: false, members: {names}}}\n"
        page += "".join(f"\n::: {each}\n" for each in others)
        files.append(File.generated(config, f"reference/{name}.md", content=page))
    for path in PROJECT:
        files.append(File.generated(config, f"project/{path}", content=(ROOT / path).read_text()))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let each link lead to where its target is in the site."""
    source = page.file.src_uri

    def moved(link: re.Match[str]) -> str:
        return in_site(link[1], source, config, files) + (link[2] or "")

    parts: list[str] = []
    end = 0
    for fence in _FENCE.finditer(markdown):
        parts += _LINK.sub(moved, markdown[end : fence.start()]), fence[0]
        end = fence.end()
    return "".join([*parts, _LINK.sub(moved, markdown[end:])])


def in_site(target: str, source: str, config: MkDocsConfig, files: Files) -> str:
    """Return the link to the same file, seen from the page ``source``."""
    here = ROOT / source.removeprefix("project/") if source.startswith("project/") else DOCS / source
    there = Path(os.path.normpath(here.parent / target))
    if not there.exists() or not there.is_relative_to(ROOT):
        log.warning("%s links to '%s', which does not exist", source, target)
        return target
    return posixpath.relpath(_place(there, config, files), posixpath.dirname(source) or ".")


def _place(file: Path, config: MkDocsConfig, files: Files) -> str:
    """Return the path in the site of a file of the project, which is added if need be."""
    if file.is_relative_to(DOCS):
        return file.relative_to(DOCS).as_posix()
    path = file.relative_to(ROOT).as_posix()
    if file.is_dir():
        inside = next((name for name in ("README.md", "__init__.py") if (file / name).exists()), None)
        if inside is None:
            log.warning("%s is a folder without README.md or __init__.py; link to a file in it", path)
            return path
        return _place(file / inside, config, files)
    if path in PROJECT:
        return f"project/{path}"
    if files.get_file_from_path(f"files/{path}") is None:
        files.append(File.generated(config, f"files/{path}", abs_src_path=str(file)))
    return f"files/{path}"
