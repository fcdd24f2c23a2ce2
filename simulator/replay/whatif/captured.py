"""A captured log, and what was left in the queues in the end, in tables of either engine."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Generic

from simulator.capture import CaptureError
from simulator.events import Event
from simulator.replay.tables import Table, rows, select, text
from simulator.replay.whatif.coupling import Reaches, coupling_queues
from simulator.replay.whatif.outcomes import KIND, expiring_story
from simulator.replay.whatif.overview import Overview
from simulator.replay.whatif.rerun import Log
from simulator.replay.whatif.stage import Queue
from simulator.replay.whatif.what_if import Prepared

KINDS_MAX = 10_000
"""Kinds of publishes with an expiration whose way is looked up; of more, each may come anywhere."""


@dataclass(frozen=True)
class Captured(Generic[Table]):
    """A captured log, and what was left in the queues in the end.

    Attributes:
        log, overview: the rows of the log, and what they are.
        left: what is known of what was left; ``None`` if nothing is.
        rows: the log and what was left, in one table.
    """

    log: Table
    overview: Overview
    left: Overview | None
    rows: Table

    @classmethod
    def of(cls, log: Table, left: Table | None = None) -> Captured[Table]:
        """Return a log, with what was left if that is given.

        Raises ``CaptureError`` where a file of the same name is in both: nobody could tell their rows apart.
        """
        overview = Overview.of(log)
        if left is None:
            return cls(log, overview, None, log)
        of_left = Overview.of(left)
        if both := overview.files.keys() & of_left.files.keys():
            raise CaptureError(min(both), "a file of this name is in the log, and in what was left: rename one of them")
        both_have = set(left.columns)
        columns = ", ".join(name for name in log.columns if name in both_have)
        union = f"SELECT {columns} FROM {{log}} UNION ALL SELECT {columns} FROM {{left}}"
        return cls(log, overview, of_left, select(union, log=log, left=left))

    @property
    def left_files(self) -> Collection[str]:
        """The names of the files of what was left."""
        return () if self.left is None else self.left.files.keys()

    @property
    def left_queues(self) -> frozenset[Queue]:
        """The queues of which it is known what was left in them."""
        return frozenset() if self.left is None else self.left.queues

    @property
    def file_numbers(self) -> dict[str, int]:
        """A number for each file, by their names."""
        names = sorted({*self.overview.files, *self.left_files})
        return dict(zip(names, range(1, len(names) + 1), strict=True))

    def of_messages(self, messages: Collection[str]) -> Table:
        """Return the rows of some messages."""
        names = ", ".join(map(text, sorted(messages))) or "NULL"
        return select(f"SELECT * FROM {{rows}} WHERE message IN ({names})", rows=self.rows)

    def of_all(self, side: Prepared) -> Log:
        """Return what all messages of the log show together; ``side`` is the log's own."""
        return self.overview.log(side, self.left)


def coupling_queues_of(captured: Captured[Table], known: Reaches, side: Prepared) -> frozenset[Queue]:
    """Return the queues where the messages of a log may decide over each other; ``side`` is the log's own."""
    if not captured.overview.expires:
        return coupling_queues(known, frozenset())
    kinds = (
        f"SELECT DISTINCT vhost, {', '.join(KIND)} FROM {{captured}}"
        f" WHERE event = '{Event.PUBLISHED}' AND expiration IS NOT NULL LIMIT {KINDS_MAX + 1}"
    )
    found = rows(kinds, captured=captured.rows)
    if len(found) > KINDS_MAX:
        return coupling_queues(known, None)
    reaches = (known.of(expiring_story(row, side.only_vhost)) for row in found)
    return coupling_queues(known, frozenset[Queue]().union(*(reach.expiring for reach in reaches)))


def not_looked_at(captured: Captured[Table], side: Prepared) -> list[str]:
    """Say how many messages of the log nobody played, and why; ``side`` is the log's own."""
    unknown = sorted(captured.overview.vhosts - side.flows.keys()) if side.only_vhost is None else []
    if not unknown:
        return []
    of_others = f"vhost IN ({', '.join(map(text, unknown))})"
    others = f"SELECT count(DISTINCT (vhost, message)) AS messages FROM {{captured}} WHERE {of_others}"
    (counted,) = rows(others, captured=captured.log)
    return [f"{counted['messages']:,} messages of virtual hosts that the definitions do not have"]


def given_twice(captured: Captured[Table]) -> list[str]:
    """Say how many rows stand in more than one file alike: whoever gives a log twice asks about double traffic."""
    times_us = captured.overview.times_of_several()
    if times_us is None:
        return []
    alike = f"""
        SELECT count(*) AS number FROM (
            SELECT vhost FROM {{captured}}
            WHERE time_us BETWEEN {times_us[0]} AND {times_us[1]}
            GROUP BY vhost, message, event, time_us, exchange, queue, connection, x_death
            HAVING min(file) < max(file)
        )"""
    (counted,) = rows(alike, captured=captured.log)
    if not counted["number"]:
        return []
    return [f"whether {counted['number']:,} rows that stand alike in several files are the same: here each counts"]
