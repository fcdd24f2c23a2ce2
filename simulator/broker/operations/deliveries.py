"""Deliveries: a message goes out to a consumer, is counted while it waits for its acknowledgement, and no longer.

Source: rabbit_channel.erl handle_deliver, record_sent, ack; rabbit_fifo.erl.
"""

from __future__ import annotations

from dlx.delivery_counts import Counts, count_headers
from dlx.message import Message
from dlx.topology import CLASSIC, QUORUM
from simulator.broker.copies import Copy
from simulator.broker.effects import DeliveryFailed
from simulator.broker.operations import ack_deadlines, tracing
from simulator.broker.replies import Delivered
from simulator.broker.state import Channel, Consumer, NodeState, QueueState, Unacked
from simulator.events import Event
from simulator.json_values import plain

_DELIVERED = Event.DELIVERED  # Python 3.11 takes long to look it up


def deliver(node: NodeState, consumer: Consumer, copy: Copy) -> None:
    """Send a message to the consumer whose turn it is."""
    queue, channel = consumer.queue, consumer.channel
    channel.wake(node.now_us)
    tag = channel.next_delivery_tag
    channel.next_delivery_tag = tag + 1
    if consumer.no_ack:
        queue.counters.deliver_no_ack += 1
    else:
        channel.unacked[tag] = unacked = Unacked(copy, queue, consumer, node.now_us, consumer.timeout_ms)
        queue.unacked += 1
        queue.unacked_bytes += len(copy.body)
        queue.counters.deliver += 1
        if ack_deadlines.needs_watch(node, consumer):
            ack_deadlines.watch(node, channel, unacked)
    if copy.redelivered:
        queue.counters.redeliver += 1
    if not can_write(node, channel, copy.message):
        return
    added = delivery_headers(node, queue, copy)
    node.out.append(Delivered(channel.id, consumer.tag, tag, copy.redelivered, copy.message, copy.body, added))
    if node.watched or queue.vhost.tracing:
        handed_out(node, queue, copy, channel, added, no_ack=consumer.no_ack)


def can_write(node: NodeState, channel: Channel, message: Message) -> bool:
    """Return whether the message can be sent to a client; otherwise its connection ends when the step is done."""
    if not message.writable:
        node.agenda.append(DeliveryFailed(channel.connection.vhost.name, channel.id))
    return message.writable


def handed_out(
    node: NodeState, queue: QueueState, copy: Copy, channel: Channel, added: dict[str, int] | None, *, no_ack: bool
) -> None:
    """Tell those who watch: the firehose, and whoever asked for the event."""
    if queue.vhost.tracing:
        tracing.delivered(node, queue, copy, channel, added)
    if _DELIVERED in node.watched:
        node.happened(_DELIVERED, queue, copy, more=plain(added) if added else None)
    if no_ack and Event.ACKED in node.watched:
        node.happened(Event.ACKED, queue, copy, detail="automatically")


def delivery_headers(
    node: NodeState, queue: QueueState, copy: Copy, *, first_get: bool = False
) -> dict[str, int] | None:
    """Return the counts that a quorum queue adds to a delivery; ``None`` if it adds none."""
    if queue.definition.type != QUORUM:
        return None
    if copy.acquired is None and copy.failed is None and not first_get:
        return None
    return count_headers(Counts(copy.acquired, copy.failed), node.release, first_get=first_get) or None


def settle(node: NodeState, queue: QueueState, deliveries: list[Unacked]) -> None:
    """Stop counting deliveries that no longer wait, for their queue, consumers and channels."""
    was_in_use = queue.in_use
    queue.unacked -= len(deliveries)
    for unacked in deliveries:
        queue.unacked_bytes -= len(unacked.copy.body)
        consumer = unacked.consumer
        if consumer is None:
            queue.unacked_gets -= 1
            continue
        consumer.unacked -= 1
        if queue.definition.type != CLASSIC:
            if consumer.extra_prefetch > consumer.unacked and not node.release.quorum_delivery_limit_widens_prefetch:
                consumer.extra_prefetch = consumer.unacked
        elif consumer in queue.cancelled:
            _credit(queue, consumer)
        if queue.cancelled and not consumer.unacked:
            queue.cancelled.discard(consumer)
    if was_in_use and not queue.in_use:
        node.used(queue)


def _credit(queue: QueueState, consumer: Consumer) -> None:
    """Make room by tag in a classic queue: what a cancelled consumer acknowledges counts for the next of its tag."""
    successor = consumer.channel.consumers.get(consumer.tag)
    if successor is not None and successor.queue is queue:
        successor.extra_prefetch += 1
