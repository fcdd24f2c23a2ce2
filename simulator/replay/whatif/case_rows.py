"""A row per message and side: where its copies ended, its deaths, and what is assumed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from simulator.replay.whatif.fates import Fate, Fates

_QUEUES = pa.map_(pa.string(), pa.int64())
SCHEMA = pa.schema([
    ("vhost", pa.string()), ("message", pa.string()), ("side", pa.string()),
    ("reproduced", pa.bool_()), ("changed", pa.bool_()), ("assumed", pa.list_(pa.string())),
    ("acknowledged", _QUEUES), ("waiting", _QUEUES), ("refused", _QUEUES),
    ("lost", pa.list_(pa.struct([("queue", pa.string()), ("reason", pa.string()), ("copies", pa.int64())]))),
    ("unroutable", pa.int64()), ("endless", pa.bool_()),
    ("deaths", pa.list_(pa.struct([("queue", pa.string()), ("reason", pa.string())]))),
    ("deliveries", pa.int64()), ("first_us", pa.int64()), ("last_us", pa.int64()),
])  # fmt: skip
"""The columns; ``side`` is ``before`` or ``after``, ``last_us`` when the last copy ended that did."""


def rows_of(messages: Iterable[Fates]) -> pa.RecordBatch:
    """Return two rows for each message."""
    return pa.RecordBatch.from_pylist([row for each in messages for row in _rows(each)], schema=SCHEMA)


def _rows(fates: Fates) -> Iterator[dict[str, Any]]:
    both = {"vhost": fates.vhost, "reproduced": fates.reproduced, "changed": fates.before.ends != fates.after.ends}
    before, after = (
        {**both, "side": side, **_columns(fate)} for side, fate in (("before", fates.before), ("after", fates.after))
    )
    for message, (first_us, last_us, other_first_us, other_last_us) in zip(fates.messages, fates.ends_us, strict=True):
        yield {**before, "message": message, "first_us": first_us, "last_us": last_us}
        yield {**after, "message": message, "first_us": other_first_us, "last_us": other_last_us}


def _columns(fate: Fate) -> dict[str, Any]:
    ends = fate.ends
    return {
        "assumed": list(fate.assumed),
        "acknowledged": list(ends.acknowledged),
        "waiting": list(ends.waiting),
        "refused": list(ends.refused),
        "lost": [{"queue": queue, "reason": reason, "copies": copies} for queue, reason, copies in ends.lost],
        "unroutable": ends.unroutable,
        "endless": ends.endless,
        "deaths": [{"queue": queue, "reason": reason} for queue, reason in fate.deaths],
        "deliveries": len(fate.deliveries),
    }
