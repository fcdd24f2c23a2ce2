"""The broker on which a case is run, simulated or real, as the expectations see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from simulator.scenario.steps import AnyStep
from simulator.testing.cases.file_format import SetFaults


class FoundMessage(NamedTuple):
    """A message as a consumer gets it. ``properties`` are its basic properties by their names in the protocol."""

    exchange: str
    routing_key: str
    redelivered: bool
    properties: Mapping[str, Any]

    @property
    def headers(self) -> Mapping[str, Any]:
        """Its headers."""
        return self.properties.get("headers") or {}


class FoundLoss(NamedTuple):
    """A copy that was lost: in which queue it died or which refused it, the reason of the death, and how it ended."""

    queue: str
    reason: str | None
    how: str


class StepRefusedError(Exception):
    """The broker refused a step, in its words."""


class Stage(Protocol):
    """A broker with the definitions of one case.

    Attributes:
        unroutable: how many publishes reached no queue so far.
        refused: how many publishes were refused so far.
        unconfirmed: how many publishes had no answer so far.
        real: whether it is a server, which does not say what became of lost messages.
    """

    real: bool

    @property
    def unroutable(self) -> int: ...

    @property
    def refused(self) -> int: ...

    @property
    def unconfirmed(self) -> int: ...

    def do(self, step: AnyStep) -> None:
        """Do one step. Raises ``StepRefusedError``."""

    def set_faults(self, step: SetFaults) -> None:
        """Have faults strike, or none any more."""

    def pass_until(self, ms: int) -> None:
        """Let time pass until that many milliseconds after the start."""

    def depths(self) -> dict[str, int]:
        """Return how many messages are ready in each queue that there is."""

    def messages(self, queue: str) -> list[FoundMessage]:
        """Return the ready messages of a queue. On a server they are taken out: nothing may come after it.

        Raises ``StepRefusedError`` where a server lets nobody take them.
        """

    def losses(self) -> list[FoundLoss]:
        """Return the copies that were lost so far; unroutable and refused publishes do not count."""

    def stories(self, queues: list[str]) -> list[str]:
        """Say what happened to messages, first to those that were in these queues, as far as the target shows it."""
