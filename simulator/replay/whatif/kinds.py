"""What is known of messages that are alike, by number, and in columns for those who ask for many at once."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from simulator.replay.alike import Ints, places_of
from simulator.replay.memory import Numbered
from simulator.replay.whatif.both_ends import BothEnds
from simulator.replay.whatif.fates import BothFates
from simulator.replay.whatif.stage import Queue

SINGLE = -1
"""The number of messages that are to be looked at one by one."""


class Stayed(NamedTuple):
    """One time that messages were in a queue: between which of their moments, and whether they were delivered then."""

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
        times: which of its moments are those of its fates: the first and the last one, before and after.
        stays: where it waited.
    """

    fates: BothFates
    ends: BothEnds
    last: Sequence[int]
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
        self._numbers: dict[bytes, int] = {}
        self.values: list[Kind] = []
        self.queues: Numbered[Queue] = Numbered()
        self.ends: Numbered[BothEnds] = Numbered()
        self._ends, self.changing = array("q"), array("q")
        self._times, self._last, self._stays = _Sequences(), _Sequences(), _Sequences()

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, key: bytes) -> int | None:
        """Return the number of messages with that key: ``SINGLE`` if each has to be looked at; ``None`` if unknown."""
        return self._numbers.get(key)

    def add(self, key: bytes, kind: Kind | None) -> None:
        """Take note of a kind; nothing if each message is to be looked at by itself."""
        if kind is None:
            self._numbers[key] = SINGLE
            return
        self._numbers[key] = len(self.values)
        self.values.append(kind)
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
