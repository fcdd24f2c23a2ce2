"""Deliveries: which consumer gets the next message, what goes out to it, and how long it may keep it.

Consumers of the highest priority first, in turns; one whose prefetch is used up is
set aside and comes back at the end of its priority when it may take again. A classic
queue sets it aside when its turn comes, a quorum queue at once. With a single active
consumer only that one is asked.

A delivery counts against its consumer and its queue until it is settled. Until 4.2 the
channel looks once a minute whether its oldest one is late. From 4.3 on only quorum queues
care, each delivery to the millisecond. ``connections`` acts on a late delivery.

Source: rabbit_queue_consumers.erl deliver, unblock; rabbit_channel.erl handle_deliver, record_sent, ack,
evaluate_consumer_timeout (4.0.5); rabbit_fifo.erl checkout_one, activate_next_consumer,
evaluate_consumer_timeout (4.3.5).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dlx.delivery_counts import Counts, count_headers
from dlx.message import Message, can_be_sent, payload_size
from dlx.releases import Release
from dlx.topology import CLASSIC, QUORUM
from simulator.broker.copies import Copy
from simulator.broker.effects import DeliveryFailed
from simulator.broker.operations import tracing
from simulator.broker.replies import ActivityChanged, Delivered
from simulator.broker.state import Channel, Consumer, NodeState, QueueState, Unacked
from simulator.events import Event
from simulator.json_values import plain

_DELIVERED = Event.DELIVERED  # Python 3.11 takes long to look it up


# The consumer whose turn it is


def may_take(consumer: Consumer) -> bool:
    """Return whether prefetch and connection let the consumer take one more message."""
    channel = consumer.channel
    if channel.connection.paused:
        return False
    limit = channel.global_prefetch
    if limit and channel.global_unacked >= limit and consumer.queue.definition.type == CLASSIC:
        return False  # holds back those that do not acknowledge, too
    return has_credit(consumer)


def has_credit(consumer: Consumer) -> bool:
    """Return whether the credit or the prefetch of the consumer itself lets it take one more message."""
    if consumer.credit is not None:
        return consumer.credit > 0 and not consumer.timed_out
    if consumer.no_ack:
        return True
    if consumer.timed_out:
        return False
    return not consumer.prefetch or consumer.unacked < consumer.prefetch + consumer.extra_prefetch


def next_taker(queue: QueueState) -> Consumer | None:
    """Return the consumer whose turn it is, or ``None`` if no consumer can take a message."""
    if queue.single_active:
        single = queue.active_single
        return single if single is not None and not single.quiescing and may_take(single) else None
    active = queue.active
    while active:
        consumer = active[0]
        if may_take(consumer):
            if len(active) > 1:
                active.popleft()
                _insert(queue, consumer)
            return consumer
        queue.blocked.append(active.popleft())
    return None


def book(consumer: Consumer) -> None:
    """Count the message that goes to the consumer against its credit and its prefetch."""
    queue = consumer.queue
    if consumer.credit is not None:
        consumer.credit -= 1
        if consumer.no_ack and queue.definition.type != CLASSIC and not consumer.credit:
            set_aside(queue, consumer)
    if consumer.no_ack:
        return
    consumer.unacked += 1
    if queue.definition.type == CLASSIC:
        consumer.channel.global_unacked += 1
    elif not may_take(consumer):
        set_aside(queue, consumer)


def by_consumer(handed: list[tuple[Consumer, Copy]], release: Release) -> list[tuple[Consumer, Copy]]:
    """Return what a quorum queue hands out in one go, in the order in which it sends it."""
    if len(handed) == 1 or len({consumer.serial for consumer, _ in handed}) == 1:
        return handed
    if release.quorum_consumer_order == "tag":
        return sorted(handed, key=lambda pair: pair[0].tag.encode(errors="surrogatepass"))
    return sorted(handed, key=lambda pair: pair[0].serial)


def subscribe(queue: QueueState, consumer: Consumer) -> None:
    """Give a new consumer its place, behind those of its priority."""
    queue.consumers.append(consumer)
    queue.had_consumers = True
    _insert(queue, consumer)


def unsubscribe(queue: QueueState, consumer: Consumer) -> None:
    """Remove a consumer; what it has not acknowledged stays with its channel."""
    for place in (queue.consumers, queue.active, queue.blocked):
        if consumer in place:
            place.remove(consumer)
    if queue.exclusive_consumer is consumer:
        queue.exclusive_consumer = None


def set_aside(queue: QueueState, consumer: Consumer) -> None:
    """Pass over a consumer that can take nothing for now."""
    if consumer in queue.active and not queue.single_active:
        queue.active.remove(consumer)
        queue.blocked.append(consumer)


def unblock(queue: QueueState, channel: Channel) -> bool:
    """Bring back the channel's consumers that may take messages again, and return whether there were any."""
    return _bring_back(queue, [c for c in queue.blocked if c.channel is channel and may_take(c)])


