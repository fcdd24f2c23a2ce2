"""The list of queues, and the page of one queue: its losses, where its dead letters go, settings, messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice

import msgspec
from starlette.responses import Response

from dlx.recorded_deaths import recorded_deaths
from dlx.settings import CONSUMER_TIMEOUT, DELAYED_RETRY_MAX, DELAYED_RETRY_MIN, EXPIRES, MESSAGE_TTL, Setting, Settings
from dlx.topology import STREAM
from simulator.broker import Copy, QueueState, VirtualHost
from simulator.json_values import plain
from simulator.markup import Html, element, plural, text
from simulator.server.management import access
from simulator.server.management.page.frame import (
    HOME,
    code,
    framed,
    keys_shown,
    listed,
    message_link,
    part,
    picture,
    queue_link,
    time_shown,
)
from simulator.server.management.page.lost import causes, causes_list
from simulator.server.management.page.ways import by_reason, drawn, in_short, sample
from simulator.server.management.request import Request
from simulator.time_spans import span

MESSAGES_SHOWN = 100
_BODY_SHOWN = 60
_DEATHS_SHOWN = 3
_MESSAGE_HEADS = (
    ("Message", ""), ("State", ""), ("Routing key", ""), ("Died before", ""), ("Expires", "wide"), ("Body", "wide"),
)  # fmt: skip
_SPANS = frozenset({MESSAGE_TTL, EXPIRES, DELAYED_RETRY_MIN, DELAYED_RETRY_MAX, CONSUMER_TIMEOUT})
_SETTING_HEADS = (("Setting", ""), ("Value", ""), ("From", ""), ("Hides", ""))


def queue_page(request: Request, vhost: str, name: str) -> Response:
    """Return the page of a queue, or one that says that it does not exist."""
    host = request.broker.vhosts.get(vhost)
    queue = host.queues.get(name) if host is not None and access.sees_vhost(request, vhost) else None
    if queue is None:
        told = element("p", "There is no queue ", code(name), " in ", code(vhost), ".")
        return framed(request, name, part("gone", element("h1", name), told), status=404)
    parts = [_head(queue), *_lost(queue, request), _ways(queue, request), _messages(queue, request), _settings(queue)]
    return framed(request, name, *parts)


def _head(queue: QueueState) -> Html:
    own = queue.definition
    flags = {"durable": own.durable, "exclusive": own.exclusive, "auto-delete": own.auto_delete}
    kind = " ".join((*(name for name, is_so in flags.items() if is_so), own.type))
    where = f"{kind[0].upper()}{kind[1:]} queue of {queue.vhost.name}"
    numbers = {name: count for name, count in counts(queue).items() if count or name not in RARE}
    tiles = (element("div", element("b", f"{count:,}"), element("span", name)) for name, count in numbers.items())
    back = element("a", "All queues", href=HOME)
    title = element("h1", queue.name or '""')
    return part(
        "queue",
        element("p", back, class_="back"),
        title,
        element("p", where, class_="muted"),
        element("div", *tiles, class_="tiles"),
    )


def _lost(queue: QueueState, request: Request) -> Iterator[Html]:
    found = causes(request, queue.vhost.name, queue.name)
    if found:
        lost = any(not cause.on_purpose for cause in found)
        title = element("h2", "Lost here" if lost else "Removed here")
        yield part("losses", title, causes_list(found, several_vhosts=False), class_="alarm" if lost else None)


def _ways(queue: QueueState, request: Request) -> Html:
    message, which = sample(queue, request)
    graph = drawn(queue, message, request)
    note = element("p", f"As its settings are now, {which}.", class_="muted")
    shown = picture(graph) if graph is not None else ""
    return part("ways", element("h2", "Where its dead letters go"), note, shown, by_reason(queue, message, request))


# Messages


def _messages(queue: QueueState, request: Request) -> Html:
    title = element("h2", "Messages")
    if not access.may_read(request, queue.vhost.name, queue.name):
        return part("messages", title, element("p", f"{request.user.name} may not read from this queue."))
    rows = [_message(copy, state, request) for copy, state in islice(_copies(queue, request), MESSAGES_SHOWN)]
    if not rows:
        return part("messages", title, element("p", "None.", class_="muted"))
    more = queue.messages - len(rows)
    rest = element("p", f"{plural(more, 'more message')} not shown.", class_="muted") if more > 0 else ""
    note = element("p", "Viewing takes nothing from the queue.", class_="muted")
    return part("messages", title, note, listed("Messages", _MESSAGE_HEADS, rows), rest)


def _copies(queue: QueueState, request: Request) -> Iterator[tuple[Copy, str]]:
    """Yield the messages of a queue with the state that each is in, those that consumers have first."""
    yield from ((copy, "unacked") for copy in request.unacknowledged.get(queue, ()))
    for place, copy in enumerate(queue.store.waiting(), 1):
        yield copy, f"ready, place {place:,}" if copy.ready_us is None else f"back at {time_shown(copy.ready_us)}"
    yield from ((pending.copy, "dead, held") for pending in (*queue.in_hand, *queue.discards))


def _message(copy: Copy, state: str, request: Request) -> Html:
    message = copy.message
    deaths = [each for each in recorded_deaths(message, request.broker.release) if each is not None]
    told = [f"{each.reason} in {each.queue}" + (f" × {each.times}" if each.times != 1 else "") for each in deaths]
    more = f", {len(told) - _DEATHS_SHOWN} more" if len(told) > _DEATHS_SHOWN else ""
    ends = "" if copy.expires_us is None else f"in {span(max(copy.expires_us - request.node.clock.now_us(), 0))}"
    return element(
        "tr",
        element("th", message_link(copy.uid, message.properties.get("message_id")), scope="row"),
        element("td", state, class_="short"),
        element("td", keys_shown(message.routing_keys), class_="key"),
        element("td", ", ".join(told[:_DEATHS_SHOWN]) + more if told else element("span", "never", class_="muted")),
        element("td", ends, class_="wide"),
        element("td", body_shown(copy.body, _BODY_SHOWN), class_="wide"),
    )


def body_shown(body: bytes, most: int) -> Html:
    """Return the beginning of a body: as text where it is some, else its bytes in hexadecimal."""
    first = body[: 4 * most]
    try:
        told = first.decode()
    except UnicodeDecodeError as error:
        cut = len(body) > len(first) and error.start > len(first) - 4
        told = first[: error.start].decode() if cut else first.hex(" ")
    rest = len(told) > most or len(body) > len(first)
    return code(f"{told[:most]}{'…' if rest else ''}") if body else element("span", "empty", class_="muted")


# Settings


def _settings(queue: QueueState) -> Html:
    settings = queue.settings
    rows = [_setting(setting) for setting in settings.values.values()]
    rows += [_setting(setting, why) for setting, why in settings.ignored]
    title = element("h2", "Settings")
    hides = any(setting.hidden for setting in settings.values.values())
    heads = _SETTING_HEADS if hides else _SETTING_HEADS[:-1]
    none = element("p", "None: the queue has no arguments, and no policy applies.", class_="muted")
    return part("settings", title, listed("Settings", heads, rows) if rows else none)


def _setting(setting: Setting, why_ignored: str = "") -> Html:
    hidden = ", ".join(f"{_value(value)} ({origin})" for value, origin in setting.hidden)
    note = element("div", f"not used: {why_ignored}", class_="muted") if why_ignored else ""
    return element(
        "tr",
        element("th", code(setting.key), scope="row"),
        element("td", code(_value(setting.value)), _as_span(setting), note),
        element("td", text(setting.origin)),
        element("td", hidden) if hidden else "",
        class_="unused" if why_ignored else None,
    )


def _as_span(setting: Setting) -> Html:
    """Return a number of milliseconds in larger units."""
    known = setting.key in _SPANS and isinstance(setting.value, int) and setting.value > 0
    return element("span", f" {span(int(setting.value) * 1_000)}", class_="muted") if known else Html("")


def _value(value: object) -> str:
    return value if isinstance(value, str) and value else msgspec.json.encode(plain(value)).decode()


# The list of all queues by virtual host: their messages, limits, losses, and where their dead letters go.


_QUEUES_MAX, _VHOSTS_MAX = 500, 100

Lost = Counter[tuple[str, str]]
"""How many copies were lost by virtual host and queue."""


def queue_lists(vhosts: list[VirtualHost], lost: Lost, request: Request) -> Iterator[Html]:
    """Yield the queues of each virtual host, first those that lost something, as many as a page has room for."""
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


# How many messages of a queue are in which state.


RARE = frozenset({"delayed", "held"})
"""What few queues ever have: back after a delayed retry; dead, and held until the dead letter has arrived."""


def counts(queue: QueueState) -> dict[str, int]:
    """Return how many messages are in which state, and how many consumers there are."""
    store = queue.store
    return {
        "ready": store.ready,
        "unacked": queue.unacked,
        "delayed": 0 if queue.definition.type == STREAM else store.total - store.ready,
        "held": store.pending,
        "consumers": len(queue.consumers),
    }


# The limits of a queue in a few words.


def limits_shown(settings: Settings) -> Iterator[str]:
    """Yield each limit that takes messages out of a queue or keeps them out."""
    if settings.message_ttl_ms is not None:
        yield f"TTL {span(settings.message_ttl_ms * 1_000)}"
    if settings.max_length is not None:
        yield f"at most {settings.max_length:,}"
    if settings.max_length_bytes is not None:
        yield f"at most {settings.max_length_bytes:,} bytes"
    if settings.has_length_limit:
        yield settings.overflow
    if settings.delivery_limit is not None:
        yield f"{settings.delivery_limit:,} deliveries"
