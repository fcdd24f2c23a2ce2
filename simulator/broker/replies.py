"""The broker's answers on its channels; ``simulator.events`` has what happens to messages."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Literal

import msgspec

from dlx.death_headers import delivered_headers
from dlx.message import Message
from dlx.releases import Release
from simulator.broker.commands import ChannelId


class Reply(msgspec.Struct):
    """The base of all replies."""


Plain = Literal[
    "channel.open-ok", "channel.close-ok", "channel.flow-ok",
    "exchange.declare-ok", "exchange.delete-ok", "exchange.bind-ok", "exchange.unbind-ok",
    "queue.bind-ok", "queue.unbind-ok", "basic.qos-ok", "basic.recover-ok",
    "confirm.select-ok", "tx.select-ok", "tx.commit-ok", "tx.rollback-ok",
]  # fmt: skip


class Done(Reply):
    """An answer that says no more than that it was done. ``method`` is its name in the protocol."""

    channel: ChannelId
    method: Plain


class QueueDeclared(Reply):
    channel: ChannelId
    queue: str
    messages: int
    consumers: int


class QueuePurged(Reply):
    channel: ChannelId
    messages: int


class QueueDeleted(Reply):
    channel: ChannelId
    messages: int


class Consuming(Reply):
    """``basic.consume-ok``."""

    channel: ChannelId
    consumer_tag: str


class Cancelled(Reply):
    """``basic.cancel-ok``: the client asked for it."""

    channel: ChannelId
    consumer_tag: str


class ConsumerCancelled(Reply):
    """``basic.cancel`` from the broker: the queue went away. Only for clients with that capability."""

    channel: ChannelId
    consumer_tag: str


class CreditState(Reply):
    """The answer to ``GrantCredit``, after what it had delivered. ``available``: how many ready messages are left."""

    channel: ChannelId
    consumer_tag: str
    credit: int
    available: int


class ActivityChanged(Reply):
    """A link of AMQP 1.0 has become the single active one of its queue, or is it no longer.

    ``available``: how many messages are ready for it.
    """

    channel: ChannelId
    consumer_tag: str
    active: bool
    available: int


class DeliveriesReleased(Reply):
    """Deliveries to a link of AMQP 1.0 went back to their queue, because they were not settled in time."""

    channel: ChannelId
    delivery_tags: tuple[int, ...]


class QueueGone(Reply):
    """A queue was deleted to which a session of AMQP 1.0 has sent messages, or which it has consumed."""

    channel: ChannelId
    queue: str


class Delivered(Reply):
    """``basic.deliver``. The properties to send: ``delivered_properties``.

    ``message`` is shared by all deliveries that look alike, so that a driver can keep what it encoded of it;
    ``added`` are the headers of this delivery alone, and ``failed`` is how many deliveries have failed before it.
    ``place``: by which priority and position a queue knows what a link of AMQP 1.0 gets.
    """

    channel: ChannelId
    consumer_tag: str
    delivery_tag: int
    redelivered: bool
    message: Message
    body: bytes
    added: Mapping[str, Any] | None = None
    failed: int | None = None
    place: tuple[int, int] | None = None


PROPERTIES = (
    "cluster_id", "app_id", "user_id", "type", "timestamp", "message_id", "expiration", "reply_to",
    "correlation_id", "priority", "delivery_mode", "headers", "content_encoding", "content_type",
)  # fmt: skip
"""The basic properties as the firehose and the management API list them: in the order of the protocol, backwards."""


def delivered_properties(message: Message, release: Release, added: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the basic properties of a delivery by their names in the protocol, without absent ones.

    ``added`` are headers that belong to this delivery alone (``Delivered.added``).
    """
    properties = dict(message.properties)
    if release.published_octets == "low bits":
        properties |= {name: properties[name] & 0xFF for name in ("delivery_mode", "priority") if name in properties}
    if message.expiration is not None:
        properties["expiration"] = message.expiration
    headers = delivered_headers(message, release, added)
    if headers is not None:
        properties["headers"] = headers
    return properties


class Got(Reply):
    """``basic.get-ok``."""

    channel: ChannelId
    delivery_tag: int
    redelivered: bool
    messages: int
    message: Message
    body: bytes
    added: Mapping[str, Any] | None = None


class GotNothing(Reply):
    """``basic.get-empty``."""

    channel: ChannelId


class Returned(Reply):
    """``basic.return``."""

    channel: ChannelId
    code: int
    text: str
    message: Message
    body: bytes


class Confirmed(Reply):
    """``basic.ack`` to a publisher: the publish of that number on its channel, or all up to it."""

    channel: ChannelId
    delivery_tag: int
    multiple: bool = False


class Refused(Reply):
    """``basic.nack`` to a publisher. ``queue`` is one that refused the message."""

    channel: ChannelId
    delivery_tag: int
    multiple: bool = False
    queue: str = ""


class ChannelClosed(Reply):
    """``channel.close`` from the broker. ``method`` is the offending one, such as ``queue.declare``.

    The broker has already forgotten the channel. ``uncut`` is the whole text where ``text`` had to be cut.
    """

    channel: ChannelId
    code: int
    text: str
    method: str = ""
    uncut: str = ""


class Reminded(Reply):
    """What ``Broker.remind`` was asked for: it is that time. For the driver, not for a client."""

    number: int


LEFT_OUT = "an import leaves it out silently"
"""What ``plain`` of ``NotImported`` begins with where the server has no words for it."""


class NotImported(Reply):
    """An item of definitions that were taken as a server's state, which an import into this release would not take.

    ``section`` and ``place`` say where ``item`` stands, ``text`` is the server's refusal (empty where an import would
    leave the item out without a word) and ``plain`` the same in plain words. ``taken`` is what the broker has: the
    item, the item without what the release does not know, or nothing.
    """

    section: str
    place: int
    item: Mapping[str, Any]
    text: str
    plain: str
    taken: Mapping[str, Any] | None


class ConnectionClosed(Reply):
    """``connection.close`` from the broker; ``channel`` is the number of the offending one, or 0 without one.

    ``silent``: the connection is cut instead. ``uncut`` is the whole text where ``text`` had to be cut.
    """

    connection: Hashable
    code: int
    text: str
    method: str = ""
    channel: int = 0
    silent: bool = False
    uncut: str = ""