def unblock_settled(queue: QueueState, channel: Channel) -> bool:
    """The same for those whose own prefetch has room: the global one is asked when it is their turn."""
    return bool(queue.blocked) and not channel.connection.paused and _bring_back(queue, _with_credit(queue, channel))


def _bring_back(queue: QueueState, free: list[Consumer]) -> bool:
    for consumer in free:
        queue.blocked.remove(consumer)
        _insert(queue, consumer)
    return bool(free)


def held_back(queue: QueueState, channel: Channel) -> bool:
    """Return whether the queue has met the channel's global prefetch: it tries none of its consumers until notified.

    Source: rabbit_limiter.erl can_send, notify_queues.
    """
    return any(_with_credit(queue, channel))


def try_in_vain(queue: QueueState, channel: Channel) -> None:
    """Ask the channel's consumers again while it is held back: they go behind those whose prefetch is used up."""
    for consumer in _with_credit(queue, channel):
        queue.blocked.remove(consumer)
        queue.blocked.append(consumer)


def _with_credit(queue: QueueState, channel: Channel) -> list[Consumer]:
    return [consumer for consumer in queue.blocked if consumer.channel is channel and has_credit(consumer)]


def offer_single_active_place(node: NodeState, queue: QueueState, consumer: Consumer) -> None:
    """Make a new consumer the single active one, if it is its turn."""
    if not waits_for_cancelled(queue, node.release):
        choose_single_active(node, queue)
    elif queue.active_single is None and not queue.cancelled:
        queue.active_single = consumer  # although others may wait


def waits_for_cancelled(queue: QueueState, release: Release) -> bool:
    """Return whether deliveries of cancelled consumers keep the queue from choosing a single active one."""
    return queue.single_active and queue.definition.type == QUORUM and not release.quorum_single_active_beside_cancelled


def choose_single_active(node: NodeState, queue: QueueState, *, returning: int = 0) -> None:
    """Choose the queue's single active consumer, and tell links of AMQP 1.0 of a change.

    ``returning``: how many messages are about to come back.

    The first to subscribe stays until it leaves. Quorum queues of later releases go by
    priority, then by room in the prefetch, then by age: the higher one takes over when the active
    one has nothing unacknowledged; until then that gets nothing more. They pass over consumers that
    went deaf: where all did, the next to subscribe becomes the active one.

    Source: rabbit_fifo.erl activate_next_consumer, sort_waiting, consumer_update_active_effects.
    """
    if not queue.single_active:
        return
    current = queue.active_single
    queue.active_single = chosen = _single_active(queue, node.release)
    if chosen is not current:
        _say_active(node, chosen, queue.store.ready + returning)
        _say_active(node, current, None)


