"""A replay without Spark, in this process: for logs that fit into memory, and for tests.

The kernel is the same, and so are the columns; only the sorting is done here.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pyarrow as pa

from dlx.releases import DEFAULT, release
from simulator.definitions import Definitions
from simulator.replay.definitions import exporting_release, topologies
from simulator.replay.kernel import Kernel
from simulator.replay.schema import INPUT, LINEAGE, OUTPUT

_ORDER = [(name, "ascending") for name in (LINEAGE, "time_us", "file", "line")]
_encode = msgspec.json.Encoder().encode


def replay_table(captured: Iterable[pa.RecordBatch], definitions: Definitions, rules: str = DEFAULT) -> pa.Table:
    """Replay captured batches (``simulator.capture.SCHEMA``); the columns are ``schema.OUTPUT``, sorted."""
    rows = arranged_table(captured)
    kernel = Kernel(topologies(definitions), release(rules), exporting_release(definitions))
    return pa.Table.from_batches(list(kernel.replay(iter(rows.to_batches()))), schema=OUTPUT)


def arranged_table(captured: Iterable[pa.RecordBatch]) -> pa.Table:
    """What the kernel takes: as ``plan.arranged`` makes it, the rows of a message together and in order."""
    arranged = [_arranged(batch) for batch in captured if batch.num_rows]
    return pa.Table.from_batches(arranged, schema=INPUT).sort_by(_ORDER).combine_chunks()


def _arranged(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = batch.to_pydict()
    rows = range(batch.num_rows)
    lineage = [f"{columns['vhost'][i]}\n{columns['message'][i]}" for i in rows]
    signatures = [_signature(columns, i) for i in rows]
    contents = [f"{columns['properties'][i]}\n{columns['headers'][i]}" for i in rows]
    return pa.RecordBatch.from_pydict(
        {
            LINEAGE: lineage,
            "time_us": batch.column("time_us"),
            "file": batch.column("file"),
            "line": batch.column("line"),
            "signature": signatures,
            "content": contents,
        },
        schema=INPUT,
    )


def _signature(columns: dict[str, list[object]], i: int) -> str:
    """As ``plan.signature`` writes it."""
    names = [columns[name][i] for name in ("vhost", "queue", "exchange", "expiration")]
    keys = _encode(columns["routing_keys"][i]).decode()
    rest = f"{columns['broker_headers'][i]}\n{columns['x_death'][i] or ''}"
    return f"{columns['event'][i]}\n{_encode(names).decode()}\n{keys}\n{rest}"
