"""The outcome of each message under one system, told from its events in the vocabulary that all systems share."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from simulator.compare.neutral_scenario import NeutralScenario
from simulator.compare.path import Leg
from simulator.events import DEATH_OUTCOMES, DEATHS, Event

_DEATHS = DEATHS | DEATH_OUTCOMES


class End(StrEnum):
    """Where a message was in the end."""

    ACKNOWLEDGED = "acknowledged"
    DEAD_LETTERED = "dead-lettered"
    QUEUED = "still queued"
    LOST = "lost"


class Fate(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to one message in the end.

    Attributes:
        message: its name.
        attempts_ms: when it was delivered, milliseconds from the start.
        end: where it was in the end.
        queue: which queue it is in; ``None`` where it is gone.
        died_in, died_ms: the queue that it died in, and when; ``None`` where it did not.
        reason: why it died, in the words of the system, or the event of its death.
        carries: the fields of the dead letter that tell of its death, by the system's names.
    """

    message: str
    attempts_ms: list[float]
    end: End
    queue: str | None = None
    died_in: str | None = None
    died_ms: float | None = None
    reason: str | None = None
    carries: dict[str, Any] = {}

    @property
    def delays_ms(self) -> list[float]:
        """The time between each delivery and the next."""
        return [after - before for before, after in zip(self.attempts_ms, self.attempts_ms[1:], strict=False)]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to the messages of a neutral scenario under one system.

    Attributes:
        system: its name.
        version: which release or profile of it.
        messages: what happened to each message, in the order of the scenario.
        notes: where the system could not do what the scenario says.
        path: from where to where messages went, and how often.
        scenario: what was run: a scenario for ``dlx simulate``.
    """

    system: str
    version: str
    messages: list[Fate]
    notes: list[str]
    path: list[Leg]
    scenario: dict[str, Any]

    @property
    def lost(self) -> list[str]:
        """The messages that are gone, and were never acknowledged."""
        return [fate.message for fate in self.messages if fate.end is End.LOST]


class Left(msgspec.Struct, frozen=True):
    """A message that is in a queue in the end, with the fields that tell of its death."""

    queue: str
    carries: dict[str, Any] = {}


class Ran(msgspec.Struct, kw_only=True):
    """How a system ran a neutral scenario.

    Attributes:
        scenario: the system's own scenario.
        events: what happened, with the scenario's names for messages.
        attempts: the events that were attempts to have a message processed.
        acknowledged: the messages that a consumer was done with.
        left: what is in queues in the end, by message.
        notes: where the system could not do what the scenario says.
    """

    scenario: dict[str, Any]
    events: Sequence[Mapping[str, Any]]
    attempts: Sequence[Mapping[str, Any]]
    acknowledged: Collection[str]
    left: dict[str, Left]
    notes: list[str]


def deliveries(events: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the events that handed a message to the consumer; dead letters are not consumed."""
    return [event for event in events if event["event"] == Event.DELIVERED]


def fates(neutral: NeutralScenario, ran: Ran) -> list[Fate]:
    """Return what happened to each message in the end."""
    return [_fate(neutral, ran, message.name) for message in neutral.messages]


def _fate(neutral: NeutralScenario, ran: Ran, name: str) -> Fate:
    left = ran.left.get(name)
    end = _end(neutral, ran, name, left)
    fate = Fate(
        message=name,
        attempts_ms=[event["time_ms"] for event in ran.attempts if event["message"] == name],
        end=end,
        queue=left.queue if left else None,
    )
    deaths = [event for event in ran.events if event["message"] == name and event["event"] in _DEATHS]
    if end not in (End.DEAD_LETTERED, End.LOST) or not deaths:
        return fate
    # The last death: a message of a retry ladder dies more than once. One moment may have more than one event.
    last = deaths[-1]
    causes = [event for event in deaths if (event["time_ms"], event["queue"]) == (last["time_ms"], last["queue"])]
    told = next((event for event in causes if event.get("reason")), causes[0])
    return msgspec.structs.replace(
        fate,
        died_in=last["queue"],
        died_ms=last["time_ms"],
        reason=told.get("reason") or told.get("detail") or told["event"],
        carries=left.carries if left else {},
    )


def _end(neutral: NeutralScenario, ran: Ran, name: str, left: Left | None) -> End:
    if left is not None:
        return End.DEAD_LETTERED if left.queue == neutral.dead_letter_queue else End.QUEUED
    return End.ACKNOWLEDGED if name in ran.acknowledged else End.LOST
