"""The first page and the search; the addresses of all pages, their files, and the stream of their changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from importlib import resources
from itertools import islice

from starlette.responses import Response, StreamingResponse

from simulator.clock import VirtualClock
from simulator.events import Event, losses
from simulator.markup import Html, element, plural
from simulator.message_history import MessageHistory
from simulator.pictures.html import timeline_css
from simulator.server.management import access
from simulator.server.management.page.frame import (
    code,
    framed,
    history_link,
    listed,
    message_address,
    part,
    queue_address,
    queue_link,
)
from simulator.server.management.page.lost import LossCause, causes, causes_list, lost_by_queue
from simulator.server.management.page.message_page import message_page
from simulator.server.management.page.queue_page import queue_lists, queue_page
from simulator.server.management.request import Request
from simulator.server.management.resources import Resource
from simulator.server.node import Node

# Notifies the script of the page, by server-sent events, when the page may have changed.


BETWEEN_S, QUIET_S = 0.5, 5.0
"""The least and the most seconds of wall time between two messages to the script."""
FOLLOWERS_MAX = 100
"""Pages that are notified of changes; the script of any other asks every few seconds."""
_HEADERS = {"Cache-Control": "no-store"}


def follow(request: Request) -> Response:
    """Return a stream of an event whenever something may have changed, until the node stops; 503: too many have one."""
    changes = request.node.changes
    if changes.followers >= FOLLOWERS_MAX:
        return Response("too many pages are open", 503, _HEADERS, "text/plain")
    return StreamingResponse(_events(request.node), headers=_HEADERS, media_type="text/event-stream")


async def _events(node: Node) -> AsyncIterator[str]:
    changes = node.changes
    changes.followers += 1
    try:
        yield "retry: 1000\n\n"
        seen = -1
        while not changes.ended:
            changed = await changes.after(seen, QUIET_S)
            seen = changes.number
            if changed or _runs(node):
                yield f"event: change\ndata: {seen}\n\n"
                await asyncio.sleep(BETWEEN_S)
            else:
                yield ": nothing new\n\n"  # a client that is gone is noticed
    finally:
        changes.followers -= 1


def _runs(node: Node) -> bool:
    """Return whether time passes by itself: then the page's clock and ages change, too."""
    return not isinstance(node.clock, VirtualClock) or node.clock.rate > 0


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

# The first page: what was lost and why, then all queues.


def front_page(request: Request) -> Response:
    """Return the first page."""
    found = causes(request)
    vhosts = access.visible_vhosts(request)
    if not vhosts:
        told = element("p", f"{request.user.name} has access to no virtual host, and sees no queue and no message.")
        return framed(request, "Queues and losses", part("none", element("h1", "Nothing to see"), told))
    lists = queue_lists(vhosts, lost_by_queue(found or ()), request)
    return framed(request, "Queues and losses", _losses(found, len(vhosts) > 1, request), *lists)


def _losses(found: list[LossCause] | None, several_vhosts: bool, request: Request) -> Html:
    recorder = request.management.recorder
    if found is None or recorder is None:
        return part("losses", element("h1", "Losses are not recorded"), class_="calm")
    total = sum(cause.count for cause in found if not cause.on_purpose)
    if not found:
        kept = f"Of the last {recorder.histories.limit:,} messages, each"
        note = element("p", f"{kept} is in a queue, with a consumer, acknowledged, or refused to its publisher.")
        return part("losses", element("h1", "No message was lost"), note, class_="calm good")
    title = f"{plural(total, 'message was', 'messages were')} lost" if total else "No message was lost"
    told = f"Of the last {recorder.histories.limit:,} messages, by cause. Click a message for its whole life."
    note = element("p", told, class_="muted")
    listing = causes_list(found, several_vhosts=several_vhosts)
    return part("losses", element("h1", title), note, listing, class_="alarm" if total else "calm good")


# The search: messages by their id or number, and queues by their name. A single hit is shown at once.


_SHOWN = 100
_HEADS = (("Message", ""), ("What happened last", ""))


def search_page(request: Request, wanted: str) -> Response:
    """Return what was found, or the way to it if it is one thing."""
    messages, queues = _messages(request, wanted), _queues(request, wanted)
    hits = [message_address(each.uid) for each in messages] + [queue_address(*each) for each in queues]
    if len(hits) == 1:
        return Response(status_code=303, headers={"Location": f"./{hits[0]}"})
    title = element("h1", f"“{wanted}”")
    none = "" if hits else element("p", "No queue and no message with a history has that name.")
    links = (element("li", queue_link(vhost, name), " of ", code(vhost)) for vhost, name in queues)
    found = element("ul", *links) if queues else ""
    table = listed("Messages", _HEADS, [_row(each) for each in messages]) if messages else ""
    most = element("p", f"The newest {_SHOWN} are shown.", class_="muted") if len(messages) == _SHOWN else ""
    return framed(request, wanted, part("found", title, none, found, table, most))


def _row(history: MessageHistory) -> Html:
    lost = any(event.event != Event.PURGED for event in losses(history.events))
    return element(
        "tr",
        element("th", history_link(history), scope="row"),
        element("td", history.last(), class_="bad" if lost else None),
    )


def _messages(request: Request, wanted: str) -> list[MessageHistory]:
    recorder = request.management.recorder
    if recorder is None:
        return []
    found = recorder.histories.called(wanted)
    return list(islice((each for each in found if access.sees_vhost(request, each.vhost)), _SHOWN))


def _queues(request: Request, wanted: str) -> list[tuple[str, str]]:
    named = (
        (vhost.name, name)
        for vhost in access.visible_vhosts(request)
        for name in vhost.queues
        if wanted.casefold() in name.casefold()
    )
    found = list(islice(named, _SHOWN))
    return [each for each in found if each[1] == wanted] or found
