"""Writes files and folders as a whole or not at all: beside their place, then renamed. Tells paths from URLs."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


class FileContentError(Exception):
    """A file cannot be read, or does not hold what it should; the text names the file and the place in it."""


def is_url(text: str) -> bool:
    """Return whether the text is a URL and not a path."""
    return _URL.match(text) is not None


@contextmanager
def beside(path: str | os.PathLike[str], *, private: bool = False) -> Iterator[Path]:
    """Yield a hidden path beside ``path`` to write to: renamed to ``path`` at the end, removed after an error.

    Args:
        path: a file, or nothing yet: a device or a pipe would be gone after the renaming.
        private: whether only its owner may read it.

    Raises:
        OSError: ``path`` is no file, the block wrote nothing, or the file cannot be renamed.
    """
    target = Path(path)
    if target.exists() and not target.is_file():
        raise OSError(errno.EINVAL, "Is a directory" if target.is_dir() else "Is a device or a pipe; a file is needed")
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        if private:
            os.close(os.open(part, os.O_WRONLY | os.O_CREAT, 0o600))
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
