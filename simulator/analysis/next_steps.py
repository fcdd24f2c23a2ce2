"""The steps that can come next for a message in a queue: its consumer fails it, time passes, others fill the queue."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from dlx.topology import STREAM
from simulator.analysis.clients import FAILURES, Clients, Failure
from simulator.broker import QueueState
from simulator.events import Event
from simulator.scenario import steps
from simulator.scenario.player import Player
from simulator.scenario.properties.property import PropertyBroken
from simulator.scenario.steps import AnyStep, History, Publish
from simulator.scenario.trial import Trial

DEADLINES_MAX = 40
CRASHES = 3
YEAR_MS = 366 * 86_400_000


def failures(queue: QueueState, does: Collection[Failure]) -> Iterator[History]:
    """Yield the ways in which a consumer can fail a message: once for good, or again and again until it settles.

    ``does``: what its consumers do with what they cannot process.
    """
    name, vhost = queue.name, queue.vhost.name
    limit = queue.settings.delivery_limit
    times = CRASHES if limit is None else limit + 1
    if "reject" in does:
        yield (steps.Reject(name, vhost=vhost),)
        if queue.settings.delayed_retry is None and "crash" in does:
            yield steps.Crash(name, vhost=vhost), steps.Reject(name, vhost=vhost)
    pause = _pause_ms(queue)
    ways: tuple[tuple[Failure, AnyStep], ...] = (
        ("crash", steps.Crash(name, vhost=vhost)),
        ("requeue", steps.Requeue(name, vhost=vhost)),
        ("requeue", steps.Requeue(name, vhost=vhost, method="nack")),
    )
    for step in (step for failure, step in ways if failure in does):
        once = (step, steps.Wait(pause)) if pause else (step,)
        yield (steps.again(once, times),)


def _pause_ms(queue: QueueState) -> int:
    """Return how long, in ms, a delayed retry may keep back what is returned."""
    retry = queue.settings.delayed_retry
    return 0 if retry is None else retry.max_ms + 1


def with_body(step: AnyStep, body_bytes: int) -> AnyStep:
    if isinstance(step, Publish) and body_bytes:
        return steps.changed(step, body_bytes=body_bytes)
    return step


def pauses(trial: Trial) -> Iterator[History]:
    """Yield steps in which consumers leave and time passes: until something happens, and until nothing more does."""
    leaving = tuple(
        steps.Leave(queue.name, queue.vhost.name)
        for queue in trial.queues()
        if trial.has_consumer(queue.name, queue.vhost.name)
    )
    try:
        trial.play(leaving)
    except PropertyBroken:
        yield leaving
        return
    already = len(trial.history)
    for _ in range(DEADLINES_MAX):
        try:
            if not pause(trial):
                break
        except PropertyBroken:
            yield (*leaving, *trial.history[already:])
            return
        if any(event.event != Event.HELD for event, _ in trial.events):
            yield (*leaving, *trial.history[already:])
            return
    if leaving:
        yield leaving


def pause(trial: Player) -> bool:
    """Let time pass until something happens by itself; return whether anything does. Raises ``PropertyBroken``."""
    due_us = trial.broker.next_due()
    if due_us is None or due_us - trial.now_us > YEAR_MS * 1_000:
        return False
    trial.do(steps.Wait(max(0, -(-(due_us - trial.now_us) // 1_000))))
    return True


def fail_all(trial: Trial, clients: Clients) -> bool:
    """Reject a message in every queue that dead-letters one; return whether there is any. Raises ``PropertyBroken``.

    ``clients``: what is stated of them; not all reject.
    """
    there = {(queue.vhost.name, queue.name) for queue, _ in trial.copies() if queue.settings.dead_letters}
    there = {at for at in there if "reject" in (FAILURES if (does := clients.failures(*at)) is None else does)}
    for vhost, name in sorted(there):
        trial.do(steps.Reject(name, vhost=vhost))
    return bool(there)


def unused_ms(queue: QueueState) -> int | None:
    """Return how long, in ms, a new queue is there that nobody uses; ``None`` for one that does not expire."""
    expires_ms = queue.settings.expires_ms
    if expires_ms is None:
        return None
    ends_us = queue.looks_at_expiry_us(queue.created_us + expires_ms * 1_000, queue.settings.release)
    return (ends_us - queue.created_us) // 1_000


def too_many(queue: QueueState, trial: Trial) -> Iterator[tuple[int, int]]:
    """Yield pairs (messages, bytes each) that overflow a queue of limited length, while other queues hold one."""
    settings = queue.settings
    if queue.definition.type == STREAM:
        return
    if settings.max_length is not None:
        yield settings.max_length + 2, 0
    most = settings.max_length_bytes
    if most is not None:
        tightest = min(other.settings.max_length_bytes or most for other in trial.queues())
        for size in dict.fromkeys((most // 8, min(most // 8, tightest // 2))):
            body_bytes = min(max(size, 1), steps.BODY_BYTES_MAX)
            yield most // body_bytes + 2, body_bytes
