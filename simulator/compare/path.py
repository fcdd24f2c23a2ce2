"""The path of the messages through one system: from where to where, how many times, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from simulator.events import DEATH_OUTCOMES, DEATHS, Event

PUBLISHED, ACKNOWLEDGED, LOST = "published", "acknowledged", "lost"
_ARRIVALS = (Event.PUBLISHED, Event.ROUTED)


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


def path(events: Sequence[Mapping[str, Any]], ends: Mapping[str, str]) -> list[Leg]:
    """Return the legs of all messages, in the order in which each was first gone.

    Args:
        events: what happened, in order, with the scenario's names for messages.
        ends: where each message was in the end, by name: a value of ``outcome.End``.
    """
    counted: Counter[Leg] = Counter()
    for name, end in ends.items():
        counted.update(_legs([event for event in events if event["message"] == name], end))
    return [msgspec.structs.replace(leg, times=times) for leg, times in counted.items()]


def _legs(events: Sequence[Mapping[str, Any]], end: str) -> list[Leg]:
    """Return the legs of one message."""
    legs: list[Leg] = []
    at, death = PUBLISHED, ""
    for event in events:
        queue = event.get("queue") or ""
        kind = event["event"]
        if at == PUBLISHED and queue and (kind in _ARRIVALS or kind == Event.DEAD_LETTERED):
            legs.append(Leg(source=PUBLISHED, target=queue, kind="way"))
            at = queue
        elif kind in DEATHS | DEATH_OUTCOMES:
            death = death or str(event.get("reason") or event["event"])
        elif kind in _ARRIVALS and queue and queue != at:
            legs.append(Leg(source=at, target=queue, kind="dead letter" if death else "way", why=death))
            at, death = queue, ""
        elif kind == Event.REQUEUED and queue == at:
            legs.append(Leg(source=at, target=at, kind="again"))
    if end == ACKNOWLEDGED:
        legs.append(Leg(source=at, target=ACKNOWLEDGED, kind="way"))
    elif end == LOST:
        legs.append(Leg(source=at, target=LOST, kind="lost", why=death))
    return legs
