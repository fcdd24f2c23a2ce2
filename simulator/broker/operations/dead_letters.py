"""Dead messages and where they go: at most once, or held until their queues have them.

The rules are ``dlx.dead_lettering``; this file carries out what they say. At most once: the
dead letter goes on the agenda for each queue it is routed to, and that is that. At
least once (quorum queues): the message stays with its queue, and a worker that has
32 of them in hand republishes each until every queue it is routed to has taken it.

Source: rabbit_dead_letter.erl; rabbit_fifo_dlx.erl, rabbit_fifo_dlx_worker.erl.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from dlx.dead_lettering import DeadLetter, closes_cycle, dead_letter, readdressed, record_death
from dlx.death_headers import QueueCrashError
from dlx.deaths import REJECTED
from dlx.delivery_counts import Counts, carried
from dlx.message import Message
from dlx.routing import route
from dlx.settings import AT_LEAST_ONCE
from dlx.topology import CLASSIC, QUORUM
from simulator.broker.copies import Copy
from simulator.broker.operations import queues
from simulator.broker.state import Pending, QueueState
from simulator.events import Event

if TYPE_CHECKING:
    from simulator.broker.broker import Broker

WORKER_PREFETCH = 32  # dead_letter_worker_consumer_prefetch
RETRY_US = 180_000_000  # dead_letter_worker_publisher_confirm_timeout
_REMEMBERED = 1_000

_ENDS = {
    "dead-lettered": Event.DEAD_LETTERED,
    "no dead-letter exchange": Event.DROPPED,
    "dead-letter exchange missing": Event.DROPPED,
    "unroutable": Event.UNROUTABLE,
    "cycle": Event.CYCLE_DROPPED,
}


def die(broker: Broker, queue: QueueState, copy: Copy, reason: str) -> None:
    """The copy died in ``queue``, which no longer holds it."""
    settings = queue.settings
    if settings.dead_letter_exchange is None:
        _ended(broker, queue, copy, reason, "no dead-letter exchange", "the queue has no dead-letter exchange")
    elif settings.dead_letter_strategy == AT_LEAST_ONCE:
        _hold(broker, queue, copy, reason)
    else:
        _republish(broker, queue, copy, reason)


def _republish(broker: Broker, queue: QueueState, copy: Copy, reason: str) -> None:
    try:
        outcome = _letter(broker, queue, copy, reason)
    except QueueCrashError as error:
        _crashed(broker, queue, copy, reason, error)
        return
    letter = outcome.message
    if letter is not None:
        for name in outcome.queues:
            broker.agenda.append((arrive, (queue.vhost.name, name, letter, copy.body, copy.uid)))
    if broker.watched:
        _ended(broker, queue, copy, reason, outcome.outcome, outcome.why or f"to {', '.join(outcome.queues)}")


def _crashed(broker: Broker, queue: QueueState, copy: Copy, reason: str, error: QueueCrashError) -> None:
    """A malformed history crashed the queue's process: a persistent message that was rejected comes back with it.

    Not done: RabbitMQ takes the queue's other deliveries back as well, and drops its transient messages.
    """
    persistent = queue.definition.durable and copy.message.properties.get("delivery_mode") == 2
    if persistent and reason == REJECTED and queue.definition.type == CLASSIC:
        queues.requeue(broker, queue, [copy], "lost channel")
    else:
        _ended(broker, queue, copy, reason, "no dead-letter exchange", f"the queue crashed: {error}")


def arrive(broker: Broker, vhost: str, name: str, letter: Message, body: bytes, uid: int) -> None:
    """A dead letter reaches a queue, if that still exists."""
    host = broker.vhosts.get(vhost)
    queue = None if host is None else host.queues.get(name)
    if queue is not None:
        queues.enter(broker, queue, letter, body, uid)


def _letter(broker: Broker, queue: QueueState, copy: Copy, reason: str) -> DeadLetter:
    """The rules' verdict, remembered for messages that look alike and die in the same second."""
    time_s = broker.now_us // 1_000_000
    count = _taken_along(broker, queue, copy)
    key = (id(copy.message), count, reason, time_s, queue.vhost.generation)
    found = queue.letters.get(key)
    if found is not None:
        return found[1]
    if len(queue.letters) >= _REMEMBERED:
        queue.letters.clear()
    message, topology = _leaving(copy.message, count), queue.vhost.topology
    verdict = dead_letter(message, reason, queue.settings, topology, broker.release, time_s=time_s)
    queue.letters[key] = (copy.message, verdict)
    return verdict


def _taken_along(broker: Broker, queue: QueueState, copy: Copy) -> int | None:
    """The count of failed deliveries that the message takes along; what a queue does not count it passes on."""
    counted = broker.release.delivery_count_carried == "from all queues" or queue.definition.type == QUORUM
    if copy.failed is None or not counted:
        return copy.message.delivery_count
    return carried(Counts(copy.acquired, copy.failed), queue.definition.type, broker.release)


def _leaving(message: Message, count: int | None) -> Message:
    return message if count == message.delivery_count else msgspec.structs.replace(message, delivery_count=count)


