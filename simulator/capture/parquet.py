"""Writes and reads captures as Parquet files of the one schema."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from simulator.capture.capture_errors import CaptureError
from simulator.capture.codes import CODED, Coder, DigestingFile
from simulator.capture.schema import SCHEMA, SCHEMA_VERSION, VERSION_KEY
from simulator.files import beside

MAGIC = b"PAR1"
FILE_SCHEMA = pa.schema([*SCHEMA, *((name, pa.int64()) for name in CODED)], SCHEMA.metadata)
"""The schema of a capture, and the columns with codes behind it, which a capture may do without."""
ROW_GROUP_ROWS = 65_536
ROW_GROUP_BYTES = 128 * 1024 * 1024  # in memory
LATE_KEY = b"dlx.capture.late_us"
"""How late the rows of a capture arrived, at most, as it measured: microseconds, in the file's metadata."""
_AGAIN = "convert the original log again with `dlx convert LOG --out FILE.parquet`"


class CaptureWriter:
    """Gathers batches into row groups of bounded size. Made by :func:`write_capture`."""

    def __init__(self, path: Path) -> None:
        self.rows = 0
        self._file = DigestingFile(path)
        self._writer = pq.ParquetWriter(self._file, FILE_SCHEMA, compression="zstd")
        self._coder = Coder()
        self._held: list[pa.RecordBatch] = []
        self._held_rows = 0
        self._held_bytes = 0
        self._late_us: int | None = None

    def note_late(self, late_us: int) -> None:
        """Note how late rows arrived, as was measured; the file has the most of it."""
        self._late_us = max(late_us, self._late_us or 0)

    def write(self, batch: pa.RecordBatch) -> None:
        """Add a batch of ``SCHEMA``."""
        self._held.append(self._coder.coded(batch))
        self.rows += batch.num_rows
        self._held_rows += batch.num_rows
        self._held_bytes += batch.nbytes
        if self._held_rows >= ROW_GROUP_ROWS or self._held_bytes >= ROW_GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        """Write the rows held so far, and the footer."""
        self._flush()
        late = {} if self._late_us is None else {LATE_KEY: str(self._late_us).encode()}
        self._writer.add_key_value_metadata(self._coder.footer(self._file) | late)
        self._writer.close()
        self._file.close()

    def _flush(self) -> None:
        if self._held:
            table = pa.Table.from_batches(self._held, FILE_SCHEMA)
            self._writer.write_table(table, row_group_size=max(1, table.num_rows))
            self._held, self._held_rows, self._held_bytes = [], 0, 0


@contextmanager
def write_capture(path: str | os.PathLike[str], *, private: bool = False) -> Iterator[CaptureWriter]:
    """Write a capture, which is at ``path`` once the block ends without an error.

    Args:
        path: the file.
        private: whether only its owner may read it.

    Raises:
        CaptureError: the file cannot be written.
    """
    try:
        with beside(path, private=private) as part, closing(CaptureWriter(part)) as writer:
            yield writer
    except OSError as error:
        raise CaptureError(os.fspath(path), f"cannot be written: {error.strerror or error}") from error


def read_capture(path: str | os.PathLike[str]) -> Iterator[pa.RecordBatch]:
    """Read a capture batch by batch.

    Raises:
        CaptureError: not a whole Parquet file, or not of this schema.
    """
    name = os.fspath(path)
    try:
        with pq.ParquetFile(path) as file:
            _check_schema(name, file.schema_arrow)
            for batch in file.iter_batches(columns=SCHEMA.names):
                yield batch.select(SCHEMA.names).cast(SCHEMA)
    except FileNotFoundError as error:
        raise CaptureError(name, "No such file or directory") from error
    except (pa.ArrowException, OSError) as error:
        problem = str(error).splitlines()[0]
        problem = f"not a whole Parquet file ({problem}); copy it again, or {_AGAIN}"
        raise CaptureError(name, problem) from error


def stored_late_us(path: str | os.PathLike[str]) -> int | None:
    """Return how late the rows of a capture arrived, at most; ``None`` if that was not measured."""
    written = (pq.read_metadata(path).metadata or {}).get(LATE_KEY, b"")
    return int(written) if written.isdigit() else None


def _check_schema(name: str, schema: pa.Schema) -> None:
    version = (schema.metadata or {}).get(VERSION_KEY)
    if version is None:
        raise CaptureError(name, f"Parquet, but not a capture: no {VERSION_KEY.decode()} in it; {_AGAIN}")
    if version != SCHEMA_VERSION.encode():
        problem = f"capture schema {version.decode(errors='replace')}, expected {SCHEMA_VERSION}"
        raise CaptureError(name, f"{problem}; {_AGAIN}")
    for field in SCHEMA:
        at = schema.get_field_index(field.name)
        if at < 0:
            raise CaptureError(name, f"column {field.name}: missing; {_AGAIN}")
        if not schema.field(at).type.equals(field.type):
            found = schema.field(at).type
            raise CaptureError(name, f"column {field.name}: expected {field.type}, got {found}; {_AGAIN}")
