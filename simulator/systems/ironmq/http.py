"""IronMQ's HTTP API v3, as an ASGI application.

Below ``/3/projects/{project}`` it is IronMQ. Added for tests:

* ``GET /clock``, and ``POST /clock/advance`` with ``{"hours": 1, "minutes": 1, "seconds": 1}``;
* ``PUT`` and ``DELETE /out_of_reach/{project}/{queue}``: the replicas of a queue go offline, and come back;
* ``PUT /endpoints/{project}`` with ``{"url": "http://...", "answers": [500, 200]}``: what the endpoint of a subscriber
  answers.

Source: API reference.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from simulator.clock import Clock, VirtualClock, WallClock, duration_us
from simulator.events import Happened
from simulator.json_reading import read_json
from simulator.systems.ironmq import fields, operations
from simulator.systems.ironmq.fields import Shape, an_object, ignored
from simulator.systems.ironmq.http_errors import Refusal, bad_request, unauthorized
from simulator.systems.ironmq.operations import Call, Operation
from simulator.systems.ironmq.service import Service

_QUEUE = "/queues/{queue}"
_MESSAGE = _QUEUE + "/messages/{message}"
ROUTES: tuple[tuple[str, str, Operation], ...] = (
    ("GET", "/queues", operations.names),
    ("PUT", _QUEUE, operations.create),
    ("GET", _QUEUE, operations.info),
    ("PATCH", _QUEUE, operations.update),
    ("DELETE", _QUEUE, operations.remove),
    ("POST", _QUEUE + "/subscribers", operations.add_subscribers),
    ("PUT", _QUEUE + "/subscribers", operations.replace_subscribers),
    ("DELETE", _QUEUE + "/subscribers", operations.remove_subscribers),
    ("POST", _QUEUE + "/messages", operations.post),
    ("GET", _QUEUE + "/messages", operations.peek),
    ("DELETE", _QUEUE + "/messages", operations.delete_several),
    ("POST", _QUEUE + "/reservations", operations.reserve),
    ("GET", _MESSAGE, operations.get),
    ("DELETE", _MESSAGE, operations.delete),
    ("GET", _MESSAGE + "/subscribers", operations.push_statuses),
    ("POST", _MESSAGE + "/touch", operations.touch),
    ("POST", _MESSAGE + "/release", operations.release),
)

_FIELDS: dict[Operation, Shape] = {
    operations.create: fields.QUEUE,
    operations.update: fields.QUEUE,
    operations.add_subscribers: fields.SUBSCRIBERS,
    operations.replace_subscribers: fields.SUBSCRIBERS,
    operations.remove_subscribers: fields.SUBSCRIBERS,
    operations.post: fields.MESSAGES,
    operations.delete_several: fields.DELETIONS,
    operations.reserve: fields.RESERVATION,
    operations.delete: fields.DELETION,
    operations.touch: fields.TOUCH,
    operations.release: fields.RELEASE,
}

_log = logging.getLogger(__name__)
_NUMBERS_OF_QUERIES = ("n", "per_page")
_NUMBER = re.compile("[0-9]{1,9}")
_UNITS = ("days", "hours", "minutes", "seconds", "milliseconds")
_SECONDS_MAX = 100 * 365 * 86_400
_Handler = Callable[[Request], Any]


def app(
    *,
    clock: Clock | None = None,
    token: str | None = None,
    seed: int = 0,
    tell: Callable[[Happened], None] | None = None,
    strict: bool = False,
) -> Starlette:
    """Build the API of an IronMQ that has no queues yet.

    Args:
        clock: the time; by default wall time. A ``VirtualClock`` stands still until it is moved over HTTP.
        token: what clients must send (``Authorization: OAuth TOKEN``, or ``?oauth=TOKEN``); by default any
            token will do, but there must be one.
        seed: of the reservation ids, the only thing that is random.
        tell: is called with everything that happens to a message.
        strict: whether answers tell, as ``warnings``, which fields of the request IronMQ ignores; the log of the
            server tells it in any case.
    """
    service = Service(clock or WallClock(), seed=seed, tell=tell)
    calls = [
        Route(path, _call(service, operation, token, strict=strict), methods=[method])
        for method, path, operation in ROUTES
    ]
    webhook = Route(_QUEUE + "/webhook", _webhook(service, token), methods=["POST"])
    return Starlette(
        routes=[Mount("/3/projects/{project}", routes=[*calls, webhook]), *_simulation(service)],
        exception_handlers={Refusal: _refused, HTTPException: _no_such_call},
    )


def _call(service: Service, operation: Operation, token: str | None, *, strict: bool) -> _Handler:
    async def handle(request: Request) -> Response:
        _authorize(request, token)
        names = request.path_params
        asked = _query(request) if request.method == "GET" else await _body(request)
        call = Call(now_us=0, queue=names.get("queue", ""), message=names.get("message", ""), request=asked)
        warnings = ignored(asked, _FIELDS[operation]) if operation in _FIELDS else []
        for warning in warnings:
            _log.warning("%s %s: %s", request.method, request.url.path, warning)
        status, body = await service.answer(operation, names["project"], call)
        return _json({**body, "warnings": warnings} if strict and warnings else body, status)

    return handle


def _webhook(service: Service, token: str | None) -> _Handler:
    """Post the body of a request as it is."""

    async def handle(request: Request) -> Response:
        _authorize(request, token)
        text = (await request.body()).decode(errors="replace")
        call = Call(now_us=0, queue=request.path_params["queue"], request={"messages": [{"body": text}]})
        status, body = await service.answer(operations.post, request.path_params["project"], call)
        return _json(body, status)

    return handle


def _authorize(request: Request, token: str | None) -> None:
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "oauth":
        given = request.query_params.get("oauth", "")
    if not given or token not in (None, given):
        raise unauthorized()


def _query(request: Request) -> dict[str, Any]:
    """Return the parameters of the query, those that are numbers as such."""
    given: dict[str, Any] = dict(request.query_params)
    for name in _NUMBERS_OF_QUERIES:
        if _NUMBER.fullmatch(given.get(name, "")):
            given[name] = int(given[name])
    return given


async def _body(request: Request) -> Mapping[str, Any]:
    sent = await request.body()
    try:
        return an_object(read_json(sent) if sent.strip() else {}, "the body")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"the body must be JSON: {error}") from error


def _json(body: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(body), status, media_type="application/json")


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return _json(error.body, error.status)


async def _no_such_call(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _json({"msg": HTTPStatus(error.status_code).phrase}, error.status_code)


# What IronMQ has not


class _Endpoint(msgspec.Struct, forbid_unknown_fields=True):
    """What the endpoint of a subscriber answers: statuses of HTTP, in order."""

    url: str
    answers: int | list[int]


def _simulation(service: Service) -> list[Route]:
    async def clock(request: Request) -> Response:
        service.look()
        return _json(_time(service))

    async def advance(request: Request) -> Response:
        span_us = _span_us(await _body(request))
        try:
            service.advance(span_us)
        except TypeError as error:
            raise Refusal(409, str(error)) from error
        return _json(_time(service))

    async def reach(request: Request) -> Response:
        names, is_reachable = request.path_params, request.method == "DELETE"
        service.project(names["project"]).set_reachable(names["queue"], is_reachable, service.clock.now_us())
        service.look()
        return _json({"msg": "In reach" if is_reachable else "Out of reach"})

    async def endpoint(request: Request) -> Response:
        told = await _body(request)
        try:
            wanted = msgspec.convert(told, _Endpoint)
            service.project(request.path_params["project"]).endpoints.tell(wanted.url, wanted.answers)
        except ValueError as error:  # also those of msgspec
            raise bad_request(str(error)) from error
        return _json({"msg": "Endpoint set"})

    return [
        Route("/endpoints/{project}", endpoint, methods=["PUT"]),
        Route("/clock", clock, methods=["GET"]),
        Route("/clock/advance", advance, methods=["POST"]),
        Route("/out_of_reach/{project}/{queue}", reach, methods=["PUT", "DELETE"]),
    ]


def _time(service: Service) -> dict[str, Any]:
    return {
        "now_us": service.clock.now_us(),
        "next_due_us": service.next_due_us(),
        "virtual": isinstance(service.clock, VirtualClock),
    }


def _span_us(given: Mapping[str, Any]) -> int:
    right = all(
        unit in _UNITS and isinstance(span, int | float) and not isinstance(span, bool) and 0 <= span <= _SECONDS_MAX
        for unit, span in given.items()
    )
    if not right:
        raise bad_request(f"expected numbers that are not negative, named {', '.join(_UNITS)}")
    return duration_us(**given)
