"""Consumers and gets: basic.consume, cancel, get and qos.

Source: rabbit_channel.erl basic_consume, basic.get, basic.qos;
rabbit_amqqueue_process.erl handle_call basic_consume, basic_cancel;
rabbit_quorum_queue.erl consume, dequeue.
"""

from __future__ import annotations

from dlx import amqp_errors
from dlx.consumer_arguments import check_consumer_arguments, check_credit
from dlx.message import payload_size
from dlx.routing import REPLY_TO
from dlx.topology import CLASSIC, QUORUM, STREAM
from simulator.broker.commands import Cancel, Consume, Get, GrantCredit, Qos, SetFlow
from simulator.broker.operations import (
    access,
    deliveries,
    queue_lifecycle,
    queues,
    reply_to,
    sharding,
    stream_consumers,
)
from simulator.broker.replies import Cancelled, Consuming, CreditState, Done, Got, GotNothing
from simulator.broker.state import Channel, Consumer, NodeState, QueueState, Unacked

QUORUM_DEFAULT_PREFETCH = 2_000  # rabbit_quorum_queue.erl, for a consumer without prefetch


def consume(node: NodeState, command: Consume) -> None:
    """Subscribe a consumer to a queue (basic.consume)."""
    channel = node.channel(command.channel)
    if command.queue == REPLY_TO:
        reply_to.consume(node, channel, command)
        return
    name = sharding.taken_from(node, channel.connection.vhost, access.expand_queue(channel, command.queue))
    if command.consumer_tag in channel.consumers:
        raise amqp_errors.consumer_tag_in_use(command.consumer_tag)
    access.check(node, channel, "read", "queue", name)
    reply_to.check_use(node, channel, name, "basic.consume")
    queue = access.queue(channel, name)
    _check_consume(node, channel, queue, command)
    consumer = _consumer(node, channel, queue, command)
    if queue.cancelled and queue.definition.type == QUORUM and node.release.quorum_consumer_continues:
        _continue(queue, consumer)
    channel.consumers[consumer.tag] = consumer
    if command.credited:
        channel.queues_of_links[name] = None
    node.out.append(Consuming(channel.id, consumer.tag))
    start(node, queue, consumer)


def start(node: NodeState, queue: QueueState, consumer: Consumer) -> None:
    """Give the consumer its place, and what the queue has for it."""
    deliveries.subscribe(queue, consumer)
    if consumer.exclusive and queue.definition.type == CLASSIC:
        queue.exclusive_consumer = consumer
    deliveries.offer_single_active_place(node, queue, consumer)
    queues.evaluate(node, queue)


def _check_consume(node: NodeState, channel: Channel, queue: QueueState, command: Consume) -> None:
    checked_first = node.release.global_qos_refused == "before the arguments"
    if checked_first:
        _check_global_qos(channel, queue)
    if not command.credited:  # a queue ignores what it does not know of a link of AMQP 1.0
        check_consumer_arguments(queue.definition, command.arguments, vhost=queue.vhost.name, release=node.release)
    alone = command.exclusive and (queue.consumers or queue.single_active)
    if queue.definition.type == CLASSIC and (queue.exclusive_consumer is not None or alone):
        raise amqp_errors.exclusive_consumer(queue.name, queue.vhost.name)
    if not checked_first:
        _check_global_qos(channel, queue)
    if queue.definition.type == STREAM:
        stream_consumers.check(node, channel, queue, command)
    check_credit(queue.definition, command.arguments, node.release)


def _check_global_qos(channel: Channel, queue: QueueState) -> None:
    if queue.definition.type == QUORUM and channel.global_prefetch:
        raise amqp_errors.global_qos(queue.name, queue.vhost.name)


