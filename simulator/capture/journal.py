"""Keeps the rows of a capture that is still being made: one line each, appended as it happens.

A Parquet file is nothing before its end is written, and a recorded program may not
live to write it. So rows go to a journal first, each with one write of one whole
line: whatever ends the program, what it had done is there, and at most the last
line is torn. (Lines are not forced to the disk: a machine that fails may take some.)
``journal_to_capture`` makes the capture.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec

from simulator.capture.capture_errors import Broken, CaptureError, OnBroken, refuse
from simulator.capture.schema import Observation, to_batches
from simulator.capture.sources import lines
from simulator.extras import missing

ROW_START = b'{"time_us":'
"""How each line of a row begins."""
LATE_START = b'{"late_us":'
"""How a line begins that says how late rows have arrived so far; it is never the first."""
SUFFIXES = (".jsonl", ".ndjson")
"""How the name of a capture ends that is written line by line."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Observation).decode


class _Late(msgspec.Struct):
    late_us: Annotated[int, msgspec.Meta(ge=0)]


_decode_late = msgspec.json.Decoder(_Late).decode


class CaptureFile:
    """A new file of rows.

    Raises:
        CaptureError: the file exists, or cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = path.open("xb", buffering=0)
        except FileExistsError as error:
            problem = "belongs to a recording that is running or did not end; `recover` makes a capture of it"
            raise CaptureError(os.fspath(path), problem) from error
        except OSError as error:
            raise CaptureError(os.fspath(path), f"cannot be written: {error.strerror or error}") from error

    def append(self, row: Observation) -> None:
        """Write a row. Raises ``OSError`` if it cannot be written as a whole."""
        self._write(_encode(row) + b"\n", "line")

    def extend(self, rows: Iterable[Observation]) -> None:
        """Write rows at once. Raises as ``append``."""
        self._write(b"".join(_encode(row) + b"\n" for row in rows), "lines")

    def note_late(self, late_us: int) -> None:
        """Write down how late rows have arrived so far, at most. Raises as ``append``."""
        self._write(_encode(_Late(late_us)) + b"\n", "line")

    def _write(self, data: bytes, what: str) -> None:
        if self._file.write(data) != len(data):
            raise OSError(f"the disk took only part of the {what}")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def journal_to_capture(journal: str | os.PathLike[str], out_parquet: str | os.PathLike[str]) -> int:
    """Turn a journal into a capture, remove the journal, and return the number of rows. A torn last line is left out.

    Raises:
        CaptureError: the journal does not exist or has a line that is not a row, the capture cannot be written, or
            pyarrow is not installed. The journal stays then.
    """
    try:
        from simulator.capture.parquet import write_capture
    except ModuleNotFoundError as error:
        problem = f"{missing(error) or error}; the rows stay in {os.fspath(journal)}"
        raise CaptureError(os.fspath(out_parquet), problem) from error
    with write_capture(out_parquet) as writer:
        for batch in to_batches(_rows(Path(journal))):
            writer.write(batch)
    Path(journal).unlink()
    return writer.rows


def read_row_lines(
    stream: BinaryIO, file: str, on_broken: OnBroken = refuse, on_late: Callable[[int], None] = lambda late_us: None
) -> Iterator[Observation]:
    """Read the rows of a capture that was written line by line.

    ``file`` is its name for messages: each row has the name of its own log. ``on_late`` gets how late rows arrived.
    """
    for number, line in enumerate(lines(stream), 1):
        try:
            if line.startswith(LATE_START):
                on_late(_decode_late(line).late_us)
                continue
            row = _decode(line)
        except ValueError as error:
            torn = "" if line.endswith(b"\n") else "the line ends in the middle of a row: "
            on_broken(Broken(file=file, line=number, reason=f"{torn}{error}", raw=line))
        else:
            yield row


def _rows(journal: Path) -> Iterator[Observation]:
    try:
        with journal.open("rb") as stream:
            for number, line in enumerate(lines(stream), 1):
                if not line.endswith(b"\n"):
                    return
                try:
                    yield _decode(line)
                except ValueError as error:
                    raise CaptureError(os.fspath(journal), f"line {number}: not a row of a journal: {error}") from error
    except OSError as error:
        raise CaptureError(os.fspath(journal), f"cannot be read: {error.strerror or error}") from error
