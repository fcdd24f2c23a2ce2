"""The page of one message: how it stands, its way as a picture, its life as a timeline, and what is in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec
from starlette.responses import Response

from dlx.message import Message
from dlx.nearest_names import suggestion
from simulator.broker import delivered_properties
from simulator.events import DEATHS, LOSSES, Event, Happened, losses
from simulator.json_values import plain
from simulator.markup import Html, element, join, plural
from simulator.message_history import MessageHistory, repeated, sentence
from simulator.message_location import locations
from simulator.pictures.life_graph import life_graph
from simulator.server.management import access
from simulator.server.management.page.frame import (
    HOME,
    code,
    exact_time,
    exchange_shown,
    framed,
    key_shown,
    keys_shown,
    message_name,
    part,
    picture,
    queue_link,
)
from simulator.server.management.page.queue_page import body_shown
from simulator.server.management.request import Request
from simulator.time_spans import span

_PLACES_SHOWN, _QUEUES_DRAWN, _OTHERS_SHOWN = 20, 60, 5
_BODY_SHOWN, _VALUE_SHOWN, _FIELDS_SHOWN = 2_000, 2_000, 200
_KINDS = {
    Event.PUBLISHED: "start",
    Event.ACKED: "done",
    Event.NACKED: "refused",
    Event.DEFERRED: "refused",
    Event.HELD: "refused",
    Event.DEAD_LETTERED: "letter",
}
"""How an event is marked, besides losses and deaths."""


def message_page(request: Request, uid: str) -> Response:
    """Return the page of the message of that number, or one that says that nothing is known of it."""
    recorder = request.management.recorder
    history = recorder.histories.get(int(uid)) if recorder is not None and _is_number(uid) else None
    if history is None or not access.sees_vhost(request, history.vhost):
        kept = "" if recorder is None else f" Histories are kept of the last {recorder.histories.limit:,} messages."
        told = element("p", f"Nothing is known of it.{kept}")
        return framed(request, f"Message {uid}", part("gone", element("h1", f"Message {uid}"), told), status=404)
    name = message_name(history.uid, history.message_id)
    return framed(
        request,
        name,
        _head(history, name, request),
        _way(history),
        _life(history, request),
        *_content(history, request),
    )


def _is_number(text: str) -> bool:
    return text.isdecimal() and text.isascii() and len(text) < 20


def _head(history: MessageHistory, name: str, request: Request) -> Html:
    first = history.events[0]
    keys = keys_shown(first.routing_keys)
    about = [f"Message no. {history.uid}", *((" with the key ", keys) if keys else ()), f", in {history.vhost}"]
    head = (
        element("p", element("a", "All queues", href=HOME), class_="back"),
        element("h1", name),
        element("p", *about, class_="muted"),
    )
    gone = losses(history.events)
    if gone:
        lost = [event for event in gone if event.event != Event.PURGED]
        title = element("b", f"{_lost(history, lost, len(gone) - len(lost))}. ")
        causes = _causes(history, title, lost or gone, request)
        return part("message", *head, *causes, class_="alarm" if lost else None)
    places = (element("p", element("b", told)) for told in _where(history, request))
    return part("message", *head, *places, class_="good" if history.ended else None)


def _lost(history: MessageHistory, lost: Sequence[Happened], removed: int) -> str:
    """Say that the message is lost or removed, or how many copies of it are, and what became of the others."""
    if not history.has_copies:
        return "Lost" if lost else "Removed"
    if lost:
        where = f" in {_queues_named([event.queue for event in lost if event.queue])}" if len(lost) > 1 else ""
        parts = [f"{_copies(len(lost))} lost{where}"]
    else:
        parts = [f"{_copies(removed)} removed"]
    if history.queues:
        parts.append(f"{_others(len(history.queues), 'is', 'are')} in {_queues_named(history.queues)}")
    if history.acknowledged:
        parts.append(f"{_others(history.acknowledged, 'was', 'were')} acknowledged")
    if lost and removed:
        parts.append(f"{_others(removed, 'was', 'were')} removed")
    return ", ".join(parts)


def _copies(count: int) -> str:
    return "One copy" if count == 1 else f"{count:,} copies"


def _others(count: int, one: str, several: str) -> str:
    return f"another {one}" if count == 1 else f"{count:,} others {several}"


def _queues_named(queues: Sequence[str]) -> str:
    """Name the first few of the queues."""
    named, more = ", ".join(f"'{queue}'" for queue in queues[:_OTHERS_SHOWN]), len(queues) - _OTHERS_SHOWN
    return f"{named} and {plural(more, 'more queue')}" if more > 0 else named


def _causes(history: MessageHistory, title: Html, gone: Sequence[Happened], request: Request) -> Iterator[Html]:
    """Tell how each copy was lost, with the link to what decided it, below the title; of many, the first few."""
    for event in gone[:_PLACES_SHOWN]:
        yield element("p", title if event is gone[0] else "", sentence(event, history.has_copies))
        if event.event != Event.PURGED:
            yield _settings_link(event, request)
    if len(gone) > _PLACES_SHOWN:
        yield element("p", f"{plural(len(gone) - _PLACES_SHOWN, 'more copy', 'more copies')} too.")


def _settings_link(event: Happened, request: Request) -> Html:
    """Return the link to the queue where it was lost, whose settings decided that, or else what its exchange routes."""
    if event.queue is None:
        return what_is_bound(event, request)
    host = request.broker.vhosts.get(event.vhost)
    if host is None or event.queue not in host.queues:
        return Html("")
    return element(
        "p", "The settings that decided it, and where they come from: ", queue_link(event.vhost, event.queue), "."
    )


def _way(history: MessageHistory) -> Html:
    title, queues = element("h2", "Its way"), {event.queue for event in history.events} - {None}
    if len(queues) > _QUEUES_DRAWN:
        told = f"It leads through {len(queues):,} queues, which are too many to draw."
        return part("way", title, element("p", told, class_="muted"))
    return part("way", title, picture(life_graph("The path of the message", history.events)))


# Its life


def _life(history: MessageHistory, request: Request) -> Html:
    steps = list(_steps(history))
    if history.omitted:
        steps.append(element("li", element("p", f"{plural(history.omitted, 'further event')} not kept."), class_="now"))
    found = _where(history, request)
    quiet_us = request.node.clock.now_us() - history.events[-1].time_us
    if quiet_us and not history.ended:
        found[-1] += f" Nothing has happened to it for {span(quiet_us)}."
    steps += [element("li", element("p", told), class_="now") for told in found]
    return part("life", element("h2", "Its life"), element("ol", *steps, class_="life"))


def _steps(history: MessageHistory) -> Iterator[Html]:
    lost, has_copies = {id(event) for event in losses(history.events)}, history.has_copies
    before: int | None = None
    for events, often, ended_us in repeated(history.events):
        for event in events:
            waited = "" if before is None or before == event.time_us else f"+{span(event.time_us - before)}"
            gap = element("span", waited, class_="gap")
            when = element("div", exact_time(event.time_us, before), gap, class_="when")
            kind = "loss" if id(event) in lost else _kind(event)
            yield element("li", when, element("p", sentence(event, has_copies)), class_=kind)
            before = event.time_us
        before = ended_us
        if often:
            yield element("li", element("p", often), class_="muted")


def _kind(event: Happened) -> str | None:
    if event.event in DEATHS:
        return "death"
    return "loss" if event.event in LOSSES else _KINDS.get(event.event)


def _where(history: MessageHistory, request: Request) -> list[str]:
    """Tell where its copies are now, the first few of many."""
    queues = history.queues
    found = locations(request.broker, history.uid, history.vhost, queues[:_PLACES_SHOWN], history.has_copies)
    if found and len(queues) > _PLACES_SHOWN:
        found.append(f"It may be in {plural(len(queues) - _PLACES_SHOWN, 'more queue')}.")
    return found or ["Nothing is left of it." if history.ended else "Nothing more is known of it."]


# What is in it


def _content(history: MessageHistory, request: Request) -> Iterator[Html]:
    """Yield what is in the message, for users who may read from the queue that it was in last."""
    recorder = request.management.recorder
    message = None if recorder is None else recorder.histories.last_message(history.uid)
    last = next((event.queue for event in reversed(history.events) if event.queue is not None), None)
    if message is None or (last is not None and not access.may_read(request, history.vhost, last)):
        return
    title = element("h2", "What is in it")
    yield part("content", title, element("dl", *_fields(message, request), *_body(history, request)))


def _fields(message: Message, request: Request) -> Iterator[Html]:
    properties = delivered_properties(message, request.broker.release)
    headers = properties.pop("headers", None) or {}
    yield from _field("exchange", message.exchange or "(the default exchange)")
    yield from _field("routing key", message.routing_key or "(empty)")
    others = (*properties.items(), *headers.items())
    for name, value in others[:_FIELDS_SHOWN]:
        yield from _field(name, value)
    if len(others) > _FIELDS_SHOWN:
        yield from _field("…", plural(len(others) - _FIELDS_SHOWN, "more header"))


def _field(name: str, value: object) -> Iterator[Html]:
    shown = plain(value)
    lines = shown if isinstance(shown, list) else [shown]  # x-death has an entry for each kind of death
    told = "\n".join(each if isinstance(each, str) else msgspec.json.encode(each).decode() for each in lines)
    yield element("dt", name)
    yield element("dd", element("pre", told[:_VALUE_SHOWN], "…" if len(told) > _VALUE_SHOWN else ""))


def _body(history: MessageHistory, request: Request) -> Iterator[Html]:
    """Yield the body, as a copy in one of its queues has it: bodies of messages that are gone are not kept."""
    host = request.broker.vhosts.get(history.vhost)
    for name in history.queues:
        queue = None if host is None else host.queues.get(name)
        for copy in () if queue is None else (*queue.held(), *request.unacknowledged.get(queue, ())):
            if copy.uid == history.uid:
                yield element("dt", f"body, {plural(len(copy.body), 'byte')}")
                yield element("dd", body_shown(copy.body, _BODY_SHOWN))
                return


# Says what is bound to an exchange that routed a publish nowhere: by it one sees a key that is misspelt.


_SHOWN = 20


def what_is_bound(lost: Happened, request: Request) -> Html:
    """Return the bindings of the exchange that an unroutable message was published to, as they are now."""
    host = request.broker.vhosts.get(lost.vhost)
    if host is None or lost.exchange is None or not access.sees_vhost(request, lost.vhost):
        return Html("")
    if not lost.exchange:
        missing = next((key for key in lost.routing_keys if key not in host.queues), None)
        if missing is None:
            return element("p", "A queue of that name exists now.")
        told = f"The default exchange routes to the queue that the key names; there is no queue {missing!r:.200}"
        near = suggestion(missing, host.queues)
        return element("p", f"{told}; {near}" if near.endswith("?") else f"{told}.")
    bound = host.bindings.get(lost.exchange, {})
    if not bound:
        return element("p", "Nothing is bound to ", exchange_shown(lost.exchange), " now.")
    shown = [
        join(
            (key_shown(each.routing_key), " → ", _destination(lost.vhost, each.destination_type, each.destination)), ""
        )
        for each in islice(bound, _SHOWN)
    ]
    more = f", and {len(bound) - _SHOWN:,} more" if len(bound) > _SHOWN else ""
    return element("p", "What is bound to ", exchange_shown(lost.exchange), " now: ", join(shown, ", "), more, ".")


def _destination(vhost: str, kind: str, name: str) -> Html:
    return queue_link(vhost, name) if kind == "queue" else join(("the exchange ", code(name)), "")
