"""A captured log, and what was left in the queues in the end: what is asked of it as a whole, on either engine."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple

from simulator.capture import CaptureError
from simulator.definitions import Definitions
from simulator.events import Event
from simulator.replay.results.summary import check_match
from simulator.replay.rows.tables import Table, rows, select, text
from simulator.whatif.differences import Side
from simulator.whatif.playback import LogFacts
from simulator.whatif.playback_broker import QueueRef
from simulator.whatif.sides import PreparedSide
from simulator.whatif.stories import Named


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
            raise CaptureError(min(both), "a file of this name is in the log and in --left: rename one of them")
        both_have = set(left.columns)
        columns = ", ".join(name for name in log.columns if name in both_have)
        union = f"SELECT {columns} FROM {{log}} UNION ALL SELECT {columns} FROM {{left}}"
        return cls(log, overview, of_left, select(union, log=log, left=left))

    @property
    def left_files(self) -> Collection[str]:
        """The names of the files of what was left."""
        return () if self.left is None else self.left.files.keys()

    @property
    def left_queues(self) -> frozenset[QueueRef]:
        """The queues of which it is known what was left in them."""
        return frozenset() if self.left is None else self.left.queues

    @property
    def file_numbers(self) -> dict[str, int]:
        """A number for each file, by their names."""
        names = sorted({*self.overview.files, *self.left_files})
        return dict(zip(names, range(1, len(names) + 1), strict=True))

    def of_messages(self, messages: Collection[Named]) -> Table:
        """Return the rows of some messages, and of others that have their names in other virtual hosts."""
        names = ", ".join(map(text, sorted({name for _, name in messages}))) or "NULL"
        return select(f"SELECT * FROM {{rows}} WHERE message IN ({names})", rows=self.rows)


def not_looked_at(captured: Captured[Table], side: PreparedSide) -> list[str]:
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
    return [f"whether {counted['number']:,} equal rows in several files are the same: here each counts"]


_QUERY = """
    SELECT vhost, queue, event, file, min(first_us) AS first_us, max(last_us) AS last_us
    FROM (
        SELECT vhost, queue, event, file, min(time_us) AS first_us, max(time_us) AS last_us
        FROM {captured}
        GROUP BY vhost, queue, event, file
    )
    GROUP BY GROUPING SETS ((vhost, queue, event), (file))"""

Place = tuple[str, str | None]
"""A virtual host, and the queue in it that messages were delivered from; publishes have none."""


class Overview(NamedTuple):
    """What the rows of a log are.

    Attributes:
        last_us: when the last row of an event, in a place, was written; microseconds since 1970.
        files: the first and the last moment of each file.
    """

    last_us: Mapping[tuple[Place, str], int]
    files: Mapping[str, tuple[int, int]]

    @classmethod
    def of(cls, captured: Table) -> Overview:
        """Return that of a log."""
        found = rows(_QUERY, captured=captured)
        return cls(
            {((row["vhost"], row["queue"]), row["event"]): row["last_us"] for row in found if row["event"] is not None},
            {row["file"]: (row["first_us"], row["last_us"]) for row in found if row["event"] is None},
        )

    @property
    def places(self) -> set[Place]:
        """The places of all rows."""
        return {place for place, _ in self.last_us}

    @property
    def queues(self) -> frozenset[QueueRef]:
        """The queues that rows are from."""
        return frozenset((vhost, queue) for vhost, queue in self.places if queue is not None)

    @property
    def vhosts(self) -> set[str]:
        """Their virtual hosts."""
        return {vhost for vhost, _ in self.places}

    @property
    def ends_us(self) -> tuple[int, int]:
        """When the first and the last row were written; microseconds since 1970."""
        firsts_us, lasts_us = zip(*self.files.values(), strict=True)
        return min(firsts_us), max(lasts_us)

    def log(self, side: PreparedSide, left: Overview | None = None) -> LogFacts:
        """Return what all messages show together that are played; ``left``: what was found in the queues in the end.

        ``side`` is the log's own.
        """
        looked_at = self.vhosts if side.only_vhost is not None else side.flows.keys()
        ends_us = [0]
        consumed: set[QueueRef] = set()
        for (place, event), last_us in self.last_us.items():
            vhost, queue = place
            if vhost in looked_at and event in (Event.PUBLISHED, Event.DELIVERED):
                ends_us.append(last_us)
                if event == Event.DELIVERED and queue is not None:
                    consumed.add((side.only_vhost or vhost, queue))
        if left is not None:
            ends_us += [last_us for (_, event), last_us in left.last_us.items() if event == Event.PUBLISHED]
        return LogFacts(max(ends_us), frozenset(consumed))

    def times_of_several(self) -> tuple[int, int] | None:
        """Return between which moments several files may have rows at once; ``None`` if each begins when one ends."""
        both: list[tuple[int, int]] = []
        over_us = -1
        for first_us, last_us in sorted(self.files.values()):
            if first_us <= over_us:
                both.append((first_us, min(last_us, over_us)))
            over_us = max(over_us, last_us)
        return (min(first_us for first_us, _ in both), max(last_us for _, last_us in both)) if both else None


def of_the_log(overview: Overview, before: Side, after: Side) -> tuple[Side, Side]:
    """Return both sides with the virtual host of the log, where their definitions do not name theirs.

    Raises ``MatchesNothingError`` if definitions have none of the virtual hosts, or of the queues, in the log.
    """
    places = [{"vhost": vhost, "queue": queue} for vhost, queue in overview.places]
    found = _with_vhost(before, overview.vhosts), _with_vhost(after, overview.vhosts)
    for side in found:
        check_match(places, side.definitions)
    return found


def _with_vhost(side: Side, vhosts: Collection[str]) -> Side:
    if side.definitions.vhost_named or len(vhosts) != 1:
        return side
    document = {**side.definitions.document, "original_vhost_name": next(iter(vhosts))}
    return Side(Definitions(document, side.definitions.source), side.release)
