"""Chooses the consumer of a queue that gets the next message.

Consumers of the highest priority first, in turns; one whose prefetch is used up is
set aside and comes back at the end of its priority when it may take again. A classic
queue sets it aside when its turn comes, a quorum queue at once. With a single active
consumer only that one is asked.

Source: rabbit_queue_consumers.erl deliver, unblock; rabbit_fifo.erl checkout_one,
activate_next_consumer.
"""

from __future__ import annotations

from dlx.releases import Release
from dlx.topology import CLASSIC, QUORUM
from simulator.broker.copies import Copy
from simulator.broker.state import Channel, Consumer, QueueState


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
    """Return whether the prefetch of the consumer itself lets it take one more message."""
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
    """Count the message that goes to the consumer against its prefetch."""
    if consumer.no_ack:
        return
    queue = consumer.queue
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
    """Return whether the queue has met the channel's global prefetch: it tries none of its consumers until told.

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


def join(queue: QueueState, consumer: Consumer, release: Release) -> None:
    """Make a new consumer the single active one, if it is its turn."""
    if not waits_for_cancelled(queue, release):
        choose_single_active(queue, release)
    elif queue.active_single is None and not queue.cancelled:
        queue.active_single = consumer  # although others may wait


def waits_for_cancelled(queue: QueueState, release: Release) -> bool:
    """Return whether deliveries of cancelled consumers keep the queue from choosing a single active one."""
    return queue.single_active and queue.definition.type == QUORUM and not release.quorum_single_active_beside_cancelled


def choose_single_active(queue: QueueState, release: Release) -> None:
    """Choose the queue's single active consumer.

    The first to subscribe stays until it leaves. Quorum queues of later releases go by
    priority, then by room in the prefetch, then by age: the higher one takes over when the active
    one has nothing unacknowledged; until then that gets nothing more. They pass over consumers that
    went deaf: where all did, the next to subscribe becomes the active one.

    Source: rabbit_fifo.erl activate_next_consumer, sort_waiting.
    """
    if not queue.single_active:
        return
    by_priority = release.quorum_single_active_by_priority
    if queue.definition.type != QUORUM or not by_priority:
        line = queue.active if queue.definition.type != QUORUM else queue.consumers
        if queue.active_single is None:
            queue.active_single = next(iter(line), None)
        return
    current = queue.active_single
    able = (each for each in queue.active if not each.timed_out and (each is current or not each.quiescing))
    best = min(able, key=_precedence, default=None)
    if current is not None and current.quiescing and not current.unacked:  # even if nobody is left to take over
        current.quiescing = False
        queue.active_single = best
    elif current is None or best is None or current.priority >= best.priority:
        queue.active_single = current or best
    elif current.unacked:
        current.quiescing = True
    else:
        queue.active_single = best


def _precedence(consumer: Consumer) -> tuple[int, int, int]:
    room = consumer.prefetch + consumer.extra_prefetch - consumer.unacked
    return -consumer.priority, -room, consumer.serial


def retire_single_active(queue: QueueState) -> None:
    """Have a single active consumer that made way and holds nothing any more wait again, with nobody in its place."""
    current = queue.active_single
    if current is not None and current.quiescing and not current.unacked:
        current.quiescing = False
        queue.active_single = None


def step_down(queue: QueueState, consumer: Consumer, release: Release) -> None:
    """Have a single active consumer that went deaf make way for the next in line, if there is one.

    One that was making way already never has its turn again.
    """
    if queue.active_single is consumer:
        queue.active_single = None
        choose_single_active(queue, release)


def understands_cancel(channel: Channel) -> bool:
    """Return whether the client knows what a basic.cancel from the broker means."""
    capabilities = channel.connection.client_properties.get("capabilities")
    return isinstance(capabilities, dict) and capabilities.get("consumer_cancel_notify") is True


def _insert(queue: QueueState, consumer: Consumer) -> None:
    active = queue.active
    if not active or active[-1].priority >= consumer.priority:
        active.append(consumer)
        return
    place = next(i for i, other in enumerate(active) if other.priority < consumer.priority)
    active.insert(place, consumer)