def _single_active(queue: QueueState, release: Release) -> Consumer | None:
    current = queue.active_single
    if queue.definition.type != QUORUM or not release.quorum_single_active_by_priority:
        line = queue.active if queue.definition.type != QUORUM else queue.consumers
        return current or next(iter(line), None)
    able = (each for each in queue.active if not each.timed_out and (each is current or not each.quiescing))
    best = min(able, key=_precedence, default=None)
    if current is not None and current.quiescing and not current.unacked:  # even if no consumer is left to take over
        current.quiescing = False
        return best
    if current is None or best is None or current.priority >= best.priority:
        return current or best
    if current.unacked:
        current.quiescing = True
        return current
    return best


def _say_active(node: NodeState, consumer: Consumer | None, available: int | None) -> None:
    """Tell a link of AMQP 1.0 that it is the single active one of its quorum queue now, or (``None``) no longer."""
    if consumer is None or consumer.credit is None or not node.release.amqp10_links_say_active:
        return
    if consumer.queue.definition.type == QUORUM and consumer in consumer.queue.consumers:
        active = available is not None
        node.out.append(ActivityChanged(consumer.channel.id, consumer.tag, active, available or 0))


def _precedence(consumer: Consumer) -> tuple[int, int, int]:
    room = consumer.prefetch + consumer.extra_prefetch - consumer.unacked
    return -consumer.priority, -room, consumer.serial


def retire_single_active(queue: QueueState) -> None:
    """Have a single active consumer that made way and holds nothing any more wait again, with none in its place."""
    current = queue.active_single
    if current is not None and current.quiescing and not current.unacked:
        current.quiescing = False
        queue.active_single = None


def step_down(node: NodeState, queue: QueueState, consumer: Consumer) -> None:
    """Have a single active consumer that went deaf make way for the next in line, if there is one.

    One that was making way already never has its turn again.
    """
    if queue.active_single is consumer:
        queue.active_single = None
        choose_single_active(node, queue, returning=consumer.timed_out)
        _say_active(node, consumer, None)


def understands_cancel(consumer: Consumer) -> bool:
    """Return whether the client knows what a basic.cancel from the broker, or the detach of a link, means."""
    if consumer.credit is not None:
        return True
    capabilities = consumer.channel.connection.client_properties.get("capabilities")
    return isinstance(capabilities, dict) and capabilities.get("consumer_cancel_notify") is True


def _insert(queue: QueueState, consumer: Consumer) -> None:
    active = queue.active
    if not active or active[-1].priority >= consumer.priority:
        active.append(consumer)
        return
    place = next(i for i, other in enumerate(active) if other.priority < consumer.priority)
    active.insert(place, consumer)


# A delivery goes out, and is settled


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
        queue.unacked_bytes += payload_size(copy.message, copy.body)
        queue.counters.deliver += 1
        if needs_watch(node, consumer):
            watch(node, channel, unacked)
    if copy.redelivered:
        queue.counters.redeliver += 1
    if not can_write(node, channel, copy.message, as_amqp10=consumer.credit is not None):
        return
    added = delivery_headers(node, queue, copy)
    place = None if consumer.credit is None else (copy.priority, copy.position)
    node.send(
        channel,
        Delivered(channel.id, consumer.tag, tag, copy.redelivered, copy.message, copy.body, added, copy.failed, place),
    )
    if node.watched or queue.vhost.tracing:
        handed_out(node, queue, copy, channel, added, no_ack=consumer.no_ack)


def can_write(node: NodeState, channel: Channel, message: Message, *, as_amqp10: bool = False) -> bool:
    """Return whether the message can be sent to a client.

    Otherwise its channel sends nothing more, and its connection ends when the step is done.
    """
    if not channel.failed and not can_be_sent(message, as_amqp10=as_amqp10):
        channel.failed = True
        node.agenda.append(DeliveryFailed(channel.connection.vhost.name, channel.id))
    return not channel.failed


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
        queue.unacked_bytes -= payload_size(unacked.copy.message, unacked.copy.body)
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


# How long a delivery may wait for its acknowledgement


