"""Connections and channels: opened, closed, lost, or closed because their client does not acknowledge.

A channel that ends gives back what it has not acknowledged; a connection takes its
exclusive queues with it.

A channel that has a late delivery (``deliveries`` says when that is) closes itself with an
error until 4.2. In 4.3 the delivery goes back to its quorum queue, and its consumer gets a
cancellation but stays, deaf until it has acknowledged what timed out. It gets another whenever more
of its deliveries time out. A client that cannot get one, because of basic.get or for want of the
capability, loses its channel. A link of AMQP 1.0 is not cancelled: it is told which deliveries were
released, and gets nothing until the client has settled them.

Source: rabbit_reader.erl, rabbit_channel.erl terminate, evaluate_consumer_timeout (4.0.5),
handle_queue_actions (4.3.5); rabbit_amqqueue_process.erl handle_ch_down; rabbit_fifo.erl
evaluate_consumer_timeout (4.3.5).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from dlx import amqp_errors
from simulator.broker.commands import (
    ChannelId,
    CloseChannel,
    CloseConnection,
    OpenChannel,
    OpenConnection,
    PauseDeliveries,
    ResumeDeliveries,
)
from simulator.broker.effects import DeliveryFailed, ShovelLost
from simulator.broker.operations import acknowledgements, consumers, deliveries, limits, queue_lifecycle, queues
from simulator.broker.replies import ChannelClosed, ConnectionClosed, ConsumerCancelled, DeliveriesReleased, Done
from simulator.broker.state import Channel, Connection, Consumer, NodeState, Unacked


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
        raise ValueError(f"there is a connection {command.connection!r}: expected an identity of its own")
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
    """Close a connection because of what an operator did; its client hears why."""
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
    leaving: list[Consumer] = []
    for channel in channels:
        if channel.shovel is not None:
            node.agenda.append(ShovelLost(channel.shovel.vhost, channel.shovel))
        node.channels.pop(channel.id, None)
        channel.connection.channels.pop(channel.number, None)
        node.reply_keys.pop(channel.reply_key, None)
        leaving += channel.consumers.values()
        channel.consumers.clear()
        channel.reply_consumer = None
    for consumer in leaving:
        consumers.withdraw(node, consumer)
    for channel in channels:
        acknowledgements.channel_lost(node, channel)
        for queue in channel.connection.vhost.queues.values():
            queue.store.forget(channel.serial)
    for queue in {id(c.queue): c.queue for c in leaving}.values():
        if queue.deleted:
            continue
        if not queue.consumers:
            consumers.unused(node, queue)
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
            consumers.resume(node, channel)


def look_for_late_deliveries(node: NodeState, due_us: int, channel_id: ChannelId) -> None:
    """Look at the channel: its time has come."""
    channel = node.channels.get(channel_id)
    if channel is None or channel.timeout_due_us != due_us:
        return
    channel.timeout_due_us = None
    if node.release.consumer_timeout_enforced_by == "channel":
        _close_if_oldest_is_late(node, channel)
    else:
        _take_back_late(node, channel)
    if node.channels.get(channel.id) is not channel:
        return
    waiting = [unacked for unacked in channel.unacked.values() if not unacked.timed_out]
    times = [deliveries.late_us(node, channel, unacked) for unacked in waiting]
    soonest = min((time for time in times if time is not None), default=None)
    if soonest is not None:  # one that an older delivery shields is checked with the next tick
        deliveries.look_again(node, channel, max(soonest, deliveries.noticed_us(node, channel, node.now_us + 1)))


def _close_if_oldest_is_late(node: NodeState, channel: Channel) -> None:
    """Until 4.2: close the channel if its oldest delivery is late; the others wait behind it."""
    oldest = next(iter(channel.unacked.values()), None)
    if oldest is not None and deliveries.is_late(node, channel, oldest):
        node.send(channel, _closed(channel, deliveries.timeout_of(node.release, oldest) or 0))
        lose_channel(node, channel)


def _take_back_late(node: NodeState, channel: Channel) -> None:
    late = [item for item in channel.unacked.items() if deliveries.is_late(node, channel, item[1])]
    for batch in acknowledgements.by_queue(late, node.release):
        if node.channels.get(channel.id) is channel:
            _take_back(node, channel, batch)


def _take_back(node: NodeState, channel: Channel, batch: acknowledgements.Batch) -> None:
    """4.3: return the deliveries to their queue, and tell their consumers, or close the channel."""
    queue, late = batch
    holders = (unacked.consumer for unacked in late)
    told = Counter(each for each in holders if each is not None and _may_be_told(channel, each))
    closing = told.total() < len(late)
    for unacked in late:
        unacked.timed_out = True
    for consumer, count in told.items():
        consumer.timed_out += count
        deliveries.set_aside(queue, consumer)
        deliveries.step_down(node, queue, consumer)
    _tell_late(node, channel, late, told)
    deliveries.settle(node, queue, late)
    if closing:  # its consumers get nothing of what comes back
        node.send(channel, _closed(channel, -1))
        for consumer in channel.consumers.values():
            consumers.withdraw(node, consumer)
    queues.requeue(node, queue, [unacked.copy for unacked in late], "nack")
    if closing:
        lose_channel(node, channel)


def _may_be_told(channel: Channel, consumer: Consumer) -> bool:
    return consumer.tag in channel.consumers and deliveries.understands_cancel(consumer)


def _tell_late(node: NodeState, channel: Channel, late: list[Unacked], told: Iterable[Consumer]) -> None:
    """Tell each consumer once that it was cancelled, and links of AMQP 1.0 which deliveries they no longer have."""
    released = {id(each) for each in late if each.consumer is not None and each.consumer.credit is not None}
    if released:
        tags = tuple(tag for tag, unacked in channel.unacked.items() if id(unacked) in released)
        node.out.append(DeliveriesReleased(channel.id, tags))
        return
    for consumer in told:
        node.send(channel, ConsumerCancelled(channel.id, consumer.tag))


def _closed(channel: Channel, timeout: int) -> ChannelClosed:
    refusal = amqp_errors.acknowledgement_timeout(channel.number, timeout)
    return ChannelClosed(channel.id, refusal.code, refusal.text)
