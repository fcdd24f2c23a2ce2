"""A message dies: its dead letter is sent at most once, or its queue holds it until a worker has delivered it.

``dlx.message_flow`` says where it goes; this file carries that out. At most once: the
dead letter goes on the agenda for each queue it is routed to, and that is that. At
least once (quorum queues): the message stays with its queue for ``dead_letter_worker``.

Source: rabbit_dead_letter.erl; rabbit_fifo_dlx.erl.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from dlx.dead_lettering import DeadLetter
from dlx.death_headers import QueueCrashError
from dlx.deaths import EXPIRED
from dlx.delivery_counts import carried
from dlx.global_counters import COUNTED_AT_LEAST_ONCE, COUNTED_AT_MOST_ONCE, DISABLED, counted_strategy
from dlx.letter_copies import CopyOutcome
from dlx.message import Message, without_expiration
from dlx.releases import Release
from dlx.routing import Routing
from dlx.streams import can_keep
from dlx.topology import CLASSIC, QUORUM, STREAM
from simulator.broker.copies import Copy
from simulator.broker.effects import Crashed, DeadLettered, DeadMessageHeld
from simulator.broker.operations import exchanges, reply_to
from simulator.broker.state import NodeState, Pending, QueueState
from simulator.events import Event

_ENDS: dict[CopyOutcome, Event] = {
    "dead-lettered": Event.DEAD_LETTERED,
    "no dead-letter exchange": Event.DROPPED,
    "dead-letter exchange missing": Event.DROPPED,
    "unroutable": Event.UNROUTABLE,
    "cycle": Event.CYCLE_DROPPED,
    "queue crashes": Event.DROPPED,
}


def die(node: NodeState, queue: QueueState, copy: Copy, reason: str) -> bool:
    """Dead-letter a copy that ``queue`` no longer holds; return whether that crashes the queue."""
    settings = queue.settings
    strategy = counted_strategy(settings, queue.vhost.exchanges)
    node.counters.died(reason, queue.definition.type, strategy)
    if strategy == COUNTED_AT_LEAST_ONCE:
        _hold(node, queue, copy, reason)
    elif strategy == DISABLED and settings.dead_letter_exchange is None:
        ended(node, queue, copy, reason, "no dead-letter exchange", "the queue has no dead-letter exchange")
    else:
        return _send(node, queue, copy, reason)
    return False


def _send(node: NodeState, queue: QueueState, copy: Copy, reason: str) -> bool:
    try:
        outcome = _letter(node, queue, copy, reason)
    except QueueCrashError as error:
        return _crashes(node, queue, copy, reason, error)
    letter = outcome.message
    if letter is not None:
        if node.release.direct_replies_by_dead_letter:
            reply_to.deliver(node, queue.vhost, letter, copy.body)
        for name in outcome.queues:
            node.agenda.append(DeadLettered(queue.vhost.name, name, letter, copy.body, copy.uid))
    if node.watched:
        ended(node, queue, copy, reason, outcome.outcome, sent_to(outcome.queues, outcome.why))
    if outcome.delays:
        node.delay(queue.vhost, outcome.delays, copy.body, copy.uid)
    return False


def sent_to(queues: Iterable[str], why: str) -> str:
    """Say where a dead letter goes: to queues, or as the rules have it; to both if exchanges delay it, too."""
    return "; ".join(filter(None, (f"to {', '.join(queues)}" if queues else "", why)))


def _crashes(node: NodeState, queue: QueueState, copy: Copy, reason: str, error: QueueCrashError) -> bool:
    """Return whether the queue crashes: a quorum queue only loses the dead letter."""
    if queue.definition.type == QUORUM:  # which counts what it has sent, and not before
        node.counters.died(reason, QUORUM, COUNTED_AT_MOST_ONCE, -1)
    if reason == EXPIRED or not queue.keeps_over_crash(copy):
        ended(node, queue, copy, reason, "queue crashes", f"the queue crashed: {error}")
    return queue.definition.type == CLASSIC


def crash(node: NodeState, queue: QueueState, back: Iterable[Copy]) -> None:
    """Let the process of a classic queue crash; it is started again after this step, and then has ``back`` again."""
    queue.crashed = True
    node.agenda.appendleft(Crashed(queue.vhost.name, queue, [*queue.store.purge(), *back]))


def forget_unwritten(node: NodeState, copy: Copy) -> None:
    """Lose a message at whose arrival the queue has just crashed, before it was written."""
    crashed = node.agenda[0]
    if isinstance(crashed, Crashed):
        crashed.copies = [other for other in crashed.copies if other is not copy]


def _letter(node: NodeState, queue: QueueState, copy: Copy, reason: str) -> DeadLetter:
    """Return what the rules say, remembered for messages that look alike and die in the same second."""
    time_s = node.now_us // 1_000_000
    count = _taken_along(node, queue, copy)
    key = (id(copy.message), count, copy.expiration_forgotten, reason, time_s, queue.vhost.generation)
    found = queue.letters.get(key)
    if found is not None:
        return found[1]
    flow, message = queue.vhost.flow(node.release), _leaving(copy.message, count)
    if copy.expiration_forgotten:
        message = without_expiration(message)
    routing = routing_of(node, queue, copy)
    letter = flow.dead_letter(queue.name, message, reason, time_s=time_s, routing=routing)
    if letter.message is not None:
        _check_streams(queue, letter.message, letter.queues, node.release)
    if queue.vhost.remembers_routes:
        queue.letters[key] = (copy.message, letter)
    return letter


def routing_of(node: NodeState, queue: QueueState, copy: Copy) -> Routing:
    """Return the routing of the dead letter of a copy, which has the copy's body."""
    return lambda letter, _topology, _release: exchanges.routed(node, queue.vhost, letter, copy.body)


