"""The first page: what was lost and why, then all queues."""

from __future__ import annotations

from starlette.responses import Response

from simulator.markup import Html, element, plural
from simulator.server.management import access
from simulator.server.management.page.frame import framed, part
from simulator.server.management.page.lost import Cause, causes, causes_list, lost_by_queue
from simulator.server.management.page.queue_list import queue_lists
from simulator.server.management.request import Request


def front_page(request: Request) -> Response:
    """Return the first page."""
    found = causes(request)
    vhosts = access.visible_vhosts(request)
    if not vhosts:
        told = element("p", f"{request.user.name} may enter no virtual host, and sees no queue and no message.")
        return framed(request, "Queues and losses", part("none", element("h1", "Nothing to see"), told))
    lists = queue_lists(vhosts, lost_by_queue(found or ()), request)
    return framed(request, "Queues and losses", _losses(found, len(vhosts) > 1, request), *lists)


def _losses(found: list[Cause] | None, several_vhosts: bool, request: Request) -> Html:
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
