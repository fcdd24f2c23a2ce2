"""Writes files and folders as a whole or not at all: beside their place, then renamed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def beside(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a hidden path beside ``path`` to write to: renamed to ``path`` at the end, removed after an error.

    Raises:
        OSError: the block wrote nothing, or the file cannot be renamed.
    """
    target = Path(path)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield part
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def folder_beside(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a hidden folder beside ``path``, which is missing or empty: renamed at the end, removed after an error.

    Raises:
        OSError: it cannot be made, or not be renamed.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    part.mkdir()
    try:
        yield part
        part.replace(target)
    finally:
        import shutil  # loads every kind of compression; a server writes no folders

        shutil.rmtree(part, ignore_errors=True)


def write_whole(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write a file as a whole or not at all; text as UTF-8.

    Raises:
        OSError: it cannot be written.
        UnicodeEncodeError: the text has a lone surrogate.
    """
    with beside(path) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)
