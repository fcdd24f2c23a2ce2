"""What is said about one row: a line of JSON, what it adds to the totals, and how its message stands after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from simulator.events import Event
from simulator.replay.row_codec import LINEAGE, read_message, read_signature

COLUMNS = (
    "time_us", "file", "line", "event", "vhost", "queue", "exchange", "verdict", "why", "hops", "new_hops",
    "new_deaths", "alternatives", "differences", "unchecked", "source",
)  # fmt: skip
"""The columns of a replay (``simulator.replay.schema.OUTPUT``) that a line has, besides ``message``."""

_as_json = msgspec.json.Encoder().encode


def verdict_line(row: Mapping[str, Any], *, corrects: bool = False) -> bytes:
    """Return the line for a row of a replay. ``corrects``: it takes the place of an earlier line on the same row."""
    found = {"message": read_message(row[LINEAGE], row["vhost"])} | {name: row[name] for name in COLUMNS}
    return _as_json(found | {"corrects": True} if corrects else found) + b"\n"


def totals_of(row: Mapping[str, Any]) -> Counter[str]:
    """Return what a row with a verdict adds to the totals."""
    found = Counter({f"verdict {row['verdict']}": 1})
    if row["event"] == Event.DELIVERED:
        found["deliveries"] = 1
    if row["unchecked"]:
        found["unchecked"] = 1
    if row["new_deaths"]:
        found["dead_letters"] = row["new_deaths"]
    for hop in (row["hops"] or [])[-row["new_hops"] :] if row["new_hops"] else []:
        path = (row["vhost"], hop["queue"], hop["reason"], hop["exchange"], hop["to_queue"])
        found["path " + _as_json(path).decode()] += 1
    return found


def standing(row: Mapping[str, Any], signature: str) -> tuple[int, str | None, int | None]:
    """Return how a message stands after its last row.

    That is the row's time, virtual host and queues where the message waits for a consumer as JSON, or ``None``, and
    the moment after which it is lost, or ``None``.
    """
    queues: tuple[str, ...] = ()
    if row["event"] == Event.PUBLISHED:
        queues = read_signature(signature).routed_queues or ()
    elif row["event"] == Event.REQUEUED:
        queues = (row["queue"],)
    waiting = _as_json((row["vhost"], *queues)).decode() if queues else None
    ends = [row["time_us"] + end["after_ms"] * 1000 for end in row["dead_ends"] or () if end["certain"]]
    return row["time_us"], waiting, min(ends, default=None)
