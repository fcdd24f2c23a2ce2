"""The state of one node: its objects, its deadlines and its replies.

The methods touch nothing but this state: they number and name things, look them up,
set deadlines and note what happened. ``operations`` carries out commands.
"""

from __future__ import annotations

import base64
import hashlib
import math
import random
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import msgspec

from dlx import amqp_errors, operator_errors
from dlx.delays import Delay, delays_text
from dlx.message import Message
from dlx.releases import Release
from dlx.server_plugins import types_of
from simulator.broker.commands import ChannelId
from simulator.broker.copies import Copy
from simulator.broker.effects import Effect, Shovelled, ShovelLost
from simulator.broker.replies import ChannelClosed, ConnectionClosed, ConsumerCancelled, Delivered, Reply
from simulator.broker.state.clients import Channel, Connection, Permissions, User
from simulator.broker.state.queues import QueueState
from simulator.broker.state.virtual_hosts import Counters, VirtualHost
from simulator.deadlines import Deadlines
from simulator.events import Event, Happened

# What a node counts of all its messages, whatever becomes of the queues and exchanges that they went through.


@dataclass(slots=True)
class GlobalCounters:
    """The counts since the node started.

    ``dead_letters`` are by reason, queue type and strategy (``dlx.global_counters.Account``).
    Deliveries are counted at their queues; ``gone`` has, by queue type, those of queues
    that are deleted, and under ``volatile`` the answers by direct reply-to.
    """

    received: int = 0
    received_confirm: int = 0
    routed: int = 0
    unroutable_dropped: int = 0
    unroutable_returned: int = 0
    confirmed: int = 0
    gone: dict[str, Counters] = field(default_factory=dict)
    dead_letters: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def died(self, reason: str, queue_type: str, strategy: str, count: int = 1) -> None:
        """Count deaths."""
        account = reason, queue_type, strategy
        self.dead_letters[account] = self.dead_letters.get(account, 0) + count

    def keep(self, queue_type: str, counters: Counters) -> None:
        """Keep the counts of a queue that is going."""
        kept = self.of_type(queue_type)
        for each in fields(Counters):
            setattr(kept, each.name, getattr(kept, each.name) + getattr(counters, each.name))

    def of_type(self, queue_type: str) -> Counters:
        """Return the kept counts of a type of queue."""
        return self.gone.setdefault(queue_type, Counters())


class DelayedMessage(msgspec.Struct, eq=False):
    """A message that an exchange delays, until ``due_us``: the exchange and its virtual host may be gone by then."""

    vhost: str
    delay: Delay
    body: bytes
    uid: int
    due_us: int


DueKind = Literal["queue", "unused", "retry", "acknowledgement", "delayed", "shovel", "agenda", "driver"]
"""What is due: to look after a queue or delete it unused, to send held messages again, to look at a channel's
unacknowledged deliveries, to route a delayed message, at a shovel, to go on with the agenda, or to remind the driver
of something of its own."""
Observer = Callable[[Happened, Message], None]
"""Takes each event as it comes, with the message as it was then."""


