"""The one vocabulary of events: what a broker does, what a capture holds, what a replay reads.

A captured trace holds only ``PUBLISHED`` and ``DELIVERED``, a recorded consumer adds
``ACKED``, ``REJECTED`` and ``REQUEUED``; the others happen inside the broker and are
simulated or inferred.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


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
    UNROUTABLE = "unroutable", "No queue was bound for the message: it is gone."
    RETURNED = "returned", "An unroutable mandatory message went back to its publisher."
    CONFIRMED = "confirmed", "The broker confirmed the publish."
    NACKED = "nacked", "A full queue refused the message; a dead letter has the reason maxlen."
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
    DROPPED = "dropped", "The dead message had nowhere to go: it is gone."
    PURGED = "purged", "The queue was purged, deleted or expired with the message in it."


class Happened(msgspec.Struct, gc=False, kw_only=True):
    """One thing that happened to one message, or to one copy of it in one queue.

    ``time_us`` is microseconds since 1970; ``uid`` the number of the published
    message, which all its copies and dead letters share. ``reason`` is a reason of
    death (``expired``) where there is one; ``detail`` says the rest in words.
    """

    event: Event
    time_us: int
    vhost: str
    uid: int
    queue: str | None = None
    exchange: str | None = None
    routing_keys: tuple[str, ...] = ()
    reason: str | None = None
    detail: str = ""
