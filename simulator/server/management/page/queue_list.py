"""The list of all queues by virtual host: their messages, limits, losses, and where their dead letters go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from simulator.broker import QueueState, VirtualHost
from simulator.markup import Html, element, plural
from simulator.server.management.page.counts import RARE, counts
from simulator.server.management.page.frame import code, listed, part
from simulator.server.management.page.limits import limits_shown
from simulator.server.management.page.links import queue_link
from simulator.server.management.page.ways import in_short
from simulator.server.management.request import Request

_QUEUES_MAX, _VHOSTS_MAX = 500, 100

Lost = Counter[tuple[str, str]]
"""How many copies were lost by virtual host and queue."""


def queue_lists(vhosts: list[VirtualHost], lost: Lost, request: Request) -> Iterator[Html]:
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


def _queues(number: int, vhost: VirtualHost, lost: Lost, request: Request, room: int) -> Html:
    title = element("h2", "Queues of ", code(vhost.name))
    if not vhost.queues:
        return part(f"queues-{number}", title, element("p", "No queues.", class_="muted"))
    ordered = sorted(vhost.queues.values(), key=lambda queue: -lost[vhost.name, queue.name])
    left = len(ordered) - room
    more = f"{plural(left, 'more queue')} not shown. The search finds them by their names."
    rest = element("p", more, class_="muted") if left > 0 else ""
    shown = {queue: {**counts(queue), "lost": lost[vhost.name, queue.name]} for queue in ordered[:room]}
    return part(f"queues-{number}", title, _table(vhost, shown, request) if shown else "", rest)


def _table(vhost: VirtualHost, shown: dict[QueueState, dict[str, int]], request: Request) -> Html:
    every = list(shown.values())
    names = [name for name in every[0] if name not in RARE or any(row[name] for row in every)]
    numbers = ((name.capitalize(), "n wide" if name == "consumers" else "n") for name in names)
    heads = (("Queue", ""), ("Type", "wide"), *numbers, ("Limits", "wide"), ("Dead letters go", ""))
    rows = [_row(queue, {name: row[name] for name in names}, request) for queue, row in shown.items()]
    return listed(f"Queues of {vhost.name}", heads, rows)


def _row(queue: QueueState, numbers: dict[str, int], request: Request) -> Html:
    return element(
        "tr",
        element("th", queue_link(queue.vhost.name, queue.name), scope="row"),
        element("td", queue.definition.type, class_="wide muted"),
        *(_number(name, count) for name, count in numbers.items()),
        element("td", "; ".join(limits_shown(queue.settings)), class_="wide"),
        element("td", in_short(queue, request)),
    )


def _number(name: str, count: int) -> Html:
    kinds = ("n", "wide" if name == "consumers" else "", "zero" if not count else "bad" if name == "lost" else "")
    return element("td", f"{count:,}", class_=" ".join(filter(None, kinds)))