def _consumer(node: NodeState, channel: Channel, queue: QueueState, command: Consume) -> Consumer:
    prefetch = channel.prefetch
    if queue.definition.type == QUORUM and not prefetch:
        prefetch = QUORUM_DEFAULT_PREFETCH
    priority = command.arguments.get("x-priority", 0)
    consumer = Consumer(
        tag=command.consumer_tag or node.generated_name("amq.ctag"),
        channel=channel,
        queue=queue,
        serial=node.next_serial(),
        no_ack=command.no_ack,
        exclusive=command.exclusive,
        prefetch=prefetch,
        priority=priority if queue.definition.type != QUORUM or node.release.quorum_consumer_priorities else 0,
        arguments=command.arguments,
        timeout_ms=deliveries.timeout_ms(node.release, queue, command.arguments),
        credit=0 if command.credited else None,
        filter=command.filter,
    )
    if queue.definition.type == STREAM:
        asked = command.arguments.get(stream_consumers.OFFSET_HEADER)
        consumer.offset = stream_consumers.log(queue).start_offset(asked, node.now_us)
    return consumer


def _continue(queue: QueueState, consumer: Consumer) -> None:
    """Let a cancelled consumer of the same channel and tag that has deliveries left go on as the new one."""
    former = next((c for c in queue.cancelled if c.tag == consumer.tag and c.channel is consumer.channel), None)
    if former is None:
        return
    queue.cancelled.discard(former)
    consumer.serial, consumer.unacked = former.serial, former.unacked
    consumer.extra_prefetch = max(0, former.unacked - consumer.prefetch)
    settled = (unacked for _, unacked in consumer.channel.uncommitted())
    for unacked in (*consumer.channel.unacked.values(), *settled):
        if unacked.consumer is former:
            unacked.consumer = consumer


def grant_credit(node: NodeState, command: GrantCredit) -> None:
    """Let a link of AMQP 1.0 take messages, and say what is left of its credit and of the queue."""
    channel = node.channel(command.channel)
    consumer = channel.consumers.get(command.consumer_tag)
    if consumer is None:
        if channel.reply_consumer == command.consumer_tag:
            node.out.append(CreditState(channel.id, command.consumer_tag, command.credit, 0))
        return
    queue = consumer.queue
    consumer.credit = command.credit
    deliveries.unblock(queue, channel)
    queues.evaluate(node, queue)
    left = consumer.credit
    if command.drain:
        consumer.credit = 0
    node.out.append(CreditState(channel.id, consumer.tag, left, queue.store.ready))


def cancel(node: NodeState, command: Cancel) -> None:
    """Cancel a consumer; what it has not acknowledged stays with its channel (basic.cancel)."""
    channel = node.channel(command.channel)
    consumer = channel.consumers.pop(command.consumer_tag, None)
    if channel.reply_consumer == command.consumer_tag:
        channel.reply_consumer = None
    node.out.append(Cancelled(channel.id, command.consumer_tag))
    if consumer is not None:
        leave(node, consumer)


def leave(node: NodeState, consumer: Consumer) -> None:
    """Take a cancelled consumer off its queue, which may now be unused."""
    queue = consumer.queue
    withdraw(node, consumer)
    if consumer.unacked:
        queue.cancelled.add(consumer)
    if not queue.consumers:
        unused(node, queue)
    elif queue.definition.type == QUORUM or (
        queue.definition.type == CLASSIC and node.release.classic_single_active_served_after_cancel
    ):
        queues.settled(node, queue)


def withdraw(node: NodeState, consumer: Consumer) -> None:
    """Take the consumer off its queue; the next in line replaces a single active one."""
    queue = consumer.queue
    deliveries.unsubscribe(queue, consumer)
    if queue.active_single is consumer:
        queue.active_single = None
        deliveries.choose_single_active(node, queue, returning=0 if consumer.credit is None else consumer.unacked)


def unused(node: NodeState, queue: QueueState) -> None:
    """Delete an auto-delete queue that its last consumer has left; of another, start to count x-expires."""
    if queue.definition.auto_delete and queue.had_consumers:
        queue_lifecycle.delete(node, queue)
        return
    node.used(queue)