def _ended(broker: Broker, queue: QueueState, copy: Copy, reason: str, outcome: str, why: str) -> None:
    event = _ENDS[outcome]
    if event in broker.watched:
        broker.happened(event, queue, copy, reason=reason, detail=why)


# At least once


def _hold(broker: Broker, queue: QueueState, copy: Copy, reason: str) -> None:
    letter = _leaving(copy.message, _taken_along(broker, queue, copy))
    queue.discards.append(Pending(copy, reason, letter))
    _count(queue, copy, 1)
    if Event.HELD in broker.watched:
        broker.happened(Event.HELD, queue, copy, reason=reason)
    broker.agenda.append((work, (queue.vhost.name, queue.name)))


def work(broker: Broker, vhost: str, name: str) -> None:
    """The worker takes messages in hand for as long as it may, and republishes each."""
    host = broker.vhosts.get(vhost)
    queue = None if host is None else host.queues.get(name)
    if queue is None:
        return
    while queue.discards and len(queue.in_hand) < WORKER_PREFETCH:
        pending = queue.discards.popleft()
        time_s = broker.now_us // 1_000_000
        pending.keys = pending.letter.routing_keys
        try:
            pending.letter = record_death(pending.letter, name, pending.reason, broker.release, time_s=time_s)
        except QueueCrashError as error:
            _count(queue, pending.copy, -1)
            why = f"the dead-letter worker crashed: {error}"
            _ended(broker, queue, pending.copy, pending.reason, "no dead-letter exchange", why)
            continue
        queue.in_hand.append(pending)
        _forward(broker, queue, pending)
    if queue.in_hand and not queue.retrying:
        queue.retrying = True
        broker.timers.set(broker.now_us + RETRY_US, "retry", queue)


def retry(broker: Broker, queue: QueueState) -> None:
    """Try again what found no queue, and what was refused long enough ago."""
    for pending in list(queue.in_hand):
        published = pending.published_us
        if published is None or published + RETRY_US <= broker.now_us:
            _forward(broker, queue, pending)
    work(broker, queue.vhost.name, queue.name)


def _forward(broker: Broker, queue: QueueState, pending: Pending) -> None:
    """Publish a held message to the queues that do not have it yet; it is done when all have.

    RabbitMQ keeps a message that some queues have when those that refused it are no
    longer bound and the others are, and lets it go when none is.
    """
    topology, settings = queue.vhost.topology, queue.settings
    original = msgspec.structs.replace(pending.letter, routing_keys=pending.keys)
    pending.letter = letter = readdressed(original, settings, broker.release)
    if settings.dead_letter_exchange not in topology.exchanges:
        return
    routed = route(letter, topology, broker.release)
    if pending.reached and not routed:
        _settled(broker, queue, pending)
        return
    waiting = [name for name in routed if name not in pending.reached]
    targets = [name for name in waiting if not closes_cycle(name, pending.reason, letter, broker.release)]
    if targets and _publish(broker, queue, pending, targets):
        _settled(broker, queue, pending)


def _publish(broker: Broker, queue: QueueState, pending: Pending, targets: list[str]) -> bool:
    """Whether all the queues took the message."""
    pending.published_us = broker.now_us
    copy, taken = pending.copy, True
    for name in targets:
        target = queue.vhost.queues[name]
        if queues.enter(broker, target, pending.letter, copy.body, copy.uid, _publisher(queue), held=True):
            pending.reached.add(name)
        else:
            taken = False
    return taken


def _publisher(queue: QueueState) -> str:
    """The queue's worker, as those it publishes to know it."""
    return f"worker of {queue.name}"


def _settled(broker: Broker, queue: QueueState, pending: Pending) -> None:
    queue.in_hand.remove(pending)
    if pending.counted:
        _count(queue, pending.copy, -1)
    if Event.DEAD_LETTERED in broker.watched:
        detail = f"to {', '.join(sorted(pending.reached))}"
        broker.happened(Event.DEAD_LETTERED, queue, pending.copy, reason=pending.reason, detail=detail)


def abandon(broker: Broker, queue: QueueState, why: str) -> None:
    """Drop what is held, and what the worker has in hand; the worker goes."""
    for other in queue.vhost.queues.values():
        other.store.forget(_publisher(queue))
    queue.discards.extendleft(reversed(queue.in_hand))
    queue.in_hand.clear()
    forget(broker, queue, why)


def forget(broker: Broker, queue: QueueState, why: str = "") -> int:
    """Drop what is held; how many messages it was. What the worker has in hand still goes out."""
    count = queue.store.pending
    if Event.PURGED in broker.watched:
        for pending in queue.discards:
            broker.happened(Event.PURGED, queue, pending.copy, reason=pending.reason, detail=why)
    queue.discards.clear()
    for pending in queue.in_hand:
        pending.counted = False
    queue.store.pending = queue.store.pending_bytes = 0
    return count


def _count(queue: QueueState, copy: Copy, change: int) -> None:
    """Held messages count towards the length of their queue."""
    queue.store.pending += change
    queue.store.pending_bytes += change * copy.size
