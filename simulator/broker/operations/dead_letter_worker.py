"""At-least-once dead-lettering: a worker for each quorum queue republishes what the queue holds.

It has 32 messages in hand at most, and republishes each until every queue that it is
routed to has taken it. It retries a message that found no queue or was refused after
three minutes, and when a policy changes.

Source: rabbit_fifo_dlx.erl, rabbit_fifo_dlx_worker.erl.
"""

from __future__ import annotations

import msgspec

from dlx.dead_lettering import DeadLetter, record_death
from dlx.death_headers import QueueCrashError
from dlx.global_counters import CONFIRMED, COUNTED_AT_LEAST_ONCE
from dlx.releases import Release
from dlx.routing import Routing
from dlx.topology import QUORUM
from simulator.broker.effects import DeadMessageHeld, Retried
from simulator.broker.operations import dead_letters, queues
from simulator.broker.state import NodeState, Pending, QueueState
from simulator.events import Event

WORKER_PREFETCH = 32  # dead_letter_worker_consumer_prefetch
RETRY_US = 180_000_000  # dead_letter_worker_publisher_confirm_timeout


def held(node: NodeState, effect: DeadMessageHeld) -> None:
    """Let the worker take one more held message in hand, if it may."""
    queue = node.queue(effect.vhost, effect.queue)
    if queue is not None:
        _work(node, queue)


def retried(node: NodeState, effect: Retried) -> None:
    """Let the worker try again, if its queue is still there."""
    queue = node.queue(effect.vhost, effect.queue)
    if queue is not None:
        retry(node, queue)


def due(node: NodeState, _due_us: int, queue: QueueState) -> None:
    """Let the worker, which has waited long enough, try again."""
    queue.retrying = False
    if not queue.deleted:
        retry(node, queue)


def _work(node: NodeState, queue: QueueState) -> None:
    """Take messages in hand, as many as the worker may have, and republish each; then more as those are taken."""
    while queue.discards and (room := WORKER_PREFETCH - len(queue.in_hand)):
        under_way: set[str] = set()
        for _ in range(min(room, len(queue.discards))):
            _take(node, queue, under_way)
    if queue.in_hand and not queue.retrying:
        queue.retrying = True
        node.timers.set(node.now_us + RETRY_US, "retry", queue)


def _take(node: NodeState, queue: QueueState, under_way: set[str]) -> None:
    """Take one held message in hand and republish it."""
    pending = queue.discards.popleft()
    time_s = node.now_us // 1_000_000
    pending.keys = pending.letter.routing_keys
    try:
        pending.letter = record_death(pending.letter, queue.name, pending.reason, node.release, time_s=time_s)
    except QueueCrashError as error:
        dead_letters.count_held(queue, pending.copy, -1)
        why = f"the dead-letter worker crashed: {error}"
        dead_letters.ended(node, queue, pending.copy, pending.reason, "queue crashes", why)
        return
    queue.in_hand.append(pending)
    _forward(node, queue, pending, under_way)


def retry(node: NodeState, queue: QueueState) -> None:
    """Try again what found no queue, and what was refused long enough ago."""
    under_way: set[str] = set()
    for pending in list(queue.in_hand):
        published = pending.published_us
        if published is None or published + RETRY_US <= node.now_us:
            _forward(node, queue, pending, under_way, again=True)
    _work(node, queue)


def _forward(node: NodeState, queue: QueueState, pending: Pending, under_way: set[str], *, again: bool = False) -> None:
    """Publish a held message to the queues that do not have it yet; it is done when all have.

    ``under_way``: quorum queues that have taken one in the same go. Before they can tell the worker to stop,
    it has sent the rest of what it has in hand.

    If it is sent ``again``, RabbitMQ also waits for queues that would close a cycle, to which it sends nothing. So
    it keeps the message although all others have it.

    Once the queues that refused a message are no longer bound, RabbitMQ still keeps it
    while queues that have it are bound, and lets it go when no queue is bound any more.
    """
    routing = dead_letters.routing_of(node, queue, pending.copy)
    letter = dead_letter_of(queue, pending, node.release, routing)
    if letter.message is None:
        return
    pending.letter = letter.message
    if letter.delays:
        node.delay(queue.vhost, letter.delays, pending.copy.body, pending.copy.uid)
    if pending.reached and not (letter.queues or letter.cycles):
        _settled(node, queue, pending)
        return
    targets = [name for name in letter.queues if name not in pending.reached]
    taken = bool(targets) and _publish(node, queue, pending, targets, under_way)
    if taken and not (again and letter.cycles):
        _settled(node, queue, pending)


def dead_letter_of(queue: QueueState, pending: Pending, release: Release, routing: Routing | None = None) -> DeadLetter:
    """Return where the worker sends a message that it has in hand, as things are now."""
    died = msgspec.structs.replace(pending.letter, routing_keys=pending.keys)
    return queue.vhost.flow(release).forwarded(queue.name, died, pending.reason, routing=routing)


def _publish(node: NodeState, queue: QueueState, pending: Pending, targets: list[str], under_way: set[str]) -> bool:
    """Publish a message to queues, and return whether all of them took it."""
    pending.published_us = node.now_us
    copy, taken = pending.copy, True
    for name in targets:
        target = queue.vhost.queues[name]
        unheard = target is queue and not node.release.quorum_confirms_own_dead_letters
        publisher = None if unheard else dead_letters.worker_name(queue)
        sent = name in under_way
        if queues.enter(node, target, pending.letter, copy.body, copy.uid, publisher, held=True, under_way=sent):
            if target.definition.type == QUORUM:
                under_way.add(name)
            pending.reached.add(name)
            taken = taken and not unheard
        else:
            taken = False
    return taken


def _settled(node: NodeState, queue: QueueState, pending: Pending) -> None:
    queue.in_hand.remove(pending)
    if pending.counted:
        dead_letters.count_held(queue, pending.copy, -1)
        node.counters.died(CONFIRMED, queue.definition.type, COUNTED_AT_LEAST_ONCE)
        queues.keep_within_limits(node, queue)
    if Event.DEAD_LETTERED in node.watched:
        detail = f"to {', '.join(sorted(pending.reached))}"
        node.happened(Event.DEAD_LETTERED, queue, pending.copy, reason=pending.reason, detail=detail)
