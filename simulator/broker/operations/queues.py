"""The life of messages in queues: they enter, are handed out, come back, expire, are pushed out, die.

The effects of one queue on another happen afterwards: a dead letter is put on the
broker's agenda and enters its queues when the step that made it is done, as
RabbitMQ's queue processes send each other messages. The two types evaluate in
different orders, which shows: a classic queue delivers before it looks at limits
and expiry, a quorum queue expires first and looks at its limits last.

Source: rabbit_amqqueue_process.erl deliver_or_enqueue, requeue_and_run, fetch;
rabbit_fifo.erl apply, checkout, evaluate_limit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Sequence

from dlx.deaths import DELIVERY_LIMIT, EXPIRED, MAXLEN, REJECTED
from dlx.delivery_counts import Return, failures
from dlx.message import Message
from dlx.settings import AT_LEAST_ONCE
from dlx.topology import QUORUM, STREAM
from simulator.broker.copies import Copy
from simulator.broker.effects import DeadLettered, Leaving
from simulator.broker.operations import dead_letters, deliveries, stream_consumers
from simulator.broker.state import Consumer, NodeState, QueueState, Unacked
from simulator.broker.stores.classic import PriorityError
from simulator.broker.stores.quorum import QuorumStore
from simulator.events import Event

_ROUTED = Event.ROUTED  # Python 3.11 takes long to look it up
AT_ONCE_MAX = 1_000  # of more messages that leave a queue together, each one's death is a step of its own


def enter(
    node: NodeState,
    queue: QueueState,
    message: Message,
    body: bytes,
    uid: int,
    publisher: Hashable = None,
    *,
    held: bool = False,
    under_way: bool = False,
) -> bool:
    """Let a message arrive, and return whether the queue takes it.

    ``held``: it is a dead letter that its queue holds until it is taken. Without a
    publisher it is one that is sent at most once. ``under_way``: it was sent before its
    publisher could hear that it must stop.
    """
    store = queue.store
    copy = Copy(uid, message, body)
    if not store.limited:
        store.know(publisher)
    elif not under_way and store.refuses(copy, internal=publisher is None, publisher=publisher):
        _tell_refusal(node, queue, copy, Event.DEFERRED if held else Event.NACKED, dead=publisher is None)
        return False
    try:
        store.enter(copy, node.now_us)
    except PriorityError as error:
        _crashed(node, queue, copy, str(error), dead=publisher is None)
        return False
    if _ROUTED in node.watched:
        node.happened(_ROUTED, queue, copy)
    after_entering(node, queue, copy)
    if queue.crashed and queue.keeps_over_crash(copy):
        dead_letters.forget_unwritten(node, copy)
        removed(node, queue, [copy], "the queue crashed before it was written")
        return False
    return True


def arrive(node: NodeState, effect: DeadLettered) -> None:
    """Let a dead letter enter its queue, if that still exists."""
    queue = node.queue(effect.vhost, effect.queue)
    if queue is not None:
        enter(node, queue, effect.letter, effect.body, effect.uid)


def after_entering(node: NodeState, queue: QueueState, copy: Copy) -> None:
    """Hand out, expire and push out, in the order of the queue's type."""
    kind = queue.definition.type
    if kind == STREAM:
        stream_consumers.run(node, queue)
        return
    if kind == QUORUM:
        evaluate(node, queue)
        return
    if queue.store.ready == 1:
        _offer(node, queue, copy)
        if not queue.store.ready:
            return
    if keep_within_limits(node, queue) or copy.expires_us is not None:
        expire(node, queue)


def _offer(node: NodeState, queue: QueueState, copy: Copy) -> None:
    """Hand a message straight on from an empty classic queue: it shows nothing of former deliveries elsewhere."""
    carried, copy.redelivered = copy.redelivered, False
    run(node, queue)
    if queue.store.ready:
        copy.redelivered = carried


def evaluate(node: NodeState, queue: QueueState, *, singly: bool = False) -> None:
    """Do what a queue does after anything changed in it: requeues, acknowledgements, time, policies.

    ``singly``: message by message, as ``run`` has it.
    """
    store = queue.store
    if queue.definition.type == QUORUM:
        expire(node, queue)
        run(node, queue, singly=singly)
        if store.limited:
            if keep_within_limits(node, queue):
                node.look_after(queue)
            run(node, queue)
    elif queue.definition.type == STREAM:
        stream_consumers.run(node, queue)
    else:
        keep_within_limits(node, queue)
        expire(node, queue)
        run(node, queue)


