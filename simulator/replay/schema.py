"""The columns of a replay: what goes through the kernel, and what comes out.

That is every row of the capture, each delivery with its verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from simulator.replay.row_codec import CONTENT, LINEAGE, SIGNATURE
from simulator.replay.verdicts import Verdict

INPUT = pa.schema(
    [
        pa.field(LINEAGE, pa.string(), nullable=False),
        pa.field("time_us", pa.int64(), nullable=False),
        pa.field("file", pa.string(), nullable=False),
        pa.field("line", pa.int64(), nullable=False),
        pa.field(SIGNATURE, pa.string(), nullable=False),
        pa.field(CONTENT, pa.string(), nullable=False),
    ]
)
"""The columns that go through the kernel."""
HOP = pa.struct(
    [(name, pa.string()) for name in ("queue", "reason", "exchange", "to_queue")],
)
DIFFERENCE = pa.struct(
    [
        ("field", pa.string()),
        ("expected", pa.string()),
        ("seen", pa.string()),
        ("behaviours", pa.list_(pa.string())),
    ]
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
    ]
)
OUTPUT = pa.schema(
    [
        (LINEAGE, pa.string()),
        ("time_us", pa.int64()),
        ("file", pa.string()),
        ("line", pa.int64()),
        ("first", pa.bool_()),
        ("event", pa.string()),
        ("vhost", pa.string()),
        ("queue", pa.string()),
        ("exchange", pa.string()),
        *VERDICT,
    ]
)


def verdict_array(verdicts: Sequence[Verdict | None]) -> Any:
    """Return a struct array of ``VERDICT``; rows without a verdict (publishes) are null."""
    return pa.array([None if verdict is None else _struct(verdict) for verdict in verdicts], VERDICT)


def _struct(verdict: Verdict) -> dict[str, Any]:
    return {
        "verdict": verdict.name,
        "why": verdict.why or None,
        "hops": [hop._asdict() for hop in verdict.hops],
        "new_hops": verdict.new_hops,
        "new_deaths": verdict.new_deaths,
        "alternatives": list(verdict.alternatives),
        "differences": [
            {"field": d.field, "expected": d.expected, "seen": d.seen, "behaviours": list(d.behaviours)}
            for d in verdict.differences
        ],
    }
