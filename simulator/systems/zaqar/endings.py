"""Messages, claims and their hold on messages end by themselves, each at its time."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from simulator.deadlines import Deadlines


class Ends(StrEnum):
    """The things that end by themselves: a message, a claim's hold on one, or a claim."""

    MESSAGE = "message"
    HOLD = "hold"
    CLAIM = "claim"


class Ending(msgspec.Struct, frozen=True):
    """The end of something: the message or claim with that id."""

    at_us: int
    ends: Ends
    id: str
    claim: str | None = None


class Endings:
    """Endings in the order of time; those of one moment in the order in which they were added.

    Attributes:
        passed_us: the time until which endings have been taken out.
    """

    def __init__(self) -> None:
        self.passed_us = 0
        self._deadlines = Deadlines[Ending]()
        self._waiting: set[Ending] = set()

    def add(self, ending: Ending) -> None:
        """Remember an ending, once. An overtaken one stays here: whoever gets it checks whether it still holds."""
        if ending in self._waiting:
            return
        self._waiting.add(ending)
        self._deadlines.set(ending.at_us, ending)

    def due(self, now_us: int) -> Iterator[Ending]:
        """Take out and yield what has become due."""
        self.passed_us = max(self.passed_us, now_us)
        while (deadline := self._deadlines.pop(now_us)) is not None:
            ending = deadline[2]
            self._waiting.discard(ending)
            yield ending
