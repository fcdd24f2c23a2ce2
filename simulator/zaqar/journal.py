"""What happened to messages, in the vocabulary of ``simulator.events``, and what is due to happen."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from enum import StrEnum

import msgspec

from simulator.events import Event


class Entry(msgspec.Struct, kw_only=True):
    """One thing that happened to one message.

    Attributes:
        event: what happened. A claim is a delivery, a deletion an acknowledgement, and a claim that is released or
            runs out a requeue.
        time_us: microseconds since 1970.
        project, queue: where; a message that no queue lists has none.
        message: its id.
        claim: the claim that it has to do with.
        detail: the rest, in words.
    """

    event: Event
    time_us: int
    project: str
    message: str
    queue: str | None
    claim: str | None = None
    detail: str = ""


class Ends(StrEnum):
    """What ends by itself: a message, a claim's hold on one, or a claim."""

    MESSAGE = "message"
    HOLD = "hold"
    CLAIM = "claim"


class Deadline(msgspec.Struct, frozen=True):
    """The end of something: the message or claim with that id."""

    at_us: int
    ends: Ends
    id: str
    claim: str | None = None


class Deadlines:
    """Deadlines in the order of time; those of one moment in the order in which they were set."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Deadline]] = []
        self._numbers = itertools.count()
        self._waiting: set[Deadline] = set()
        self.passed_us = 0
        """What was due until then has been taken out."""

    def add(self, deadline: Deadline) -> None:
        """Remember one, once. One that is overtaken stays here: whoever gets it looks whether it still holds."""
        if deadline in self._waiting:
            return
        self._waiting.add(deadline)
        heapq.heappush(self._heap, (deadline.at_us, next(self._numbers), deadline))

    def due(self, now_us: int) -> Iterator[Deadline]:
        """Take out what has become due."""
        self.passed_us = max(self.passed_us, now_us)
        while self._heap and self._heap[0][0] <= now_us:
            deadline = heapq.heappop(self._heap)[2]
            self._waiting.discard(deadline)
            yield deadline
