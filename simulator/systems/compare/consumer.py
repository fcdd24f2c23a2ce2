"""Plays the consumer of a neutral scenario: settles each message that a system hands out.

A polling consumer is for systems whose queues hand out a message when they are asked, and not before.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from simulator.systems.compare.neutral_scenario import NeutralScenario
from simulator.systems.compare.outcome import deliveries

# A message that was delivered this many times more often than the scenario allows has no limit.
ENDLESS = 10


class ConsumedSystem(Protocol):
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


def consume(neutral: NeutralScenario, side: ConsumedSystem) -> tuple[set[str], list[str]]:
    """Take and settle messages until the scenario ends. Return those that were acknowledged, and notes."""
    attempts: Counter[str] = Counter()
    acknowledged: set[str] = set()
    if not neutral.consumed:
        return acknowledged, []
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


class PollingSide(ABC):
    """A system and its polling consumer, as steps of a scenario that grows.

    The consumer asks again at once after it got something, and else every ``poll_ms``.

    Args:
        neutral: what is played.
        holds_s: how long a consumer keeps a message that it does not settle.

    Attributes:
        steps: the steps so far.
        now_ms: when the consumer did something last.
        neutral, holds_s: as given.
    """

    def __init__(self, neutral: NeutralScenario, holds_s: int) -> None:
        self.neutral, self.holds_s = neutral, holds_s
        self.steps: list[dict[str, Any]] = []
        self.now_ms = 0
        self._taken = 0

    @abstractmethod
    def polls(self, times_ms: range) -> Iterable[dict[str, Any]]:
        """Return the steps of a consumer that asks at these times."""

    @abstractmethod
    def simulated(self, steps: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the trace of a scenario with these steps."""

    def take(self) -> str | None:
        """Ask until a message is handed out."""
        # Few questions are enough most of the time, and each attempt runs the scenario from its start.
        for count in (16, 256, None):
            times_ms = range(self.now_ms, self.neutral.until_ms + 1, self.neutral.poll_ms)[:count]
            if not times_ms:
                return None
            got = self._handed_out([*self.steps, *self.polls(times_ms)])
            if got is not None:
                self._taken += 1
                self.now_ms = got["time_ms"]
                self.steps += self.polls(times_ms[: times_ms.index(self.now_ms) + 1])
                return str(got["message"])
        self.steps += self.polls(times_ms)
        return None

    def _handed_out(self, steps: list[dict[str, Any]]) -> Mapping[str, Any] | None:
        """Return the first delivery that these steps get and the steps so far do not, or ``None``."""
        found = deliveries(self.simulated(steps)["events"])
        return found[self._taken] if len(found) > self._taken else None

    def crash(self, name: str) -> None:
        """Do nothing: the system does not see it. The message comes back after its time, and another consumer asks."""
        return

    def hold(self, name: str) -> None:
        """Ask no more until the time of the message is over."""
        self.now_ms += self.holds_s * 1_000

    def step(self, do: str, at_ms: int, **fields: Any) -> dict[str, Any]:
        """Return a step with the queue of the scenario."""
        return {"do": do, "at_s": at_ms / 1_000, "queue": self.neutral.queue, **fields}
