"""What the broker remembers, as plain data: users, virtual hosts, queues, connections, channels, consumers.

Nothing here decides anything. The management API reads it; only the broker's own
modules change it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dlx.dead_lettering import DeadLetter
from dlx.message import Message
from dlx.settings import Settings
from dlx.topology import QUORUM, STREAM, Binding, Exchange, Policy, Queue, Topology
from simulator.broker.commands import ChannelId
from simulator.broker.copies import Copy
from simulator.broker.stores.store import Store


@dataclass(slots=True)
class Permissions:
    """Regular expressions of the names a user may configure, write and read in one virtual host."""

    configure: str
    write: str
    read: str


@dataclass(slots=True)
class User:
    """A user. ``topic_permissions`` are (write, read) by (virtual host, exchange)."""

    name: str
    password: str
    tags: tuple[str, ...] = ()
    permissions: dict[str, Permissions] = field(default_factory=dict)
    topic_permissions: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Consumer:
    """A subscription of a channel to a queue.

    ``serial`` ascends with subscriptions; ``unacked`` counts its own deliveries.
    ``extra_prefetch``: how many more than its prefetch it may have for now;
    ``timeout_ms``: how long its acknowledgements are waited for;
    ``quiescing``: a single active consumer that another replaces once it has none;
    ``timed_out``: how many of its deliveries went back to the queue for want of an
    acknowledgement; ``offset``: of the next message of a stream.
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


@dataclass(slots=True, eq=False)
class Unacked:
    """A delivery that waits for its acknowledgement; ``consumer`` is ``None`` for basic.get.

    ``timeout_ms``: how long its queue waits, where queues do.
    """

    copy: Copy
    queue: QueueState
    consumer: Consumer | None
    delivered_us: int
    timeout_ms: int | None
    timed_out: bool = False


@dataclass(slots=True, eq=False)
class Channel:
    """One channel.

    ``unacked`` are its deliveries by tag, ascending; ``pending_tx`` what a commit
    will do. ``allowed`` remembers which permissions were checked, ``publishes`` what
    became of publishes that looked alike.
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
    transactional: bool = False
    pending_tx: list[Any] = field(default_factory=list)
    last_queue: str = ""
    reply_consumer: str | None = None
    reply_key: str = ""
    allowed: set[tuple[str, str, str]] = field(default_factory=set)
    publishes: dict[Any, Any] = field(default_factory=dict)
    timeout_due_us: int | None = None

    @property
    def number(self) -> int:
        """The channel's number in its connection."""
        return self.id[1]


@dataclass(slots=True, eq=False)
class Connection:
    """One connection. ``paused``: the client does not read, so its consumers get nothing."""

    id: Hashable
    vhost: VirtualHost
    user: User
    name: str
    client_properties: Mapping[str, Any]
    connected_us: int
    channels: dict[int, Channel] = field(default_factory=dict)
    exclusive_queues: dict[str, QueueState] = field(default_factory=dict)
    paused: bool = False


@dataclass(slots=True)
class Counters:
    """What the management API calls message_stats, since the broker started.

    ``publish_out`` is an exchange's: how many times a publish to it entered a queue.
    """

    publish: int = 0
    publish_out: int = 0
    deliver: int = 0
    deliver_no_ack: int = 0
    get: int = 0
    get_no_ack: int = 0
    get_empty: int = 0
    ack: int = 0
    redeliver: int = 0
    confirm: int = 0
    return_unroutable: int = 0
    drop_unroutable: int = 0


@dataclass(slots=True, eq=False)
class Pending:
    """A dead message held until every queue it is for has taken it; ``reached`` have already.

    ``letter`` becomes the dead letter when the worker takes it in hand, and keeps the
    routing ``keys`` it died with. Purged ones are no longer ``counted``.
    """

    copy: Copy
    reason: str
    letter: Message
    keys: tuple[str, ...] = ()
    reached: set[str] = field(default_factory=set)
    published_us: int | None = None
    counted: bool = True


@dataclass(slots=True, eq=False)
class QueueState:
    """One queue: its declaration, its effective settings, its ready messages and its consumers.

    ``consumers`` are all, in order of subscription; ``active`` those that may take a
    message, in the order in which they are served, ``blocked`` those whose prefetch
    is used up, ``cancelled`` those that are gone but for their deliveries. ``unacked``
    counts deliveries that wait, ``unacked_gets`` those to basic.get. ``discards`` are
    dead messages that at-least-once dead-lettering holds, ``in_hand`` those that its
    worker has taken. ``due_us`` is when the store is looked after next,
    ``unused_due_us`` when it is looked whether the queue has been unused too long;
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
    unused_since_us: int = 0
    unused_due_us: int | None = None
    due_us: int | None = None
    deleted: bool = False
    letters: dict[Any, tuple[Message, DeadLetter]] = field(default_factory=dict)
    counters: Counters = field(default_factory=Counters)

    @property
    def name(self) -> str:
        """The queue's name."""
        return self.definition.name

    @property
    def messages_ready(self) -> int:
        """How many messages may be delivered."""
        return self.store.ready

    @property
    def in_use(self) -> bool:
        """Whether x-expires has to wait; a quorum queue also waits for deliveries that nobody consumes any more."""
        lingering = self.definition.type == QUORUM and (self.unacked_gets or self.cancelled)
        return bool(self.consumers or lingering)

    @property
    def messages(self) -> int:
        """Ready, unacknowledged, delayed and pending ones together."""
        if self.definition.type == STREAM:
            return self.store.total
        return self.store.total + self.unacked + self.store.pending


@dataclass(slots=True, eq=False)
class VirtualHost:
    """One virtual host.

    ``topology`` shows the rules the same dictionaries (``definitions`` are its queues);
    it is made anew when policies change. ``generation`` counts what changes routes,
    settings or permissions, so that whoever remembers a result knows it is stale.
    """

    name: str
    default_queue_type: str | None = None
    description: str = ""
    tags: tuple[str, ...] = ()
    exchanges: dict[str, Exchange] = field(default_factory=dict)
    bindings: dict[str, tuple[Binding, ...]] = field(default_factory=dict)
    queues: dict[str, QueueState] = field(default_factory=dict)
    policies: dict[str, Policy] = field(default_factory=dict)
    operator_policies: dict[str, Policy] = field(default_factory=dict)
    parameters: list[dict[str, Any]] = field(default_factory=list)
    tracing: bool = False
    routes_at_random: bool = False
    definitions: dict[str, Queue] = field(default_factory=dict)
    topology: Topology = field(default_factory=Topology)
    generation: int = 0
    exchange_counters: dict[str, Counters] = field(default_factory=dict)
