"""What a served broker has, over HTTP: a page of its queues, and JSON. It only shows; clients speak STOMP.

* ``GET /queues`` has the queues and durable subscriptions, ``GET /queues/NAME`` the messages of a queue;
* ``GET /events`` has the last of what happened to messages, oldest first, ``GET /events?message=ID`` those of one;
* ``GET /clock``, and ``POST /clock/advance`` with ``{"hours": 1, "minutes": 1, "seconds": 1}`` for a virtual one.
"""

from __future__ import annotations

from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from simulator import markup
from simulator.clock import VirtualClock
from simulator.json_reading import read_json
from simulator.systems.activemq.stomp_server import StompServer

_STYLE = "body{font-family:sans-serif;margin:2em}td,th{padding:.2em 1em;text-align:left}.n{text-align:right}"
_HEADS = ("queue", "messages", "unacknowledged", "consumers", "")


def app(server: StompServer) -> Starlette:
    """Build the application for a served broker."""

    async def queues(request: Request) -> Response:
        server.catch_up()
        return JSONResponse(server.served.queues())

    async def messages(request: Request) -> Response:
        server.catch_up()
        name = request.path_params["name"]
        found = server.served.messages(name)
        if found is None:
            return _error(404, f"there is no queue '{name}'; GET /queues has those that there are")
        return JSONResponse(found)

    async def events(request: Request) -> Response:
        wanted = request.query_params.get("message")
        told = server.served.trace.told()
        return JSONResponse([each for each in told if wanted in (None, each["message"])])

    async def now(request: Request) -> Response:
        return JSONResponse(_time(server))

    async def advance(request: Request) -> Response:
        if not isinstance(server.clock, VirtualClock):
            return _error(409, "time is real: only a virtual clock is moved (--clock virtual)")
        try:
            server.clock.advance(**read_json(await request.body() or b"{}"))
        except (ValueError, TypeError, OverflowError) as error:
            return _error(400, f'expected an object such as {{"hours": 1, "seconds": 30}}: {error}')
        server.catch_up()
        return JSONResponse(_time(server))

    async def page(request: Request) -> Response:
        server.catch_up()
        return HTMLResponse(_page(server.served.queues()))

    return Starlette(
        routes=[
            Route("/", page),
            Route("/queues", queues),
            Route("/queues/{name:path}", messages),
            Route("/events", events),
            Route("/clock", now),
            Route("/clock/advance", advance, methods=["POST"]),
        ]
    )


def _error(status: int, text: str) -> Response:
    return JSONResponse({"error": text}, status)


def _time(server: StompServer) -> dict[str, Any]:
    return {"now_us": server.clock.now_us(), "virtual": isinstance(server.clock, VirtualClock)}


def _page(queues: list[dict[str, Any]]) -> str:
    rows = [
        (
            each["name"],
            each["messages"],
            each["unacknowledged"],
            len(each["consumers"]),
            "dead letters" if each["dead_letter_queue"] else "",
        )
        for each in queues
    ]
    body = markup.table(_HEADS, rows) if rows else markup.element("p", "There are no queues yet.")
    head = markup.join([markup.element("title", "ActiveMQ"), markup.element("style", markup.Html(_STYLE))])
    return "<!doctype html>" + markup.element("html", markup.element("head", head), markup.element("body", body))
