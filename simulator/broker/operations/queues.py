"""The life of messages in queues: they enter, are handed out, come back, expire, are pushed out, die.

What one queue does to another happens afterwards: a dead letter is put on the
broker's agenda and enters its queues when the step that made it is done, as
RabbitMQ's queue processes send each other messages. The two types evaluate in
different orders, which shows: a classic queue delivers before it looks at limits
and expiry, a quorum queue expires first and looks at its limits last.

Source: rabbit_amqqueue_process.erl deliver_or_enqueue, requeue_and_run, fetch;
rabbit_fifo.erl apply, checkout, evaluate_limit.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING

from dlx.deaths import DELIVERY_LIMIT, EXPIRED, MAXLEN, REJECTED
from dlx.delivery_counts import Counts, Return, count_headers, returned
from dlx.message import Message
from dlx.settings import AT_LEAST_ONCE, REJECT_PUBLISH_DLX
from dlx.topology import CLASSIC, QUORUM, STREAM
from simulator.broker.copies import Copy
from simulator.broker.operations import (
    ack_timeouts,
    acknowledgements,
    consumer_selection,
    dead_letters,
    stream_consumers,
    tracing,
)
from simulator.broker.replies import Delivered
from simulator.broker.state import Channel, Consumer, QueueState, Unacked
from simulator.events import Event

if TYPE_CHECKING:
    from simulator.broker.broker import Broker


def enter(
    broker: Broker,
    queue: QueueState,
    message: Message,
    body: bytes,
    uid: int,
    publisher: Hashable = None,
    *,
    held: bool = False,
) -> bool:
    """A message arrives; whether the queue takes it.

    ``held``: it is a dead letter that its queue holds until it is taken. Without a
    publisher it is one that is sent at most once.
    """
    store = queue.store
    copy = Copy(uid, message, body)
    if store.limited and store.refuses(copy, internal=publisher is None, publisher=publisher):
        _refused(broker, queue, copy, Event.DEFERRED if held else Event.NACKED, dead=publisher is None)
        return False
    store.enter(copy, broker.now_us)
    if Event.ROUTED in broker.watched:
        broker.happened(Event.ROUTED, queue, copy)
    after_entering(broker, queue, copy)
    return True


def after_entering(broker: Broker, queue: QueueState, copy: Copy) -> None:
    """Hand out, expire and push out, in the order of the queue's type."""
    kind = queue.definition.type
    if kind == STREAM:
        stream_consumers.run(broker, queue)
        return
    if kind == QUORUM:
        evaluate(broker, queue)
        return
    if queue.store.ready == 1:
        _offer(broker, queue, copy)
        if not queue.store.ready:
            return
    dropped = queue.store.limited and _drop(broker, queue, queue.store.overflowing(), MAXLEN, Event.LENGTH_DROPPED)
    if dropped or copy.expires_us is not None:
        expire(broker, queue)


def _offer(broker: Broker, queue: QueueState, copy: Copy) -> None:
    """An empty classic queue hands a message straight on: then it shows nothing of former deliveries elsewhere."""
    carried, copy.redelivered = copy.redelivered, False
    run(broker, queue)
    if queue.store.ready:
        copy.redelivered = carried


def evaluate(broker: Broker, queue: QueueState) -> None:
    """What a queue does after anything changed in it: requeues, acknowledgements, time, policies."""
    store = queue.store
    if queue.definition.type == QUORUM:
        expire(broker, queue)
        run(broker, queue)
        if store.limited:
            if _drop(broker, queue, store.overflowing(), MAXLEN, Event.LENGTH_DROPPED):
                broker.look_after(queue)
            run(broker, queue)
    elif queue.definition.type == STREAM:
        stream_consumers.run(broker, queue)
    else:
        if store.limited:
            _drop(broker, queue, store.overflowing(), MAXLEN, Event.LENGTH_DROPPED)
        expire(broker, queue)
        run(broker, queue)


