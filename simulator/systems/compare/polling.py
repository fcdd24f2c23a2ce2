"""A consumer that asks: for systems whose queues hand out a message when they are asked, and not before."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from simulator.systems.compare.neutral_scenario import NeutralScenario
from simulator.systems.compare.outcome import deliveries


class PollingSide(ABC):
    """A system and its polling consumer, as steps of a scenario that grows.

    The consumer asks again at once after it got something, and else every ``poll_ms``.

    Attributes:
        steps: the steps so far.
        now_ms: when the consumer did something last.
    """

    def __init__(self, neutral: NeutralScenario) -> None:
        self.neutral = neutral
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
        self.now_ms += self.hold_ms

    @property
    @abstractmethod
    def hold_ms(self) -> int:
        """How long a consumer keeps a message that it does not settle."""
