"""When things happen in a play, in terms of the moments of its message: so that another message can have the same play.

A play is told some moments, and works out others: so long after this one as that one was after a third. Which comes
next depends on their order alone. Two messages that differ only in their moments have the same play if all that was
planned in it, with the moments of either, has the same order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from simulator.replay.whatif.stage import Queue

LATEST_US = 2**62
"""No sum of a column may be later; a TTL can be longer than that."""


class Sum(NamedTuple):
    """A time: so long after ``start`` as ``until`` is after ``since``, all of them places, and some microseconds."""

    start: int
    since: int = 0
    until: int = 0
    more_us: int = 0


class Pair(NamedTuple):
    """Two places: the time at the first one is before the other one, or they are ``equal``."""

    before: int
    after: int
    equal: bool


class Timetable(NamedTuple):
    """What was planned in a play.

    Attributes:
        sums: how times follow from those before them; the first ones are the moments of the message, and the log's end.
        order: what must be so for a play to be the same.
    """

    sums: Sequence[Sum] = ()
    order: Sequence[Pair] = ()

    def times(self, moments: Iterable[int]) -> list[int] | None:
        """Return the times of a message with these moments, the last of which is the log's end.

        ``None`` if its play may be another one.
        """
        times = [*moments]
        for start, since, until, more_us in self.sums:
            times.append(times[start] + times[until] - times[since] + more_us)
        for before, after, equal in self.order:
            if times[before] > times[after] or (times[before] == times[after]) != equal:
                return None
        return times


class AnyPlanner:
    """Takes note of what a play plans, by the times of the log: here of nothing."""

    def at(self, time_us: int) -> None:
        """Take note of a moment of the message itself."""

    def after(self, now_us: int, more_us: int) -> None:
        """Take note of what is to be so much later than now."""

    def as_late(self, now_us: int, since_us: int, until_us: int, more_us: int = 0) -> None:
        """Take note of what is to be as much later as one moment of the message was after another one."""

    def came(self, queue: Queue, now_us: int) -> None:
        """Take note of when a message dies that comes into a queue now."""

    def happens(self, now_us: int) -> None:
        """Take note that something happens to the message now."""

    def unknown(self) -> None:
        """Take note that something will be at a time that nobody knows."""


NO_PLANNER = AnyPlanner()


class Planner(AnyPlanner):
    """Takes note of all that a play of one message plans.

    Args:
        moments: those of the message, each once.
        end_us: when the log ends, which may decide, too: its place is the one behind the moments.
        ttls_us: the TTLs of queues.

    Attributes:
        sure: whether all times of the play are known to follow from the moments.
    """

    def __init__(self, moments: Sequence[int], end_us: int, ttls_us: Mapping[Queue, int]) -> None:
        self._moments = dict(zip(moments, range(len(moments)), strict=True))
        self._ttls_us = ttls_us
        self._sums: dict[Sum, int] = {}
        self._planned = {len(moments): end_us}
        self._places: dict[int, int] = {}
        self.sure = True

    def at(self, time_us: int) -> None:
        self._plan(self._moment(time_us), time_us)

    def after(self, now_us: int, more_us: int) -> None:
        self._add(Sum(self.place(now_us), more_us=more_us), now_us + more_us)

    def as_late(self, now_us: int, since_us: int, until_us: int, more_us: int = 0) -> None:
        start, since, until = self.place(now_us), self._moment(since_us), self._moment(until_us)
        made = Sum(until, more_us=more_us) if start == since else Sum(start, since, until, more_us)
        self._add(made, now_us + until_us - since_us + more_us)

    def came(self, queue: Queue, now_us: int) -> None:
        if queue in self._ttls_us:
            self.after(now_us, self._ttls_us[queue])

    def happens(self, now_us: int) -> None:
        self.sure &= now_us in self._places

    def unknown(self) -> None:
        self.sure = False

    def place(self, time_us: int) -> int:
        """Return the place of a time that was planned."""
        return self._found(self._places, time_us)

    def timetable(self) -> Timetable:
        """Return all that was planned."""
        return Timetable([*self._sums], in_order(self._planned))

    def _moment(self, time_us: int) -> int:
        return self._found(self._moments, time_us)

    def _found(self, places: Mapping[int, int], time_us: int) -> int:
        place = places.get(time_us)
        self.sure &= place is not None
        return 0 if place is None else place

    def _add(self, made: Sum, time_us: int) -> None:
        if made == Sum(made.start):
            self._plan(made.start, time_us)
        else:
            self._plan(self._sums.setdefault(made, len(self._moments) + 1 + len(self._sums)), time_us)

    def _plan(self, place: int, time_us: int) -> None:
        self.sure &= time_us <= LATEST_US
        self._planned[place] = time_us
        self._places.setdefault(time_us, place)


def in_order(times_us: Mapping[int, int]) -> list[Pair]:
    """Return what tells the order of times by their places."""
    ordered = sorted((time_us, place) for place, time_us in times_us.items())
    return [Pair(one[1], other[1], one[0] == other[0]) for one, other in pairwise(ordered)]
