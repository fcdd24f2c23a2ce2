"""What is known of messages that are alike, by number, and in columns for those who ask for many at once."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from simulator.replay.alike import Ints, places_of
from simulator.replay.memory import Numbered
from simulator.replay.whatif.both_ends import BothEnds
from simulator.replay.whatif.fates import BothFates
from simulator.replay.whatif.row_numbers import Bools
from simulator.replay.whatif.stage import Queue
from simulator.replay.whatif.timetable import Pair, Sum, Timetable

SINGLE = -1
"""The number of messages that are to be looked at one by one."""


class Stayed(NamedTuple):
    """One time that messages were in a queue: between which of their times, and whether they were delivered then."""

    queue: Queue
    since: int
    until: int
    delivered: bool


class Kind(NamedTuple):
    """What messages have in common that are alike.

    Attributes:
        fates: what becomes of one of them.
        ends: how they end.
        last: the rows of deliveries that were the last, and of which no recorder tells whether they were acknowledged.
        timetable: how times follow from their moments, and what must be so.
        times: which times are those of its fates: the first and the last one, before and after.
        stays: where it waited.
    """

    fates: BothFates
    ends: BothEnds
    last: Sequence[int]
    timetable: Timetable
    times: tuple[int, int, int, int]
    stays: Sequence[Stayed]


class Kinds:
    """All kinds that are known.

    Attributes:
        values: the kinds by number.
        queues: the queues where messages stayed.
        ends: how messages end.
        changing: the numbers of kinds that end differently on both sides.
    """

    def __init__(self) -> None:
        self._numbers: dict[bytes, list[int]] = {}
        self.values: list[Kind] = []
        self.queues: Numbered[Queue] = Numbered()
        self.ends: Numbered[BothEnds] = Numbered()
        self._ends, self.changing = array("q"), array("q")
        self._times, self._last, self._stays = _Sequences(), _Sequences(), _Sequences()
        self._sums, self._pairs = _Sequences(), _Sequences()

    def __len__(self) -> int:
        return max(len(self._numbers), len(self.values))

    def numbers(self, key: bytes) -> Sequence[int]:
        """Return the numbers of kinds with that key, which differ in what must be so; none if it is unknown.

        The last one is ``SINGLE`` if each other message has to be looked at.
        """
        return self._numbers.get(key, ())

    def add(self, key: bytes, kind: Kind | None) -> None:
        """Take note of a kind; nothing if each message is to be looked at by itself."""
        numbers = self._numbers.setdefault(key, [])
        if kind is None:
            numbers.append(SINGLE)
            return
        numbers.append(len(self.values))
        self.values.append(kind)
        self._sums.add(chain.from_iterable(kind.timetable.sums))
        self._pairs.add(chain.from_iterable(kind.timetable.order))
        self._ends.append(self.ends.number(kind.ends))
        if kind.ends.way is not None:
            self.changing.append(len(self.values) - 1)
        self._times.add(kind.times)
        self._last.add(kind.last)
        self._stays.add(
            value
            for stay in kind.stays
            for value in (self.queues.number(stay.queue), stay.since, stay.until, stay.delivered)
        )

    def times_us(self, numbers: Ints, moments_us: Ints) -> tuple[Ints, Bools]:
        """Return the times of messages of these kinds, and whether all is as it must be.

        ``moments_us`` has a row for each message.
        """
        whose, values = self._sums.of(numbers)
        sums, whose = values.reshape(-1, len(Sum._fields)), whose[:: len(Sum._fields)]
        begins = np.searchsorted(whose, np.arange(len(numbers)))
        nth = np.arange(len(whose)) - begins[whose]
        found = np.pad(moments_us, ((0, 0), (0, int(nth.max(initial=-1)) + 1)))
        for place in range(int(nth.max(initial=-1)) + 1):
            chosen = nth == place
            rows, (start, since, until, more_us) = whose[chosen], sums[chosen].T
            times_us = found[rows, start] + found[rows, until] - found[rows, since] + more_us
            found[rows, moments_us.shape[1] + place] = times_us
        whose, values = self._pairs.of(numbers)
        before, after, equal = values.reshape(-1, len(Pair._fields)).T
        whose = whose[:: len(Pair._fields)]
        one, other = found[whose, before], found[whose, after]
        fits = np.ones(len(numbers), bool)
        fits[whose[np.where(equal, one != other, one >= other)]] = False
        return found, fits

    def ends_of(self, numbers: Ints) -> Ints:
        """Return for each of these kinds which of ``ends`` it has."""
        return np.array(self._ends)[numbers]

    def times(self, numbers: Ints) -> Ints:
        """Return for each of these kinds its ``times``."""
        return self._times.of(numbers)[1].reshape(-1, 4)

    def last(self, numbers: Ints) -> tuple[Ints, Ints]:
        """Return the last deliveries of messages of these kinds: whose each is, and in which of its rows."""
        return self._last.of(numbers)

    def stays(self, numbers: Ints) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """Return where messages of these kinds stayed: whose each stay is, its queue, since, until, and delivered."""
        whose, values = self._stays.of(numbers)
        queue, since, until, delivered = values.reshape(-1, 4).T
        return whose[::4], queue, since, until, delivered


class _Sequences:
    """Sequences of integers by number."""

    def __init__(self) -> None:
        self._values, self._starts, self._lengths = array("q"), array("q"), array("q")

    def add(self, values: Iterable[int]) -> None:
        start = len(self._values)
        self._values.extend(values)
        self._starts.append(start)
        self._lengths.append(len(self._values) - start)

    def of(self, numbers: Ints) -> tuple[Ints, Ints]:
        """Return the values of several, one after the other: whose each is, and the value."""
        lengths = np.array(self._lengths)[numbers]
        places, _ = places_of(np.array(self._starts)[numbers], lengths)
        return np.repeat(np.arange(len(numbers)), lengths), np.array(self._values)[places]
