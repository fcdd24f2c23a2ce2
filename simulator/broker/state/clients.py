"""Clients: users, connections, channels, consumers, transactions, and deliveries that are not acknowledged."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from dlx.bounded_cache import BoundedCache
from dlx.delays import Delay
from dlx.message import Message
from dlx.message_filters import Expression
from dlx.passwords import NO_PASSWORD, SHA256
from simulator.broker.commands import ChannelId
from simulator.broker.copies import Copy

if TYPE_CHECKING:
    from simulator.broker.state.queues import QueueState
    from simulator.broker.state.virtual_hosts import Counters, Shovel, VirtualHost


# The contents of a transaction until its commit: publishes that were checked, deliveries that were settled.


Settled = tuple[int, "Unacked"]
"""A delivery, with its delivery tag."""


class Route(msgspec.Struct, gc=False):
    """A checked publish: the message, the queues it goes to, and what delays it.

    ``properties`` keeps its identity alive.
    """

    generation: int
    properties: Mapping[str, Any]
    message: Message
    queues: tuple[str, ...]
    counters: Counters
    delays: tuple[Delay, ...] = ()


class Publishing(msgspec.Struct):
    """One publish that waits for the commit of its transaction; ``types`` are those of the queues on its route."""

    route: Route
    types: tuple[str, ...]
    body: bytes
    uid: int
    mandatory: bool


class Settling(msgspec.Struct):
    """Deliveries that are settled together; ``how`` is ``ack`` or a kind of return."""

    how: str
    requeue: bool
    settled: list[Settled]


# Users, and what they may do in each virtual host.


class Permissions(msgspec.Struct):
    """Regular expressions of the names a user may configure, write and read in one virtual host."""

    configure: str
    write: str
    read: str


class User(msgspec.Struct):
    """A user. ``topic_permissions`` are (write, read) by (virtual host, exchange).

    ``password_hash`` is salt and hash by ``hashing_algorithm`` (``dlx.passwords``).
    """

    name: str
    password_hash: bytes = NO_PASSWORD
    hashing_algorithm: str = SHA256
    tags: tuple[str, ...] = ()
    permissions: dict[str, Permissions] = msgspec.field(default_factory=dict)
    topic_permissions: dict[tuple[str, str], tuple[str, str]] = msgspec.field(default_factory=dict)
    limits: dict[str, int] = msgspec.field(default_factory=dict)

    def may_send_as(self, name: Any) -> bool:
        """Return whether the user may publish with that property ``user_id``. Source: rabbit_access_control.erl."""
        return bool(name == self.name) or "impersonator" in self.tags


_HIBERNATES_AFTER_US = 1_000_000  # the first time; then a server takes longer, by chance
_REMEMBERED = 12


class Connection(msgspec.Struct, eq=False):
    """One connection. ``paused``: the client does not read, so its consumers get nothing.

    ``limited``: limits of connections and channels count it.
    """

    id: Hashable
    vhost: VirtualHost
    user: User
    name: str
    client_properties: Mapping[str, Any]
    connected_us: int
    channels: dict[int, Channel] = msgspec.field(default_factory=dict)
    exclusive_queues: dict[str, QueueState] = msgspec.field(default_factory=dict)
    paused: bool = False
    limited: bool = True

    @property
    def is_shovels(self) -> bool:
        """Whether a shovel opened it, and no client."""
        return any(channel.shovel is not None for channel in self.channels.values())


@dataclass(slots=True, eq=False, repr=False)
class Channel:
    """One channel.

    ``unacked`` are its deliveries by tag, ascending; ``pending_tx`` what a commit
    will do. ``allowed`` and ``allowed_topics`` are the last permissions that it found,
    the oldest first: as long as it remembers one, it does not ask again.
    ``permissions_changed``: some are others since it last forgot; ``awake_us``: when it
    last had something to do; ``returned``: how many unroutable messages came back to it; ``shovel``: whose it is.
    ``publishes`` remembers what became of publishes that looked alike; ``queues_of_links`` are those that a session of
    AMQP 1.0 has sent to or consumed, by name; ``failed``: it came upon a message that it cannot write.

    Source: rabbit_channel.erl check_resource_access, check_topic_authorisation,
    handle_pre_hibernate; ``?MAX_PERMISSION_CACHE_SIZE``, ``?HIBERNATE_AFTER_MIN``.
    """

    id: ChannelId
    connection: Connection
    serial: int
    opened_us: int
    next_delivery_tag: int = 1
    unacked: dict[int, Unacked] = field(default_factory=dict)
    consumers: dict[str, Consumer] = field(default_factory=dict)
    prefetch: int = 0
    global_prefetch: int = 0
    global_unacked: int = 0
    turn: int = 0
    confirms: bool = False
    next_publish: int = 1
    returned: int = 0
    transactional: bool = False
    pending_tx: list[Publishing | Settling] = field(default_factory=list)
    last_queue: str = ""
    reply_consumer: str | None = None
    reply_key: str = ""
    allowed: dict[tuple[str, str, str], None] = field(default_factory=dict)
    allowed_topics: dict[tuple[str, str, str], None] = field(default_factory=dict)
    permissions_changed: bool = False
    awake_us: int = 0
    publishes: BoundedCache[Any, Any] = field(default_factory=BoundedCache)
    timeout_due_us: int | None = None
    shovel: Shovel | None = None
    queues_of_links: dict[str, None] = field(default_factory=dict)
    failed: bool = False

    @property
    def number(self) -> int:
        """The channel's number in its connection."""
        return self.id[1]

    def wake(self, now_us: int) -> None:
        """Have something to do. After a second without, a channel hibernates, and forgets what it was allowed."""
        if now_us - self.awake_us > _HIBERNATES_AFTER_US:
            self.allowed.clear()
            self.allowed_topics.clear()
            self._forget_publishes()
            self.permissions_changed = False
        self.awake_us = now_us

    def remember(self, allowed: dict[tuple[str, str, str], None], key: tuple[str, str, str]) -> None:
        """Add to ``allowed`` or ``allowed_topics``, of which the oldest makes room."""
        if len(allowed) == _REMEMBERED:
            del allowed[next(iter(allowed))]
            self._forget_publishes()
        allowed[key] = None

    def _forget_publishes(self) -> None:
        if self.permissions_changed:
            self.publishes.clear()

    def uncommitted(self) -> list[Settled]:
        """Return the deliveries that are settled in the open transaction."""
        return [item for pending in self.pending_tx if isinstance(pending, Settling) for item in pending.settled]