@dataclass(slots=True, eq=False, repr=False)
class NodeState:
    """All that one RabbitMQ node remembers.

    ``delayed`` are the messages that exchanges delay, by the names of virtual host and exchange.
    ``agenda`` is what operations set off and is not done yet, ``timers`` what will
    be due; ``out`` is what ``handle`` will return. ``plugins`` are enabled, by RabbitMQ's names.
    ``watched`` are the events with a listener, ``reported`` those that go to ``out``. ``until_us`` is how far the
    driver lets time go; ``overruns`` counts the instants in a row that had too much
    to do, ``resting`` says that the rest waits for its deadline. ``peers`` are the other servers that shovels reach,
    as ``HOST:PORT``. ``channel_tick_us`` is how often channels look whether
    a delivery is late, where they do (``channel_tick_interval``).
    """

    release: Release
    name: str
    max_message_size: int
    plugins: frozenset[str] = frozenset()
    peers: frozenset[str] = frozenset()
    now_us: int = 0
    channel_tick_us: int = 60_000_000
    vhosts: dict[str, VirtualHost] = field(default_factory=dict)
    users: dict[str, User] = field(default_factory=dict)
    global_parameters: dict[str, Any] = field(default_factory=dict)
    connections: dict[Hashable, Connection] = field(default_factory=dict)
    channels: dict[ChannelId, Channel] = field(default_factory=dict)
    reply_keys: dict[str, ChannelId] = field(default_factory=dict)
    counters: GlobalCounters = field(default_factory=GlobalCounters)
    delayed: dict[tuple[str, str], dict[DelayedMessage, None]] = field(default_factory=dict)
    timers: Deadlines[DueKind] = field(default_factory=Deadlines)
    agenda: deque[Effect] = field(default_factory=deque)
    out: list[Reply | Happened] = field(default_factory=list)
    watched: frozenset[Event] = frozenset()
    reported: frozenset[Event] = frozenset()
    observer: Observer | None = None
    hand_out_max: float = math.inf
    handed_out: int = 0
    until_us: int = 0
    overruns: int = 0
    resting: bool = False
    cut_short: bool = False
    last_uid: int = 0
    last_serial: int = 0
    last_name: int = 0
    random: random.Random = field(default_factory=lambda: random.Random(0))

    @property
    def cluster_name(self) -> str:
        """The name of the cluster: the node's own, unless an operator has set one."""
        name: str = self.global_parameters.get("cluster_name", self.name)
        return name

    @property
    def exchange_types(self) -> frozenset[str]:
        """The types that exchanges may have: the release's and the plugins'."""
        return self.release.exchange_types | types_of(self.plugins)

    # What happened

    def happened(
        self,
        event: Event,
        where: QueueState | VirtualHost,
        copy: Copy,
        *,
        reason: str | None = None,
        detail: str = "",
        more: Mapping[str, int] | None = None,
    ) -> None:
        """Report what happened to a copy. Ask ``watched`` first: most events have no listener.

        ``more`` are the headers that a queue adds to a delivery.
        """
        if isinstance(where, QueueState):
            vhost, queue = where.vhost.name, where.definition.name
        else:
            vhost, queue = where.name, None
        message = copy.message
        # By position: the fields' names would take a third longer.
        happened = Happened(
            event, self.now_us, vhost, copy.uid, "", queue, message.exchange, message.routing_keys, reason, detail, more
        )
        if self.observer is not None:
            self.observer(happened, message)
        if event in self.reported:
            self.out.append(happened)

    def send(self, channel: Channel, reply: Delivered | ConsumerCancelled | ChannelClosed | ConnectionClosed) -> None:
        """Send a client what it did not ask for. A shovel gets it when it is its turn."""
        shovel = channel.shovel
        if shovel is None:
            self.out.append(reply)
        elif isinstance(reply, Delivered):
            self.agenda.append(Shovelled(shovel.vhost, shovel, reply))
        else:
            self.agenda.append(ShovelLost(shovel.vhost, shovel))

    # Deadlines

    def delay(self, vhost: VirtualHost, delays: Iterable[Delay], body: bytes, uid: int) -> None:
        """Keep a message in each exchange that delays it."""
        for delay in delays:
            due_us = self.now_us + delay.delay_ms * 1_000
            waiting = DelayedMessage(vhost.name, delay, body, uid, due_us)
            self.delayed.setdefault((vhost.name, delay.exchange.name), {})[waiting] = None
            self.timers.set(due_us, "delayed", waiting)
            if Event.DELAYED in self.watched:
                self.happened(Event.DELAYED, vhost, Copy(uid, delay.message, body), detail=delays_text((delay,)))

    def used(self, queue: QueueState) -> None:
        """Count x-expires from now, unless there are consumers: the queue was used."""
        queue.unused_since_us = self.now_us
        self.expire_unused(queue)

    def expire_unused(self, queue: QueueState) -> None:
        """Have the queue deleted when it has been unused for as long as x-expires says."""
        expires_ms = queue.settings.expires_ms
        if expires_ms is not None and not queue.in_use and not queue.deleted:
            ends_us = max(queue.unused_since_us + expires_ms * 1_000, self.now_us)
            due_us = queue.looks_at_expiry_us(ends_us, self.release)
            if queue.unused_due_us is None or due_us < queue.unused_due_us:
                queue.unused_due_us = due_us
                self.timers.set(due_us, "unused", queue)

    def look_after(self, queue: QueueState) -> None:
        """Have the queue looked after when its next message expires or wakes."""
        due_us = queue.store.due_us()
        if due_us is not None and (queue.due_us is None or due_us < queue.due_us):
            queue.due_us = due_us = max(due_us, self.now_us)
            self.timers.set(due_us, "queue", queue)

    # Names and numbers

    def choose(self, count: int) -> int:
        """Return a random number below ``count``; every run gets the same numbers."""
        return self.random.randrange(count)

    def next_serial(self) -> int:
        """Return a number for a channel or consumer; later ones are larger."""
        self.last_serial += 1
        return self.last_serial

    def generated_name(self, prefix: str) -> str:
        """Return a name such as ``amq.gen-JzTY20BRgKO-HjmUJj0wLg``; the same ones in every run."""
        self.last_name += 1
        digest = hashlib.blake2b(f"{prefix}{self.last_name}".encode(), digest_size=16).digest()
        return f"{prefix}-{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"

    # Who and where

    def channel(self, key: ChannelId) -> Channel:
        """Return the open channel; a method on one that is not open ends the connection (``Refusal`` 504)."""
        found = self.channels.get(key)
        if found is None:
            raise amqp_errors.channel_not_open()
        found.wake(self.now_us)
        return found

    def known_vhost(self, name: str) -> VirtualHost:
        """Return the virtual host that an operator names. Raises ``OperatorError`` 404."""
        vhost = self.vhosts.get(name)
        if vhost is None:
            raise operator_errors.no_vhost(name)
        return vhost

    def known_user(self, name: str) -> User:
        """Return the user that an operator names. Raises ``OperatorError`` 404."""
        user = self.users.get(name)
        if user is None:
            raise operator_errors.no_user(name)
        return user

    def queue(self, vhost: str, name: str) -> QueueState | None:
        """Return the queue of that name, or ``None`` if it does not exist."""
        host = self.vhosts.get(vhost)
        return None if host is None else host.queues.get(name)

    def grant_everything(self, vhost: str) -> None:
        """Give the administrators all permissions in a virtual host that has just been created."""
        for user in self.users.values():
            if "administrator" in user.tags:
                user.permissions[vhost] = Permissions(".*", ".*", ".*")
