"""The page at ``/``: the queues, where their dead letters go, and what was lost lately.

It shows what the API would show to the same user, without scripts and with nothing from elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from html import escape
from itertools import islice
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from dlx.message import Message
from dlx.topology import STREAM
from simulator.broker import QueueState, VirtualHost
from simulator.clock import VirtualClock
from simulator.message_history import MessageHistory
from simulator.server.management import access
from simulator.server.management.request import Request
from simulator.server.management.resources import Resource

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:80rem;padding:0 1rem;"
    "color:#1c1c1c;background:#fff}"
    "h1{font-size:1.5rem;margin:0}h2{font-size:1.15rem;margin:2rem 0 .5rem}p{margin:.25rem 0}"
    "table{border-collapse:collapse;width:100%}th,td{padding:.3rem .6rem;border-bottom:1px solid #ddd;text-align:left;"
    "vertical-align:top}th{font-weight:600;border-bottom-width:2px}.n{text-align:right;font-variant-numeric:tabular-nums}"
    ".quiet{color:#666}.bad{color:#b00020}code{background:#f3f3f3;padding:0 .25rem}a{color:inherit}"
    ":target{background:#fff3c4}time{white-space:nowrap}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#111}th,td{border-color:#333}code{background:#222}"
    ".quiet{color:#999}.bad{color:#ff7b8a}:target{background:#443a00}}"
)
_QUEUES_MAX, _LOST_MAX = 1_000, 50
_QUEUE_COLUMNS = (
    ("Queue", ""), ("Type", ""), ("Ready", "n"), ("Unacked", "n"), ("Held", "n"), ("Consumers", "n"),
    ("Policy", ""), ("Limits", ""), ("Dead letters go to", ""),
)  # fmt: skip
_LOST_COLUMNS = (("When", ""), ("Message", ""), ("Published to", ""), ("Why it is gone", ""))


def _page(request: Request) -> Response:
    broker = request.broker
    vhosts = "".join(_vhost(vhost, request) for vhost in access.visible_vhosts(request))
    title = f"dlx: RabbitMQ {escape(broker.release.version)} simulated"
    body = f"<h1>{title}</h1>{_time(request)}{vhosts}{_lost(request)}"
    html = (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width"><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body>{body}{_FOOT}</body></html>"
    )
    # Names that are no UTF-8 are shown with question marks.
    return Response(html.encode(errors="replace"), headers={"Cache-Control": "no-cache"}, media_type="text/html")


_FOOT = (
    '<p class="quiet"><br>The management API is under <code>/api</code>: <a href="api/queues">queues</a>,'
    ' <a href="api/histories">histories of messages</a>, <a href="api/clock">the clock</a>.</p>'
)


def _time(request: Request) -> str:
    clock = request.node.clock
    kind = "virtual time" if isinstance(clock, VirtualClock) else "wall time"
    return f'<p class="quiet">Node {escape(request.broker.node)}, {kind} {_shown(clock.now_us())} UTC</p>'


def _shown(time_us: int) -> str:
    return f"{datetime.fromtimestamp(time_us / 1_000_000, UTC):%Y-%m-%d %H:%M:%S}"


def _table(columns: tuple[tuple[str, str], ...], rows: Iterator[str]) -> str:
    """Return an HTML table, or "" without rows. Columns have a title and a class."""
    body = "".join(rows)
    head = "".join(f"<th{_class(kind)}>{title}</th>" for title, kind in columns)
    return f"<table><tr>{head}</tr>{body}</table>" if body else ""


def _cell(html: str, kind: str = "") -> str:
    return f"<td{_class(kind)}>{html}</td>"


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


# Queues


def _vhost(vhost: VirtualHost, request: Request) -> str:
    rows = (_queue(queue, request) for queue in islice(vhost.queues.values(), _QUEUES_MAX))
    table = _table(_QUEUE_COLUMNS, rows) or '<p class="quiet">No queues.</p>'
    more = len(vhost.queues) - _QUEUES_MAX
    rest = f"<p>{more} more queues are not shown.</p>" if more > 0 else ""
    return f"<h2>Virtual host <code>{escape(vhost.name)}</code></h2>{table}{rest}"


def _queue(queue: QueueState, request: Request) -> str:
    numbers = (queue.messages_ready, queue.unacked, queue.store.pending, len(queue.consumers))
    policies = queue.settings.in_force
    cells = (
        _cell(escape(queue.name)),
        _cell(queue.definition.type),
        *(_cell(str(number) if number else '<span class="quiet">0</span>', "n") for number in numbers),
        _cell(", ".join(escape(policy.name) for policy in policies if policy is not None)),
        _cell("<br>".join(_limits(queue))),
        _cell(_arrow(queue, request)),
    )
    return f'<tr id="{_anchor(queue.vhost, queue.name)}">{"".join(cells)}</tr>'


def _anchor(vhost: VirtualHost, queue: str) -> str:
    return escape(f"{quote(vhost.name, safe='')}.{quote(queue, safe='')}")


def _limits(queue: QueueState) -> Iterator[str]:
    settings = queue.settings
    named: tuple[tuple[str, Any], ...] = (
        ("TTL", None if settings.message_ttl_ms is None else f"{settings.message_ttl_ms} ms"),
        ("length", settings.max_length),
        ("bytes", settings.max_length_bytes),
        ("deliveries", settings.delivery_limit),
    )
    limits = [f"{name} {value}" for name, value in named if value is not None]
    if settings.max_length is not None or settings.max_length_bytes is not None:
        limits.append(str(settings.overflow))
    yield from map(escape, limits)


def _arrow(queue: QueueState, request: Request) -> str:
    """Return where a dead letter goes that was published straight to the queue."""
    if queue.definition.type == STREAM:
        return ""
    exchange = queue.settings.dead_letter_exchange
    if exchange is None:
        return '<span class="quiet">nowhere: they are dropped</span>'
    flow = queue.vhost.flow(request.broker.release)
    sent = flow.sent_on(queue.name, Message(exchange="", routing_keys=(queue.name,)))
    if sent is None:
        return f'→ <span class="bad">exchange {_code(exchange)}, which does not exist</span>'
    links = (f'<a href="#{escape(quote(_anchor(queue.vhost, name)))}">{escape(name)}</a>' for name in sent.queues)
    named = ", ".join(links) or '<span class="bad">no queue</span>'
    return f"→ exchange {_code(exchange or '(default)')}, key {_code(sent.message.routing_key)} → {named}"


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"


# Histories of messages


def _lost(request: Request) -> str:
    recorder = request.management.recorder
    if recorder is None:
        return ""
    histories = recorder.histories.find(lost=True, newest_first=True)
    seen = islice((history for history in histories if access.sees_vhost(request, history.vhost)), _LOST_MAX)
    table = _table(_LOST_COLUMNS, map(_history, seen)) or '<p class="quiet">No message was lost.</p>'
    return f"<h2>Messages lost lately</h2>{table}"


def _history(history: MessageHistory) -> str:
    first, name = history.events[0], str(history.uid)
    if history.message_id is not None:
        name += f" ({history.message_id})"
    keys = ", ".join(_code(key) for key in first.routing_keys)
    exchange = f"exchange {_code(first.exchange or '(default)')}, key {keys}, in {_code(history.vhost)}"
    cells = (
        _cell(f"<time>{_shown(history.events[-1].time_us)}</time>"),
        _cell(f'<a href="api/histories/{history.uid}">{escape(name)}</a>'),
        _cell(exchange),
        _cell(escape(history.loss or "")),
    )
    return f"<tr>{''.join(cells)}</tr>"


PAGE = Resource("/", _page)