def keep_within_limits(node: NodeState, queue: QueueState) -> bool:
    """Push out what is over the limits, and return whether there was any.

    A quorum queue that rejects asks its publishers to stop, or to go on. It looks at the end of every
    command, so that one that empties it far enough for a moment lets them go on for good.
    """
    store = queue.store
    return store.limited and _drop(node, queue, store.overflowing(), MAXLEN, Event.LENGTH_DROPPED)


def due(node: NodeState, due_us: int, queue: QueueState) -> None:
    """Look after a queue when a message expires or wakes, or more may be handed out."""
    if queue.due_us == due_us:
        queue.due_us = None
    if not queue.deleted:
        queue.store.awake(node.now_us)
        evaluate(node, queue)
        node.look_after(queue)


def run(node: NodeState, queue: QueueState, *, singly: bool = False) -> None:
    """Hand out ready messages for as long as a consumer may take one.

    A quorum queue sends what it hands out in one go consumer by consumer; ``singly``: it hands out one at a time.
    """
    store, taken = queue.store, False
    later: list[tuple[Consumer, Copy]] | None = [] if queue.definition.type == QUORUM and not singly else None
    while store.ready and queue.consumers:
        if node.handed_out >= node.hand_out_max:  # the rest after whatever else there is to do
            node.timers.set(node.now_us, "queue", queue)
            break
        consumer = deliveries.next_taker(queue)
        if consumer is None:
            break
        node.handed_out += 1
        copy = store.take()
        deliveries.book(consumer)
        if later is None:
            deliveries.deliver(node, consumer, copy)
        else:
            later.append((consumer, copy))
        taken = True
        dead = store.expired(node.now_us)
        if dead:
            _drop(node, queue, dead, EXPIRED, Event.EXPIRED)
    if later:
        for consumer, copy in deliveries.by_consumer(later, node.release):
            deliveries.deliver(node, consumer, copy)
    if taken:
        node.look_after(queue)


def requeue(
    node: NodeState, queue: QueueState, copies: list[Copy], how: Return, consumer: Consumer | None = None
) -> None:
    """Return deliveries, those of a consumer or of basic.get, to their queue, or let them die of the delivery limit."""
    dead = queue.store.give_back(copies, how, node.now_us)
    if dead and consumer is not None and node.release.quorum_delivery_limit_widens_prefetch:
        consumer.extra_prefetch += len(dead)
    if Event.REQUEUED in node.watched:
        for copy in copies:
            node.happened(Event.REQUEUED, queue, copy, detail=how)
    later = node.release.quorum_overflow_before_delivery_limit and queue.definition.type == QUORUM
    if dead and not later:
        _drop(node, queue, dead, DELIVERY_LIMIT, Event.LIMIT_DROPPED)
    evaluate(node, queue, singly=isinstance(queue.store, QuorumStore) and queue.store.takes_back_singly(how))
    if dead and later:
        _drop(node, queue, dead, DELIVERY_LIMIT, Event.LIMIT_DROPPED)
    node.look_after(queue)


def reject(node: NodeState, queue: QueueState, copies: list[Copy], how: Return) -> None:
    """Reject deliveries for good: they die in their queue."""
    for copy in copies:
        copy.acquired = (copy.acquired or 0) + 1
        copy.failed = failures(copy.failed, how, node.release)
    _drop(node, queue, copies, REJECTED, Event.REJECTED)


def settled(node: NodeState, queue: QueueState) -> None:
    """Hand out more: acknowledgements made room. The consumers of a stream read on by themselves."""
    if queue.definition.type == STREAM:
        return
    if queue.single_active and not deliveries.waits_for_cancelled(queue, node.release):
        deliveries.choose_single_active(node, queue)
    if queue.store.ready and queue.consumers:
        if queue.definition.type == QUORUM:
            expire(node, queue)
        run(node, queue)
    if queue.definition.type == QUORUM:
        keep_within_limits(node, queue)


def expire(node: NodeState, queue: QueueState) -> None:
    """Remove expired messages, and have the queue looked after when the next one expires."""
    dead = queue.store.expired(node.now_us)
    if dead:
        _drop(node, queue, dead, EXPIRED, Event.EXPIRED)
    node.look_after(queue)


def purge(node: NodeState, queue: QueueState) -> int:
    """Remove what is ready, and return how many messages that were."""
    gone = queue.store.purge()
    removed(node, queue, gone)
    pending = dead_letters.forget(node, queue) if node.release.purge_clears_pending_dead_letters else 0
    keep_within_limits(node, queue)
    return len(gone) + pending


def lose(node: NodeState, queue: QueueState, why: str) -> None:
    """Remove all that a deleted queue has: objects that still refer to it must not keep its messages."""
    gone = queue.store.purge()
    if Event.PURGED in node.watched:
        unsettled = [unacked.copy for unacked in waiting(node, queue)]
        removed(node, queue, [*gone, *unsettled], why)
    if queue.settings.dead_letter_strategy == AT_LEAST_ONCE:
        dead_letters.abandon(node, queue, why)
    queue.letters.clear()


