"""Runs the clock over the rows of one batch: a row after those of its message that it depends on.

Messages do not depend on each other; so the first rows of all messages are judged at
once, then the second ones, and so on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simulator.replay.times import NEVER_US, NO_FAULT, Clock, Facts, Hop, Ints, Judged, Marks, Stays


class Bounds(NamedTuple):
    """The bounds of all deaths of a batch, row by row: those of row *n* are from ``start[n]`` to ``start[n + 1]``."""

    start: Ints
    earliest_us: Ints
    latest_us: Ints


class RowTimes:
    """What the times say of the rows of one batch.

    Attributes:
        facts: what the rows tell of times.
        numbers: the number of each row's ``PathTimes``.
        stays: the stays in which the rows show their messages.
        marks: what the times say of their paths.
    """

    def __init__(self, clock: Clock, facts: Facts) -> None:
        rows = len(facts.time_us)
        self._clock = clock
        self._hops: list[Hop] = []
        self.facts = facts
        self.numbers = np.zeros(rows, np.int64)
        self.stays = Stays(*(np.zeros(rows, np.int64) for _ in Stays._fields))
        self.marks = Marks.none(rows)

    def judge(self, rows: Ints, numbers: Ints, place: Ints) -> None:
        """Judge the rows of whole messages; ``place`` says which row of its message each is."""
        self.numbers[rows] = numbers
        order = np.argsort(place.astype(np.min_scalar_type(place.max(initial=0))), kind="stable")  # few bits: by radix
        start = 0
        for end in np.cumsum(np.bincount(place)).tolist():
            now = rows[order[start:end]]
            source, earlier = self._clock.sources(self.numbers[now])
            source, earlier = now - source, now - earlier
            judged = self._clock.judge(
                now,
                self.numbers[now],
                self.facts.at(now),
                self.stays.at(source),
                self.facts.at(source),
                self.stays.at(earlier),
            )
            self.put(now, judged)
            start = end

    def put(self, rows: Ints, judged: Judged) -> None:
        """Take what came of rows."""
        self.stays.put(rows, judged.stays)
        self.marks.put(rows, judged.marks)
        self._hops += judged.hops

    def refuted(self, *, finally_: bool) -> Ints:
        """Return the rows whose paths the times refute: those that have no other path, or those that may have one."""
        final = self._clock.refuted(self.numbers)
        return np.flatnonzero((self.marks.fault != NO_FAULT) & (final == finally_))

    def sources(self) -> Ints:
        """Return how many rows before each its path starts; 0: none is known."""
        return self._clock.sources(self.numbers)[0]

    def bounds(self) -> Bounds:
        """Return between which moments the deaths lie; ``NEVER_US`` where nothing is known."""
        counts = self._clock.hop_counts(self.numbers)
        start = np.concatenate(([0], np.cumsum(counts)))
        earliest, latest = np.full(start[-1], NEVER_US), np.full(start[-1], NEVER_US)
        wait = np.zeros(start[-1], np.int64)
        for hop in self._hops:
            current = hop.place < counts[hop.rows]  # paths that were refuted may have been longer
            at = start[hop.rows[current]] + hop.place
            earliest[at], latest[at], wait[at] = (each[current] for each in hop[2:])
        for place in range(int(counts.max(initial=0)) - 2, -1, -1):
            at = start[np.flatnonzero(counts > place + 1)] + place
            latest[at] = np.minimum(latest[at], latest[at + 1] - wait[at + 1])
        return Bounds(start, np.minimum(earliest, latest), latest)
