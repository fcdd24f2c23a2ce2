"""What will happen to messages by itself: reservations and delays end, lives run out."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from enum import IntEnum
from itertools import count
from typing import NamedTuple

from simulator.ironmq.queues import Queue, Stored


class Then(IntEnum):
    """What happens when a timer ends; at one moment, in this order."""

    EXPIRE = 0
    TO_FRONT = 1
    TO_END = 2


class Due(NamedTuple):
    """A timer that has ended."""

    time_us: int
    then: Then
    rank: int
    queue: Queue
    stored: Stored


class Timers:
    """All timers of a project. Those of messages that have gone elsewhere since count for nothing."""

    def __init__(self) -> None:
        self._heap: list[Due] = []
        self._numbers = count(1)

    def start(self, time_us: int, then: Then, queue: Queue, stored: Stored) -> None:
        """Start a timer; one that makes the message available replaces the one before."""
        number = next(self._numbers)
        if then != Then.EXPIRE:
            stored.timer = number
        # Messages that go to the front at one moment go there last first, which keeps their order.
        heapq.heappush(self._heap, Due(time_us, then, -number if then == Then.TO_FRONT else number, queue, stored))

    def next_us(self) -> int | None:
        """When the next timer ends; ``None``: there is none."""
        while self._heap and not _counts(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0].time_us if self._heap else None

    def ended(self, now_us: int) -> Iterator[Due]:
        """The timers that have ended by now, in order of time."""
        while (time_us := self.next_us()) is not None and time_us <= now_us:
            yield heapq.heappop(self._heap)


def _counts(due: Due) -> bool:
    return due.queue.holds(due.stored) and (due.then == Then.EXPIRE or abs(due.rank) == due.stored.timer)
