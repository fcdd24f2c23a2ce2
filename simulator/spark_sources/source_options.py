"""What was asked of a data source: its options, and the files that its paths name."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from dlx.nearest_names import suggestion


class SourceOptionError(ValueError):
    """Raised for an option that is missing, unknown or wrong. ``str()`` says what would be right."""


def check_options(source: str, options: Mapping[str, str], known: Iterable[str]) -> None:
    """Refuse options that the source does not have. Raises ``SourceOptionError``."""
    for name in options:
        if name not in {"path", "paths", *known}:
            raise SourceOptionError(f"{source}: no option {name!r}; {suggestion(name, known)}")


def files_of(source: str, options: Mapping[str, str]) -> list[str]:
    """Return the files that ``load`` was given, in order: files, folders (the files in them) and patterns.

    The paths are absolute, since workers have a working folder of their own. Files whose names begin
    with ``.`` or ``_`` are left out of folders, as Spark's own sources do.

    Raises:
        SourceOptionError: no path, one that is not of a file system, or one that leads to no file.
    """
    given = [options["path"]] if "path" in options else []
    given += msgspec.json.decode(options.get("paths", "[]"), type=list[str])
    if not given:
        raise SourceOptionError(f"{source}: no path; give files, folders or patterns to load(...)")
    return list(dict.fromkeys(file for path in given for file in _files(source, path)))


def _files(source: str, path: str) -> list[str]:
    local = path.removeprefix("file://")
    if "://" in local:
        raise SourceOptionError(f"{source}: {path}: expected a path that every worker sees as a file, got a URL")
    found = [local] if Path(local).exists() else sorted(glob.glob(local, recursive=True))
    files = [file for each in found for file in _in_folder(Path(each))]
    if not files:
        raise SourceOptionError(f"{source}: {path}: no such file, and none matches this pattern or is in this folder")
    return files


def _in_folder(path: Path) -> list[str]:
    if not path.is_dir():
        return [str(path.absolute())]
    return sorted(str(file.absolute()) for file in path.iterdir() if file.is_file() and file.name[0] not in "._")
