"""The first page: what was lost and why, then all queues, those first that lost something."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
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

_QUEUES_MAX, _VHOSTS_MAX = 500, 100
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
    return framed(request, "Queues and losses", *parts, *_vhosts(vhosts, lost, request))


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


def _vhosts(vhosts: list[VirtualHost], lost: Counter[tuple[str, str]], request: Request) -> Iterator[Html]:
    """Yield the queues of each virtual host, those first that lost something; a page has room for so many."""
    losing = {vhost for vhost, _ in lost}
    ordered = sorted(vhosts, key=lambda vhost: vhost.name not in losing)
    room = _QUEUES_MAX
    for number, vhost in enumerate(ordered[:_VHOSTS_MAX]):
        yield _queues(number, vhost, lost, request, room)
        room = max(room - len(vhost.queues), 0)
    left = len(ordered) - _VHOSTS_MAX
    if left > 0:
        told = f"{plural(left, 'more virtual host')} not shown. The search finds their queues."
        yield part("more", element("p", told, class_="muted"))


def _queues(number: int, vhost: VirtualHost, lost: Counter[tuple[str, str]], request: Request, room: int) -> Html:
    ordered = sorted(vhost.queues.values(), key=lambda queue: -lost[vhost.name, queue.name])
    rows = [_row(queue, lost[vhost.name, queue.name], request) for queue in islice(ordered, room)]
    title = element("h2", "Queues of ", code(vhost.name))
    if not ordered:
        return part(f"queues-{number}", title, element("p", "No queues.", class_="muted"))
    left = len(ordered) - len(rows)
    more = f"{plural(left, 'more queue')} not shown. The search finds them by their names."
    rest = element("p", more, class_="muted") if left else ""
    return part(f"queues-{number}", title, listed(f"Queues of {vhost.name}", _HEADS, rows) if rows else "", rest)


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
