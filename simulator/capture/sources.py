"""Opens log files as streams of bytes, plain or gzip-compressed."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, cast

from simulator.capture.capture_errors import CaptureError

GZIP_MAGIC = b"\x1f\x8b"
MAX_RECORD_BYTES = 256 * 1024 * 1024
"""Longest line or record that is read. RabbitMQ takes messages of up to 128 MiB; base64 adds a third."""

_CHUNK_BYTES = 1024 * 1024

UNREADABLE = (EOFError, gzip.BadGzipFile, zlib.error)
"""The errors that a damaged gzip stream raises."""


def open_source(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a log for reading, unpacking gzip.

    Raises:
        CaptureError: it cannot be opened.
    """
    try:
        stream = Path(path).open("rb")  # noqa: SIM115
    except OSError as error:
        raise CaptureError(os.fspath(path), error.strerror or str(error)) from error
    if stream.read(len(GZIP_MAGIC)) == GZIP_MAGIC:
        stream.close()
        return cast(BinaryIO, gzip.open(path, "rb"))
    stream.seek(0)
    return stream


def lines(stream: BinaryIO, limit: int = MAX_RECORD_BYTES) -> Iterator[bytes]:
    """Yield the lines with their ends; of one longer than ``limit``, the first ``limit + 1`` bytes."""
    while line := stream.readline(limit + 1):
        yield line
        if len(line) > limit and not line.endswith(b"\n"):
            _skip_line(stream)


def _skip_line(stream: BinaryIO) -> None:
    while (rest := stream.readline(_CHUNK_BYTES)) and not rest.endswith(b"\n"):
        pass


# Names logs in the column ``file``.


AnyPath = str | os.PathLike[str]


def names_of(paths: Sequence[AnyPath]) -> dict[AnyPath, str]:
    """Name each log by the shortest end of its path that no other log shares.

    Raises:
        CaptureError: a log is given twice.
    """
    resolved = [Path(path).resolve() for path in paths]
    for path, full in zip(paths, resolved, strict=True):
        if resolved.count(full) > 1:
            raise CaptureError(os.fspath(path), "given twice")
    names = {}
    for path, full in zip(paths, resolved, strict=True):
        size = 1
        while sum(other.parts[-size:] == full.parts[-size:] for other in resolved) > 1:
            size += 1
        names[path] = "/".join(full.parts[-size:])
    return names
