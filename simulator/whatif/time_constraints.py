"""When things happen in a play, in terms of the moments of its message: so that another message can have the same play.

A play is given some moments, and works out others: so long after this one as that one was after a third. Which comes
next depends on their order alone. Two messages that differ only in their moments have the same play if all that was
planned in it, with the moments of either, has the same order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from simulator.whatif.playback_broker import QueueRef

LATEST_US = 2**62
"""Nothing is planned for later; a TTL can be longer than that."""


class Sum(NamedTuple):
    """A time: so long after ``start`` as ``until`` is after ``since``, all of them places, and some microseconds."""

    start: int
    since: int = 0
    until: int = 0
    more_us: int = 0


class TimeOrder(NamedTuple):
    """Two places: the time at the first one is before the other one, or they are ``equal``."""

    before: int
    after: int
    equal: bool


class Timetable(NamedTuple):
    """What was planned in a play.

    Attributes:
        sums: how times follow from those before them; the first ones are given.
        order: what must be so for a play to be the same.
    """

    sums: Sequence[Sum]
    order: Sequence[TimeOrder]

    def times(self, given_us: Sequence[int]) -> list[int] | None:
        """Return the times of a message that was given these, and what follows; ``None`` if its play may differ."""
        times = [*given_us]
        for start, since, until, more_us in self.sums:
            times.append(times[start] + times[until] - times[since] + more_us)
        for before, after, equal in self.order:
            if times[before] > times[after] or (times[before] == times[after]) != equal:
                return None
        return times


class AnyPlanner:
    """Notes what a play plans, by the times of the log: here nothing."""

    def at(self, time_us: int) -> None:
        """Note a moment of the message itself."""

    def after(self, now_us: int, more_us: int) -> None:
        """Note what is to happen so much later than now."""

    def as_late(self, now_us: int, since_us: int, until_us: int, more_us: int = 0) -> None:
        """Note what is to happen as much later as one moment of the message was after another one."""

    def came(self, queue: QueueRef, now_us: int) -> None:
        """Note when a message expires that comes into a queue now."""

    def happens(self, now_us: int) -> None:
        """Note that something happens to the message now."""

    def unknown(self) -> None:
        """Note that something happens at a time that follows from nothing."""


NO_PLANNER = AnyPlanner()


class TimePlanner(AnyPlanner):
    """Notes all that a play of one message plans.

    Args:
        given_us: the times that the message is given.
        moments: the places among these that its play may refer to, by time.
        end: the place of the end of the log, which may decide, too.
        ttls_us: the TTLs of queues.

    Attributes:
        sure: whether all times of the play are known to follow from those given.
    """

    def __init__(
        self, given_us: Sequence[int], moments: Mapping[int, int], end: int, ttls_us: Mapping[QueueRef, int]
    ) -> None:
        self._given, self._moments, self._ttls_us = len(given_us), moments, ttls_us
        self._sums: dict[Sum, int] = {}
        self._planned = {end: given_us[end]}
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

    def came(self, queue: QueueRef, now_us: int) -> None:
        if queue in self._ttls_us:
            self.after(now_us, self._ttls_us[queue])

    def happens(self, now_us: int) -> None:
        self.sure &= now_us in self._places

    def unknown(self) -> None:
        self.sure = False

    def place(self, time_us: int) -> int:
        """Return the place of a time that was planned."""
        return self._found(self._places, time_us)

    def timetable(self, seen: Mapping[int, int]) -> Timetable:
        """Return all that was planned. The times of ``seen``, by place, must have the order that they have here."""
        ordered = sorted((time_us, place) for place, time_us in {**self._planned, **seen}.items())
        order = [TimeOrder(one[1], other[1], one[0] == other[0]) for one, other in pairwise(ordered)]
        return Timetable([*self._sums], order)

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
            self._plan(self._sums.setdefault(made, self._given + len(self._sums)), time_us)

    def _plan(self, place: int, time_us: int) -> None:
        self.sure &= time_us <= LATEST_US
        self._planned[place] = time_us
        self._places.setdefault(time_us, place)
