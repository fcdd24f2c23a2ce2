"""Turn a message and one death into a dead letter, or say why no dead letter goes out.

In order: the dead-letter exchange is looked up by name at the moment of death;
the death is recorded with the exchange and keys the message had; ``expiration``
is dropped; exchange and, with a dead-letter routing key, the keys are replaced;
the result is routed; and each queue that would close an automatic cycle is left
out. RabbitMQ reports none of this to clients: a dead letter that reaches no queue is gone,
and only the outcome here says so.

``dlx.message_flow`` asks this for every message and queue of a topology.

Source: rabbit_dead_letter.erl publish (3.8.9 to 4.3.5).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from dlx.cycles import is_cycle
from dlx.death_headers import record_in_annotations, record_in_headers
from dlx.deaths import REJECTED
from dlx.delays import Delay, delays_text
from dlx.message import Message, PublishRefusedError, without_expiration
from dlx.recorded_deaths import RecordedDeath, recorded_deaths
from dlx.releases import Release
from dlx.routing import Routing, routed
from dlx.settings import AT_LEAST_ONCE, Settings
from dlx.topology import CLASSIC, QUORUM, STREAM, Topology

Outcome = Literal[
    "dead-lettered",
    "no dead-letter exchange",
    "dead-letter exchange missing",
    "unroutable",
    "cycle",
    "held",
]


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """Says where the dead letter of a message goes.

    ``queues`` get one copy each of ``message``; the cycle rule keeps it out of
    ``cycles``, and the streams ``lost_in`` silently drop it. Each of ``delays`` keeps one back,
    and no cycle is looked for when it is over. With the at-least-once
    strategy the outcome ``held`` says that the message waits in its queue instead of
    being gone. ``why`` says it in words.
    """

    outcome: Outcome
    message: Message | None = None
    queues: tuple[str, ...] = ()
    cycles: tuple[str, ...] = ()
    lost_in: tuple[str, ...] = ()
    delays: tuple[Delay, ...] = ()
    why: str = ""


def dead_letter(
    message: Message,
    reason: str,
    settings: Settings,
    topology: Topology,
    release: Release,
    *,
    time_s: int = 0,
    routing: Routing | None = None,
) -> DeadLetter:
    """Return the dead letter of ``message``, which died in ``settings.queue`` for ``reason``.

    ``time_s`` is the time of death in seconds since 1970; ``routing`` finds the queues, if not ``route``. Raises
    ``dlx.death_headers.QueueCrashError`` where a malformed ``x-death`` crashes the queue.
    """
    astray = _without_exchange(settings, topology)
    if astray is not None:
        return astray
    if settings.queue.type == QUORUM and release.original_expiration == "not by quorum queues":
        message = without_expiration(message)
    if message.headers_sent is not None and _is_lazy(settings):  # the queue reads the publisher's bytes from disk
        message = msgspec.structs.replace(message, headers=message.headers_sent, headers_sent=None)
    recorded = record_death(message, settings.queue.name, reason, release, time_s=time_s)
    return _routed(recorded, reason, settings, topology, release, routing)


def forwarded(
    message: Message,
    reason: str,
    settings: Settings,
    topology: Topology,
    release: Release,
    *,
    routing: Routing | None = None,
) -> DeadLetter:
    """Return the dead letter of a message whose history has the death already.

    At-least-once dead-lettering records a death once and sends the message until every queue has it.
    """
    return _without_exchange(settings, topology) or _routed(message, reason, settings, topology, release, routing)


def _without_exchange(settings: Settings, topology: Topology) -> DeadLetter | None:
    """Return what becomes of the message where it has no exchange to go to; ``None`` where it has one."""
    dlx, queue = settings.dead_letter_exchange, settings.queue.name
    if dlx is None:
        return DeadLetter(outcome="no dead-letter exchange", why=f"queue '{queue}' has no dead-letter exchange")
    if dlx not in topology.exchanges:
        why = f"dead-letter exchange '{dlx}' of queue '{queue}' does not exist"
        return DeadLetter(outcome="held" if _holds(settings) else "dead-letter exchange missing", why=why)
    return None


def _is_lazy(settings: Settings) -> bool:
    policy = settings.policy.policy
    mode = settings.queue.arguments.get("x-queue-mode") or (policy and policy.definition.get("queue-mode"))
    return settings.queue.type == CLASSIC and mode == "lazy"


def _holds(settings: Settings) -> bool:
    return settings.dead_letter_strategy == AT_LEAST_ONCE


def _routed(
    message: Message, reason: str, settings: Settings, topology: Topology, release: Release, routing: Routing | None
) -> DeadLetter:
    held = _holds(settings)
    letter = readdressed(message, settings, release)
    try:
        found, delays = (routing or routed)(letter, topology, release)
    except PublishRefusedError as error:
        why = error.explanation or f"an exchange fails over its headers {letter.headers}"
        return DeadLetter(outcome="held" if held else "unroutable", message=letter, why=why)
    deaths = recorded_deaths(letter, release) if reason != REJECTED else ()  # a rejection closes no cycle
    cycles = tuple([name for name in found if is_cycle(name, reason, deaths)]) if deaths else ()
    lost: tuple[str, ...] = ()
    if not (release.stream_takes_dead_letters or held):
        lost = tuple([name for name in found if name not in cycles and topology.queues[name].type == STREAM])
    queues = tuple([name for name in found if name not in cycles and name not in lost]) if cycles or lost else found
    outcome, why = _judged(letter, found, queues, cycles, deaths, delays)
    if held and not queues:
        outcome = "held"
        why += ", which counts as no queue" if delays else ""
    return DeadLetter(
        outcome=outcome, message=letter, queues=queues, cycles=cycles, lost_in=lost, delays=delays, why=why
    )


def record_death(message: Message, queue: str, reason: str, release: Release, *, time_s: int = 0) -> Message:
    """Return the message with one more death in its history, still under its old exchange and keys."""
    record = record_in_headers if release.death_history == "headers" else record_in_annotations
    return record(message, release, queue=queue, reason=reason, time_s=time_s)


def readdressed(message: Message, settings: Settings, release: Release) -> Message:
    """Return the message under its dead-letter exchange and keys, its ``expiration`` gone."""
    key = settings.dead_letter_routing_key
    headers = message.headers
    removes_cc = release.cc_header_after_dead_letter_routing_key == "removed"
    if key is not None and removes_cc and headers is not None and "CC" in headers:
        headers = {name: value for name, value in headers.items() if name != "CC"}
    return msgspec.structs.replace(
        message,
        exchange=settings.dead_letter_exchange,
        routing_keys=message.routing_keys if key is None else (key,),
        headers=headers,
        expiration=None,
    )


def _judged(
    letter: Message,
    routed: tuple[str, ...],
    queues: tuple[str, ...],
    cycles: tuple[str, ...],
    deaths: tuple[RecordedDeath | None, ...],
    delays: tuple[Delay, ...],
) -> tuple[Outcome, str]:
    if delays:
        return "dead-lettered", delays_text(delays)
    if queues:
        return "dead-lettered", ""
    if cycles:
        path = " <- ".join(str(death.queue) for death in deaths if death is not None)
        return "cycle", f"{would_return(cycles[0])}: {path}"
    if routed:
        return "unroutable", stream_drops(routed[0])
    return "unroutable", routed_text(letter, None)


# Say in words where a dead letter goes, and why it goes no further.


def routed_text(message: Message, queue: str | None) -> str:
    """Say that the message's exchange routes it to the queue, or, with ``None``, to no queue."""
    to = "no queue" if queue is None else f"'{queue}'"
    keys = ", ".join(f"'{key}'" for key in message.routing_keys)
    return f"exchange '{message.exchange}' routes {'key' if len(message.routing_keys) == 1 else 'keys'} {keys} to {to}"


def would_return(queue: str) -> str:
    """Say why the cycle rule keeps a dead letter out of a queue."""
    return f"would return to '{queue}' without a rejection on the way"


def stream_drops(stream: str) -> str:
    """Say why a stream does not get a dead letter."""
    return f"stream '{stream}' drops dead letters in this release"


__all__ = [
    "DeadLetter",
    "dead_letter",
    "forwarded",
    "readdressed",
    "record_death",
]
