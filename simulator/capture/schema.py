"""The columns of a capture: one row per observation, whichever format it was read from.

``COLUMNS`` is the reference; the Arrow schema and the row type follow from it.
Canonical JSON is defined in ``simulator.json_values``. pyarrow is loaded when
``SCHEMA`` or a batch is asked for: who only writes rows down does without.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import pyarrow as pa

    SCHEMA: pa.Schema
    """The schema of a capture: ``COLUMNS`` for Arrow, with their descriptions."""

SCHEMA_VERSION = "1"
"""The version of the form of captures; it stands in the metadata of each."""
VERSION_KEY = b"dlx.capture.schema_version"

COLUMNS: tuple[tuple[str, str, bool, str], ...] = (
    ("time_us", "int64", False, "When the trace was written: microseconds since 1970, UTC."),
    ("file", "string", False, "Base name of the log, or the name given to a live capture."),
    ("line", "int64", False, "Line of the log where the record starts, from 1; live: sequence number."),
    ("event", "string", False, "published or delivered; from a recorded consumer also acked, rejected, requeued."),
    ("node", "string", False, "Node that wrote the trace, such as rabbit@host."),
    ("connection", "string", False, "Connection of the publisher or consumer."),
    ("vhost", "string", False, "Virtual host."),
    ("user", "string", False, "User of that connection."),
    ("channel", "int32", False, "Channel number; 0 for protocols without channels."),
    ("exchange", "string", False, "Exchange it was last published to; empty: the default exchange."),
    ("queue", "string", True, "Queue it was delivered from; null for published."),
    ("routed_queues", "list<string>", True, "Queues it was routed to; null unless published, and from a recorder."),
    ("routing_keys", "list<string>", False, "Routing keys, CC and BCC included."),
    ("redelivered", "bool", True, "Whether it was redelivered; only a live capture knows, else null."),
    ("message", "string", False, "Identity: message_id, or content: and a hash of everything that dying keeps."),
    ("message_id", "string", True, "The property message_id."),
    ("expiration", "string", True, "The property expiration: milliseconds as text."),
    ("properties", "string", False, "All other properties except headers: canonical JSON object."),
    ("headers", "string", False, "The user's headers: canonical JSON object."),
    ("broker_headers", "string", False, "The broker's headers other than x-death: canonical JSON object."),
    ("x_death", "string", True, "Header x-death without its times: canonical JSON; any value if a client forged it."),
    ("x_death_times", "list<int64>", True, "The times in x_death, by entry: seconds since 1970."),
    ("payload", "binary", False, "Message body, as far as the log holds it."),
)
"""The columns of a capture: name, Arrow type, whether it may be null, and what it holds."""

BATCH_ROWS = 1_024  # as much as the processor's cache holds while rows become columns
BATCH_PAYLOAD_BYTES = 64 * 1024 * 1024

PROBE = "dlx.capture.probe"
"""The property ``type`` of messages by which a capture measures how late rows arrive; traces of them are no rows."""


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


if not TYPE_CHECKING:  # for them it is declared above

    def __getattr__(name: str) -> Any:
        if name == "SCHEMA":  # pyarrow takes long to load, and a consumer that records does without
            return _schema()
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def _schema() -> pa.Schema:
    import pyarrow as pa

    fields = [pa.field(name, _arrow_type(kind), nullable, {"doc": doc}) for name, kind, nullable, doc in COLUMNS]
    return pa.schema(fields, {VERSION_KEY: SCHEMA_VERSION.encode()})


def _arrow_type(kind: str) -> pa.DataType:
    import pyarrow as pa

    if kind.startswith("list<"):
        return pa.list_(pa.field("element", _arrow_type(kind[5:-1])))  # named as Parquet names it
    return pa.type_for_alias(kind)


def to_batch(rows: list[Observation]) -> pa.RecordBatch:
    """Pack rows into one record batch of ``SCHEMA``."""
    import pyarrow as pa

    schema = _schema()
    columns = [pa.array(map(attrgetter(field.name), rows), field.type, size=len(rows)) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def without_bodies(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch of ``SCHEMA`` with empty payloads."""
    import pyarrow as pa

    at = batch.schema.get_field_index("payload")
    return batch.set_column(at, batch.schema.field(at), pa.array([b""] * batch.num_rows, pa.binary()))


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
