"""Reads what has been added to files that grow: only whole lines, and from where the last reading ended."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from simulator.capture.capture_errors import Broken, CaptureError
from simulator.capture.journal import ROW_START, read_row_lines
from simulator.capture.parquet import MAGIC, read_capture
from simulator.capture.schema import to_batches
from simulator.capture.sources import GZIP_MAGIC, MAX_RECORD_BYTES, names_of
from simulator.capture.trace_logs import HEADER, read_trace_json

SUFFIXES = (".json", ".jsonl", ".ndjson", ".log", ".parquet")
"""The files of a directory that are read."""
CHUNK_BYTES = 4 * 1024 * 1024
"""How much of a file is read at a time; a longer line is read whole."""
HEAD_BYTES = 256
"""The beginning of a file, which identifies it."""


class Position(msgspec.Struct, frozen=True):
    """How far a file has been read.

    Attributes:
        name: the file's name in the column ``file``.
        offset: the bytes that have been read; of Parquet, none until its last row.
        lines: the lines that have been read; of Parquet, the rows.
        head: its first bytes, by which it is known again.
    """

    name: str
    offset: int = 0
    lines: int = 0
    head: bytes = b""


class Added(msgspec.Struct, frozen=True):
    """What was added to one file: its rows (``simulator.capture.SCHEMA``), its broken lines, and the new position."""

    batches: tuple[pa.RecordBatch, ...]
    broken: tuple[Broken, ...]
    position: Position


def files_of(sources: Sequence[Path]) -> dict[str, str]:
    """Return the files of the sources that are there by now, and the names they have in a replay of them all.

    Raises ``CaptureError`` for a file that is given twice.
    """
    found: list[Path] = []
    for source in sources:
        if source.is_dir():
            inside = (each for each in source.iterdir() if each.suffix in SUFFIXES and not each.name.startswith("."))
            found += sorted(inside)
        elif source.exists():
            found.append(source)
    return {os.fspath(Path(path).resolve()): name for path, name in names_of(found).items()}


class GrowingFile:
    """One file, read on from a position, to ``end`` at most.

    ``unfinished`` is how many bytes of a line without an end are there.
    """

    def __init__(self, path: str, position: Position, end: int | None = None) -> None:
        self.path = path
        self._end = end
        self.position = position
        self.unfinished = 0
        self._parquet: Iterator[pa.RecordBatch] | None = None

    def added(self) -> Added | None:
        """Return what was added, at most ``CHUNK_BYTES`` or one batch of it; ``None`` if nothing was.

        Raises ``CaptureError`` if the file is not a log, has gone, has shrunk, or begins with other bytes than before.
        """
        try:
            with Path(self.path).open("rb") as stream:
                size = os.fstat(stream.fileno()).st_size
                head = stream.read(HEAD_BYTES)
                self._check(size, head)
                if head.startswith(MAGIC):
                    stream.seek(-len(MAGIC), os.SEEK_END)
                    whole = size > 2 * len(MAGIC) and stream.read() == MAGIC
                    return self._added_parquet(size, head) if whole else None
                stream.seek(self.position.offset)
                text = self._whole_lines(stream)
        except OSError as error:
            raise CaptureError(self.path, f"cannot be read any more: {error.strerror or error}") from error
        return self._added_lines(text, head) if text else None

    def _check(self, size: int, head: bytes) -> None:
        before = self.position
        if size < before.offset:
            problem = f"has shrunk from {before.offset:,} to {size:,} bytes: it was truncated or rotated"
            raise CaptureError(self.path, f"{problem}; give the new file another name, and the old one its own")
        if head[: len(before.head)] != before.head:
            raise CaptureError(self.path, "begins with other bytes than before: it was rotated or rewritten; " + _NEW)
        if head.startswith(GZIP_MAGIC):
            raise CaptureError(
                self.path,
                "compressed, so it cannot be read as it grows: unpack it first, or read it once with `dlx replay`",
            )

    def _whole_lines(self, stream: Any) -> bytes:
        most = CHUNK_BYTES if self._end is None else min(CHUNK_BYTES, self._end - self.position.offset)
        text: bytes = stream.read(most)
        while text and b"\n" not in text and len(text) <= MAX_RECORD_BYTES and (more := stream.read(CHUNK_BYTES)):
            text += more
        end = text.rfind(b"\n") + 1
        self.unfinished = len(text) - end
        if not end and len(text) > MAX_RECORD_BYTES:
            raise CaptureError(self.path, f"line {self.position.lines + 1}: longer than {MAX_RECORD_BYTES} bytes")
        return text[:end]

    def _added_lines(self, text: bytes, head: bytes) -> Added:
        before = self.position
        broken: list[Broken] = []
        if head.startswith(ROW_START):
            rows = read_row_lines(BytesIO(text), before.name, broken.append)
        elif HEADER.search(head):
            raise CaptureError(
                self.path, 'in the text format, which cannot be read as it grows; trace with "format": "json"'
            )
        else:
            rows = _after(before.lines, read_trace_json(BytesIO(text), before.name, broken.append))
        batches = tuple(to_batches(rows))
        self.position = Position(
            before.name, before.offset + len(text), before.lines + text.count(b"\n"), head[: before.offset + len(text)]
        )
        told = tuple(msgspec.structs.replace(each, line=each.line + before.lines) for each in broken)
        return Added(batches, told, self.position)

    def _added_parquet(self, size: int, head: bytes) -> Added | None:
        before = self.position
        if before.offset == size:
            return None
        if before.offset:
            raise CaptureError(self.path, f"has {size:,} bytes instead of {before.offset:,}: it was rewritten; " + _NEW)
        if self._parquet is None:
            self._parquet = _without(before.lines, read_capture(self.path))
        batch = next(self._parquet, None)
        rows = 0 if batch is None else batch.num_rows
        self.position = Position(before.name, size if batch is None else 0, before.lines + rows, head)
        return Added(() if batch is None else (batch,), (), self.position)


def read_again(path: str, until: Position) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file up to a position. Raises ``CaptureError`` as ``GrowingFile`` does."""
    file = GrowingFile(path, msgspec.structs.replace(until, offset=0, lines=0), until.offset or None)
    while (left := until.lines - file.position.lines) > 0 and (added := file.added()) is not None:
        yield from (batch.slice(0, left) for batch in added.batches)


_NEW = "each file needs a name of its own"


def _after(lines: int, rows: Iterator[Any]) -> Iterator[Any]:
    """Yield the rows with their lines counted from the beginning of the file."""
    for row in rows:
        row.line += lines
        yield row


def _without(rows: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches without the first rows."""
    for batch in batches:
        if rows < batch.num_rows:
            yield batch.slice(rows)
        rows = max(0, rows - batch.num_rows)
