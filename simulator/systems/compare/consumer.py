"""Plays the consumer of a neutral scenario: settles each message that a system hands out."""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from simulator.systems.compare.neutral_scenario import NeutralScenario

# A message that was delivered so many times more often than the scenario allows has no limit.
ENDLESS = 10


class Side(Protocol):
    """A system as its consumer sees it. Each method lets the time pass that it takes."""

    def take(self) -> str | None:
        """Return the next message that is handed out, or ``None`` when the scenario ends before."""

    def acknowledge(self, name: str) -> None:
        """Settle the message: the consumer is done with it."""

    def reject(self, name: str) -> None:
        """Give the message back."""

    def crash(self, name: str) -> None:
        """Let the consumer die with the message; another takes its place at once."""

    def hold(self, name: str) -> None:
        """Let the consumer keep the message and do nothing more, until the system takes the message from it."""


def consume(neutral: NeutralScenario, side: Side) -> tuple[set[str], list[str]]:
    """Take and settle messages until the scenario ends. Return those that were acknowledged, and notes."""
    attempts: Counter[str] = Counter()
    acknowledged: set[str] = set()
    while (name := side.take()) is not None:
        attempts[name] += 1
        message = neutral.message(name)
        if message.succeeds(attempts[name]):
            side.acknowledge(name)
            acknowledged.add(name)
            continue
        getattr(side, message.how)(name)
        if attempts[name] >= ENDLESS * neutral.attempts_max:
            return acknowledged, [_stopped(name, attempts[name])]
    return acknowledged, []


def _stopped(name: str, times: int) -> str:
    return (
        f"attempts_max: dlx itself stopped the consumer after it got {name} {times} times; "
        "under this system a consumer that goes on gets it again and again"
    )
