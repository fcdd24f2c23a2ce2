"""What a capture shows of itself before its replay: where its rows are from, whether they are in order, or stand twice.

A broker writes its trace in order, and each row once. What copies, merges or ships the log may do otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dlx.topology import QUORUM, Topology
from simulator.capture.parquet import read_capture, write_capture
from simulator.capture.schema import SCHEMA
from simulator.replay.rows.tables import Database, quoted

if TYPE_CHECKING:
    import numpy.typing as npt

Place = tuple[str, str | None]
"""A virtual host, and the queue in it that rows are from; publishes are from none."""

_COLUMNS = ("file", "time_us", "vhost", "event", "queue", "message")
_SAME = ", ".join(name for name in SCHEMA.names if name != "line")
_AGAIN = f"""
    SELECT row FROM (
        SELECT row, min(row) OVER same AS first, island, arg_min(island, row) OVER same AS first_island,
            message_id IS NOT NULL
                AND (queue IS NULL OR NOT redelivered OR list_contains([{{counting}}], queue)) AS certain
        FROM (
            SELECT *, file_row_number AS row,
                row - row_number() OVER (PARTITION BY file, time_us ORDER BY file_row_number) AS island
            FROM {{captured}} SEMI JOIN {{suspects}} USING (time_us)
        )
        WINDOW same AS (PARTITION BY {_SAME})
    )
    WHERE row > first AND (certain OR island <> first_island) ORDER BY row"""
"""Rows of one moment that follow each other are an island."""


class Overview(msgspec.Struct):
    """What the rows of a capture show before they are replayed.

    Attributes:
        places: how many rows are from each place.
        behind_us: how long before an earlier row of its file a row was written, at most; microseconds.
        again: the rows that stand in the capture a second time, counted from 0.
        from_us, until_us: when the first and the last row were written, in microseconds since 1970; 0 without rows.
    """

    places: Counter[Place] = msgspec.field(default_factory=Counter)
    behind_us: int = 0
    again: npt.NDArray[np.int64] = msgspec.field(default_factory=lambda: np.zeros(0, np.int64))
    from_us: int = 0
    until_us: int = 0


def counting_queues(topologies: Mapping[str | None, Topology]) -> set[str]:
    """Return the queues that count returns, which are quorum queues."""
    return {each.name for host in topologies.values() for each in host.queues.values() if each.type == QUORUM}


def overview(capture: str, work: Path, counting: Collection[str] = ()) -> Overview:
    """Return what the rows of a capture show. What memory cannot hold goes into ``work``.

    ``counting`` are those of ``counting_queues``.
    A row stands twice if an equal one is there, with rows of other moments between them. Where nothing is between them,
    it may also be a redelivery within a millisecond, except from queues that count those, of publishes, and if the log
    flags it as no redelivery.
    """
    found = Overview()
    reached: dict[str, int] = {}
    suspects = [np.zeros(0, np.int64)]
    with pq.ParquetFile(capture) as file:
        for batch in file.iter_batches(columns=list(_COLUMNS)):
            grouped = pa.Table.from_batches([batch]).group_by(["vhost", "queue"]).aggregate([([], "count_all")])
            found.places.update({(row["vhost"], row["queue"]): row["count_all"] for row in grouped.to_pylist()})
            times_us = batch.column("time_us").to_numpy()
            found.from_us = min(found.from_us or int(times_us.min()), int(times_us.min()))
            found.until_us = max(found.until_us, int(times_us.max()))
            late_us = _behind_us(batch, reached)
            found.behind_us = max(found.behind_us, int(late_us.max(initial=0)))
            is_late = late_us > 0
            follows = np.append(True, is_late[:-1])  # the last of those that stand twice is not late itself
            suspects.append(times_us[is_late | follows | _like_the_one_before(batch)])
    if len(suspected := np.unique(np.concatenate(suspects))):
        found.again = _again(capture, suspected, counting, work)
    return found


def _behind_us(batch: pa.RecordBatch, reached: dict[str, int]) -> npt.NDArray[np.int64]:
    """Return how long before an earlier row of its file each row was written; ``reached``: the latest of each file."""
    times_us = batch.column("time_us").to_numpy()
    behind_us = np.zeros(len(times_us), np.int64)
    files = batch.column("file").dictionary_encode()
    numbers = files.indices.to_numpy()
    for number, name in enumerate(files.dictionary.to_pylist()):
        rows = np.flatnonzero(numbers == number)
        own_us = times_us[rows]
        latest_us = np.maximum.accumulate(np.concatenate(([reached.get(name, own_us[0])], own_us)))
        behind_us[rows] = latest_us[1:] - own_us
        reached[name] = int(latest_us[-1])
    return behind_us


def _like_the_one_before(batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Return which rows are of the same message, moment and place as the row before them."""
    alike = np.zeros(batch.num_rows, bool)
    if batch.num_rows > 1:
        one, other = batch.slice(1), batch.slice(0, batch.num_rows - 1)
        same = [pc.equal(one.column(name), other.column(name)).fill_null(True) for name in _COLUMNS]
        alike[1:] = np.logical_and.reduce([each.to_numpy(zero_copy_only=False) for each in same])
    return alike


def _again(
    capture: str, times_us: npt.NDArray[np.int64], counting: Collection[str], work: Path
) -> npt.NDArray[np.int64]:
    with Database(work) as database:
        suspects = database.arrow("suspects", pa.table({"time_us": times_us}))
        captured, names = database.parquet([capture], numbered=True), ", ".join(map(quoted, sorted(counting)))
        query = _AGAIN.format(captured=captured, suspects=suspects, counting=names or "NULL")
        return np.array(database.connection.sql(query).to_arrow_table()["row"], np.int64)


def without(capture: str, again: npt.NDArray[np.int64], out: Path) -> str:
    """Write a capture without these rows, counted from 0, and return its path."""
    start = 0
    with write_capture(out) as writer:
        for batch in read_capture(capture):
            rows = np.arange(start, start + batch.num_rows)
            writer.write(batch.filter(pa.array(~np.isin(rows, again))))
            start += batch.num_rows
    return str(out)
