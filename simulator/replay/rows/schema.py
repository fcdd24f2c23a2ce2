"""The columns of a replay: what goes through the kernel, and what comes out.

That is every row of the capture, each delivery with its verdict, and each publish that was routed elsewhere.
"""

from __future__ import annotations

import pyarrow as pa

from simulator.replay.rows.bodies import BODY
from simulator.replay.rows.row_codec import CONTENT, LINEAGE, SIGNATURE

INPUT = pa.schema(
    [
        pa.field(LINEAGE, pa.string(), nullable=False),
        pa.field("time_us", pa.int64(), nullable=False),
        pa.field("file", pa.string(), nullable=False),
        pa.field("line", pa.int64(), nullable=False),
        pa.field(SIGNATURE, pa.string(), nullable=False),
        pa.field(CONTENT, pa.string(), nullable=False),
        pa.field("x_death_times", pa.list_(pa.field("element", pa.int64()))),
        pa.field("redelivered", pa.bool_()),
        pa.field(BODY, pa.int64()),
    ]
)
"""The columns that go through the kernel."""
HOP = pa.struct(
    [(name, pa.string()) for name in ("queue", "reason", "exchange", "to_queue")],
)
TIMED_HOP = pa.struct([*HOP, ("earliest_us", pa.int64()), ("latest_us", pa.int64())])
"""A hop of one message, and between which moments it died there; null where nothing is known."""
DIFFERENCE = pa.struct(
    [
        ("field", pa.string()),
        ("expected", pa.string()),
        ("seen", pa.string()),
        ("behaviours", pa.list_(pa.string())),
    ]
)
UNCHECKED = pa.struct(
    [(name, pa.string()) for name in ("what", "name", "why")],
)
VERDICT = pa.struct(
    [
        ("verdict", pa.string()),
        ("why", pa.string()),
        ("hops", pa.list_(HOP)),
        ("new_hops", pa.int32()),
        ("new_deaths", pa.int32()),
        ("alternatives", pa.list_(pa.string())),
        ("differences", pa.list_(DIFFERENCE)),
        ("unchecked", pa.list_(UNCHECKED)),
    ]
)
LAST_DEATH = pa.struct([("queue", pa.string()), ("reason", pa.string()), ("after_ms", pa.int64())])
DEAD_END = pa.struct(
    [
        ("queue", pa.string()),
        ("why", pa.string()),
        ("after_ms", pa.int64()),
        ("certain", pa.bool_()),
        ("way", pa.list_(LAST_DEATH)),
        ("fate", pa.string()),
    ]
)
MISFIT = pa.struct([("kind", pa.string()), ("queue", pa.string()), ("by_us", pa.int64()), ("since_us", pa.int64())])
"""What refutes a delivery by time alone: ``early``, a death before its TTL; ``x-death``, one at a time that does not
fit though the times of the rows do; ``late``, a delivery after the TTL. By how much, and when the row was written that
its path starts from."""
SHOWN = pa.struct([("rule", pa.string()), ("queue", pa.string())])
OUTPUT = pa.schema(
    [
        (LINEAGE, pa.string()),
        ("time_us", pa.int64()),
        ("file", pa.string()),
        ("line", pa.int64()),
        ("first", pa.bool_()),
        ("last", pa.bool_()),
        ("event", pa.string()),
        ("vhost", pa.string()),
        ("queue", pa.string()),
        ("exchange", pa.string()),
        *(pa.field("hops", pa.list_(TIMED_HOP)) if field.name == "hops" else field for field in VERDICT),
        ("source", pa.int32()),
        ("dead_ends", pa.list_(DEAD_END)),
        ("misfit", MISFIT),
        ("shown", pa.list_(SHOWN)),
    ]
)
"""The columns that come out. ``first`` and ``last`` mark the rows of a message; ``source`` is how many of its rows back
the path starts, 0 where that is not known; ``dead_ends`` say how it may be lost or held if it is not seen again, and on
which ``way``, those with the fate ``held up`` only if its queue holds up what dies there; ``misfit`` is for deliveries
that times refute; ``shown`` are the rules that no row before it in its partition has shown."""
