"""The addresses of the page: ``/`` with a query that says of what, its files, and the stream of its changes."""

from __future__ import annotations

from importlib import resources

from starlette.responses import Response

from simulator.pictures.timeline import timeline_css
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


def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _style(request: Request) -> Response:
    return _sent(_file("page.css") + timeline_css(), "text/css")


def _script(request: Request) -> Response:
    return _sent(_file("page.js"), "text/javascript")


def _sent(content: str, media_type: str) -> Response:
    return Response(content, headers={"Cache-Control": "no-cache"}, media_type=media_type)


PAGE = Resource("/", _page)
PARTS = (
    Resource("/page.css", _style, allow=None),
    Resource("/page.js", _script, allow=None),
    Resource("/changes", follow),
)
