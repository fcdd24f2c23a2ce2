"""The outcome of each message under one system, and its path: from its events, in the words that all systems share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from simulator.events import DEATH_OUTCOMES, DEATHS, Event, Outcome
from simulator.systems.compare.neutral_scenario import NeutralScenario

_ARRIVALS = (Event.PUBLISHED, Event.ROUTED)
_DEATHS = DEATHS | DEATH_OUTCOMES
_HELD = (Event.HELD, Event.DEFERRED)


class Leg(msgspec.Struct, frozen=True, kw_only=True):
    """One arrow of the picture.

    Attributes:
        source, target: a queue, or where messages come from (``published``) or end (``acknowledged``, ``lost``).
        kind: ``way``, ``again`` (the queue keeps the message and delivers it again), ``dead letter`` or ``lost``.
        why: the reason of a death; else empty.
        times: how often a message went there.
    """

    source: str
    target: str
    kind: str
    why: str = ""
    times: int = 1


def path(events: Sequence[Mapping[str, Any]], ends: Mapping[str, Outcome]) -> list[Leg]:
    """Return the legs of all messages, in the order in which each was first gone.

    Args:
        events: what happened, in order, with the scenario's names for messages.
        ends: where each message was in the end, by name.
    """
    counted: Counter[Leg] = Counter()
    for name, end in ends.items():
        counted.update(_legs([event for event in events if event["message"] == name], end))
    return [msgspec.structs.replace(leg, times=times) for leg, times in counted.items()]


def _legs(events: Sequence[Mapping[str, Any]], end: Outcome) -> list[Leg]:
    """Return the legs of one message."""
    legs: list[Leg] = []
    at, death = str(Event.PUBLISHED), ""
    for event in events:
        queue = event.get("queue") or ""
        kind = event["event"]
        if at == Event.PUBLISHED and queue and (kind in _ARRIVALS or kind == Event.DEAD_LETTERED):
            legs.append(Leg(source=Event.PUBLISHED, target=queue, kind="way"))
            at = queue
        elif kind in _DEATHS:
            death = death or str(event.get("reason") or event["event"])
        elif kind in _ARRIVALS and queue and queue != at:
            legs.append(Leg(source=at, target=queue, kind="dead letter" if death else "way", why=death))
            at, death = queue, ""
        elif kind == Event.REQUEUED and queue == at:
            legs.append(Leg(source=at, target=at, kind="again"))
    if end == Outcome.ACKNOWLEDGED:
        legs.append(Leg(source=at, target=end, kind="way"))
    elif end == Outcome.LOST:
        legs.append(Leg(source=at, target=end, kind="lost", why=death))
    return legs


class MessageOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to one message in the end.

    Attributes:
        message: its name.
        attempts_ms: when it was delivered, milliseconds from the start.
        outcome: what became of it; JSON has it as ``end``.
        queue: which queue it is in; ``None`` where it is gone.
        died_in, died_ms: the queue that it died in, and when; ``None`` where it did not.
        reason: why it died, in the words of the system, or the event of its death.
        carries: the fields of the dead letter that tell of its death, by the system's names.
        shows: the fields of its last delivery that tell of those before.
    """

    message: str
    attempts_ms: list[float]
    outcome: Outcome = msgspec.field(name="end")
    queue: str | None = None
    died_in: str | None = None
    died_ms: float | None = None
    reason: str | None = None
    carries: dict[str, Any] = {}
    shows: dict[str, Any] = {}

    @property
    def end(self) -> str:
        """The outcome in the words of the comparison."""
        return "still queued" if self.outcome is Outcome.WAITING else self.outcome.value

    @property
    def delays_ms(self) -> list[float]:
        """The time between each delivery and the next."""
        return [after - before for before, after in zip(self.attempts_ms, self.attempts_ms[1:], strict=False)]


class SystemOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to the messages of a neutral scenario under one system.

    Attributes:
        system: its name.
        version: which release or profile of it.
        messages: what happened to each message, in the order of the scenario.
        notes: where the system could not do what the scenario says.
        path: from where to where messages went, and how often.
        scenario: what was run: a scenario for ``dlx simulate``.
        limit: where the limit of deliveries lives, in words; empty where the system's adapter does not say.
    """

    system: str
    version: str
    messages: list[MessageOutcome]
    notes: list[str]
    path: list[Leg]
    scenario: dict[str, Any]
    limit: str = ""

    @property
    def lost(self) -> list[str]:
        """The messages that are gone, and were never acknowledged."""
        return [fate.message for fate in self.messages if fate.outcome is Outcome.LOST]


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
        shows: the fields of each message's last delivery that tell of those before.
    """

    scenario: dict[str, Any]
    events: Sequence[Mapping[str, Any]]
    attempts: Sequence[Mapping[str, Any]]
    acknowledged: Collection[str]
    left: dict[str, Left]
    notes: list[str]
    shows: Mapping[str, dict[str, Any]] = {}


def deliveries(events: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the events that handed a message to the consumer; dead letters are not consumed."""
    return [event for event in events if event["event"] == Event.DELIVERED]


def fates(neutral: NeutralScenario, ran: Ran) -> list[MessageOutcome]:
    """Return what happened to each message in the end."""
    return [_fate(neutral, ran, message.name) for message in neutral.messages]


def _fate(neutral: NeutralScenario, ran: Ran, name: str) -> MessageOutcome:
    left = ran.left.get(name)
    outcome = _outcome(neutral, ran, name, left)
    fate = MessageOutcome(
        message=name,
        attempts_ms=[event["time_ms"] for event in ran.attempts if event["message"] == name],
        outcome=outcome,
        queue=left.queue if left else None,
        shows=ran.shows.get(name, {}),
    )
    deaths = [event for event in ran.events if event["message"] == name and event["event"] in _DEATHS]
    if outcome not in (Outcome.DEAD_LETTERED, Outcome.LOST) or not deaths:
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


def _outcome(neutral: NeutralScenario, ran: Ran, name: str, left: Left | None) -> Outcome:
    if left is not None:
        if left.queue == neutral.dead_letter_queue:
            return Outcome.DEAD_LETTERED
        last = next((event["event"] for event in reversed(ran.events) if event["message"] == name), None)
        return Outcome.HELD if last in _HELD else Outcome.WAITING
    return Outcome.ACKNOWLEDGED if name in ran.acknowledged else Outcome.LOST
