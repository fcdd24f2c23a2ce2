"""What is asked of a whole log before its messages are read: one query, on either engine."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from simulator.definitions import Definitions
from simulator.events import Event
from simulator.replay.summary import check_match
from simulator.replay.tables import Table, rows
from simulator.replay.whatif.differences import Side
from simulator.replay.whatif.rerun import Log
from simulator.replay.whatif.stage import Queue
from simulator.replay.whatif.what_if import Prepared

_QUERY = f"""
    SELECT vhost, queue, event, file, min(first_us) AS first_us, max(last_us) AS last_us, max(expires) AS expires
    FROM (
        SELECT vhost, queue, event, file, min(time_us) AS first_us, max(time_us) AS last_us,
            max(CASE WHEN event = '{Event.PUBLISHED}' AND expiration IS NOT NULL THEN 1 ELSE 0 END) AS expires
        FROM {{captured}}
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
        expires: whether a message was published with an expiration.
    """

    last_us: Mapping[tuple[Place, str], int]
    files: Mapping[str, tuple[int, int]]
    expires: bool

    @classmethod
    def of(cls, captured: Table) -> Overview:
        """Return that of a log."""
        found = rows(_QUERY, captured=captured)
        events = [row for row in found if row["event"] is not None]
        return cls(
            {((row["vhost"], row["queue"]), row["event"]): row["last_us"] for row in events},
            {row["file"]: (row["first_us"], row["last_us"]) for row in found if row["event"] is None},
            any(row["expires"] for row in events),
        )

    @property
    def places(self) -> set[Place]:
        """The places of all rows."""
        return {place for place, _ in self.last_us}

    @property
    def queues(self) -> frozenset[Queue]:
        """The queues that rows are from."""
        return frozenset((vhost, queue) for vhost, queue in self.places if queue is not None)

    @property
    def vhosts(self) -> set[str]:
        """Their virtual hosts."""
        return {vhost for vhost, _ in self.places}

    def log(self, side: Prepared, left: Overview | None = None) -> Log:
        """Return what all messages show together that are played; ``left``: what was found in the queues in the end.

        ``side`` is the log's own.
        """
        looked_at = self.vhosts if side.only_vhost is not None else side.flows.keys()
        ends_us = [0]
        consumed: set[Queue] = set()
        for (place, event), last_us in self.last_us.items():
            vhost, queue = place
            if vhost in looked_at and event in (Event.PUBLISHED, Event.DELIVERED):
                ends_us.append(last_us)
                if event == Event.DELIVERED and queue is not None:
                    consumed.add((side.only_vhost or vhost, queue))
        if left is not None:
            ends_us += [last_us for (_, event), last_us in left.last_us.items() if event == Event.PUBLISHED]
        return Log(max(ends_us), frozenset(consumed))

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
    found = _named(before, overview.vhosts), _named(after, overview.vhosts)
    for side in found:
        check_match(places, side.definitions)
    return found


def _named(side: Side, vhosts: Collection[str]) -> Side:
    if side.definitions.vhost_named or len(vhosts) != 1:
        return side
    document = {**side.definitions.document, "original_vhost_name": next(iter(vhosts))}
    return Side(Definitions(document, side.definitions.source), side.release)
