"""The first page: what was lost and why, then all queues, those first that lost something."""

from __future__ import annotations

from itertools import islice

from starlette.responses import Response

from simulator.broker import QueueState, VirtualHost
from simulator.markup import Html, element, plural
from simulator.server.management import access
from simulator.server.management.page.frame import code, framed, listed, part
from simulator.server.management.page.limits import limits_shown
from simulator.server.management.page.links import queue_link
from simulator.server.management.page.lost import Cause, causes, causes_list, lost_by_queue
from simulator.server.management.page.ways import in_short
from simulator.server.management.request import Request

_QUEUES_MAX = 1_000
_HEADS = (
    ("Queue", ""), ("Type", "wide"), ("Ready", "n"), ("Unacked", "n"), ("Held", "n wide"), ("Consumers", "n wide"),
    ("Lost", "n"), ("Limits", "wide"), ("Dead letters go", ""),
)  # fmt: skip


def front_page(request: Request) -> Response:
    """Return the first page."""
    found = causes(request)
    vhosts = access.visible_vhosts(request)
    parts = [_losses(found, len(vhosts) > 1)]
    lost = lost_by_queue(found or ())
    parts += [_queues(number, vhost, lost, request) for number, vhost in enumerate(vhosts)]
    return framed(request, "Queues and losses", *parts)


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


def _queues(number: int, vhost: VirtualHost, lost: dict[tuple[str, str], int], request: Request) -> Html:
    ordered = sorted(vhost.queues.values(), key=lambda queue: -lost.get((vhost.name, queue.name), 0))
    rows = [_row(queue, lost.get((vhost.name, queue.name), 0), request) for queue in islice(ordered, _QUEUES_MAX)]
    title = element("h2", "Queues of ", code(vhost.name))
    if not rows:
        return part(f"queues-{number}", title, element("p", "No queues.", class_="muted"))
    left = len(ordered) - len(rows)
    rest = element("p", f"{left:,} more queues are not shown.", class_="muted") if left else ""
    return part(f"queues-{number}", title, listed(f"Queues of {vhost.name}", _HEADS, rows), rest)


def _row(queue: QueueState, lost: int, request: Request) -> Html:
    numbers = (
        (queue.messages_ready, "n"),
        (queue.unacked, "n"),
        (queue.store.pending, "n wide"),
        (len(queue.consumers), "n wide"),
        (lost, "n bad"),
    )
    limits = "; ".join(limits_shown(queue.settings))
    return element(
        "tr",
        element("th", queue_link(queue.vhost.name, queue.name), scope="row"),
        element("td", queue.definition.type, class_="wide muted"),
        *(
            element("td", f"{count:,}", class_=kind if count else kind.replace("bad", "") + " zero")
            for count, kind in numbers
        ),
        element("td", limits, class_="wide"),
        element("td", in_short(queue, request)),
    )
