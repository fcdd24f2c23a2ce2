"""Acts on deliveries that have stayed unacknowledged for too long; ``ack_deadlines`` says when that is.

Until 4.2 the channel looks at its oldest delivery once a minute and closes itself
with an error. From 4.3 on only quorum queues care, each delivery to the
millisecond: it goes back to its queue, and its consumer is told that it is cancelled
but stays, deaf until it has acknowledged what timed out. It is told so again whenever
more of its deliveries time out. A client that cannot be told, because of basic.get or
for want of the capability, loses its channel.

Source: rabbit_channel.erl evaluate_consumer_timeout (4.0.5), handle_queue_actions (4.3.5);
rabbit_fifo.erl evaluate_consumer_timeout (4.3.5).
"""

from __future__ import annotations

from dlx import amqp_errors
from simulator.broker.commands import ChannelId
from simulator.broker.operations import (
    ack_deadlines,
    acknowledgements,
    connections,
    consumer_selection,
    consuming,
    deliveries,
    queues,
)
from simulator.broker.replies import ChannelClosed, ConsumerCancelled
from simulator.broker.state import Channel, Consumer, NodeState, QueueState, Unacked


def due(node: NodeState, due_us: int, channel_id: ChannelId) -> None:
    """Look at the channel: its time has come."""
    channel = node.channels.get(channel_id)
    if channel is None or channel.timeout_due_us != due_us:
        return
    channel.timeout_due_us = None
    if node.release.consumer_timeout_enforced_by == "channel":
        _look_at_oldest(node, channel)
    else:
        _look_at_all(node, channel)
    if node.channels.get(channel.id) is not channel:
        return
    waiting = [unacked for unacked in channel.unacked.values() if not unacked.timed_out]
    times = [ack_deadlines.late_us(node, channel, unacked) for unacked in waiting]
    soonest = min((time for time in times if time is not None), default=None)
    if soonest is not None:  # one that an older delivery shields is looked at with the next tick
        ack_deadlines.look_again(node, channel, max(soonest, ack_deadlines.noticed_us(node, channel, node.now_us + 1)))


def _look_at_oldest(node: NodeState, channel: Channel) -> None:
    """Until 4.2: close the channel if its oldest delivery is late; the others wait behind it."""
    oldest = next(iter(channel.unacked.values()), None)
    if oldest is not None and ack_deadlines.is_late(node, channel, oldest):
        node.out.append(_closed(channel, ack_deadlines.timeout_of(node.release, oldest) or 0))
        connections.lose_channel(node, channel)


def _look_at_all(node: NodeState, channel: Channel) -> None:
    late = [item for item in channel.unacked.items() if ack_deadlines.is_late(node, channel, item[1])]
    for group in acknowledgements.by_queue(late, node.release):
        if node.channels.get(channel.id) is channel:
            _take_back(node, channel, group[0].queue, group)


def _take_back(node: NodeState, channel: Channel, queue: QueueState, late: list[Unacked]) -> None:
    """4.3: return the deliveries to their queue, and tell their consumers, or close the channel."""
    closing = False
    told: set[Consumer] = set()
    for unacked in late:
        unacked.timed_out = True
        consumer = unacked.consumer
        if (
            consumer is None
            or consumer.tag not in channel.consumers
            or not consumer_selection.understands_cancel(channel)
        ):
            closing = True
            continue
        if consumer not in told:
            told.add(consumer)
            node.out.append(ConsumerCancelled(channel.id, consumer.tag))
        consumer.timed_out += 1
        consumer_selection.set_aside(queue, consumer)
        consumer_selection.step_down(queue, consumer, node.release)
    deliveries.settle(node, queue, late)
    if closing:  # its consumers get nothing of what comes back
        node.out.append(_closed(channel, -1))
        for consumer in channel.consumers.values():
            consuming.withdraw(node, consumer)
    queues.requeue(node, queue, [unacked.copy for unacked in late], "nack")
    if closing:
        connections.lose_channel(node, channel)


def _closed(channel: Channel, timeout: int) -> ChannelClosed:
    refusal = amqp_errors.acknowledgement_timeout(channel.number, timeout)
    return ChannelClosed(channel.id, refusal.code, refusal.text)