def run(broker: Broker, queue: QueueState) -> None:
    """Hand out ready messages for as long as a consumer may take one.

    A quorum queue sends what it hands out in one go consumer by consumer.
    """
    store, taken = queue.store, False
    later: list[tuple[Consumer, Copy]] | None = [] if queue.definition.type == QUORUM else None
    while store.ready and queue.consumers:
        if broker.handed_out >= broker.hand_out_max:  # the rest after whatever else there is to do
            broker.timers.set(broker.now_us, "queue", queue)
            break
        consumer = consumer_selection.next_taker(queue)
        if consumer is None:
            break
        broker.handed_out += 1
        copy = store.take()
        consumer_selection.book(consumer)
        if later is None:
            deliver(broker, consumer, copy)
        else:
            later.append((consumer, copy))
        taken = True
        dead = store.expired(broker.now_us)
        if dead:
            _drop(broker, queue, dead, EXPIRED, Event.EXPIRED)
    if later:
        for consumer, copy in consumer_selection.by_consumer(later, broker.release):
            deliver(broker, consumer, copy)
    if taken:
        broker.look_after(queue)


def deliver(broker: Broker, consumer: Consumer, copy: Copy) -> None:
    """Send a message to the consumer whose turn it is."""
    queue, channel = consumer.queue, consumer.channel
    tag = channel.next_delivery_tag
    channel.next_delivery_tag = tag + 1
    if consumer.no_ack:
        queue.counters.deliver_no_ack += 1
    else:
        channel.unacked[tag] = unacked = Unacked(copy, queue, consumer, broker.now_us, consumer.timeout_ms)
        queue.unacked += 1
        queue.unacked_bytes += len(copy.body)
        queue.counters.deliver += 1
        if ack_timeouts.needs_watch(broker, consumer):
            ack_timeouts.watch(broker, channel, unacked)
    if copy.redelivered:
        queue.counters.redeliver += 1
    added = delivery_headers(broker, queue, copy)
    broker.out.append(Delivered(channel.id, consumer.tag, tag, copy.redelivered, copy.message, copy.body, added))
    if broker.watched or queue.vhost.tracing:
        handed_out(broker, queue, copy, channel, added, no_ack=consumer.no_ack)


def handed_out(
    broker: Broker, queue: QueueState, copy: Copy, channel: Channel, added: dict[str, int] | None, *, no_ack: bool
) -> None:
    """Tell those who watch: the firehose, and whoever asked for the event."""
    if queue.vhost.tracing:
        tracing.delivered(broker, queue, copy, channel, added)
    if Event.DELIVERED in broker.watched:
        broker.happened(Event.DELIVERED, queue, copy)
    if no_ack and Event.ACKED in broker.watched:
        broker.happened(Event.ACKED, queue, copy, detail="automatically")


def delivery_headers(
    broker: Broker, queue: QueueState, copy: Copy, *, first_get: bool = False
) -> dict[str, int] | None:
    """The counts that a quorum queue adds to a delivery; ``None`` for none."""
    if queue.definition.type != QUORUM:
        return None
    if copy.acquired is None and copy.failed is None and not first_get:
        return None
    return count_headers(Counts(copy.acquired, copy.failed), broker.release, first_get=first_get) or None


def release(broker: Broker, queue: QueueState, deliveries: list[Unacked]) -> None:
    """The deliveries no longer wait: queue, consumers and channels count them no more."""
    was_in_use = queue.in_use
    queue.unacked -= len(deliveries)
    for unacked in deliveries:
        queue.unacked_bytes -= len(unacked.copy.body)
        consumer = unacked.consumer
        if consumer is None:
            queue.unacked_gets -= 1
            continue
        consumer.unacked -= 1
        if queue.definition.type == CLASSIC:
            _credit(queue, consumer)
        elif consumer.extra_prefetch > consumer.unacked and not broker.release.quorum_delivery_limit_widens_prefetch:
            consumer.extra_prefetch = consumer.unacked
        if queue.cancelled and not consumer.unacked:
            queue.cancelled.discard(consumer)
    if was_in_use and not queue.in_use:
        broker.used(queue)


def _credit(queue: QueueState, consumer: Consumer) -> None:
    """A classic queue counts by tags: what a cancelled consumer acknowledges makes room for the next of its tag."""
    channel = consumer.channel
    if channel.global_unacked:
        channel.global_unacked -= 1
    if consumer in queue.cancelled:
        successor = channel.consumers.get(consumer.tag)
        if successor is not None and successor.queue is queue:
            successor.extra_prefetch += 1