def watch(node: NodeState, channel: Channel, unacked: Unacked) -> None:
    """Look at the channel when a delivery that has just gone out will time out."""
    due_us = late_us(node, channel, unacked)
    if due_us is not None:
        look_again(node, channel, due_us)


def needs_watch(node: NodeState, consumer: Consumer) -> bool:
    """Return whether a delivery may time out before its channel is checked anyway; most have the default timeout."""
    timeout_ms = consumer.timeout_ms
    if timeout_ms is None:
        return False
    return consumer.channel.timeout_due_us is None or timeout_ms != node.release.consumer_timeout_ms


def look_again(node: NodeState, channel: Channel, due_us: int) -> None:
    """Look at the channel by ``due_us``, and no later than a delivery of now would time out by default."""
    default_ms = node.release.consumer_timeout_ms
    if default_ms is not None:
        due_us = min(due_us, noticed_us(node, channel, node.now_us + default_ms * 1_000))
    due_us = max(due_us, noticed_us(node, channel, node.now_us))
    if channel.timeout_due_us is None or due_us < channel.timeout_due_us:
        channel.timeout_due_us = due_us
        node.timers.set(due_us, "acknowledgement", channel.id)  # not the channel, which may be gone long before


def reconsider_timeouts(node: NodeState, queue: QueueState) -> None:
    """Have channels that go by the timeout of their queue see at their next tick that a policy changed it."""
    if node.release.consumer_timeout_enforced_by == "channel":
        for consumer in queue.consumers:
            consumer.timeout_ms = timeout_ms(node.release, queue, {})
        for channel in node.channels.values():
            if channel.unacked and channel.connection.vhost is queue.vhost:
                look_again(node, channel, noticed_us(node, channel, node.now_us + 1))


def timeout_ms(release: Release, queue: QueueState, arguments: Mapping[str, Any]) -> int | None:
    """Return how long deliveries to a consumer with these arguments may stay unacknowledged; ``None``: for ever.

    Until 4.2 a link of AMQP 1.0 may keep its deliveries: ``timeout_of``.
    """
    by = release.consumer_timeout_enforced_by
    if by == "nobody" or (by == "queue" and queue.definition.type != QUORUM):
        return None
    own = arguments.get("x-consumer-timeout") if by == "queue" else None
    if isinstance(own, int):
        return own
    configured = queue.settings.consumer_timeout_ms
    return release.consumer_timeout_ms if configured is None else configured


def is_late(node: NodeState, channel: Channel, unacked: Unacked) -> bool:
    due_us = None if unacked.timed_out else late_us(node, channel, unacked)
    return due_us is not None and due_us <= node.now_us


def late_us(node: NodeState, channel: Channel, unacked: Unacked) -> int | None:
    """Return when the server notices that the delivery is late; ``None``: never."""
    timeout = timeout_of(node.release, unacked)
    if timeout is None:
        return None
    return noticed_us(node, channel, unacked.delivered_us + timeout * 1_000)


def noticed_us(node: NodeState, channel: Channel, time_us: int) -> int:
    """Return when the server notices what holds from ``time_us`` on: a channel at its next tick, a queue at once.

    Its clock counts milliseconds: what went out in the same one is late together.
    """
    if node.release.consumer_timeout_enforced_by == "queue":
        return time_us - time_us % 1_000
    ticks = -((channel.opened_us - time_us) // node.channel_tick_us)
    return channel.opened_us + ticks * node.channel_tick_us


def timeout_of(release: Release, unacked: Unacked) -> int | None:
    """Return the timeout in ms: a quorum queue keeps that of the subscription, a channel takes the queue's of now."""
    if release.consumer_timeout_enforced_by == "queue":
        return None if unacked.queue.deleted else unacked.timeout_ms
    if unacked.consumer is not None and unacked.consumer.credit is not None and not release.amqp10_deliveries_time_out:
        return None
    return timeout_ms(release, unacked.queue, {})
