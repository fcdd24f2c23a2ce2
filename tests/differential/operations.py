"""What a script may do to a server: one small class for each operation, plain data whose ``repr`` can be pasted back.

A script is a list of operations, played one after another by ``player.play``: each has come to its end, with
everything that follows from it (deliveries, dead letters, confirms), before the next begins.

``channel`` names where an operation happens. The part before the slash is the connection: ``"a"`` and ``"a/2"`` are
two channels of connection ``a``, ``"b"`` is a channel of connection ``b``. Connections and channels open when they
are first used, and anew when they are used after they were closed.

Header and argument values are Python values or ``tests.vectors.amqp.Field`` for a type that Python has no word for,
such as ``Field("s", 5)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec

from tests import real_servers

VHOST = "{vhost}"


class Operation(msgspec.Struct, repr_omit_defaults=True):
    """The base of all operations. ``settles``: things may go on happening after its answer."""

    settles: ClassVar[bool] = True


class OnChannel(Operation, kw_only=True):
    """The base of those on a channel."""

    channel: str = "a"


# -- queues, exchanges, bindings


class DeclareQueue(OnChannel):
    """An empty name asks the server for one: call it ``amq.gen-1`` later, the second ``amq.gen-2``."""

    settles = False
    queue: str
    durable: bool = True
    exclusive: bool = False
    auto_delete: bool = False
    passive: bool = False
    arguments: dict[str, Any] = {}


class DeleteQueue(OnChannel):
    queue: str
    if_unused: bool = False
    if_empty: bool = False


class PurgeQueue(OnChannel):
    queue: str


class DeclareExchange(OnChannel):
    settles = False
    exchange: str
    type: str = "fanout"
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    passive: bool = False
    arguments: dict[str, Any] = {}


class DeleteExchange(OnChannel):
    exchange: str
    if_unused: bool = False


class Bind(OnChannel):
    """Bind a queue to an exchange."""

    settles = False
    exchange: str
    queue: str
    routing_key: str = ""
    arguments: dict[str, Any] = {}


class Unbind(OnChannel):
    exchange: str
    queue: str
    routing_key: str = ""
    arguments: dict[str, Any] = {}


class BindExchange(OnChannel):
    settles = False
    source: str
    destination: str
    routing_key: str = ""
    arguments: dict[str, Any] = {}


class UnbindExchange(OnChannel):
    source: str
    destination: str
    routing_key: str = ""
    arguments: dict[str, Any] = {}


# -- messages


class Publish(OnChannel):
    """``properties`` by their names in the protocol, without ``headers``, which ``None`` leaves out."""

    routing_key: str = ""
    exchange: str = ""
    body: str = "m"
    properties: dict[str, Any] = {}
    headers: dict[str, Any] | None = None
    mandatory: bool = False
    immediate: bool = False


class Get(OnChannel):
    queue: str
    no_ack: bool = False


class Consume(OnChannel):
    queue: str
    consumer_tag: str = ""
    no_ack: bool = False
    exclusive: bool = False
    no_local: bool = False
    arguments: dict[str, Any] = {}


class Cancel(OnChannel):
    consumer_tag: str


class Qos(OnChannel):
    prefetch_count: int
    global_: bool = False
    prefetch_size: int = 0


class Settlement(OnChannel, kw_only=True):
    """The base of the answers to a delivery.

    ``delivery`` counts what its channel received since it opened, by basic.get or to consumers: 0 is the first, -1
    the last. Nothing happens where there is none, or it has been answered. ``tag`` sends that delivery tag, whatever
    was received.
    """

    delivery: int = -1
    tag: int | None = None


class Ack(Settlement):
    multiple: bool = False


class Nack(Settlement):
    multiple: bool = False
    requeue: bool = True


class Reject(Settlement):
    requeue: bool = True


class Recover(OnChannel):
    requeue: bool = True


class SelectConfirms(OnChannel):
    """From here on the publishes of the channel are confirmed, and each waits for it."""

    settles = False


class SelectTransactions(OnChannel):
    settles = False


class Commit(OnChannel):
    pass


class Rollback(OnChannel):
    pass


class Burst(Operation):
    """Operations that the client does not wait between, all on one channel."""

    operations: tuple[OnChannel, ...]


class Send(OnChannel):
    """Any method of the protocol, by its name and its fields, without waiting for an answer.

    Not ``channel.flow`` with ``active``: the player sends that itself, to see that all has arrived.
    """

    method: str
    values: dict[str, Any] = {}


# -- connections and channels


class OpenChannel(OnChannel):
    """Only needed where the moment matters."""

    settles = False


class CloseChannel(OnChannel):
    pass


class OpenConnection(Operation):
    """Only needed for another user than the tests' own, or another password, or fewer capabilities."""

    settles = False
    connection: str
    user: str | None = None
    password: str | None = None
    capabilities: tuple[str, ...] | None = None


class CloseConnection(Operation):
    connection: str


class KillConnection(Operation):
    """Cut it without a word."""

    connection: str


# -- operators: the management API


class SetPolicy(Operation):
    name: str
    pattern: Any
    definition: dict[str, Any]
    priority: Any = 0
    apply_to: str = "all"
    operator: bool = False


class ClearPolicy(Operation):
    name: str
    operator: bool = False


class AddUser(Operation):
    """A user of this script alone, whose password is its name."""

    settles = False
    user: str
    tags: str = ""


class DeleteUser(Operation):
    user: str


class SetPermissions(Operation):
    """Regular expressions of what the user may configure, write and read."""

    settles = False
    user: str
    configure: str = ""
    write: str = ""
    read: str = ""


class ClearPermissions(Operation):
    settles = False
    user: str


class SetTopicPermissions(Operation):
    settles = False
    user: str
    exchange: str
    write: str = ""
    read: str = ""


class SetVhostLimit(Operation):
    """A limit of the virtual host, such as ``max-queues``."""

    settles = False
    name: str
    value: int


class SetUserLimit(Operation):
    """A limit of a user, such as ``max-channels``."""

    settles = False
    user: str
    name: str
    value: int


class Http(Operation):
    """Any request to the management API, below ``/api/``; ``VHOST`` in the path is the script's virtual host.

    The answer is noted: its status, and its body if it has one.
    """

    method: str
    path: tuple[str, ...]
    body: Any = None


class SetTracing(Operation):
    """The firehose of the virtual host, on or off."""

    active: bool = True


# -- time, and looking


class Wait(Operation):
    """Let time pass: by the clock of a simulator, really on a server."""

    ms: int


class Count(Operation):
    """Ready messages and consumers of a queue, as a passive declaration on a channel of its own says."""

    settles = False
    queue: str
    connection: str = "a"


class ShowQueue(Operation):
    """Fields that the management API shows of a queue, by itself and in a list, once it has all of them."""

    settles = False
    queue: str
    fields: tuple[str, ...] = ("arguments",)


class Drain(Operation):
    """Take and acknowledge all that a queue has ready, on a channel of its own."""

    queue: str
    connection: str = "a"


class ReadStream(Operation):
    """What a stream holds from ``offset`` on, on a channel of its own."""

    queue: str
    offset: Any = "first"
    connection: str = "a"


class Scenario(msgspec.Struct):
    """A named script. ``name`` is ``subject/what it shows``; ``releases``: where it makes sense."""

    name: str
    operations: tuple[Operation, ...]
    releases: tuple[str, ...] = real_servers.RECORDED


def flattened(operations: tuple[Operation, ...]) -> Iterator[Operation]:
    """The operations with those of bursts one by one."""
    for operation in operations:
        if isinstance(operation, Burst):
            yield from operation.operations
        else:
            yield operation
