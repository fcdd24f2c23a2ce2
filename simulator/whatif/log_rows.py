"""Reads the rows of a log for a question: those of a message together and in order, each with what its replay says.

They are brought together and sorted once: batches hold what the kernel takes, and the little that stands in none of
its columns. The kernel gives the rows back in the same order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from simulator.replay.rows.row_codec import CONTENT, LINEAGE, SIGNATURE, read_content, read_message, read_signature
from simulator.replay.rows.schema import INPUT

Row = Mapping[str, Any]
Batches = Iterator[pa.RecordBatch]
BESIDE = ("connection", "message_id", "payload")
"""What is read of a captured row beside the columns that the kernel takes."""
READ = ("time_us", "file", "line", "x_death_times", *BESIDE)
"""What is read of it as it is; the rest stands in the texts of ``row_codec``, of the signature these."""
READ_IN_SIGNATURES = (
    "event", "vhost", "queue", "exchange", "expiration", "routing_keys", "broker_headers", "x_death"
)  # fmt: skip
FOUND = ("hops", "new_hops", "new_deaths", "source")
"""What is read of its replay."""
FILE_LINES = 2**36
"""More lines than a file of a log has."""


class ReplayedRows(NamedTuple):
    """Some rows of a log, and what their replay says of them."""

    captured: pa.RecordBatch
    replayed: pa.RecordBatch


def replayed_batches(replay: Callable[[Batches], Batches], batches: Batches) -> Iterator[ReplayedRows]:
    """Yield the rows of a log with what their replay says.

    Args:
        replay: gives back a batch for each that is not empty, with the same rows.
        batches: what the kernel takes, and the columns ``BESIDE``.
    """
    given: deque[pa.RecordBatch] = deque()

    def give() -> Batches:
        for batch in batches:
            if batch.num_rows:
                given.append(batch)
                yield batch.select(INPUT.names).cast(INPUT)

    for replayed in replay(give()):
        yield ReplayedRows(given.popleft(), replayed)


def rows_of(batches: Iterable[ReplayedRows], numbers: Mapping[str, int]) -> Iterator[Row]:
    """Yield rows one by one.

    Each has its ``place``, which puts the rows of one moment in order; ``numbers`` are those of the log's files.
    """
    for captured, replayed in batches:
        texts = (captured.column(name).to_pylist() for name in (LINEAGE, SIGNATURE, CONTENT))
        columns = {name: captured.column(name).to_pylist() for name in READ}
        columns |= {name: replayed.column(name).to_pylist() for name in FOUND}
        for (lineage, signature, content), *values in zip(zip(*texts, strict=True), *columns.values(), strict=True):
            row = dict(zip(columns, values, strict=True))
            read = read_signature(signature)
            row["place"] = row["line"] + FILE_LINES * numbers[row["file"]]
            row["message"] = read_message(lineage, read.vhost)
            row["properties"], row["headers"] = read_content(content)
            for name in READ_IN_SIGNATURES:
                row[name] = getattr(read, name)
            yield row
