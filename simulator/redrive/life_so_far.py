"""Tells the life of a message that waits in a queue, as far as its headers know it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from dlx.deaths import DELIVERY_LIMIT, EXPIRED, MAXLEN, REJECTED, Death
from simulator.redrive.waiting import Waiting

_DEATHS = {
    REJECTED: "a consumer rejected it",
    EXPIRED: "its time to live ran out",
    MAXLEN: "the length limit pushed it out",
    DELIVERY_LIMIT: "it exceeded the delivery limit",
}
_TOO_LATE = "a time beyond the calendar"


def life_so_far(message: Waiting) -> Iterator[str]:
    """Yield sentences: the publish, each kind of death in the order in which it first happened, and where it waits."""
    first = message.first_entry
    if first is not None:
        yield f"Published to {_exchange(first.exchange)} with {_keys(first)}."
    for death in sorted(message.deaths.deaths, key=lambda death: death.time_s):
        yield _died(death)
    if not message.deaths:
        yield f"Published to {_exchange(message.row.exchange)} with {', '.join(map(repr, message.row.routing_keys))}."
        yield "No header tells of a death."
    yield _waits(message)
    for part in message.deaths.malformed:
        yield f"Not read: {part}."


def _died(death: Death) -> str:
    how = _DEATHS.get(death.reason, f"it died for the reason {death.reason!r}")
    when = f"{_time(death.time_s)}: " if death.time_s else ""
    times = f", {death.count:,} times in all" if death.count > 1 else ""
    again = f"; its expiration was {death.original_expiration} ms" if death.original_expiration else ""
    return f"{when}In '{death.queue}' {how}{times}{again}."


def _waits(message: Waiting) -> str:
    row, deaths = message.row, message.deaths
    counts = (("x-delivery-count", deaths.delivery_count), ("x-acquired-count", deaths.acquired_count))
    shown = [f"{name} {count:,}" for name, count in counts if count is not None]
    shown += ["redelivered"] if row.redelivered else []
    came = f", where it came through {_exchange(row.exchange)} with {row.routing_keys[0]!r}" if row.routing_keys else ""
    return f"Now it waits in '{row.queue}'{came}{''.join(f'; {each}' for each in shown)}."


def _exchange(name: str) -> str:
    return f"the exchange '{name}'" if name else "the default exchange"


def _keys(death: Death) -> str:
    return ", ".join(map(repr, death.routing_keys)) or "no routing key"


def _time(time_s: int) -> str:
    try:
        return f"{datetime.fromtimestamp(time_s, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, OSError, ValueError):
        return _TOO_LATE
