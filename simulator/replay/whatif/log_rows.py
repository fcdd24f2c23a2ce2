"""Reads the rows of a log for a question: those of a message together and in order, each with what its replay says.

They are brought together and sorted once: batches hold what the kernel takes and what else is read of a row, and
the kernel gives the rows back in the same order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from simulator.replay.schema import INPUT
from simulator.replay.tables import Table, rows

Row = Mapping[str, Any]
Batches = Iterator[pa.RecordBatch]
BESIDE = (
    "vhost", "message", "event", "connection", "exchange", "queue", "routing_keys", "message_id", "expiration",
    "properties", "headers", "broker_headers", "x_death", "payload",
)  # fmt: skip
"""What is read of a captured row beside the columns that the kernel takes."""
READ = ("time_us", "file", "line", "x_death_times", *BESIDE)
"""All that is read of it."""
FOUND = ("hops", "new_hops", "new_deaths", "source")
"""What is read of its replay."""
FILE_LINES = 2**36
"""More lines than a file of a log has."""


def files_of(captured: Table) -> set[str]:
    """Return the names of the files whose rows are in the table."""
    return {row["file"] for row in rows("SELECT DISTINCT file FROM {captured}", captured=captured)}


def file_numbers(captured: Table) -> dict[str, int]:
    """Return a number for each file of a log, by their names."""
    return {file: number for number, file in enumerate(sorted(files_of(captured)), 1)}


def replayed_rows(replay: Callable[[Batches], Batches], batches: Batches, numbers: Mapping[str, int]) -> Iterator[Row]:
    """Yield the rows of a log, each with what its replay says; its ``place`` puts those of one moment in order.

    Args:
        replay: gives back a batch for each that is not empty, with the same rows.
        batches: what the kernel takes, and the columns ``BESIDE``.
        numbers: the files of the log (``file_numbers``).
    """
    given: deque[pa.RecordBatch] = deque()

    def give() -> Batches:
        for batch in batches:
            if batch.num_rows:
                given.append(batch)
                yield batch.select(INPUT.names).cast(INPUT)

    for replayed in replay(give()):
        yield from _rows(given.popleft(), replayed, numbers)


def _rows(captured: pa.RecordBatch, replayed: pa.RecordBatch, numbers: Mapping[str, int]) -> Iterator[Row]:
    columns = {name: captured.column(name).to_pylist() for name in READ}
    columns |= {name: replayed.column(name).to_pylist() for name in FOUND}
    places = zip(columns["file"], columns["line"], strict=True)
    columns["place"] = [line + FILE_LINES * numbers[file] for file, line in places]
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, values, strict=True))
