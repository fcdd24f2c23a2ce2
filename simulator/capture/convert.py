"""Converts logs of any format into one capture."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import msgspec

from simulator.capture.capture_errors import Broken, CaptureError, NothingReadable
from simulator.capture.read import open_log
from simulator.capture.redaction import Redaction
from simulator.capture.schema import without_bodies
from simulator.capture.sources import names_of
from simulator.files import beside

Progress = Callable[[str, int], None]


class FileReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of converting one log."""

    file: str
    rows: int
    broken: int


class ConversionReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a conversion; ``rejected_path`` holds the broken records, one JSON object a line."""

    rows: int
    broken: int
    rejected_path: str | None
    files: tuple[FileReport, ...]


def convert(
    paths: Sequence[str | os.PathLike[str]],
    out_parquet: str | os.PathLike[str],
    *,
    progress: Progress | None = None,
    bodies: bool = True,
    redact: bool = False,
) -> ConversionReport:
    """Convert logs into one Parquet capture, row by row in the order given.

    Broken records go to ``<out>.rejected.jsonl``. A log without a readable record
    is reported, as long as another has some.

    Args:
        paths: the logs.
        out_parquet: the capture to write, whole or not at all.
        progress: called after every batch with the path of the log and its rows so far.
        bodies: whether the capture has the payloads; a broken record is kept as it is.
        redact: write what ``simulator.capture.redaction`` leaves of each row, and of broken records only their places.

    Raises:
        CaptureError: a log cannot be opened or is no log, a Parquet file is damaged, or no log has a
            readable record.
    """
    from simulator.capture.parquet import write_capture  # needs pyarrow, which not everybody has who imports this

    names = names_of(paths)
    for path in paths:
        if Path(path).resolve() == Path(out_parquet).resolve():
            raise CaptureError(os.fspath(path), "is the file to write; name another with --out")
    rejected = Path(f"{os.fspath(out_parquet)}.rejected.jsonl")
    reports: list[FileReport] = []
    redaction = Redaction() if redact else None
    with write_capture(out_parquet) as writer, _Rejected(rejected, redacted=redact) as rejects:
        failures = []
        for path, name in names.items():
            rows, broken = writer.rows, rejects.count
            try:
                for batch in open_log(path, on_broken=rejects.add, file=name, on_late=writer.note_late):
                    kept = batch if bodies else without_bodies(batch)
                    writer.write(kept if redaction is None else redaction.batch(kept))
                    if progress:
                        progress(os.fspath(path), writer.rows - rows)
            except NothingReadable as error:
                failures.append(error)
            reports.append(FileReport(file=name, rows=writer.rows - rows, broken=rejects.count - broken))
        if not writer.rows:
            raise failures[0]
    return ConversionReport(
        rows=writer.rows,
        broken=rejects.count,
        rejected_path=os.fspath(rejected) if rejects.count else None,
        files=tuple(reports),
    )


class _Rejected:
    """The file of broken records. The first one creates it; without an error it replaces an earlier file."""

    def __init__(self, path: Path, *, redacted: bool) -> None:
        self._redacted = redacted
        self.count = 0
        self._path = path
        self._open = ExitStack()
        self._stream: BinaryIO | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and self._stream is None:
            self._path.unlink(missing_ok=True)
        self._open.__exit__(kind, error, trace)

    def add(self, broken: Broken) -> None:
        """Write one broken record."""
        if self._redacted:
            broken = Broken(file=broken.file, line=broken.line, reason="cannot be read; redacted", raw=b"")
        if self._stream is None:
            part = self._open.enter_context(beside(self._path))
            self._stream = self._open.enter_context(part.open("wb"))
        self._stream.write(broken.to_json())
        self.count += 1
