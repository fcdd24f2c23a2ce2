"""The losses of a node by their cause, those with the most messages first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from simulator.events import Event, Happened
from simulator.markup import Html, element, join, plural, text
from simulator.message_history import LostCopies, sentence
from simulator.server.management import access
from simulator.server.management.page.frame import (
    code,
    exchange_shown,
    keys_shown,
    message_link,
    queue_link,
    time_shown,
)
from simulator.server.management.request import Request

CAUSES_SHOWN, EXAMPLES_SHOWN = 30, 5


@dataclass
class LossCause:
    """Messages of one virtual host that were lost in the same place for the same cause.

    Attributes:
        vhost, queue: where; no queue for a publish that none was bound for.
        example: what happened to the one lost last.
        count: how many copies were lost so.
        messages: the last few of them, the newest first.
        on_purpose: whether somebody removed them.
    """

    vhost: str
    queue: str | None
    example: Happened
    count: int = 0
    messages: list[LostCopies] = field(default_factory=list)

    @property
    def on_purpose(self) -> bool:
        return self.example.event == Event.PURGED

    @property
    def told(self) -> Html:
        """What became of each of them; the queue is named beside it."""
        event = self.example
        if (
            event.queue is not None
            and event.reason
            and event.detail
            and event.event in (Event.DROPPED, Event.UNROUTABLE)
        ):
            return text(f"{event.reason}: {event.detail}")
        return text(sentence(event))


def causes(request: Request, vhost: str | None = None, queue: str | None = None) -> list[LossCause] | None:
    """Return the causes of the losses that the user may see, of all or in one queue; ``None``: not recorded."""
    recorder = request.management.recorder
    if recorder is None:
        return None
    found: dict[tuple[object, ...], LossCause] = {}
    for message in recorder.histories.lost():
        if vhost not in (None, message.vhost) or not access.sees_vhost(request, message.vhost):
            continue
        for event in message.events:
            if queue is None or event.queue == queue:
                _add(found, message, event)
    return sorted(found.values(), key=lambda cause: (cause.on_purpose, -cause.count))


def _add(found: dict[tuple[object, ...], LossCause], message: LostCopies, event: Happened) -> None:
    address = () if event.queue is not None else (event.exchange, event.routing_keys)
    key = (message.vhost, event.queue, event.event, event.reason, event.detail, *address)
    cause = found.get(key)
    if cause is None:
        cause = found[key] = LossCause(message.vhost, event.queue, event)
    cause.count += 1
    if len(cause.messages) < EXAMPLES_SHOWN and message not in cause.messages[-1:]:
        cause.messages.append(message)


def lost_by_queue(found: Iterable[LossCause]) -> Counter[tuple[str, str]]:
    """Return how many copies were lost by virtual host and queue, without those that a user removed."""
    counts: Counter[tuple[str, str]] = Counter()
    for cause in found:
        if cause.queue is not None and not cause.on_purpose:
            counts[cause.vhost, cause.queue] += cause.count
    return counts


def causes_list(found: list[LossCause], *, several_vhosts: bool) -> Html:
    """Return the causes as a list, the first of them."""
    rows = [_row(cause, several_vhosts) for cause in found[:CAUSES_SHOWN]]
    left = len(found) - CAUSES_SHOWN
    more = element("p", f"{plural(left, 'more cause')} with fewer losses each.", class_="muted") if left > 0 else ""
    return join((element("ul", *rows, class_="causes"), more))


def _row(cause: LossCause, several_vhosts: bool) -> Html:
    verb = "removed" if cause.on_purpose else "lost"
    where = [" of ", code(cause.vhost)] if several_vhosts else []
    head = element("h3", element("b", f"{cause.count:,} {verb}"), " ", *_place(cause), *where)
    last = element("span", f"last at {time_shown(cause.example.time_us)}", class_="muted")
    examples = element("p", *_examples(cause), " · ", last, class_="examples")
    return element("li", head, element("p", cause.told), examples, class_="purged" if cause.on_purpose else None)


def _place(cause: LossCause) -> Iterator[object]:
    if cause.queue is not None:
        yield from ("in ", queue_link(cause.vhost, cause.queue))
    else:
        keys = keys_shown(cause.example.routing_keys)
        yield from ("published to ", exchange_shown(cause.example.exchange), " with the key ", keys)


def _examples(cause: LossCause) -> Iterator[object]:
    yield "Newest: " if cause.count > 1 else "Message "
    yield join((message_link(each.uid, each.message_id) for each in cause.messages), ", ")
    if cause.count > len(cause.messages):
        yield text(", …")
