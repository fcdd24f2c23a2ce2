"""The consumer of a history: what it does with each message that a system hands out."""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from simulator.compare.history import History

# A message that was delivered so many times more often than the history allows has no limit.
ENDLESS = 10


class Side(Protocol):
    """A system as its consumer sees it. Each method lets the time pass that it takes."""

    def take(self) -> str | None:
        """The next message that is handed out; ``None`` when the history ends before."""

    def acknowledge(self, name: str) -> None:
        """The consumer is done with the message."""

    def reject(self, name: str) -> None:
        """The consumer gives the message back."""

    def crash(self, name: str) -> None:
        """The consumer dies with the message, and another takes its place at once."""

    def hold(self, name: str) -> None:
        """The consumer keeps the message and does nothing any more, until the system takes the message from it."""


def consume(history: History, side: Side) -> tuple[set[str], list[str]]:
    """Take and settle messages until the history ends: which were acknowledged, and what is to be noted."""
    attempts: Counter[str] = Counter()
    acknowledged: set[str] = set()
    while (name := side.take()) is not None:
        attempts[name] += 1
        message = history.message(name)
        if message.succeeds(attempts[name]):
            side.acknowledge(name)
            acknowledged.add(name)
            continue
        getattr(side, message.how)(name)
        if attempts[name] >= ENDLESS * history.attempts_max:
            return acknowledged, [f"no end: {name} was delivered {attempts[name]} times, and the consumer was stopped"]
    return acknowledged, []