@dataclass(slots=True, eq=False, repr=False)
class Consumer:
    """A subscription of a channel to a queue.

    ``serial`` ascends with subscriptions; ``unacked`` counts its own deliveries.
    ``extra_prefetch``: how many more than its prefetch it may have for now;
    ``timeout_ms``: how long its acknowledgements are waited for;
    ``quiescing``: a single active consumer that another replaces once its deliveries are settled;
    ``timed_out``: how many of its deliveries went back to the queue for want of an
    acknowledgement; ``offset``: of the next message of a stream;
    ``credit``: how many messages a link of AMQP 1.0 may take, ``None`` for other consumers;
    ``filter``: what such a link wants of a stream.
    """

    tag: str
    channel: Channel
    queue: QueueState
    serial: int = 0
    no_ack: bool = False
    exclusive: bool = False
    prefetch: int = 0
    extra_prefetch: int = 0
    priority: int = 0
    arguments: Mapping[str, Any] = field(default_factory=dict)
    timeout_ms: int | None = None
    unacked: int = 0
    quiescing: bool = False
    timed_out: int = 0
    offset: int = 0
    credit: int | None = None
    filter: Expression | None = None


class Unacked(msgspec.Struct, eq=False):
    """A delivery that waits for its acknowledgement; ``consumer`` is ``None`` for basic.get.

    ``timeout_ms``: how long its queue waits, where queues do.
    """

    copy: Copy
    queue: QueueState
    consumer: Consumer | None
    delivered_us: int
    timeout_ms: int | None
    timed_out: bool = False
