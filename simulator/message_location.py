"""Says where the copies of a message are now: ready at which place, with which consumer, or held, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dlx.dead_lettering import DeadLetter
from dlx.topology import STREAM
from simulator.broker import Broker, Channel, Pending, QueueState, Unacked, dead_letter_of
from simulator.time_spans import span


def locations(broker: Broker, uid: int, vhost: str, queues: Iterable[str], has_copies: bool = False) -> list[str]:
    """Return a sentence for each copy of the message in these queues of the virtual host, or in its exchanges.

    ``has_copies``: whether the message had other copies, which are gone.
    """
    host = broker.vhosts.get(vhost)
    found = [] if host is None else [host.queues[name] for name in dict.fromkeys(queues) if name in host.queues]
    told = [sentence for queue in found for sentence in _in_queue(broker, queue, uid)]
    told += _delayed(broker, uid, vhost)
    return [_of_one_copy(sentence) for sentence in told] if has_copies or len(told) > 1 else told


def _delayed(broker: Broker, uid: int, vhost: str) -> Iterator[str]:
    for waiting in broker.delayed():
        if (waiting.uid, waiting.vhost) == (uid, vhost):
            left = span(max(waiting.due_us - broker.now_us, 0))
            yield f"It is in the exchange '{waiting.delay.exchange.name}', which delays it for another {left}."


def _of_one_copy(sentence: str) -> str:
    """Return the sentence about a message as one about one of its copies."""
    return sentence.replace("It is ", "One copy is ", 1).replace(" holds it:", " holds one copy:", 1)


def _in_queue(broker: Broker, queue: QueueState, uid: int) -> Iterator[str]:
    yield from _ready(queue, uid)
    for channel in broker.channels.values():
        yield from _unacknowledged(channel, queue, uid)
    for pending in (*queue.in_hand, *queue.discards):
        if pending.copy.uid == uid:
            has_itself = queue.name in pending.reached and is_held_for_ever(broker, queue, pending)
            why = why_held(broker, queue, pending) + "; it is held for ever" * has_itself
            yield f"The queue '{queue.name}' holds it: {why}."


def _ready(queue: QueueState, uid: int) -> Iterator[str]:
    is_stream = queue.definition.type == STREAM
    for place, copy in enumerate(queue.store.waiting(), 1):
        if copy.uid != uid:
            continue
        if is_stream:
            yield f"It is in the stream '{queue.name}' at offset {copy.position}."
        elif copy.ready_us is not None:
            yield f"It is in the queue '{queue.name}' and waits for its delayed retry."
        else:
            yield f"It is in the queue '{queue.name}', ready at place {place} of {queue.store.ready}."


def _unacknowledged(channel: Channel, queue: QueueState, uid: int) -> Iterator[str]:
    def ours(unacked: Unacked) -> bool:
        return unacked.queue is queue and unacked.copy.uid == uid

    where = " of ".join(filter(None, (f"on channel {channel.number}", channel.connection.name)))
    for unacked in filter(ours, channel.unacked.values()):
        who = "basic.get" if unacked.consumer is None else f"the consumer '{unacked.consumer.tag}'"
        yield f"It is in the queue '{queue.name}', not yet acknowledged by {who} {where}."
    for _, unacked in channel.uncommitted():
        if ours(unacked):
            yield f"It is in the queue '{queue.name}', settled in an uncommitted transaction {where}."


# Says of a dead message that at-least-once dead-lettering holds what keeps it from arriving, and whether that can end.


def why_held(broker: Broker, queue: QueueState, pending: Pending) -> str:
    """Say why a queue still holds a dead message."""
    if pending not in queue.in_hand:
        return "others that died before it have not arrived either"
    letter = dead_letter_of(queue, pending, broker.release)
    refused = _refused(letter, pending)
    if refused:
        return f"its dead letter was refused by {', '.join(map(repr, refused))}"
    if queue.name in letter.queues:
        return f"all its queues have it, but {broker.release.name} does not count the confirm of the queue itself"
    if letter.cycles:
        return f"its dead letter {'would go in a circle' if letter.queues else letter.why}"
    if letter.queues:
        return "it waits until none of the queues that have it is bound any more"
    return letter.why


def is_held_for_ever(broker: Broker, queue: QueueState, pending: Pending) -> bool:
    """Return whether no time and no consumer ends it that the queue holds a message, only another topology."""
    return pending in queue.in_hand and not _may_arrive(broker, queue, pending, frozenset())


def _refused(letter: DeadLetter, pending: Pending) -> list[str]:
    return [name for name in letter.queues if name not in pending.reached]


def _may_arrive(broker: Broker, queue: QueueState, pending: Pending, waiting: frozenset[str]) -> bool:
    """Return whether the queues that refused it may get room; ``waiting`` are those that wait for this one."""
    refused = _refused(dead_letter_of(queue, pending, broker.release), pending)
    waiting |= {queue.name}
    return bool(refused) and all(_may_have_room(broker, queue.vhost.queues[name], waiting) for name in refused)


def _may_have_room(broker: Broker, queue: QueueState, waiting: frozenset[str]) -> bool:
    """Return whether the queue may get room: by a consumer, or where it holds nothing but dead messages, by them."""
    if queue.messages > queue.store.pending or not queue.store.pending:
        return queue.settings.max_length != 0
    return queue.name not in waiting and any(_may_arrive(broker, queue, each, waiting) for each in queue.in_hand)
