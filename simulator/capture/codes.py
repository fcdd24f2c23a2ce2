"""Codes in captures: an integer for the values that many rows share, and a dictionary of them in the file's footer.

Except for times and identities, most rows of a log have the values of many others. A replay on Spark moves
the codes around, not the values. A code is a hash of the values, so those of several files go together. A file has
codes for all of its rows, or none: those of a log that hardly repeats itself would be as long as the log.

A tool that changes rows of a file may keep codes and footer, which then describe the old rows.
So the footer has a digest of the bytes before it, and codes of other bytes are not read.
"""

from __future__ import annotations

import base64
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

SIGNATURE_CODE = "signature_code"
CONTENT_CODE = "content_code"
CODED: Mapping[str, tuple[str, ...]] = {
    SIGNATURE_CODE: (
        "event",
        "vhost",
        "queue",
        "exchange",
        "expiration",
        "routing_keys",
        "broker_headers",
        "x_death",
        "routed_queues",
    ),
    CONTENT_CODE: ("properties", "headers"),
}
"""The columns with codes that a capture may have behind those of its schema, and the columns that each encodes.

The codes of older captures encode these columns; for others, take another name.
"""
FOOTER_KEY = b"dlx.capture.codes"
BYTES_MAX = 4 * 1024 * 1024
"""How large the values of one file may be that have codes."""
ALL_BYTES_MAX = 8 * BYTES_MAX
"""How large those of all files that are read together may be: each worker of a replay has them all."""

Codes = Mapping[str, Mapping[int, Sequence[Any]]]
"""The values of the codes, by column."""
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


class _Footer(msgspec.Struct, frozen=True):
    """What the footer says: the digest of that many bytes, and the values of each code, by column."""

    size: int
    digest: bytes
    values: dict[str, dict[int, bytes]]


class DigestingFile:
    """A file that keeps the digest of what is written into it; as much of one as Arrow asks for."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self.digest = blake2b()
        self.closed = False

    def write(self, data: bytes) -> int:
        """Write the bytes."""
        self.digest.update(data)
        return self._file.write(data)

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._file.tell()

    def flush(self) -> None:
        """Hand all bytes to the system."""
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self.closed = True
        self._file.close()


class Coder:
    """Writes the codes of one file."""

    def __init__(self) -> None:
        self._values: dict[str, dict[int, bytes]] = {column: {} for column in CODED}
        self._codes: dict[str, dict[bytes, int]] = {column: {} for column in CODED}
        self._bytes = 0
        self._given_up = False

    def coded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch of ``SCHEMA`` with its codes, or nulls if the file is to have none."""
        for column, names in CODED.items():
            codes = [None] * batch.num_rows if self._given_up else self._written(batch, column, names)
            batch = batch.append_column(column, pa.array(codes, pa.int64()))
        return batch

    def footer(self, file: DigestingFile) -> dict[bytes, bytes]:
        """Return what the footer says, once all rows are written into the file."""
        if self._given_up:
            return {}
        footer = _Footer(file.tell(), file.digest.digest(), self._values)
        return {FOOTER_KEY: base64.b64encode(zlib.compress(_encode(footer)))}

    def _written(self, batch: pa.RecordBatch, column: str, names: Sequence[str]) -> list[int]:
        codes = self._codes[column]
        written = []
        for values in map(_encode, zip(*(batch.column(name).to_pylist() for name in names), strict=True)):
            code = codes.get(values)
            if code is None:
                code = codes[values] = _code(values)
                self._remember(column, code, values)
            written.append(code)
        return written

    def _remember(self, column: str, code: int, values: bytes) -> None:
        self._bytes += len(values)
        if self._bytes > BYTES_MAX or code in self._values[column]:  # two values with one code: it means nothing
            self._given_up = True
            self._values[column].clear()
            self._codes[column].clear()
        else:
            self._values[column][code] = values


def read_codes(captures: Sequence[str | os.PathLike[str]]) -> Codes | None:
    """Return the values of the codes in captures, files or folders of them; ``None`` if one has no valid codes."""
    files = list(_files(captures))
    footers = list(map(_footer, files))
    if None in footers:  # before all of the others is read for its digest
        return None
    found: dict[str, dict[int, bytes]] = {column: {} for column in CODED}
    size = 0
    for file, footer in zip(files, footers, strict=True):
        if footer is None or _digest(file, footer.size) != footer.digest:
            return None
        for column, values in footer.values.items():
            known = found[column]
            for code, each in values.items():
                if known.setdefault(code, each) is each:
                    size += len(each)
                elif known[code] != each:
                    return None
        if size > ALL_BYTES_MAX:
            return None
    return {column: {code: _decode(each) for code, each in values.items()} for column, values in found.items()}


def _footer(file: Path) -> _Footer | None:
    written = (pq.read_metadata(file).metadata or {}).get(FOOTER_KEY)
    return None if written is None else _read_footer(written)


def _read_footer(written: bytes) -> _Footer:
    return msgspec.msgpack.decode(zlib.decompress(base64.b64decode(written)), type=_Footer)


def _digest(file: Path, size: int) -> bytes:
    digest = blake2b()
    with file.open("rb") as stream:
        while size and (data := stream.read(min(size, 1024 * 1024))):
            digest.update(data)
            size -= len(data)
    return digest.digest()


def _files(captures: Sequence[str | os.PathLike[str]]) -> Iterator[Path]:
    for capture in map(Path, captures):
        yield from sorted(capture.rglob("*.parquet")) if capture.is_dir() else [capture]


def _code(values: bytes) -> int:
    return int.from_bytes(blake2b(values, digest_size=8).digest(), "big", signed=True)
