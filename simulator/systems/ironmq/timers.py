"""Ends reservations, delays and lives of messages at their time."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from itertools import count
from typing import NamedTuple

from simulator.deadlines import Deadline, Deadlines
from simulator.systems.ironmq.queues import Queue, Stored


class Then(IntEnum):
    """What happens when a timer ends; at one moment, in this order."""

    EXPIRE = 0
    TO_FRONT = 1
    TO_END = 2


class Ended(NamedTuple):
    """A timer that has ended."""

    time_us: int
    then: Then
    queue: Queue
    stored: Stored


class Timers:
    """All timers of a project. Those of messages that have gone elsewhere since count for nothing."""

    def __init__(self) -> None:
        self._deadlines = Deadlines[Then]()
        self._numbers = count(1)

    def start(self, time_us: int, then: Then, queue: Queue, stored: Stored) -> None:
        """Start a timer; one that makes the message available replaces the one before."""
        number = next(self._numbers)
        if then != Then.EXPIRE:
            stored.timer = number
        # Messages that go to the front at one moment go there last first, which keeps their order.
        rank = (then, -number if then == Then.TO_FRONT else number)
        self._deadlines.set(time_us, then, (queue, stored, number), rank)

    def next_due_us(self) -> int | None:
        """Return when the next timer ends, or ``None`` if no timer runs."""
        while (first := self._deadlines.first()) is not None and not _counts(first):
            self._deadlines.pop(first[0])
        return self._deadlines.next_due()

    def ended(self, now_us: int) -> Iterator[Ended]:
        """Yield the timers that have ended by now, in order of time."""
        while self.next_due_us() is not None and (deadline := self._deadlines.pop(now_us)) is not None:
            time_us, _, then, (queue, stored, _) = deadline
            yield Ended(time_us, then, queue, stored)


def _counts(deadline: Deadline[Then]) -> bool:
    _, _, then, (queue, stored, number) = deadline
    return bool(queue.holds(stored) and (then == Then.EXPIRE or number == stored.timer))
