"""Checks what a channel's user may do, unless the channel remembers it; finds the queue that an empty name means."""

from __future__ import annotations

from dlx import amqp_errors, permissions
from dlx.topology import Exchange
from simulator.broker.state import Channel, Connection, NodeState, QueueState


def check(node: NodeState, channel: Channel, what: str, kind: str, name: str) -> None:
    """Raise ``Refusal`` 403 unless the user may ``configure``, ``write`` or ``read`` the queue or exchange."""
    key = (what, kind, name)
    if key in channel.allowed:
        return
    vhost, user = channel.connection.vhost.name, channel.connection.user
    granted = user.permissions.get(vhost)
    permissions.check(granted, what, kind, name, vhost=vhost, user=user.name, release=node.release)
    channel.remember(channel.allowed, key)


def check_any(node: NodeState, channel: Channel, kind: str, name: str) -> None:
    """Check a passive declare, which needs no permission or any, as the release has it."""
    if node.release.passive_declare_needs == "nothing":
        return
    if any((what, kind, name) in channel.allowed for what in ("read", "write", "configure")):
        return
    for what in ("read", "write"):
        try:
            check(node, channel, what, kind, name)
        except amqp_errors.Refusal:
            continue
        return
    check(node, channel, "configure", kind, name)


def check_topic(node: NodeState, channel: Channel, what: str, exchange: Exchange, keys: tuple[str, ...]) -> None:
    """Raise ``Refusal`` 403 unless the user's topic permissions allow each routing key of a topic exchange."""
    if exchange.type != "topic":
        return
    for key in keys[:1] if node.release.topic_permission_keys == "first" else keys:
        if (what, exchange.name, key) not in channel.allowed_topics:
            _check_topic(node, channel, what, exchange.name, key)
            channel.remember(channel.allowed_topics, (what, exchange.name, key))


def _check_topic(node: NodeState, channel: Channel, what: str, exchange: str, key: str) -> None:
    vhost, user = channel.connection.vhost.name, channel.connection.user
    granted = user.topic_permissions.get((vhost, exchange))
    if granted is not None:
        permissions.check_topic(granted, what, exchange, key, vhost=vhost, user=user.name, release=node.release)


def expand_queue(channel: Channel, name: str) -> str:
    """Return the queue's name; an empty one means the queue last declared on the channel."""
    if name:
        return name
    if not channel.last_queue:
        raise amqp_errors.no_previous_queue()
    return channel.last_queue


def check_exclusive(queue: QueueState, connection: Connection) -> None:
    """Raise ``Refusal`` 405 for a queue that is another connection's alone."""
    if queue.owner is not None and queue.owner is not connection:
        raise amqp_errors.locked_queue(queue.name, queue.vhost.name)


def queue(channel: Channel, name: str) -> QueueState:
    """Return the queue. Raise ``Refusal`` unless it exists and belongs to no other connection."""
    vhost = channel.connection.vhost
    found = vhost.queues.get(name)
    if found is None:
        raise amqp_errors.no_queue(name, vhost.name)
    check_exclusive(found, channel.connection)
    return found
