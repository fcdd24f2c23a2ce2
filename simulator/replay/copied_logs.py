"""Finds rows that are there twice, in two logs: they would count twice, and agree with themselves.

A log may be given under two names, or beside one that it was cut from. Rows are the same if the broker wrote them at
the same time about the same: lines do not matter. Where one log ends and the next begins there may be equal rows of one
moment, such as publishes of the same content; so two logs overlap if equal rows have several times, or are all of one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from simulator.capture import CaptureError
from simulator.replay.tables import Database, LocalTable, rows, select

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
