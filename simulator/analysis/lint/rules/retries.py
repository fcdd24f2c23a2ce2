"""Rules about the shape of retries, and about the queues in which dead letters end."""

from __future__ import annotations

from collections.abc import Iterator

from dlx.deaths import REJECTED
from dlx.settings import MAX_LENGTH, MAX_LENGTH_BYTES
from simulator.analysis.findings import Fix
from simulator.analysis.lint.rule import (
    Found,
    Loop,
    QueueAt,
    Subject,
    change,
    is_stream,
    queue_name,
    rule,
    said_by,
)

_DELAYING = ("delay", "wait", "retry", "backoff", "later")
"""What people call queues in which messages wait."""


def _named_for_waiting(name: str) -> bool:
    return any(word in name.lower() for word in _DELAYING)


@rule("DLX005", "endless-retry")
def endless_retry(subject: Subject) -> Iterator[Found]:
    """Rejected messages come back, and nothing in the topology ever ends that.

    Why: a rejection starts the broker's search for cycles anew, so RabbitMQ lets the message go round for ever. A
    message that can never be processed burns consumers for as long as it exists.
    Example: 'orders' dead-letters into 'orders.wait' (x-message-ttl 60000), which dead-letters back into 'orders'.
    Fix: count attempts in the consumer (the count in x-death, `dlx.attempts`) and publish to a parking queue when
    there were enough.
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
        if settings.has_length_limit or settings.delayed_retry is not None or not _named_for_waiting(queue[1]):
            continue
        yield Found(
            severity="warning",
            about=queue_name(queue),
            message=f"messages wait in '{queue[1]}', which has no TTL of its own: one with a long expiration keeps "
            "those behind it, and dead letters, which have lost theirs, wait for ever.",
            because="no argument or policy sets message-ttl; judged by the queue's name",
            fix=Fix(True, f"set message-ttl with a policy for '{queue[1]}'; use a queue for each delay"),
        )


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
                fix=Fix(True, f"set max-length with a policy for '{queue[1]}', or consume from it; watch its length"),
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
        if queue in subject.looping or _named_for_waiting(queue[1]):
            key = MAX_LENGTH if settings.max_length is not None else MAX_LENGTH_BYTES
            yield Found(
                severity="warning",
                about=queue_name(queue),
                message=f"'{queue[1]}' holds messages back for {settings.message_ttl_ms:,} ms, but only while it is "
                f"not full ({key} {settings.values[key].value}): beyond that they leave at once.",
                because=said_by(settings.values[key]),
                fix=change(settings, key, f"remove {key}"),
            )
