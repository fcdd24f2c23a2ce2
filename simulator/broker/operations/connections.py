"""Connections and channels: opened, closed, lost.

A channel that ends gives back what it has not acknowledged; a connection takes its
exclusive queues with it.

Source: rabbit_reader.erl, rabbit_channel.erl terminate, rabbit_amqqueue_process.erl handle_ch_down.
"""

from __future__ import annotations

from dlx import amqp_errors
from simulator.broker.commands import (
    CloseChannel,
    CloseConnection,
    OpenChannel,
    OpenConnection,
    PauseDeliveries,
    ResumeDeliveries,
)
from simulator.broker.effects import DeliveryFailed
from simulator.broker.operations import acknowledgements, consuming, limits, queue_lifecycle, queues
from simulator.broker.replies import ConnectionClosed, Done
from simulator.broker.state import Channel, Connection, Consumer, NodeState


def open_connection(node: NodeState, command: OpenConnection) -> None:
    """Open a connection to a virtual host that exists and admits the user (connection.open).

    Raises ``ValueError`` for the identity of a connection that is open.
    """
    vhost, user = node.vhosts.get(command.vhost), node.users.get(command.user)
    if vhost is None:
        raise amqp_errors.no_vhost(command.vhost)
    if user is not None and command.limited:
        limits.check_connection(node, vhost, user)
    if user is None or command.vhost not in user.permissions:
        raise amqp_errors.vhost_refused(command.vhost, command.user)
    if command.connection in node.connections:
        raise ValueError(f"there is a connection {command.connection!r}: the identity of a connection must be its own")
    node.connections[command.connection] = Connection(
        command.connection,
        vhost,
        user,
        command.name,
        command.client_properties,
        node.now_us,
        limited=command.limited,
    )


def close_connection(node: NodeState, command: CloseConnection) -> None:
    """Close a connection, its channels and its exclusive queues."""
    connection = node.connections.pop(command.connection, None)
    if connection is None:
        return
    _lose(node, list(connection.channels.values()))
    for queue in list(connection.exclusive_queues.values()):
        queue_lifecycle.delete(node, queue)


def force_close(node: NodeState, connection: Connection, reason: amqp_errors.Refusal) -> None:
    """Close a connection because of what an operator did; its client is told why."""
    node.out.append(ConnectionClosed(connection.id, reason.code, reason.text))
    close_connection(node, CloseConnection(connection.id))


def delivery_failed(node: NodeState, effect: DeliveryFailed) -> None:
    """End the connection of a channel that could not write a delivery; what it had comes back to its queues."""
    channel = node.channels.get(effect.channel)
    if channel is not None:
        force_close(node, channel.connection, amqp_errors.internal_error())


def open_channel(node: NodeState, command: OpenChannel) -> None:
    """Open a channel (channel.open)."""
    connection = node.connections.get(command.channel[0])
    if connection is None:
        raise amqp_errors.no_connection()
    if command.channel in node.channels:
        raise amqp_errors.channel_open_already()
    limits.check_channel(node, connection)
    channel = Channel(command.channel, connection, node.next_serial(), node.now_us)
    node.channels[command.channel] = connection.channels[channel.number] = channel
    node.out.append(Done(channel.id, "channel.open-ok"))


def close_channel(node: NodeState, command: CloseChannel) -> None:
    """Close a channel (channel.close)."""
    channel = node.channels.get(command.channel)
    if channel is not None:
        lose_channel(node, channel)
    node.out.append(Done(command.channel, "channel.close-ok"))


def lose_channel(node: NodeState, channel: Channel) -> None:
    """End a channel."""
    _lose(node, [channel])


def _lose(node: NodeState, channels: list[Channel]) -> None:
    """End channels together: the consumers of all of them leave, and only then do their deliveries come back."""
    consumers: list[Consumer] = []
    for channel in channels:
        node.channels.pop(channel.id, None)
        channel.connection.channels.pop(channel.number, None)
        node.reply_keys.pop(channel.reply_key, None)
        consumers += channel.consumers.values()
        channel.consumers.clear()
        channel.reply_consumer = None
    for consumer in consumers:
        consuming.withdraw(node, consumer)
    for channel in channels:
        acknowledgements.channel_lost(node, channel)
        for queue in channel.connection.vhost.queues.values():
            queue.store.forget(channel.serial)
    for queue in {id(c.queue): c.queue for c in consumers}.values():
        if queue.deleted:
            continue
        if not queue.consumers:
            consuming.unused(node, queue)
        else:
            queues.settled(node, queue)


def pause(node: NodeState, command: PauseDeliveries) -> None:
    """Give nothing to a connection's consumers: the client does not read."""
    connection = node.connections.get(command.connection)
    if connection is not None:
        connection.paused = True


def resume(node: NodeState, command: ResumeDeliveries) -> None:
    """Give messages to a connection's consumers again."""
    connection = node.connections.get(command.connection)
    if connection is not None and connection.paused:
        connection.paused = False
        for channel in list(connection.channels.values()):
            consuming.resume(node, channel)
