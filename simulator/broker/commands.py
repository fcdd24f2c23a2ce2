"""The commands that clients and operators give the broker, one class for each.

Client commands carry ``channel``, the pair (connection, channel number); the driver
chooses the connection's identity, any hashable value. Answers come back as
``simulator.broker.replies`` on the same channel. A refused command closes its
channel or connection, as RabbitMQ does; operator commands raise instead.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Literal

import msgspec

from dlx.message import Amqp10
from dlx.message_filters import Expression
from dlx.topology import Policy

ChannelId = tuple[Hashable, int]
Properties = Mapping[str, Any]
_NOTHING: Mapping[str, Any] = {}


class Command(msgspec.Struct):
    """The base of all commands."""


# Connections and channels


class OpenConnection(Command):
    """A client connected. ``name`` is such as ``127.0.0.1:50000 -> 127.0.0.1:5672``.

    Authentication is the driver's (``Broker.authenticated``); access to the virtual host is checked here.
    ``limited`` is false for what RabbitMQ does without a connection: limits do not apply.
    """

    connection: Hashable
    vhost: str = "/"
    user: str = "guest"
    name: str = ""
    client_properties: Mapping[str, Any] = _NOTHING
    limited: bool = True


class CloseConnection(Command):
    """The connection ended, by agreement or not: queues see no difference."""

    connection: Hashable


class OpenChannel(Command):
    channel: ChannelId


class CloseChannel(Command):
    channel: ChannelId


class PauseDeliveries(Command):
    """The client does not read what it was sent: its consumers take nothing more until resumed."""

    connection: Hashable


class ResumeDeliveries(Command):
    connection: Hashable


class SetFlow(Command):
    """``channel.flow``."""

    channel: ChannelId
    active: bool


# Exchanges, queues, bindings


class DeclareExchange(Command, kw_only=True):
    channel: ChannelId
    exchange: str
    type: str = "direct"
    passive: bool = False
    durable: bool = False
    auto_delete: bool = False
    internal: bool = False
    arguments: Mapping[str, Any] = _NOTHING


class DeleteExchange(Command):
    channel: ChannelId
    exchange: str
    if_unused: bool = False


class BindExchange(Command):
    channel: ChannelId
    destination: str
    source: str
    routing_key: str = ""
    arguments: Mapping[str, Any] = _NOTHING


class UnbindExchange(Command):
    channel: ChannelId
    destination: str
    source: str
    routing_key: str = ""
    arguments: Mapping[str, Any] = _NOTHING


class DeclareQueue(Command, kw_only=True):
    """An empty name asks the broker for one.

    An exclusive queue is not durable, unless ``durable_if_exclusive``: AMQP 0-9-1 leaves it out, AMQP 1.0 does not.
    """

    channel: ChannelId
    queue: str = ""
    passive: bool = False
    durable: bool = False
    exclusive: bool = False
    durable_if_exclusive: bool = False
    auto_delete: bool = False
    arguments: Mapping[str, Any] = _NOTHING

    @property
    def is_durable(self) -> bool:
        """Whether the queue will be durable."""
        return self.durable and (self.durable_if_exclusive or not self.exclusive)


class BindQueue(Command):
    """An empty queue name means the queue last declared on the channel, here and elsewhere."""

    channel: ChannelId
    queue: str
    exchange: str
    routing_key: str = ""
    arguments: Mapping[str, Any] = _NOTHING


class UnbindQueue(Command):
    channel: ChannelId
    queue: str
    exchange: str
    routing_key: str = ""
    arguments: Mapping[str, Any] = _NOTHING


class PurgeQueue(Command):
    channel: ChannelId
    queue: str


class DeleteQueue(Command):
    channel: ChannelId
    queue: str
    if_unused: bool = False
    if_empty: bool = False


class CheckTarget(Command):
    """A link of AMQP 1.0 will publish to the exchange: it has to be there, and the user has to have the permission."""

    channel: ChannelId
    exchange: str


# Messages


class Publish(Command):
    """``properties``: the basic properties by their names in the protocol, ``headers`` among them.

    ``encoded``: whether the broker got the headers as bytes from a client, and not from a part of the server itself.
    ``amqp10``: the message as a client of AMQP 1.0 sent it.
    Do not change ``properties`` afterwards: the broker remembers what it made of them.
    """

    channel: ChannelId
    exchange: str
    routing_key: str
    properties: Properties = _NOTHING
    body: bytes = b""
    mandatory: bool = False
    immediate: bool = False
    encoded: bool = True
    amqp10: Amqp10 | None = None


class Qos(Command):
    channel: ChannelId
    prefetch_count: int
    global_: bool = False
    prefetch_size: int = 0


class Consume(Command, kw_only=True):
    """``credited``: the consumer is a link of AMQP 1.0, which gets nothing before ``GrantCredit``.

    ``filter``: what it wants of a stream (``dlx.message_filters``).
    """

    channel: ChannelId
    queue: str
    consumer_tag: str = ""
    no_local: bool = False
    no_ack: bool = False
    exclusive: bool = False
    arguments: Mapping[str, Any] = _NOTHING
    credited: bool = False
    filter: Expression | None = None


class GrantCredit(Command):
    """A link of AMQP 1.0 may take ``credit`` messages from now on, and gives back what is left of it if it drains."""

    channel: ChannelId
    consumer_tag: str
    credit: int
    drain: bool = False


class Cancel(Command):
    channel: ChannelId
    consumer_tag: str


class DetachLink(Command):
    """A link of AMQP 1.0 from a queue is detached: what it has not settled goes back at once."""

    channel: ChannelId
    consumer_tag: str


class Get(Command):
    channel: ChannelId
    queue: str
    no_ack: bool = False


class Ack(Command):
    channel: ChannelId
    delivery_tag: int
    multiple: bool = False


class Reject(Command):
    channel: ChannelId
    delivery_tag: int
    requeue: bool = True


class Nack(Command):
    channel: ChannelId
    delivery_tag: int
    multiple: bool = False
    requeue: bool = True


Outcome = Literal["accepted", "rejected", "released", "modified"]


class Settle(Command):
    """Deliveries to a client of AMQP 1.0 have an outcome, those of one disposition together.

    ``delivery_failed``, ``undeliverable_here`` and ``annotations`` are those of ``modified``.
    """

    channel: ChannelId
    delivery_tags: tuple[int, ...]
    outcome: Outcome
    delivery_failed: bool = False
    undeliverable_here: bool = False
    annotations: Mapping[str, Any] = _NOTHING


class Recover(Command):
    channel: ChannelId
    requeue: bool = True


class SelectConfirms(Command):
    channel: ChannelId


class SelectTransactions(Command):
    channel: ChannelId


class Commit(Command):
    channel: ChannelId


class Rollback(Command):
    channel: ChannelId


# Operators. These raise simulator.OperatorError where RabbitMQ refuses.


class AddVhost(Command):
    """``user`` creates it over HTTP, and may do everything in it."""

    name: str
    default_queue_type: str | None = None
    description: str = ""
    tags: tuple[str, ...] = ()
    user: str | None = None


class DeleteVhost(Command):
    name: str


class AddUser(Command):
    """``tags`` such as ``("administrator",)``."""

    name: str
    password: str
    tags: tuple[str, ...] = ()


class PutUser(Command):
    """A user as the management API and definitions describe it (plain JSON values).

    ``version`` is that of the server that wrote the description, where it is known.
    """

    name: str
    description: Mapping[str, Any]
    version: str | None = None


class DeleteUser(Command):
    name: str


class SetPermissions(Command):
    """Regular expressions of the names that the user may configure, write and read."""

    user: str
    vhost: str
    configure: str
    write: str
    read: str


class ClearPermissions(Command):
    user: str
    vhost: str


class SetTopicPermissions(Command):
    user: str
    vhost: str
    exchange: str
    write: str
    read: str


class ClearTopicPermissions(Command):
    user: str
    vhost: str
    exchange: str | None = None


class SetPolicy(Command):
    """Sets a policy, or with ``operator`` an operator policy, on the live queues of the virtual host."""

    vhost: str
    policy: Policy
    operator: bool = False


class ClearPolicy(Command):
    vhost: str
    name: str
    operator: bool = False


class ImportDefinitions(Command):
    """A definitions document (plain JSON values); ``vhost`` for the export of one virtual host.

    ``user`` imports it over HTTP, and may do everything in the virtual hosts that this creates.
    """

    document: Mapping[str, Any]
    vhost: str | None = None
    user: str | None = None


class TakeDefinitions(Command):
    """A definitions document (plain JSON values) of a server that has all that is in it, as ``ImportDefinitions`` has.

    Nothing in it is refused: ``replies.NotImported`` says what an import would not take, and what is here instead.
    """

    document: Mapping[str, Any]
    vhost: str | None = None


class SetVhostLimits(Command):
    """All limits of a virtual host; ``None`` removes them."""

    vhost: str
    limits: Mapping[str, Any] | None


class SetUserLimits(Command):
    """Limits of a user, beside those that it has."""

    user: str
    limits: Mapping[str, Any]


class ClearUserLimit(Command):
    """One limit of a user; ``all`` removes all."""

    user: str
    limit: str


class SetParameter(Command):
    """A runtime parameter of a virtual host: an operator policy, its limits or a shovel. ``value`` is plain JSON.

    ``user`` sets it over HTTP.
    """

    vhost: str
    component: str
    name: str
    value: Any
    user: str | None = None


class ClearShovel(Command):
    """Removes a shovel, or with ``restart`` connects it anew."""

    vhost: str
    name: str
    restart: bool = False


class ReportShovel(Command):
    """What has become of a shovel that the driver of the broker runs, because one end of it is another server.

    ``forwarded`` counts the messages since it started; with ``left`` 0 it has done what it was to do.
    """

    vhost: str
    name: str
    state: Literal["starting", "running", "terminated"]
    reason: str = ""
    forwarded: int = 0
    left: int | None = None


class SetGlobalParameter(Command):
    name: str
    value: Any


class ClearGlobalParameter(Command):
    name: str


class SetTracing(Command):
    """The firehose of a virtual host, on or off."""

    vhost: str
    active: bool


class ProtectVhost(Command):
    """A virtual host is protected from deletion, or no longer. Only releases that know of it give this command."""

    vhost: str
    active: bool


class ResetCounters(Command):
    """The counters of all queues and exchanges start again at zero."""


class PassTime(Command):
    """Nothing but time passes: what is due by then happens, each thing at its own time."""


METHODS: Mapping[type[Command], str] = {
    Publish: "basic.publish",
    Ack: "basic.ack",
    Nack: "basic.nack",
    Reject: "basic.reject",
    Recover: "basic.recover",
    Get: "basic.get",
    Consume: "basic.consume",
    Cancel: "basic.cancel",
    Qos: "basic.qos",
    SetFlow: "channel.flow",
    SelectConfirms: "confirm.select",
    SelectTransactions: "tx.select",
    Commit: "tx.commit",
    Rollback: "tx.rollback",
    DeclareExchange: "exchange.declare",
    DeleteExchange: "exchange.delete",
    BindExchange: "exchange.bind",
    UnbindExchange: "exchange.unbind",
    DeclareQueue: "queue.declare",
    BindQueue: "queue.bind",
    UnbindQueue: "queue.unbind",
    PurgeQueue: "queue.purge",
    DeleteQueue: "queue.delete",
    OpenConnection: "connection.open",
    OpenChannel: "channel.open",
}
"""The protocol's name of the method behind a command."""