def waiting(node: NodeState, queue: QueueState) -> Iterator[Unacked]:
    """Yield the queue's deliveries that wait for their acknowledgement, or for a commit of it."""
    for channel in node.channels.values():
        for _, unacked in (*channel.unacked.items(), *channel.uncommitted()):
            if unacked.queue is queue and not unacked.timed_out:
                yield unacked


def _tell_refusal(node: NodeState, queue: QueueState, copy: Copy, event: Event, *, dead: bool) -> None:
    """Report that a full queue refused a message. A dead letter sent at most once has no publisher, and is lost."""
    full = f"queue '{queue.name}' is full"
    if event in node.watched:
        node.happened(event, queue, copy, reason=MAXLEN if dead else None, detail=full)
    if queue.settings.dead_letters_refused:
        if dead_letters.die(node, queue, copy, MAXLEN):
            dead_letters.crash(node, queue, [])
    elif dead and Event.DROPPED in node.watched:
        node.happened(Event.DROPPED, queue, copy, reason=MAXLEN, detail=full)


def _crashed(node: NodeState, queue: QueueState, copy: Copy, why: str, *, dead: bool) -> None:
    """Let a message crash its queue as it enters."""
    event = Event.DROPPED if dead else Event.NACKED
    if event in node.watched:
        node.happened(event, queue, copy, detail=f"the queue crashed: {why}")
    dead_letters.crash(node, queue, [])


def _drop(node: NodeState, queue: QueueState, dead: Sequence[Copy], reason: str, event: Event) -> bool:
    """Let messages die, and return whether there were any."""
    if len(dead) > AT_ONCE_MAX and queue.settings.dead_letter_strategy != AT_LEAST_ONCE:  # which counts what it holds
        node.agenda.append(Leaving(queue.vhost.name, queue, deque(dead), event, reason))
    else:
        for place, copy in enumerate(dead):
            if _gone(node, queue, copy, event, reason):
                again = _died_in_vain(queue, dead, place, reason)
                for other in again if Event.REQUEUED in node.watched else ():
                    node.happened(Event.REQUEUED, queue, other, reason=reason, detail="the queue crashed")
                dead_letters.crash(node, queue, [*again, *dead[place + 1 :]])
                break
    return bool(dead)


def _died_in_vain(queue: QueueState, dead: Sequence[Copy], place: int, reason: str) -> list[Copy]:
    """Return which of the messages that died together are in the queue again when the one at ``place`` crashes it.

    A queue forgets those rejected together when all have been sent, and others one by one. Not done: one that has
    expired crashes the queue again and again, until RabbitMQ no longer starts it.
    """
    first = {REJECTED: 0, EXPIRED: place + 1}.get(reason, place)
    return [*filter(queue.keeps_over_crash, dead[first : place + 1])]


def removed(node: NodeState, queue: QueueState, copies: list[Copy], why: str = "") -> None:
    """Tell those who watch that messages were removed."""
    if Event.PURGED not in node.watched:
        return
    if len(copies) > AT_ONCE_MAX:
        node.agenda.append(Leaving(queue.vhost.name, queue, deque(copies), Event.PURGED, detail=why))
    else:
        for copy in copies:
            _gone(node, queue, copy, Event.PURGED, detail=why)


def _gone(
    node: NodeState, queue: QueueState, copy: Copy, event: Event, reason: str | None = None, detail: str = ""
) -> bool:
    """Report that a message has left its queue, and dead-letter it if it died; return whether the queue crashes."""
    if event in node.watched:
        node.happened(event, queue, copy, reason=reason, detail=detail)
    return reason is not None and dead_letters.die(node, queue, copy, reason)


def leave(node: NodeState, effect: Leaving) -> None:
    """Let the next of many messages die; what that sets off comes before the others."""
    agenda = node.agenda
    if not effect.copies:
        return
    before = len(agenda)
    if _gone(node, effect.queue, effect.copies.popleft(), effect.event, effect.reason, effect.detail):
        dead_letters.crash(node, effect.queue, effect.copies)
        return
    set_off = [agenda.pop() for _ in range(len(agenda) - before)]
    if effect.copies:
        agenda.appendleft(effect)
    agenda.extendleft(set_off)


def finish_leaving(node: NodeState, queue: QueueState) -> None:
    """Let all die at once that left a queue before it is deleted."""
    leaving = [effect for effect in node.agenda if isinstance(effect, Leaving) and effect.queue is queue]
    for effect in leaving:
        while effect.copies:
            _gone(node, queue, effect.copies.popleft(), effect.event, effect.reason, effect.detail)