def get(node: NodeState, command: Get) -> None:
    """Hand one message to a client that asks for it (basic.get)."""
    channel = node.channel(command.channel)
    name = sharding.taken_from(node, channel.connection.vhost, access.expand_queue(channel, command.queue))
    access.check(node, channel, "read", "queue", name)
    reply_to.check_use(node, channel, name, "basic.get")
    queue = access.queue(channel, name)
    _check_get(node, queue)
    node.used(queue)
    if not queue.store.ready:
        queue.counters.get_empty += 1
        node.out.append(GotNothing(channel.id))
        return
    _hand_over(node, channel, queue, command.no_ack)


def _check_get(node: NodeState, queue: QueueState) -> None:
    kind, name, vhost = queue.definition.type, queue.name, queue.vhost.name
    if kind == STREAM:
        raise amqp_errors.get_from_stream(name, vhost)
    if kind == QUORUM and queue.single_active:
        raise amqp_errors.get_from_single_active(name, vhost, node.release)


def _hand_over(node: NodeState, channel: Channel, queue: QueueState, no_ack: bool) -> None:
    copy = queue.store.take()
    tag = channel.next_delivery_tag
    channel.next_delivery_tag = tag + 1
    if no_ack:
        queue.counters.get_no_ack += 1
    else:
        queue.counters.get += 1
        timeout_ms = deliveries.timeout_ms(node.release, queue, {})
        channel.unacked[tag] = unacked = Unacked(copy, queue, None, node.now_us, timeout_ms)
        queue.unacked += 1
        queue.unacked_gets += 1
        queue.unacked_bytes += payload_size(copy.message, copy.body)
        deliveries.watch(node, channel, unacked)
    if not copy.message.writable:
        raise amqp_errors.internal_error()
    queue.counters.redeliver += copy.redelivered
    added = deliveries.delivery_headers(node, queue, copy, first_get=copy.acquired is None)
    if queue.definition.type == CLASSIC or no_ack:
        queues.expire(node, queue)  # and get-ok says how many are left then
    node.out.append(Got(channel.id, tag, copy.redelivered, queue.store.ready, copy.message, copy.body, added))
    deliveries.handed_out(node, queue, copy, channel, added, no_ack=no_ack)
    queues.expire(node, queue)
    queues.keep_within_limits(node, queue)


def qos(node: NodeState, command: Qos) -> None:
    """Set the prefetch of each new consumer of the channel, or of all together (basic.qos)."""
    channel = node.channel(command.channel)
    if command.prefetch_size:
        raise amqp_errors.prefetch_size(command.prefetch_size)
    if command.global_ and node.release.global_qos:
        if not channel.global_prefetch:  # what basic.get took counts too, and never stops counting
            channel.global_unacked = len(channel.unacked)
        channel.global_prefetch = command.prefetch_count
    else:
        channel.prefetch = command.prefetch_count
        channel.global_prefetch = 0
    node.out.append(Done(channel.id, "basic.qos-ok"))
    resume(node, channel)


def resume(node: NodeState, channel: Channel) -> None:
    """Serve the channel's consumers again; its queues take turns at being the first."""
    own = list({id(c.queue): c.queue for c in channel.consumers.values()}.values())
    first = channel.turn % len(own) if own else 0
    channel.turn += 1
    for queue in (*own[first:], *own[:first]):
        if queue.definition.type == STREAM:
            stream_consumers.run(node, queue)
        elif deliveries.unblock(queue, channel) or queue.single_active:
            queues.run(node, queue)


def set_flow(node: NodeState, command: SetFlow) -> None:
    """Answer channel.flow: RabbitMQ lets no client stop its deliveries this way."""
    channel = node.channel(command.channel)
    if not command.active:
        raise amqp_errors.channel_flow()
    node.out.append(Done(channel.id, "channel.flow-ok"))
