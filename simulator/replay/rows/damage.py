"""What a capture shows of itself before its replay: where its rows are from, whether they are in order, or stand twice.

A broker writes its trace in order, and each row once. What copies, merges or ships the log may do otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dlx.topology import QUORUM, Topology
from simulator.capture import CaptureError
from simulator.capture.parquet import read_capture, write_capture
from simulator.capture.schema import SCHEMA
from simulator.replay.rows.tables import Database, LocalTable, quoted, rows, select

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


# Finds rows that are there twice, in two logs: they would count twice, and agree with themselves.
#
# A log may be given under two names, or beside one that it was cut from. Rows are the same if the broker wrote them
# at the same time about the same: lines do not matter. Where one log ends and the next begins there may be equal rows
# of one moment, such as publishes of the same content; so two logs overlap if equal rows have several times, or are
# all of one.


_KEY = "time_us, event, vhost, node, connection, channel, exchange, queue, message"
_LOGS = """
    SELECT capture, file, count(*) AS rows, min(time_us) AS from_us, max(time_us) AS until_us
    FROM {captured} GROUP BY 1, 2 ORDER BY 1, 2"""
_COUNTED = f"""
    SELECT capture, file, time_us, hash, count(*) AS number
    FROM (
        SELECT capture, file, time_us, hash(CAST(struct({_KEY}) AS STRING)) AS hash
        FROM {{captured}} WHERE time_us BETWEEN %d AND %d
    )
    GROUP BY 1, 2, 3, 4"""
_SHARED = """
    SELECT one.capture, one.file, other.capture AS other_capture, other.file AS other_file,
        sum(least(one.number, other.number)) AS shared, count(DISTINCT time_us) AS times
    FROM {counted} one JOIN {counted} other USING (time_us, hash)
    WHERE one.capture > other.capture OR (one.capture = other.capture AND one.file > other.file)
    GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"""


class _Log(NamedTuple):
    """One log in a capture: which capture, its name there, and what it holds."""

    capture: int
    file: str
    rows: int
    from_us: int
    until_us: int


def check_no_copies(captures: Sequence[tuple[str, str | None]], work: Path) -> int:
    """Raise ``CaptureError`` for a log that has rows of another one in these captures.

    Return how many rows of one moment two logs share, which may be the same rows or others.

    Each has its path, and how the user named it, ``None`` for one that was made of other logs. What memory cannot hold
    goes into ``work``.
    """
    with Database(work) as database:
        captured = _captured(database, [path for path, _ in captures])
        logs = [_Log(**row) for row in rows(_LOGS, captured=captured)]
        both = [
            (max(one.from_us, other.from_us), min(one.until_us, other.until_us))
            for one, other in combinations(logs, 2)
        ]  # fmt: skip
        both = [(start, end) for start, end in both if start <= end]
        if not both:
            return 0
        counted = select(_COUNTED % (min(start for start, _ in both), max(end for _, end in both)), captured=captured)
        held = {(log.capture, log.file): log.rows for log in logs}
        shared = rows(_SHARED, counted=counted)
        for row in shared:
            _check(row, held, [given for _, given in captures])
        return sum(int(row["shared"]) for row in shared)


def _captured(database: Database, paths: Sequence[str]) -> LocalTable:
    """Return the rows of all captures, each with the number of its capture."""
    parts = (f"SELECT {number} AS capture, * FROM {database.parquet([path])}" for number, path in enumerate(paths))
    return LocalTable(database, f"({' UNION ALL BY NAME '.join(parts)})")


def _check(row: Mapping[str, Any], held: Mapping[tuple[int, str], int], given: Sequence[str | None]) -> None:
    one, other = (row["capture"], row["file"]), (row["other_capture"], row["other_file"])
    if held[one] > held[other]:
        one, other = other, one
    shared, own = int(row["shared"]), held[one]
    if shared < own and row["times"] < 2:
        return
    name = _name(other, given)
    if shared == own == held[other]:
        problem = f"the same log as {name}: each of its rows would count twice; leave one out"
    elif shared == own:
        problem = f"part of {name}: each of its rows would count twice; leave it out"
    else:
        problem = f"{shared:,} of its {own:,} rows are in {name} as well, and would count twice; give each row once"
    raise CaptureError(_name(one, given), problem)


def _name(log: tuple[int, str], given: Sequence[str | None]) -> str:
    named, file = given[log[0]], log[1]
    return file if named is None else f"{named} (log '{file}')"
