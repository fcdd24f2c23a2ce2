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
    parts = [_losses(found, len(vhosts) > 1)]
    lost = lost_by_queue(found or ())
    return framed(request, "Queues and losses", *parts, *queue_lists(vhosts, lost, request))


def _losses(found: list[Cause] | None, several_vhosts: bool) -> Html:
    if found is None:
        return part("losses", element("h1", "Losses are not recorded"), class_="calm")
    total = sum(cause.count for cause in found if not cause.on_purpose)
    if not found:
        note = element("p", "Every message is in a queue, with a consumer, acknowledged, or refused to its publisher.")
        return part("losses", element("h1", "No message was lost"), note, class_="calm good")
    title = f"{plural(total, 'message was', 'messages were')} lost" if total else "No message was lost"
    note = element("p", "Of the last 10,000 messages, by cause. Click a message for its whole life.", class_="muted")
    listing = causes_list(found, several_vhosts=several_vhosts)
    return part("losses", element("h1", title), note, listing, class_="alarm" if total else "calm good")
