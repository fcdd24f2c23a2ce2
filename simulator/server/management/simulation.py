"""What RabbitMQ does not have: ``/api/clock``, ``/api/faults`` and ``/api/histories``."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from simulator.clock import VirtualClock, duration_us
from simulator.message_history import MessageHistory, RecordingBroker
from simulator.server.faults.fault import FaultError, read_fault
from simulator.server.faults.striking import SetFault
from simulator.server.management import access, listing
from simulator.server.management.http_errors import ApiError, bad_request, object_not_found
from simulator.server.management.request import Request
from simulator.server.management.resources import Resource

# ``/api/histories``, which RabbitMQ does not have: what happened to each message, and why.
#
# ``GET /api/histories`` lists messages, ``GET /api/histories/NUMBER`` explains one
# (``simulator.message_history``). Filters: ``vhost``, ``queue``, ``message_id``; ``ended``: whether
# nothing is left of it, and ``lost``: whether a copy was lost (true or false). ``/api/lives`` is
# the older name of the same resources.


_FLAGS = {"true": True, "false": False}


def _recorder(request: Request) -> RecordingBroker:
    recorder = request.management.recorder
    if recorder is None:
        raise ApiError(404, "not_found", "the server does not record what happens to messages")
    return recorder


def _histories(request: Request) -> Any:
    ended, lost = (_FLAGS.get(request.query.get(name, "")) for name in ("ended", "lost"))
    found = _recorder(request).histories.find(
        vhost=request.query.get("vhost"),
        queue=request.query.get("queue"),
        message_id=request.query.get("message_id"),
        ended=ended,
        lost=lost,
    )
    seen = (history for history in found if access.sees_vhost(request, history.vhost))
    return listing.listed([_summary(history) for history in seen], request, ("uid",))


def _summary(history: MessageHistory) -> dict[str, Any]:
    return {
        "uid": history.uid,
        "vhost": history.vhost,
        "message_id": history.message_id,
        "ended": history.ended,
        "queues": list(history.queues),
        "last": history.last(),
        "loss": history.loss,
    }


def _history(request: Request) -> Any:
    recorder = _recorder(request)
    try:
        history = recorder.histories.get(int(request.name("uid")))
    except ValueError as error:
        raise bad_request(f"expected a number of a message, got {request.name('uid')!r:.60}") from error
    if history is None or not access.sees_vhost(request, history.vhost):
        raise object_not_found()
    return {**_summary(history), "sentences": recorder.explain(history.uid), "events": history.to_json()}


_HISTORIES = (
    Resource("/histories", _histories),
    Resource("/histories/:uid", _history),
    Resource("/lives", _histories),  # the paths of older versions
    Resource("/lives/:uid", _history),
)

# ``/api/clock``, which RabbitMQ does not have: tell the time, and move a virtual clock on.
#
# ``GET /api/clock`` returns the time, ``POST /api/clock/advance`` moves a virtual clock on:
# by ``{"hours": 1, "minutes": 30, "seconds": 5, "milliseconds": 250}``, or with
# ``{"to_next_deadline": true}`` to when something next happens by itself.


_UNITS = ("days", "hours", "minutes", "seconds", "milliseconds")
_SECONDS_MAX = 100 * 365 * 86_400


def _clock(request: Request) -> dict[str, Any]:
    clock, now_us = request.node.clock, request.node.clock.now_us()
    next_us = request.broker.next_due()
    return {
        "now": _time_text(now_us),
        "now_us": now_us,
        "virtual": isinstance(clock, VirtualClock),
        "rate": clock.rate if isinstance(clock, VirtualClock) else 1,
        "next_deadline": None if next_us is None else _time_text(next_us),
        "next_deadline_us": next_us,
    }


def _time_text(time_us: int) -> str:
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
        raise bad_request("time moves by at most a hundred years at once")
    return duration


_CLOCK = (
    Resource("/clock", _clock),
    Resource("/clock/advance", post=_advance, allow=access.administrators),
)

# ``/api/faults``, which RabbitMQ does not have: what goes wrong for clients, on request.
#
# ``POST /api/faults`` sets one, as ``{"fault": "close_channel", "queue": "orders", "nth": 3}``,
# and answers with its number; ``GET`` lists them with how often each struck; ``DELETE`` clears
# all, or one by its number.


def _faults(request: Request) -> list[dict[str, object]]:
    return [each.document() for each in request.node.faults.shown()]


def _set(request: Request) -> dict[str, object]:
    try:
        fault = read_fault(request.json())
    except FaultError as error:
        raise bad_request(str(error)) from error
    return _fault_json(request, request.node.set_fault(fault))


def _clear_all(request: Request) -> None:
    request.node.clear_faults()


def _found(request: Request) -> SetFault | None:
    number = request.name("id")
    return request.node.faults.known.get(int(number)) if number.isdecimal() and len(number) < 20 else None


def _one(request: Request) -> Any:
    return _fault_json(request, request.found)


def _clear(request: Request) -> None:
    request.node.clear_faults(request.found.number)


def _fault_json(request: Request, fault: SetFault) -> dict[str, object]:
    return request.node.faults.shown_one(fault).document()


_FAULTS = (
    Resource("/faults", _faults, post=_set, delete=_clear_all, allow=access.administrators_to_change),
    Resource("/faults/:id", _one, delete=_clear, exists=_found, allow=access.administrators_to_change),
)


RESOURCES = (*_CLOCK, *_HISTORIES, *_FAULTS)
