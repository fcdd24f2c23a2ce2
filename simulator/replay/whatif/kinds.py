"""What is known of messages that are alike, by number, and in columns for those who ask for many at once."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from simulator.replay.alike import Ints, firsts, places_of
from simulator.replay.memory import Numbered
from simulator.replay.whatif.alike_plays import Timed
from simulator.replay.whatif.both_ends import BothEnds
from simulator.replay.whatif.fates import BothFates
from simulator.replay.whatif.rerun import First
from simulator.replay.whatif.row_numbers import Bools
from simulator.replay.whatif.stage import Queue
from simulator.replay.whatif.timetable import Pair, Sum, Timetable
from simulator.replay.whatif.what_if import Case

Key = TypeVar("Key", bound=Hashable)
NOT_KNOWN = -1
"""Stands for the ends of messages whose second play is still to come."""
VARIANTS_MAX = 20
"""So many kinds are told apart of messages whose moments have the same order, by what follows from these."""
KINDS_MAX = 30_000
"""So many kinds of messages are remembered, of some kilobytes each."""
SINGLE = -1
"""The number of messages that are to be looked at one by one."""
ONLY_ONE = -2
"""Stands for a message that is to be looked at by itself, and tells nothing of others."""


class Stayed(NamedTuple):
    """One time that messages were in a queue: between which of their times, and whether they were delivered then."""

    queue: Queue
    since: int
    until: int
    delivered: bool


class Found(NamedTuple):
    """What becomes of messages of a kind.

    Attributes:
        fates: what becomes of one of them.
        ends: how they end.
        times: which times are those of its fates: the first and the last one, before and after.
    """

    fates: BothFates
    ends: BothEnds
    times: tuple[int, int, int, int]

    @classmethod
    def of(cls, case: Case, times: tuple[int, int, int, int]) -> Found:
        """Return what becomes of messages that fare as this one does."""
        return cls(case.fates, BothEnds.of(case), times)


class FirstOf(NamedTuple):
    """The first play of messages of a kind whose second play is still to come.

    Attributes:
        first: that of one of them.
        timed: its times.
        moments: which of the moments of messages are those that the play was told.
        origin: tells the plays of all kinds apart, in all processes.
    """

    first: First
    timed: Timed
    moments: Sequence[int]
    origin: Hashable


class Kind(NamedTuple):
    """What messages have in common that are alike.

    Attributes:
        timetable: how times follow from their moments, and what must be so.
        told: what becomes of them, or their first play.
        last: the rows of deliveries that were the last, and of which no recorder tells whether they were acknowledged.
        stays: where they waited.
    """

    timetable: Timetable
    told: Found | FirstOf
    last: Sequence[int] = ()
    stays: Sequence[Stayed] = ()


class Kinds:
    """All kinds that are known.

    Attributes:
        values: the kinds by number.
        queues: the queues where messages stayed.
        ends: how messages end.
    """

    def __init__(self) -> None:
        self._numbers: dict[Hashable, list[int]] = {}
        self.values: list[Kind] = []
        self.queues: Numbered[Queue] = Numbered()
        self.ends: Numbered[BothEnds] = Numbered()
        self._ends = array("q")
        self._times, self._moments = _Sequences(), _Sequences()
        self._last, self._stays = _Sequences(), _Sequences()
        self._sums, self._pairs = _Sequences(), _Sequences()

    def __len__(self) -> int:
        return max(len(self._numbers), len(self.values))

    def numbers(self, key: Hashable) -> Sequence[int]:
        """Return the numbers of kinds with that key, which differ in what must be so; none if it is unknown.

        The last one is ``SINGLE`` if each other message has to be looked at; some are ``ONLY_ONE``.
        """
        return self._numbers.get(key, ())

    def add_single(self, key: Hashable, *, tells_of_others: bool = True) -> None:
        """Take note of a message that is to be looked at by itself, as are all others if it tells of them."""
        self._numbers.setdefault(key, []).append(SINGLE if tells_of_others else ONLY_ONE)

    def add(self, key: Hashable, kind: Kind) -> None:
        """Take note of a kind."""
        numbers = self._numbers.setdefault(key, [])
        numbers.append(len(self.values))
        self.values.append(kind)
        self._sums.add(chain.from_iterable(kind.timetable.sums))
        self._pairs.add(chain.from_iterable(kind.timetable.order))
        told = kind.told
        self._ends.append(self.ends.number(told.ends) if isinstance(told, Found) else NOT_KNOWN)
        self._times.add(told.times if isinstance(told, Found) else ())
        self._moments.add(told.moments if isinstance(told, FirstOf) else ())
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
        most = int(nth.max(initial=-1)) + 1
        found = np.pad(moments_us, ((0, 0), (0, most)))
        for place in range(most):
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

    def found(self, number: int) -> Found:
        """Return what becomes of messages of a kind of which it is known."""
        told = self.values[number].told
        assert isinstance(told, Found)
        return told

    def first_of(self, number: int) -> FirstOf:
        """Return the first play of messages of a kind whose second play is still to come."""
        told = self.values[number].told
        assert isinstance(told, FirstOf)
        return told

    def are_found(self, numbers: Ints) -> Bools:
        """Tell of which of these kinds it is known what becomes of them."""
        found: Bools = self.ends_of(numbers) != NOT_KNOWN
        return found

    def ends_of(self, numbers: Ints) -> Ints:
        """Return for each of these kinds which of ``ends`` it has."""
        return np.array(self._ends)[numbers]

    def times(self, numbers: Ints) -> Ints:
        """Return for each of these kinds, of which it is known what becomes of them, the ``times``."""
        return self._times.of(numbers)[1].reshape(-1, 4)

    def moments(self, numbers: Ints) -> tuple[Ints, Ints]:
        """Return the moments that the first plays of these kinds were told: whose each is, and which it is."""
        return self._moments.of(numbers)

    def last(self, numbers: Ints) -> tuple[Ints, Ints]:
        """Return the last deliveries of messages of these kinds: whose each is, and in which of its rows."""
        return self._last.of(numbers)

    def stays(self, numbers: Ints) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """Return where messages of these kinds stayed: whose each stay is, its queue, since, until, and delivered."""
        whose, values = self._stays.of(numbers)
        queue, since, until, delivered = values.reshape(-1, 4).T
        return whose[::4], queue, since, until, delivered


class OfOneSize(NamedTuple, Generic[Key]):
    """Messages that have as many moments.

    Attributes:
        messages: which of the batch.
        moments_us: their moments.
        keys: what those have that are alike but for what follows from their moments.
        which: the key of each message.
    """

    messages: Ints
    moments_us: Ints
    keys: Sequence[Key]
    which: Ints

    def only(self, chosen: Bools) -> OfOneSize[Key]:
        """Return some of them."""
        used, which = np.unique(self.which[chosen], return_inverse=True)
        keys = [self.keys[number] for number in used.tolist()]
        return OfOneSize(self.messages[chosen], self.moments_us[chosen], keys, which)


class OfKinds(NamedTuple):
    """Messages of a batch, their kinds, and their times."""

    messages: Ints
    kinds: Ints
    times_us: Ints


Unknown = Mapping[Key, tuple[int, Sequence[int]]]
"""A message for each key of which another kind is needed, and its moments."""


def told_apart(
    sizes: Iterable[OfOneSize[Key]], kinds: Kinds, learn: Callable[[Unknown[Key]], object]
) -> Iterator[OfKinds]:
    """Yield messages with their kinds; the others have to be looked at one by one.

    ``learn`` adds a kind for each key that it is given.
    """
    left = [*sizes]
    for nth in range(VARIANTS_MAX):
        if not left:
            return
        learn({
            size.keys[number]: (int(size.messages[place]), size.moments_us[place].tolist())
            for size in left
            for number, place in enumerate(firsts(size.which).tolist())
            if len(kinds.numbers(size.keys[number])) <= nth
        })  # fmt: skip
        others = []
        for size in left:
            numbers = np.array([kinds.numbers(key)[nth] for key in size.keys], np.int64)[size.which]
            known = numbers >= 0
            times_us, fits = kinds.times_us(numbers[known], size.moments_us[known])
            yield OfKinds(size.messages[known][fits], numbers[known][fits], times_us[fits])
            unlike = numbers == ONLY_ONE
            unlike[firsts(size.which)] = False
            unlike[known] = ~fits
            if unlike.any():
                others.append(size.only(unlike))
        left = others


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
