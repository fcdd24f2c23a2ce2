"""Replays without Spark, in this process: for logs that fit into memory, and for tests.

The kernel is the same, and so are the columns; only the sorting is done here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa

from dlx.releases import DEFAULT, release
from simulator.definitions import Definitions
from simulator.replay.definitions import exporting_release, topologies
from simulator.replay.kernel import Kernel
from simulator.replay.row_codec import CONTENT, LINEAGE, SIGNATURE, write_content, write_lineage, write_signatures
from simulator.replay.schema import INPUT, OUTPUT

_ORDER = [(name, "ascending") for name in (LINEAGE, "time_us", "file", "line")]


def replay_table(captured: Iterable[pa.RecordBatch], definitions: Definitions, rules: str = DEFAULT) -> pa.Table:
    """Replay captured batches (``simulator.capture.SCHEMA``); the columns are ``schema.OUTPUT``, sorted."""
    rows = arranged_table(captured)
    kernel = Kernel(topologies(definitions), release(rules), exporting_release(definitions))
    return pa.Table.from_batches(list(kernel.replay(iter(rows.to_batches()))), schema=OUTPUT)


def arranged_table(captured: Iterable[pa.RecordBatch]) -> pa.Table:
    """Return what the kernel takes, as ``plan.arranged`` does: the rows of a message together and in order."""
    arranged = [_arranged(batch) for batch in captured if batch.num_rows]
    return pa.Table.from_batches(arranged, schema=INPUT).sort_by(_ORDER).combine_chunks()


def _arranged(batch: pa.RecordBatch) -> pa.RecordBatch:
    def written(write: Callable[[str, str], str], one: str, other: str) -> list[str]:
        return list(map(write, batch.column(one).to_pylist(), batch.column(other).to_pylist()))

    columns = {name: batch.column(name) for name in ("time_us", "file", "line")}
    columns[LINEAGE] = written(write_lineage, "vhost", "message")
    columns[SIGNATURE] = write_signatures(batch)
    columns[CONTENT] = written(write_content, "properties", "headers")
    return pa.RecordBatch.from_pydict({field.name: columns[field.name] for field in INPUT}, schema=INPUT)
