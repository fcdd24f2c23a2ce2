"""Consumers of streams: each reads on its own, from where it asked to, as far as its prefetch goes.

Source: rabbit_stream_queue.erl consume, stream_entries, settle.
"""

from __future__ import annotations

from dlx import amqp_errors
from dlx.consumer_arguments import check_stream_offset
from dlx.field_values import Long
from dlx.message_filters import accepts, filtered
from simulator.broker.commands import Consume
from simulator.broker.copies import Copy
from simulator.broker.operations import deliveries
from simulator.broker.replies import Delivered
from simulator.broker.state import Channel, Consumer, NodeState, QueueState, Unacked
from simulator.broker.stores.stream import StreamStore, Wants, filter_value, wanted

OFFSET_HEADER = "x-stream-offset"


def log(queue: QueueState) -> StreamStore:
    """Return the messages of a queue that is a stream."""
    assert isinstance(queue.store, StreamStore)
    return queue.store


def check(node: NodeState, channel: Channel, queue: QueueState, command: Consume) -> None:
    """Refuse a consumer without prefetch, without acknowledgements or with a global prefetch, in this order."""
    name, vhost = queue.name, queue.vhost.name
    if command.credited:
        check_stream_offset(command.arguments)
        return
    if not channel.prefetch:
        raise amqp_errors.stream_without_prefetch(name, vhost, node.release)
    if command.no_ack:
        raise amqp_errors.stream_without_acknowledgements(name, vhost, node.release)
    if channel.global_prefetch:
        raise amqp_errors.global_qos(name, vhost)
    check_stream_offset(command.arguments)
    wanted(command.arguments, node.release)


def run(node: NodeState, queue: QueueState) -> None:
    """Hand every consumer what it has not read, as far as its prefetch allows.

    The server asks the consumers of a channel from the last tag to the first.
    """
    for consumer in sorted(queue.consumers, key=_tag_bytes, reverse=True):
        _read_on(node, queue, consumer)


def _read_on(node: NodeState, queue: QueueState, consumer: Consumer) -> None:
    store = log(queue)
    room = consumer.prefetch - consumer.unacked if consumer.credit is None else consumer.credit
    if consumer.channel.connection.paused:
        room = 0
    if room <= 0 or consumer.offset == store.next_offset:
        return
    copies, consumer.offset = store.read(consumer.offset, room, _wants(node, consumer))
    for copy in copies:
        _deliver(node, queue, consumer, copy)


def _wants(node: NodeState, consumer: Consumer) -> Wants | None:
    """Return what says whether the consumer wants a message; ``None`` if it wants everything."""
    values, expression, now_ms = wanted(consumer.arguments, node.release), consumer.filter, node.now_us // 1_000
    if expression is None:
        return None if values is None else lambda message: filter_value(message) in values
    return lambda message: (
        (values is None or filter_value(message) in values) and accepts(expression, filtered(message, now_ms))
    )


def _deliver(node: NodeState, queue: QueueState, consumer: Consumer, copy: Copy) -> None:
    channel = consumer.channel
    tag = channel.next_delivery_tag
    channel.next_delivery_tag = tag + 1
    if consumer.credit is not None:
        consumer.credit -= 1
    if consumer.no_ack:
        queue.counters.deliver_no_ack += 1
    else:
        channel.unacked[tag] = unacked = Unacked(copy, queue, consumer, node.now_us, None)
        consumer.unacked += 1
        queue.unacked += 1
        queue.unacked_bytes += copy.size
        queue.counters.deliver += 1
        if deliveries.needs_watch(node, consumer):
            deliveries.watch(node, channel, unacked)
    if not deliveries.can_write(node, channel, copy.message, as_amqp10=consumer.credit is not None):
        return
    added: dict[str, int] = {OFFSET_HEADER: Long(copy.position)}
    node.send(channel, Delivered(channel.id, consumer.tag, tag, False, copy.message, copy.body, added))
    if node.watched or queue.vhost.tracing:
        deliveries.handed_out(node, queue, copy, channel, added, no_ack=consumer.no_ack)


def settled(node: NodeState, queue: QueueState, group: list[Unacked], how: str) -> None:
    """Let consumers read on: an acknowledgement of any kind makes room. The stream keeps its messages."""
    if how == "lost channel":
        return
    if how != "ack" and not node.release.stream_takes_rejections:
        if how == "recover":
            raise amqp_errors.internal_error()
        raise amqp_errors.rejection_of_stream(queue.name, queue.vhost.name)
    queue.counters.ack += len(group)
    for consumer in dict.fromkeys(unacked.consumer for unacked in group):
        if consumer is not None and consumer in queue.consumers:
            _read_on(node, queue, consumer)


def _tag_bytes(consumer: Consumer) -> bytes:
    return consumer.tag.encode(errors="surrogatepass")
