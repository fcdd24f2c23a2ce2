"""Captured rows whose names, keys and headers hold every character that a codec may stumble over."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from simulator.capture import SCHEMA
from simulator.json_values import canonical_json
from simulator.replay.rows.row_codec import Signature

ODD = [
    "", " ", "\n", "\r\n", "\t", '"', "'", "\\", "/", '"]\n', '","', "\\n", "null", "5", '"5"', "[1]", "a.b.#",
    "\x00", "\x1f", "\x7f", "\u2028", "é", "e\u0301", "漢字", "😀", "\ud7ff\ue000", "\uffff", "\\ud800", "x" * 300,
]  # fmt: skip
_EMPTY = {"int64": 0, "int32": 0, "binary": b"", "string": "", "list<element: string>": []}

Row = dict[str, Any]


def odd_rows() -> list[Row]:
    """A row for each odd string in each place, and rows without what may be missing."""
    plain: Row = {
        "event": "delivered",
        "vhost": "/",
        "message": "m",
        "queue": "q",
        "exchange": "x",
        "expiration": "1000",
        "routing_keys": ["key"],
        "properties": "{}",
        "headers": "{}",
        "broker_headers": "{}",
        "x_death": None,
        "routed_queues": None,
    }
    rows = [plain | {name: odd} for name in ("vhost", "message", "queue", "exchange", "expiration") for odd in ODD]
    rows += [plain | {"routing_keys": [odd, "key", odd]} for odd in ODD]
    tables = [canonical_json({odd: [odd, {"original-expiration": odd}, None]}) for odd in ODD]
    rows += [plain | {name: table} for name in ("properties", "headers", "broker_headers") for table in tables]
    rows += [plain | {"x_death": f"[{table}]"} for table in tables]
    rows += [plain | {"routed_queues": ["q", odd]} for odd in ODD] + [plain | {"routed_queues": []}]
    return [*rows, plain | {"queue": None, "expiration": None, "routing_keys": []}]


def captured(rows: list[Row]) -> pa.RecordBatch:
    """The rows as a capture has them; what a replay does not look at is empty. ``line`` numbers them."""
    full = [{field.name: None if field.nullable else _EMPTY[str(field.type)] for field in SCHEMA} for _ in rows]
    given = [{**empty, "line": line, **row} for line, (empty, row) in enumerate(zip(full, rows, strict=True))]
    return pa.RecordBatch.from_pylist(given, schema=SCHEMA)


def signature_of(row: Row) -> Signature:
    """What is to be read back of the row's signature."""
    looked_at = {name: row[name] for name in Signature.__struct_fields__}
    routed = row["routed_queues"]
    lists = {
        "routing_keys": tuple(row["routing_keys"]),
        "routed_queues": None if routed is None else tuple(sorted(routed)),
    }
    return Signature(**looked_at | lists)
