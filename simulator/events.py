"""The events and the outcomes of all systems: a broker does them, a capture holds them, a replay reads them.

A captured trace holds only ``PUBLISHED`` and ``DELIVERED``, a recorded consumer adds
``ACKED``, ``REJECTED`` and ``REQUEUED``; the others happen inside the broker and are
simulated or inferred.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from dlx.deaths import MAXLEN, REASONS


class Event(StrEnum):
    """What happened to one message, or to one copy of it in one queue."""

    def __new__(cls, value: str, doc: str) -> Event:
        """Give the member its value and its docstring."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.__doc__ = doc
        return member

    PUBLISHED = "published", "A client published the message to an exchange."
    ROUTED = "routed", "The exchange put a copy of the message into a queue."
    DELAYED = "delayed", "An exchange keeps a copy of the message until its delay is over."
    RELEASED = "released", "The delay of a copy is over: its exchange routes it by the bindings that there are now."
    UNROUTABLE = "unroutable", "No queue was bound for the message: it is gone."
    RETURNED = "returned", "An unroutable mandatory message went back to its publisher."
    CONFIRMED = "confirmed", "The broker confirmed the publish."
    NACKED = "nacked", "A full queue refused a publish, or (with the reason maxlen) a dead letter sent at most once."
    DEFERRED = "deferred", "A full queue refused an at-least-once dead letter, which is still held and sent again."
    DELIVERED = "delivered", "A queue handed the message to a consumer, or to basic.get."
    EXTENDED = "extended", "The consumer got longer for its delivery (not in RabbitMQ)."
    ACKED = "acked", "The consumer acknowledged the delivery: the copy is gone."
    REJECTED = "rejected", "The consumer rejected the delivery without requeueing it."
    REQUEUED = "requeued", "The delivery went back to its queue."
    EXPIRED = "expired", "The time to live of the message in its queue ran out."
    LENGTH_DROPPED = "length-dropped", "A length limit pushed the message out of its queue."
    LIMIT_DROPPED = "limit-dropped", "The message exceeded the delivery limit of its queue."
    DEAD_LETTERED = "dead-lettered", "The dead message was republished to the dead-letter exchange."
    CYCLE_DROPPED = "cycle-dropped", "The dead letter would have come back without a rejection: it is gone."
    HELD = "held", "The dead message waits in its queue for at-least-once dead-lettering."
    DROPPED = "dropped", "The dead message, or one that was delayed, had nowhere to go: it is gone."
    PURGED = "purged", "The queue was purged, deleted or expired with the message in it."


class Outcome(StrEnum):
    """What became of a message in the end."""

    ACKNOWLEDGED = "acknowledged"
    WAITING = "waiting"  # a copy is in a queue or a stream
    HELD = "held"  # it died, and its queue keeps it until another takes it
    DEAD_LETTERED = "dead-lettered"  # it is in the queue for dead letters, where a scenario names one
    LOST = "lost"  # any copy is
    UNROUTABLE = "unroutable"  # its publish reached no queue
    REFUSED = "refused"  # the broker, or a full queue, refused its publish


class Happened(msgspec.Struct, gc=False):
    """One thing that happened to one message, or to one copy of it in one queue, in any of the systems.

    Attributes:
        event: what happened.
        time_us: microseconds since 1970, or since the start of a scenario that has no date.
        vhost: the virtual host; of IronMQ and Zaqar the project. Empty in a system that has neither.
        uid: the number of the published message, which all its copies and dead letters share; 0 in a system that does
            not number messages.
        message: the message's id or name, in a system that gives it one.
        queue: the queue; ``None`` for a message that no queue holds.
        exchange, routing_keys: where the message was published to, in RabbitMQ.
        reason: the reason of death (``expired``), if there is one.
        detail: the rest, in words.
        more: what only this system tells, by its name in the system's trace; of a delivery of RabbitMQ the headers
            that the queue added to it.
    """

    event: Event
    time_us: int
    vhost: str = ""
    uid: int = 0
    message: str = ""
    queue: str | None = None
    exchange: str | None = None
    routing_keys: tuple[str, ...] = ()
    reason: str | None = None
    detail: str = ""
    more: Mapping[str, Any] | None = None


