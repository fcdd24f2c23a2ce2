"""What all pages have in common: the head, the bar with the clock and the search, and how times are shown."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from urllib.parse import quote

from starlette.responses import Response

from simulator.clock import VirtualClock
from simulator.markup import Html, element, join, text
from simulator.message_history import MessageHistory
from simulator.pictures.graph import Graph
from simulator.pictures.svg import Drawing
from simulator.server.management import access
from simulator.server.management.request import Request

# Nothing is loaded from elsewhere, no text of a message can become a script, and no other page can frame this one.
_HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_KEYS_SHOWN = 5
_STEPS = (
    ("+1 s", '{"seconds": 1}'),
    ("+1 min", '{"minutes": 1}'),
    ("To the next deadline", '{"to_next_deadline": true}'),
)


def framed(request: Request, title: str, *parts: Html, status: int = 200) -> Response:
    """Return a page with these parts. Each is an element with an ``id``, by which the script finds changes."""
    head = join(
        (
            Html('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
            Html('<link rel="icon" href="data:,"><link rel="stylesheet" href="page/page.css">'),
            element("title", title, " · dlx"),
            Html('<script src="page/page.js" defer></script>'),
        )
    )
    skip = element("a", "Skip to the content", href="#content", class_="skip")
    body = join((skip, _bar(request), element("main", *parts, id="content", tabindex="-1"), _FOOT))
    html = f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'
    # Names that are not UTF-8 are shown with question marks.
    return Response(html.encode(errors="replace"), status, _HEADERS, "text/html")


_FOOT = element(
    "footer",
    "The ",
    element("kbd", "/"),
    " key goes to the search. The same in JSON: ",
    element("a", "queues", href="api/queues"),
    ", ",
    element("a", "histories of messages", href="api/histories"),
    ", ",
    element("a", "the clock", href="api/clock"),
    ".",
)


def _bar(request: Request) -> Html:
    broker = request.broker
    about = element("span", f"RabbitMQ {broker.release.version} simulated · {broker.node}", class_="about")
    find = element(
        "input",
        type="search",
        name="find",
        id="find",
        value=request.query.get("find", ""),
        placeholder="Message id or queue",
        aria_label="Find a message by its id, or a queue",
        autocomplete="off",
    )
    search = element("form", find, element("button", "Find"), method="get", action=HOME, role="search")
    return element(
        "header", element("a", "dlx", href=HOME, class_="brand"), about, search, _clock(request), class_="top"
    )


def _clock(request: Request) -> Html:
    clock = request.node.clock
    virtual = isinstance(clock, VirtualClock)
    now = element("b", time_shown(clock.now_us()), " UTC")
    kind = element("span", "virtual time" if virtual else "wall time", class_="muted")
    state = element("span", id="state", class_="state", role="status")
    buttons = Html("")
    if virtual and access.is_administrator(request.user):
        steps = (element("button", name, type="button", data_advance=body) for name, body in _STEPS)
        buttons = element("span", *steps, class_="steps", role="group", aria_label="Move the clock")
    told = element("span", now, " ", kind, id="now", data_part="")
    return element("div", told, buttons, state, class_="clock")


def part(name: str, *content: object, class_: str | None = None) -> Html:
    """Return a part of a page, which the script replaces when it has changed."""
    return element("section", *content, id=name, data_part="", class_=class_)


def listed(name: str, heads: tuple[tuple[str, str], ...], rows: list[Html]) -> Html:
    """Return a table of rows, whose heads have a text and a class; ``name`` says what it lists.

    Columns of the class ``wide`` are left out where there is little room.
    """
    head = join(element("th", title, scope="col", class_=kind or None) for title, kind in heads)
    whole = element("table", element("thead", element("tr", head)), element("tbody", *rows), aria_label=name)
    return element("div", whole, class_="scroll")


def code(value: object) -> Html:
    """Return a name as it is written in settings."""
    return element("code", value)


def keys_shown(keys: Sequence[str]) -> Html:
    """Return routing keys, the first few of many."""
    more = f", {len(keys) - _KEYS_SHOWN:,} more" if len(keys) > _KEYS_SHOWN else ""
    return join((join(map(key_shown, keys[:_KEYS_SHOWN]), ", "), more))


def key_shown(key: str) -> Html:
    """Return a routing key; an empty one is named, not left blank."""
    return code(key) if key else element("span", "(empty)", class_="muted")


def exchange_shown(name: str | None) -> Html:
    """Return an exchange's name; the default exchange has none."""
    return code(name) if name else text("the default exchange")


def time_shown(time_us: int) -> str:
    """Return a time in UTC, to the second."""
    return f"{datetime.fromtimestamp(time_us / 1_000_000, UTC):%Y-%m-%d %H:%M:%S}"


def exact_time(time_us: int, before_us: int | None = None) -> Html:
    """Return a time in UTC, to the millisecond; without what it has in common with the one before: date, or all."""
    at = datetime.fromtimestamp(time_us / 1_000_000, UTC)
    if time_us == before_us:
        return Html("")
    same_day = before_us is not None and datetime.fromtimestamp(before_us / 1_000_000, UTC).date() == at.date()
    date = "" if same_day else f"{at:%Y-%m-%d} "
    return element("time", f"{date}{at:%H:%M:%S}.{at.microsecond // 1000:03}", datetime=at.isoformat())


# The addresses of the pages, relative to that of the first.


HOME = "./"


def queue_address(vhost: str, queue: str) -> str:
    """Return the address of a queue's page."""
    return f"?vhost={_quoted(vhost)}&queue={_quoted(queue)}"


def queue_link(vhost: str, queue: str) -> Html:
    """Return the queue's name as a link to its page."""
    return element("a", queue or '""', href=queue_address(vhost, queue))


def message_address(uid: int) -> str:
    """Return the address of a message's page."""
    return f"?message={uid}"


def message_link(uid: int, message_id: str | None) -> Html:
    """Return a message's id, or its number if it has none, as a link to its page."""
    return element("a", message_name(uid, message_id), href=message_address(uid))


def message_name(uid: int, message_id: str | None) -> str:
    """Return what a message is called: its ``message_id`` property, or the number that the broker gave it."""
    return message_id or f"no. {uid}"


def history_link(history: MessageHistory) -> Html:
    """Return the link to the message of a history."""
    return message_link(history.uid, history.message_id)


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="replace")


# A drawn graph in a page: the page scrolls it, and gives it its own colours.


_SMALL_PX = 720


def picture(graph: Graph) -> Html:
    """Return the picture, which can be scrolled by keys; one that is little wider than its place becomes smaller."""
    drawing = Drawing(graph)
    kind = "picture small" if drawing.width <= _SMALL_PX else "picture"
    return element("div", Html(drawing.svg()), class_=kind, tabindex="0", role="group", aria_label=graph.title)
