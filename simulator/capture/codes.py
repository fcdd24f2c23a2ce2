"""Codes of what repeats in captures: rows with the same code have the same values in some columns.

Most rows of a log have, but for times and identities, the values of many others. A replay on Spark moves
their codes about, and not the values. A code is a hash of the values, so those of all captures go together.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import pyarrow as pa

SIGNATURE_CODE = "signature_code"
CONTENT_CODE = "content_code"
CODED = {
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
"""The columns with codes that a Parquet capture has after those of its schema, and the columns that each stands for.

Codes in older captures stand for these columns; for others, take another name.
"""
REMEMBERED = 10_000


def with_codes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch of ``SCHEMA`` with its codes."""
    import pyarrow as pa

    for name, columns in CODED.items():
        rows = zip(*(batch.column(column).to_pylist() for column in columns), strict=True)
        codes = pa.array([_code(msgspec.msgpack.encode(values)) for values in rows], pa.string())
        batch = batch.append_column(name, codes)
    return batch


@lru_cache(REMEMBERED)
def _code(values: bytes) -> str:
    return blake2b(values, digest_size=12).hexdigest()
