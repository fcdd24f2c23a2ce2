"""Where a broker keeps messages for consumers: a queue, or one subscription to a topic."""

from __future__ import annotations

from collections import deque
from typing import Protocol

import msgspec

from dlx.activemq.destinations import Destination
from dlx.activemq.messages import Message
from dlx.activemq.settings import DestinationPolicy


class Held(msgspec.Struct, eq=False):
    """A message in one store, with what the broker knows of it.

    ``counter``: how often it was delivered again; ``sequence``: the broker's number of it.
    """

    message: Message
    sequence: int
    counter: int = 0


class Receiver(Protocol):
    """A consumer, as the broker sees it."""

    name: str
    destination: Destination
    prefetch: int

    @property
    def unread(self) -> int:
        """How many messages it has and has not read."""

    def dispatched(self, held: Held, store: Store) -> None:
        """Take a message."""


class Attached(msgspec.Struct, eq=False):
    """A consumer of a store, and what the broker has given it and not had back, in that order."""

    receiver: Receiver
    dispatched: list[Held] = []


class Store(msgspec.Struct, eq=False, kw_only=True):
    """A queue; or, with a ``topic_subscriber``, one subscription to a topic.

    Attributes:
        destination: the queue, or what the subscription is to, which may be a pattern.
        policy: of the destination.
        created_ms: since when the broker looks for expired messages.
        durable_key: ``clientId:subscription`` of a durable subscription.
        topic_subscriber: whether it is a subscription.
        waiting: messages that no consumer has.
        attached: its consumers; the next message goes to the first that has room, who then comes last.
        dispatching: whether messages are being given out right now.
        sweep_due_ms: when the broker next looks for expired messages.
    """

    destination: Destination
    policy: DestinationPolicy
    created_ms: int
    durable_key: str | None = None
    topic_subscriber: bool = False
    waiting: deque[Held] = msgspec.field(default_factory=deque)
    attached: list[Attached] = []
    dispatching: bool = False
    sweep_due_ms: int | None = None

    def attachment(self, receiver: Receiver) -> Attached | None:
        """Return what the broker knows of a consumer here; ``None`` if it is not attached."""
        return next((each for each in self.attached if each.receiver is receiver), None)

    @property
    def depth(self) -> int:
        """How many messages it holds, those included that consumers have."""
        return len(self.waiting) + sum(len(each.dispatched) for each in self.attached)

    @property
    def held(self) -> list[Held]:
        """All that it holds, in the order in which the broker took it."""
        given = [held for each in self.attached for held in each.dispatched]
        return sorted([*self.waiting, *given], key=lambda held: held.sequence)