def requeue(
    broker: Broker, queue: QueueState, copies: list[Copy], how: Return, consumer: Consumer | None = None
) -> None:
    """Deliveries, those of a consumer or of basic.get, come back to their queue, or die there of the delivery limit."""
    dead = queue.store.give_back(copies, how, broker.now_us)
    if dead and consumer is not None and broker.release.quorum_delivery_limit_widens_prefetch:
        consumer.extra_prefetch += len(dead)
    if Event.REQUEUED in broker.watched:
        for copy in copies:
            broker.happened(Event.REQUEUED, queue, copy, detail=how)
    later = broker.release.quorum_overflow_before_delivery_limit and queue.definition.type == QUORUM
    if dead and not later:
        _drop(broker, queue, dead, DELIVERY_LIMIT, Event.LIMIT_DROPPED)
    evaluate(broker, queue)
    if dead and later:
        _drop(broker, queue, dead, DELIVERY_LIMIT, Event.LIMIT_DROPPED)
    broker.look_after(queue)


def reject(broker: Broker, queue: QueueState, copies: list[Copy], how: Return) -> None:
    """Deliveries are rejected for good: they die in their queue."""
    for copy in copies:
        counts = returned(Counts(copy.acquired, copy.failed), how, broker.release)
        copy.acquired, copy.failed = counts.acquired, counts.delivery
    _drop(broker, queue, copies, REJECTED, Event.REJECTED)


def settled(broker: Broker, queue: QueueState) -> None:
    """Acknowledgements made room for further deliveries. A stream's consumers see to themselves."""
    if queue.definition.type == STREAM:
        return
    if queue.single_active:
        consumer_selection.choose_single_active(queue, broker.release)
    if queue.store.ready and queue.consumers:
        if queue.definition.type == QUORUM:
            expire(broker, queue)
        run(broker, queue)


def expire(broker: Broker, queue: QueueState) -> None:
    """Take out what has expired, and see to it that the queue is looked after when the next does."""
    dead = queue.store.expired(broker.now_us)
    if dead:
        _drop(broker, queue, dead, EXPIRED, Event.EXPIRED)
    broker.look_after(queue)


def purge(broker: Broker, queue: QueueState) -> int:
    """Remove what is ready; how many messages that were."""
    gone = queue.store.purge()
    if Event.PURGED in broker.watched:
        for copy in gone:
            broker.happened(Event.PURGED, queue, copy)
    if broker.release.purge_clears_pending_dead_letters:
        return len(gone) + dead_letters.forget(broker, queue)
    return len(gone)


def lose(broker: Broker, queue: QueueState, why: str) -> None:
    """The queue is gone with all that it has; who still refers to it shall not keep its messages."""
    gone = queue.store.purge()
    if Event.PURGED in broker.watched:
        waiting = [unacked.copy for unacked in _waiting(broker, queue)]
        for copy in (*gone, *waiting):
            broker.happened(Event.PURGED, queue, copy, detail=why)
    if queue.settings.dead_letter_strategy == AT_LEAST_ONCE:
        dead_letters.abandon(broker, queue, why)
    queue.letters.clear()


def _waiting(broker: Broker, queue: QueueState) -> Iterator[Unacked]:
    """The queue's deliveries that wait for their acknowledgement, or for a commit of it."""
    for channel in broker.channels.values():
        for _, unacked in (*channel.unacked.items(), *acknowledgements.uncommitted(channel)):
            if unacked.queue is queue and not unacked.timed_out:
                yield unacked


def _refused(broker: Broker, queue: QueueState, copy: Copy, event: Event, *, dead: bool) -> None:
    """The queue is full. A publisher is told; a dead letter sent at most once has none, and is lost."""
    full = f"queue '{queue.name}' is full"
    if event in broker.watched:
        broker.happened(event, queue, copy, reason=MAXLEN if dead else None, detail=full)
    if queue.definition.type == CLASSIC and queue.settings.overflow == REJECT_PUBLISH_DLX:
        dead_letters.die(broker, queue, copy, MAXLEN)
    elif dead and Event.DROPPED in broker.watched:
        broker.happened(Event.DROPPED, queue, copy, reason=MAXLEN, detail=full)


def _drop(broker: Broker, queue: QueueState, dead: Sequence[Copy], reason: str, event: Event) -> bool:
    """They die; whether there were any."""
    for copy in dead:
        if event in broker.watched:
            broker.happened(event, queue, copy, reason=reason)
        dead_letters.die(broker, queue, copy, reason)
    return bool(dead)
