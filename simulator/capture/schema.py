"""The columns of a capture: one row per observation, whichever format it was read from.

``COLUMNS`` is the reference; the Arrow schema and the row type follow from it.
Canonical JSON is defined in ``simulator.json_values``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter

import msgspec
import pyarrow as pa

SCHEMA_VERSION = "1"
VERSION_KEY = b"dlx.capture.schema_version"

_STRINGS = pa.list_(pa.field("element", pa.string()))  # named as Parquet names it
_INTEGERS = pa.list_(pa.field("element", pa.int64()))

COLUMNS: tuple[tuple[str, pa.DataType, bool, str], ...] = (
    ("time_us", pa.int64(), False, "When the trace was written: microseconds since 1970, UTC."),
    ("file", pa.string(), False, "Base name of the log, or the name given to a live capture."),
    ("line", pa.int64(), False, "Line of the log where the record starts, from 1; live: sequence number."),
    ("event", pa.string(), False, "published, delivered; of a recorded consumer also acked, rejected, requeued."),
    ("node", pa.string(), False, "Node that wrote the trace, such as rabbit@host."),
    ("connection", pa.string(), False, "Connection of the publisher or consumer."),
    ("vhost", pa.string(), False, "Virtual host."),
    ("user", pa.string(), False, "User of that connection."),
    ("channel", pa.int32(), False, "Channel number; 0 for protocols without channels."),
    ("exchange", pa.string(), False, "Exchange it was last published to; empty: the default exchange."),
    ("queue", pa.string(), True, "Queue it was delivered from; null for published."),
    ("routed_queues", _STRINGS, True, "Queues it was routed to; null but for published, and of a recorder."),
    ("routing_keys", _STRINGS, False, "Routing keys, CC and BCC included."),
    ("redelivered", pa.bool_(), True, "Whether it was redelivered; only a live capture knows, else null."),
    ("message", pa.string(), False, "Identity: message_id, or content: and a hash of what dying keeps."),
    ("message_id", pa.string(), True, "The property message_id."),
    ("expiration", pa.string(), True, "The property expiration: milliseconds as text."),
    ("properties", pa.string(), False, "All other properties but headers: canonical JSON object."),
    ("headers", pa.string(), False, "The user's headers: canonical JSON object."),
    ("broker_headers", pa.string(), False, "The broker's headers other than x-death: canonical JSON object."),
    ("x_death", pa.string(), True, "Header x-death without its times: canonical JSON, any value if forged."),
    ("x_death_times", _INTEGERS, True, "The times in x_death, by entry: seconds since 1970."),
    ("payload", pa.binary(), False, "Message body, as far as the log holds it."),
)

SCHEMA = pa.schema(
    [pa.field(name, kind, nullable, {"doc": doc}) for name, kind, nullable, doc in COLUMNS],
    {VERSION_KEY: SCHEMA_VERSION.encode()},
)

BATCH_ROWS = 1_024  # as much as the processor's cache holds while rows become columns
BATCH_PAYLOAD_BYTES = 64 * 1024 * 1024


class Observation(msgspec.Struct, gc=False):
    """One row; the fields are the columns, in order."""

    time_us: int
    file: str
    line: int
    event: str
    node: str
    connection: str
    vhost: str
    user: str
    channel: int
    exchange: str
    queue: str | None
    routed_queues: list[str] | None
    routing_keys: list[str]
    redelivered: bool | None
    message: str
    message_id: str | None
    expiration: str | None
    properties: str
    headers: str
    broker_headers: str
    x_death: str | None
    x_death_times: list[int | None] | None
    payload: bytes


def to_batch(rows: list[Observation]) -> pa.RecordBatch:
    """Pack rows into one record batch of ``SCHEMA``."""
    columns = [pa.array(map(attrgetter(field.name), rows), field.type, size=len(rows)) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def to_batches(rows: Iterable[Observation]) -> Iterator[pa.RecordBatch]:
    """Pack a stream of rows into batches, bounded in rows and in payload bytes."""
    held: list[Observation] = []
    size_bytes = 0
    for row in rows:
        held.append(row)
        size_bytes += len(row.payload)
        if len(held) == BATCH_ROWS or size_bytes > BATCH_PAYLOAD_BYTES:
            yield to_batch(held)
            held, size_bytes = [], 0
    if held:
        yield to_batch(held)
