"""Zaqar's HTTP API v2, as an ASGI application.

Below ``/v2`` it is Zaqar, without Keystone: the project is what the header
``X-PROJECT-ID`` says. Added for tests: ``GET /clock``, and
``POST /clock/advance`` with ``{"hours": 1, "minutes": 1, "seconds": 1}``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any
from xml.sax.saxutils import escape

from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from simulator.clock import Clock, VirtualClock, WallClock, duration_us
from simulator.events import Happened
from simulator.systems.zaqar.requests import JSON, Request, RequestError, ZaqarAnswer, bad_api, read_json
from simulator.systems.zaqar.service import Zaqar

_UNITS = ("days", "hours", "minutes", "seconds", "milliseconds")
_NO_CONTENT = 204
_FAILED = "A server error occurred.  Please contact the administrator."


def app(
    *,
    profile: str = "redis",
    clock: Clock | None = None,
    seed: int = 0,
    tell: Callable[[Happened], None] | None = None,
) -> Starlette:
    """Build the API of a Zaqar that has no queues yet.

    Args:
        profile: a name of ``simulator.systems.zaqar.profiles.PROFILES``.
        clock: the time; by default wall time. A ``VirtualClock`` stands still until it is moved over HTTP.
        seed: of the ids of messages and claims.
        tell: is called with everything that happens to a message.

    Raises:
        ValueError: there is no such profile.
    """
    zaqar, time = Zaqar(profile, seed=seed), clock or WallClock()

    async def call(http: HttpRequest) -> Response:
        body = await http.body()
        request = Request(
            method=http.method,
            path=http.scope["path"],
            query=http.scope["query_string"].decode("latin-1"),
            headers={name.lower(): value for name, value in http.headers.items()},
            body=body if "content-length" in http.headers or body else None,
        )
        answer = zaqar.handle(request, time.now_us())
        _tell_all(zaqar, tell)
        return _response(answer)

    async def any_target(scope: Scope, receive: Receive, send: Send) -> None:
        response = await call(HttpRequest(scope, receive))
        await response(scope, receive, send)

    async def now(http: HttpRequest) -> Response:
        return _response(_time(time))

    async def advance(http: HttpRequest) -> Response:
        if not isinstance(time, VirtualClock):
            return _response(
                ZaqarAnswer(409, {"title": "Time is real", "description": "Only a virtual clock is moved."})
            )
        try:
            time.advance(**_span(read_json(await http.body() or None)))
        except RequestError as refused:
            return _response(refused.answer)
        zaqar.pass_time(time.now_us())
        _tell_all(zaqar, tell)
        return _response(_time(time))

    api = Starlette(
        routes=[Route("/clock", now, methods=["GET"]), Route("/clock/advance", advance, methods=["POST"])],
    )
    # Any other target, even one without a slash before it, and any method: Zaqar itself says which there are.
    api.router.default = any_target
    return api


def _response(answer: ZaqarAnswer) -> Response:
    headers = {**answer.headers, **({} if answer.location is None else {"Location": answer.location})}
    if answer.document is None:
        kind = None if answer.bare or answer.status == _NO_CONTENT else answer.media_type
        return Response(status_code=answer.status, headers=headers, media_type=kind)
    try:
        told = json.dumps(answer.document, ensure_ascii=False) if answer.media_type == JSON else _xml(answer.document)
        content = told.encode()
    except UnicodeEncodeError:  # Zaqar fails while it answers, and the server below says so
        return Response(_FAILED, 500, headers={"Content-Type": "text/plain"})
    return Response(content, answer.status, headers={**headers, "Content-Type": answer.media_type})


def _xml(error: Mapping[str, Any]) -> str:
    """Return an error as Falcon writes it in XML."""
    return f'<?xml version="1.0" encoding="UTF-8"?><error>{_elements(error)}</error>'


def _elements(fields: Mapping[str, Any]) -> str:
    parts = {name: escape(each) if isinstance(each, str) else _elements(each) for name, each in fields.items()}
    return "".join(f"<{name}>{part}</{name}>" for name, part in parts.items())


def _tell_all(zaqar: Zaqar, tell: Callable[[Happened], None] | None) -> None:
    if tell is not None:
        for happened in zaqar.store.journal:
            tell(happened)
    zaqar.store.journal.clear()


def _time(time: Clock) -> ZaqarAnswer:
    return ZaqarAnswer(200, {"now_us": time.now_us(), "virtual": isinstance(time, VirtualClock)})


def _span(given: Mapping[str, Any]) -> dict[str, float]:
    wrong = bad_api(f"expected an object with numbers that are not negative, named {', '.join(_UNITS)}")
    if not isinstance(given, dict) or not set(given) <= set(_UNITS):
        raise wrong
    if any(isinstance(span, bool) or not isinstance(span, int | float) for span in given.values()):
        raise wrong
    try:
        duration_us(**given)
    except (ValueError, OverflowError):
        raise wrong from None
    return given