def _check_streams(queue: QueueState, letter: Message, names: Collection[str], release: Release) -> None:
    """Raise ``QueueCrashError`` for a dead letter that a stream cannot keep: whoever sends it writes it."""
    for name in names:
        if queue.vhost.queues[name].definition.type == STREAM and not can_keep(letter, release):
            raise QueueCrashError(f"the stream '{name}' cannot keep the message")


def _taken_along(node: NodeState, queue: QueueState, copy: Copy) -> int | None:
    """Return the count of failed deliveries that the message takes along; a queue passes on what it does not count."""
    counted = node.release.delivery_count_carried == "from all queues" or queue.definition.type == QUORUM
    if copy.failed is None or not counted:
        return copy.message.delivery_count
    return carried(copy.failed, queue.definition.type, node.release)


def _leaving(message: Message, count: int | None) -> Message:
    return message if count == message.delivery_count else msgspec.structs.replace(message, delivery_count=count)


def ended(node: NodeState, queue: QueueState, copy: Copy, reason: str, outcome: CopyOutcome, why: str) -> None:
    """Emit how a death ended, in the rules' words for it."""
    event = _ENDS[outcome]
    if event in node.watched:
        node.happened(event, queue, copy, reason=reason, detail=why)


# At least once


def _hold(node: NodeState, queue: QueueState, copy: Copy, reason: str) -> None:
    letter = _leaving(copy.message, _taken_along(node, queue, copy))
    queue.discards.append(Pending(copy, reason, letter))
    count_held(queue, copy, 1)
    if Event.HELD in node.watched:
        node.happened(Event.HELD, queue, copy, reason=reason)
    node.agenda.append(DeadMessageHeld(queue.vhost.name, queue.name))


def worker_name(queue: QueueState) -> str:
    """Return the name that other queues know the queue's worker by."""
    return f"worker of {queue.name}"


def abandon(node: NodeState, queue: QueueState, why: str) -> None:
    """Drop what the queue holds and what its worker has in hand, and end the worker."""
    for other in queue.vhost.queues.values():
        other.store.forget(worker_name(queue))
    queue.discards.extendleft(reversed(queue.in_hand))
    queue.in_hand.clear()
    forget(node, queue, why)


def forget(node: NodeState, queue: QueueState, why: str = "") -> int:
    """Drop the dead messages that the queue holds; return how many. The worker still sends those it has taken."""
    count = queue.store.pending
    if Event.PURGED in node.watched:
        for pending in queue.discards:
            node.happened(Event.PURGED, queue, pending.copy, reason=pending.reason, detail=why)
    queue.discards.clear()
    for pending in queue.in_hand:
        pending.counted = False
    queue.store.pending = queue.store.pending_bytes = 0
    return count


def count_held(queue: QueueState, copy: Copy, change: int) -> None:
    """Count held messages towards the length of their queue."""
    queue.store.pending += change
    queue.store.pending_bytes += change * copy.size
