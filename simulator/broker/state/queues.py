"""Queues: the declaration, the messages, the consumers and the dead messages that wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from dlx.bounded_cache import BoundedCache
from dlx.dead_lettering import DeadLetter
from dlx.message import Message
from dlx.settings import Settings
from dlx.topology import CLASSIC, QUORUM, STREAM, Queue
from simulator.broker.copies import Copy
from simulator.broker.state.virtual_hosts import Counters
from simulator.broker.stores.store import Store

if TYPE_CHECKING:
    from dlx.releases import Release
    from simulator.broker.state.clients import Connection, Consumer
    from simulator.broker.state.virtual_hosts import VirtualHost


QUORUM_TICK_US = 5_000_000  # quorum_tick_interval
_ELECTION_US = 5_000  # what a new quorum queue takes for its leader; 2 ms to 150 ms were seen, as the disk allows


class Pending(msgspec.Struct, eq=False):
    """A dead message held until every queue it is for has taken it; ``reached`` have already.

    ``letter`` becomes the dead letter when the worker takes it in hand, and keeps the
    routing ``keys`` it died with. Purged ones are no longer ``counted``.
    """

    copy: Copy
    reason: str
    letter: Message
    keys: tuple[str, ...] = ()
    reached: set[str] = msgspec.field(default_factory=set)
    published_us: int | None = None
    counted: bool = True


@dataclass(slots=True, eq=False, repr=False)
class QueueState:
    """One queue: its declaration, its effective settings, its ready messages and its consumers.

    ``consumers`` are all, in order of subscription; ``active`` those that may take a
    message, in the order in which they are served, ``blocked`` those whose prefetch
    is used up, ``cancelled`` those that have gone and left deliveries unacknowledged.
    ``unacked`` counts the unacknowledged deliveries, ``unacked_gets`` those to basic.get. ``discards`` are
    dead messages that at-least-once dead-lettering holds, ``in_hand`` those that its
    worker has taken. ``due_us`` is when the store is looked after next,
    ``unused_due_us`` when it is looked whether the queue has been unused too long, ``created_us`` when it was declared;
    ``crashed``: another is about to take its place; ``policies_as_declared``: no policy has changed since;
    ``letters`` remembers the dead letters of messages that look alike.
    """

    definition: Queue
    vhost: VirtualHost
    settings: Settings
    store: Store
    owner: Connection | None = None
    consumers: list[Consumer] = field(default_factory=list)
    active: deque[Consumer] = field(default_factory=deque)
    single_active: bool = False
    active_single: Consumer | None = None
    exclusive_consumer: Consumer | None = None
    blocked: list[Consumer] = field(default_factory=list)
    unacked: int = 0
    unacked_gets: int = 0
    cancelled: set[Consumer] = field(default_factory=set)
    unacked_bytes: int = 0
    discards: deque[Pending] = field(default_factory=deque)
    in_hand: list[Pending] = field(default_factory=list)
    retrying: bool = False
    had_consumers: bool = False
    created_us: int = 0
    unused_since_us: int = 0
    unused_due_us: int | None = None
    due_us: int | None = None
    deleted: bool = False
    crashed: bool = False
    policies_as_declared: bool = True
    letters: BoundedCache[Any, tuple[Message, DeadLetter]] = field(default_factory=BoundedCache)
    counters: Counters = field(default_factory=Counters)

    @property
    def name(self) -> str:
        """The queue's name."""
        return self.definition.name

    @property
    def messages_ready(self) -> int:
        """How many messages may be delivered."""
        return self.store.ready

    def held(self) -> Iterator[Copy]:
        """Yield the messages in it: ready, waiting for a delayed retry, or dead and not yet arrived elsewhere."""
        yield from self.store.waiting()
        yield from (pending.copy for pending in (*self.in_hand, *self.discards))

    @property
    def in_use(self) -> bool:
        """Whether x-expires has to wait; a quorum queue also waits for deliveries of consumers that are gone."""
        if self.consumers:
            return True
        return self.definition.type == QUORUM and bool(self.unacked_gets or self.cancelled)

    def keeps_over_crash(self, copy: Copy) -> bool:
        """Whether a classic queue still has the message when its process is started again."""
        durable = self.definition.type == CLASSIC and self.definition.durable and self.owner is None
        return durable and copy.message.properties.get("delivery_mode") == 2

    def looks_at_expiry_us(self, due_us: int, release: Release) -> int:
        """Return when a queue whose x-expires ends at ``due_us`` looks at it: a quorum queue at its next tick.

        Source: rabbit_fifo.erl tick; ra_server_proc.erl, which sets the first tick when the queue starts.
        """
        if self.definition.type != QUORUM:
            return due_us
        elected_us = self.created_us + _ELECTION_US
        if release.quorum_first_tick == "once elected" and due_us < elected_us:
            return elected_us
        ticks = -(-(due_us - self.created_us) // QUORUM_TICK_US)
        return self.created_us + max(ticks, 1) * QUORUM_TICK_US

    @property
    def messages(self) -> int:
        """Ready, unacknowledged, delayed and pending ones together."""
        if self.definition.type == STREAM:
            return self.store.total
        return self.store.total + self.unacked + self.store.pending