DEATHS = frozenset({Event.REJECTED, Event.EXPIRED, Event.LENGTH_DROPPED, Event.LIMIT_DROPPED})
"""A copy died in its queue. The next event says what came of it: ``HELD``, or one of ``DEATH_OUTCOMES``."""
DEATH_OUTCOMES = frozenset({Event.DEAD_LETTERED, Event.CYCLE_DROPPED, Event.DROPPED, Event.UNROUTABLE})
"""They say what became of a copy that died."""
LOSSES = frozenset({Event.CYCLE_DROPPED, Event.DROPPED, Event.UNROUTABLE, Event.PURGED})
"""A copy is gone although no consumer acknowledged it."""
REFUSALS = frozenset({Event.NACKED, Event.DEFERRED})
"""A full queue did not let a copy in."""
# Sets, and names of their own: Python 3.11 takes long to look up a member of an enumeration.
_ENTERS = frozenset({Event.ROUTED, Event.HELD})
_LEAVES = DEATHS | {Event.ACKED, Event.PURGED}
_NO_LONGER_HELD = frozenset({Event.DEAD_LETTERED, Event.DROPPED})
_REQUEUED = Event.REQUEUED
_WAITS = {Event.DELAYED: 1, Event.RELEASED: -1}


def follows(event: Happened, before: Happened | None) -> bool:
    """Return whether ``event`` is the outcome of the death, or of the refusal, that happened just ``before``.

    A queue with reject-publish-dlx dead-letters a copy that it refuses.
    """
    if before is None or (event.queue, event.uid) != (before.queue, before.uid):
        return False
    return before.event in DEATHS or (before.event in REFUSALS and event.reason == MAXLEN)


def sender_knows(event: Happened, before: Happened | None) -> bool:
    """Return whether ``event`` is the outcome of a refused copy whose sender heard of the refusal.

    A publisher gets a basic.nack; the queue that holds an at-least-once dead letter sends it again.
    """
    if before is None or not follows(event, before):
        return False
    return before.event == Event.DEFERRED or (before.event == Event.NACKED and before.reason is None)


def silent_loss(event: Happened, before: Happened | None) -> bool:
    """Return whether ``event`` lost a copy of a message without its sender hearing of it.

    ``before`` is the event just before, of any message or of this one. A publish that no
    queue takes is not one of them, since its publisher can know; it is if an exchange delayed it.
    """
    if event.queue is None and event.event != Event.DROPPED:
        return False
    return event.event in LOSSES and not sender_knows(event, before)


def copies_added(event: Happened, before: Happened | None) -> int:
    """Return how many copies more the queue of ``event`` has after it: 1, 0 or -1.

    ``before`` is the event just before, of any message or of this one. A stream keeps
    what it has, whatever is read from it.
    """
    kind = event.event
    if kind in _ENTERS:
        return 1
    if kind in _LEAVES:
        return -1
    if kind == _REQUEUED:  # with the reason of a death it had left: its queue crashed over it
        return int(event.reason in REASONS)
    return -1 if kind in _NO_LONGER_HELD and not follows(event, before) else 0  # it was held


def delays_added(event: Happened) -> int:
    """Return how many copies more exchanges delay after an event: 1, 0 or -1."""
    return _WAITS.get(event.event, 0)


def silent_losses(events: Sequence[Happened]) -> list[Happened]:
    """Return the events of one message that lost a copy of it without its sender hearing of it, the oldest first."""
    return [event for event, before in zip(events, (None, *events), strict=False) if silent_loss(event, before)]


def losses(events: Sequence[Happened]) -> list[Happened]:
    """Return the events of one message that lost a copy of it, the oldest first.

    A refused publish is one of them, unless the queue dead-lettered it instead.
    """
    found = []
    for event, after in zip(events, (*events[1:], None), strict=True):
        refused = event.event == Event.NACKED and event.reason is None
        if event.event in LOSSES or (refused and not (after and follows(after, event))):
            found.append(event)
    return found
