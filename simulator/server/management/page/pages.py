"""The addresses of the page: ``/`` with a query that says of what, its files, and the stream of its changes."""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources

from starlette.responses import Response

from simulator.server.management.page.following import follow
from simulator.server.management.page.front import front_page
from simulator.server.management.page.message_page import message_page
from simulator.server.management.page.queue_page import queue_page
from simulator.server.management.page.search_page import search_page
from simulator.server.management.request import Request
from simulator.server.management.resources import Resource


def _page(request: Request) -> Response:
    query = request.query
    if query.get("find", "").strip():
        return search_page(request, query["find"].strip())
    if "message" in query:
        return message_page(request, query["message"])
    if "queue" in query:
        return queue_page(request, query.get("vhost", "/"), query["queue"])
    return front_page(request)


def _file(name: str, media_type: str) -> Callable[[Request], Response]:
    def sent(request: Request) -> Response:
        content = resources.files(__package__).joinpath(name).read_bytes()
        return Response(content, headers={"Cache-Control": "no-cache"}, media_type=media_type)

    return sent


PAGE = Resource("/", _page)
PARTS = (
    Resource("/page.css", _file("page.css", "text/css"), allow=None),
    Resource("/page.js", _file("page.js", "text/javascript"), allow=None),
    Resource("/changes", follow),
)
