"""``/api/clock``, which RabbitMQ does not have: tell the time, and move a virtual clock on.

``GET /api/clock`` tells the time, ``POST /api/clock/advance`` moves a virtual clock on:
by ``{"hours": 1, "minutes": 30, "seconds": 5, "milliseconds": 250}``, or with
``{"to_next_deadline": true}`` to when something next happens by itself.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from simulator.clock import VirtualClock, duration_us
from simulator.server.management import access
from simulator.server.management.http_errors import ApiError, bad_request
from simulator.server.management.request import Request
from simulator.server.management.resources import Resource

_UNITS = ("days", "hours", "minutes", "seconds", "milliseconds")
_SECONDS_MAX = 100 * 365 * 86_400


def _clock(request: Request) -> dict[str, Any]:
    clock, now_us = request.node.clock, request.node.clock.now_us()
    next_us = request.broker.next_due()
    return {
        "now": _shown(now_us),
        "now_us": now_us,
        "virtual": isinstance(clock, VirtualClock),
        "rate": clock.rate if isinstance(clock, VirtualClock) else 1,
        "next_deadline": None if next_us is None else _shown(next_us),
        "next_deadline_us": next_us,
    }


def _shown(time_us: int) -> str:
    return datetime.fromtimestamp(time_us / 1_000_000, UTC).isoformat(timespec="microseconds")


async def _advance(request: Request) -> dict[str, Any]:
    document = request.json()
    if not isinstance(request.node.clock, VirtualClock):
        raise ApiError(409, "conflict", "wall time cannot be moved: serve with a virtual clock")
    if document.get("to_next_deadline") is True:
        jumped = await request.node.pass_to_next()
        return {**_clock(request), "moved": jumped}
    try:
        await request.node.pass_time(_duration_us(document))
    except ValueError as error:
        raise bad_request(str(error)) from error
    return {**_clock(request), "moved": True}


def _duration_us(document: dict[str, Any]) -> int:
    unknown = sorted(set(document) - set(_UNITS) - {"to_next_deadline"})
    if unknown or not document:
        raise bad_request(
            f"expected some of {', '.join(_UNITS)}, or to_next_deadline: true; got {unknown or 'nothing'}"
        )
    given = {name: document[name] for name in _UNITS if name in document}
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise bad_request(f"{name}: expected a number, got {value!r:.60}")
    try:
        duration = duration_us(**given)
    except (ValueError, OverflowError) as error:
        raise bad_request(str(error)) from error
    if duration > _SECONDS_MAX * 1_000_000:
        raise bad_request("a hundred years is the most that time is moved at once")
    return duration


RESOURCES = (
    Resource("/clock", _clock),
    Resource("/clock/advance", post=_advance, allow=access.administrators),
)
