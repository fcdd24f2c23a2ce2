"""Rules about the shape of retries, and about the queues in which dead letters end."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from dlx.deaths import EXPIRED, REJECTED
from dlx.settings import DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY, MAX_LENGTH, MAX_LENGTH_BYTES, Settings
from dlx.topology import QUORUM, Exchange
from simulator.analysis.findings import Fix
from simulator.analysis.lint.rule import (
    Found,
    Loop,
    QueueAt,
    Subject,
    by_its_policy,
    change,
    is_stream,
    queue_name,
    rule,
    said_by,
    shown,
)
from simulator.analysis.names import is_named_for_dead_letters, is_named_for_retries, is_named_for_waiting, stem


@rule("DLX005", "endless-retry")
def endless_retry(subject: Subject) -> Iterator[Found]:
    """Rejected messages come back, and nothing in the topology ever ends that.

    Why: a rejection starts the broker's search for cycles anew, so RabbitMQ lets the message go round for ever. A
    message that can never be processed burns consumers for as long as it exists.
    Example: 'orders' dead-letters into 'orders.wait' (x-message-ttl 60000), which dead-letters back into 'orders'.
    Fix: count attempts in the consumer (the count in x-death, `dlx.attempts(properties)`) and publish to a parking
    queue when there were enough.
    """
    for loop in subject.loops:
        settings = subject.snapshot.flows[loop.vhost].settings
        worked_on = [queue for queue in loop.queues if settings(queue).message_ttl_ms is None]  # elsewhere they wait
        worked = next((queue for queue in worked_on if _is_rejected_on(loop, queue)), None)
        if worked is None:
            continue
        place = loop.queues.index(worked)
        way = " → ".join(f"'{queue}'" for queue in (*loop.queues[place:], *loop.queues[:place], worked))
        pause = _pause_ms(subject, loop)
        yield Found(
            severity="warning",
            about=queue_name((loop.vhost, worked)),
            message=f"messages rejected in '{worked}' come back {_every(pause)} for as long as they are rejected "
            f"({way}).",
            because="a rejection on the way lets a message pass the cycle rule; no setting limits how often",
            fix=Fix(True, f"let consumers of '{worked}' read the count in x-death, and park a message after enough"),
        )


def _is_rejected_on(loop: Loop, queue: str) -> bool:
    inside = {id(place) for place in loop.places}
    return any(
        hop.reason == REJECTED and id(there) in inside
        for place in loop.places
        if place.queue == queue
        for hop, there in place.onward
    )


def _pause_ms(subject: Subject, loop: Loop) -> int:
    flow = subject.snapshot.flows[loop.vhost]
    return sum(flow.settings(queue).message_ttl_ms or 0 for queue in loop.queues)


def _every(pause_ms: int) -> str:
    return f"every {pause_ms:,} ms" if pause_ms else "at once"


@rule("DLX032", "retry-reaches-others")
def retry_reaches_others(subject: Subject) -> Iterator[Found]:
    """Messages that come back from a queue where they waited come to queues of other consumers, too.

    Why: the way back goes through an exchange to which several queues are bound. Each attempt of one consumer gives
    the others a copy of a message that they have had.
    Example: 'stock.retry' dead-letters to topic exchange 'events', where 'stock' and 'mail' are bound for the same
    key: each time that 'stock' rejects a message, 'mail' gets it once more.
    Fix: let dead letters of the waiting queue go to the default exchange, with the name of the queue as routing key.
    """
    told: set[QueueAt] = set()
    for loop in subject.loops:
        flow = subject.snapshot.flows[loop.vhost]
        for place in loop.places:
            waiting = loop.vhost, place.queue
            back = {there.queue: None for hop, there in place.onward if hop.reason == EXPIRED}
            pause_ms = flow.settings(place.queue).message_ttl_ms
            if pause_ms is None or waiting in told:
                continue
            worked_on = [name for name in back if _is_worked_on(flow.settings(name), pause_ms)]
            if len(worked_on) < 2:
                continue
            mine = [name for name in worked_on if name in loop.queues]
            if mine:
                told.add(waiting)
                yield _copies(subject, waiting, mine[0], worked_on)


def _is_worked_on(settings: Settings, pause_ms: int) -> bool:
    """Tell whether a queue is for consumers, and not for the next pause: what waits stays there longer, or for ever."""
    ttl_ms = settings.message_ttl_ms
    return ttl_ms is None or (ttl_ms > pause_ms and not is_named_for_waiting(settings.queue.name))


def _copies(subject: Subject, waiting: QueueAt, mine: str, worked_on: list[str]) -> Found:
    settings = subject.snapshot.flows[waiting[0]].settings(waiting[1])
    others = " and ".join(shown(name) for name in worked_on if name != mine)
    key = DEAD_LETTER_EXCHANGE
    how = f"let dead letters of '{waiting[1]}' go to the default exchange, with routing key '{mine}'"
    if len(subject.sources.get(waiting, ())) > 1:
        how = "use a waiting queue for each queue, whose dead letters go to the default exchange with that queue's name"
    return Found(
        severity="warning",
        about=queue_name(waiting),
        message=f"messages that come back from '{waiting[1]}' to '{mine}' come to {others}, too: each attempt gives "
        "every one of them another copy.",
        because=said_by(settings.values[key]),
        fix=change(subject, waiting, key, how),
    )


@rule("DLX035", "retry-queue-unused")
def retry_queue_unused(subject: Subject) -> Iterator[Found]:
    """A retry queue leads back to a work queue that sends no dead letters there: it has no dead-letter exchange.

    Why: what consumers reject in the work queue is gone, while the queue stays empty in which it was to wait. The work
    queue was declared before the retries were, or by another program, without its dead-letter exchange.
    Only queues that are named for retries count (retry, requeue, backoff, wait): others may delay what is published.
    Example: 'jobs-retry' has x-message-ttl 60000 and leads to 'jobs', which has no dead-letter exchange.
    Fix: set the dead-letter exchange of the work queue by policy; or reject nothing, and publish to the retry queue.
    """
    for_retries = [queue for queue, _ in subject.queues() if _is_for_retries(subject, queue)]
    for queue, settings in subject.queues() if for_retries else ():
        told = settings.queue.type == QUORUM or queue in subject.lost_at  # by DLX002
        if settings.dead_letters or is_stream(settings) or told or not subject.happens(queue, REJECTED):
            continue
        waiting = next((each[1] for each in for_retries if _is_retried_by(subject, queue, each)), None)
        if waiting is not None:
            yield Found(
                severity="note",
                about=queue_name(queue),
                message=f"what consumers reject in '{queue[1]}' is gone, though '{waiting}' waits for it.",
                because=f"'{queue[1]}' has no dead-letter exchange; '{waiting}' is judged by its name and its TTL",
                fix=_dead_letter_to_queue(subject, queue, waiting),
            )


def _is_retried_by(subject: Subject, queue: QueueAt, waiting: QueueAt) -> bool:
    """Tell whether a queue for retries is named after a queue, and leads back to it."""
    own, words = set(stem(queue[1])), set(stem(waiting[1]))
    is_own = queue[0] == waiting[0] and bool(own) and own <= words and not is_named_for_dead_letters(queue[1])
    return is_own and queue[1] in subject.snapshot.flows[queue[0]].possible_targets(waiting[1])


def _dead_letter_to_queue(subject: Subject, queue: QueueAt, target: str) -> Fix:
    """Return the fix that lets dead letters of a queue go to another one, by an exchange from which it takes all keys.

    Where there is none, it is the default exchange.
    """
    topology = subject.snapshot.topologies[queue[0]]
    bindings = (each for each in chain(*topology.bindings.values()) if each.destination == target)
    taking_all = (
        each.source
        for each in bindings
        if each.destination_type == "queue" and _takes_all(topology.exchanges.get(each.source), each.routing_key)
    )
    exchange = next(taking_all, "")
    how = f"'{exchange}', which leads to '{target}'" if exchange else f"'' and {DEAD_LETTER_ROUTING_KEY} to '{target}'"
    return Fix(True, f"{by_its_policy(subject, queue)}: set {DEAD_LETTER_EXCHANGE} to {how}")


def _takes_all(exchange: Exchange | None, pattern: str) -> bool:
    """Tell whether a binding with this pattern takes every routing key."""
    return exchange is not None and (exchange.type == "fanout" or (exchange.type, pattern) == ("topic", "#"))


def _is_for_retries(subject: Subject, queue: QueueAt) -> bool:
    """Tell whether a queue is named for retries and has a TTL, and no dead letters come to it.

    A queue that expires does not count: its publishers declare it, and mean what they do.
    """
    settings = subject.snapshot.flows[queue[0]].settings(queue[1])
    waits = settings.message_ttl_ms is not None and settings.dead_letters and settings.expires_ms is None
    return waits and is_named_for_retries(queue[1]) and queue not in subject.sources


@rule("DLX015", "head-of-line-ttl")
def head_of_line_ttl(subject: Subject) -> Iterator[Found]:
    """A queue in which messages wait for their time has no TTL of its own.

    Why: then each message has to carry an expiration, and queues expire messages only at their head. One that waits
    an hour keeps those behind it, which should wait a minute.
    Example: 'orders.wait' without x-message-ttl between 'orders' and 'orders', where dead letters (which lose their
    expiration when they die) would wait for ever.
    Fix: one waiting queue for each delay, each with its own x-message-ttl.
    """
    for queue, settings in subject.queues():
        if is_stream(settings) or not settings.dead_letters or settings.message_ttl_ms is not None:
            continue
        if settings.has_length_limit or settings.delayed_retry is not None or not is_named_for_waiting(queue[1]):
            continue
        if queue not in subject.sources and not _goes_on(subject, queue):
            continue
        yield Found(
            severity="warning",
            about=queue_name(queue),
            message=f"messages wait in '{queue[1]}', which has no TTL of its own: one with a long expiration keeps "
            "those behind it, and dead letters, which have lost theirs, wait for ever.",
            because="no argument or policy sets message-ttl; judged by the queue's name and by where its messages go",
            fix=Fix(True, f"{by_its_policy(subject, queue)}: set message-ttl; use a queue for each delay"),
        )


def _goes_on(subject: Subject, queue: QueueAt) -> bool:
    """Tell whether messages leave a queue for one that is worked on, and not only for those of dead letters."""
    targets = subject.snapshot.flows[queue[0]].possible_targets(queue[1])
    return not all(is_named_for_dead_letters(name) for name in targets)


@rule("DLX017", "unbounded-dead-letter-queue")
def unbounded_dead_letter_queue(subject: Subject) -> Iterator[Found]:
    """A queue has a length limit, but what it pushes out collects in another queue that has none.

    Why: the limit was to keep the broker's memory and disk small; now the other queue grows instead.
    Example: 'events' with x-max-length 10000 dead-letters into 'events.dead', which has neither limit nor TTL.
    Fix: limit the other queue as well, or let somebody consume from it.
    """
    for queue, settings in subject.queues():
        if not subject.is_parking(queue) or settings.has_length_limit or settings.message_ttl_ms is not None:
            continue
        limited = [name for name in sorted(subject.sources[queue]) if _only_limited(subject, (queue[0], name))]
        if limited:
            yield Found(
                severity="note",
                about=queue_name(queue),
                message=f"'{queue[1]}' keeps without limit what '{limited[0]}' pushes out by its length limit.",
                because="no argument or policy limits its length or the time that messages stay",
                fix=Fix(
                    True, f"{by_its_policy(subject, queue)}: set max-length; or consume from it, and watch its length"
                ),
            )


def _only_limited(subject: Subject, queue: QueueAt) -> bool:
    """Tell whether messages leave the queue by its length limit, and not all of them by its TTL."""
    settings = subject.snapshot.flows[queue[0]].settings(queue[1])
    return _drops(subject, queue) and settings.message_ttl_ms is None


def _drops(subject: Subject, queue: QueueAt) -> bool:
    settings = subject.snapshot.flows[queue[0]].settings(queue[1])
    return settings.has_length_limit and (not settings.refuses_when_full or settings.dead_letters_refused)


@rule("DLX020", "retry-too-early")
def retry_too_early(subject: Subject) -> Iterator[Found]:
    """A queue in which messages wait before the next attempt has a length limit.

    Why: when it is full, the oldest message is pushed out and dead-lettered at once, back to the consumer: the more
    messages fail, the shorter the pause, down to none.
    Example: 'orders.wait' with x-message-ttl 60000 and x-max-length 100.
    Fix: remove the length limit from the waiting queue.
    """
    for queue, settings in subject.queues():
        waits = settings.message_ttl_ms is not None and settings.dead_letters
        if not waits or not _drops(subject, queue):
            continue
        if queue in subject.looping or is_named_for_waiting(queue[1]):
            key = MAX_LENGTH if settings.max_length is not None else MAX_LENGTH_BYTES
            yield Found(
                severity="warning",
                about=queue_name(queue),
                message=f"'{queue[1]}' holds messages back for {settings.message_ttl_ms:,} ms, but only while it is "
                f"not full ({key} {settings.values[key].value}): beyond that they leave at once.",
                because=said_by(settings.values[key]),
                fix=change(subject, queue, key, f"remove {key}"),
            )
