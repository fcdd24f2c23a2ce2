"""Where the dead letters of a queue go: in short for a list, and for one message by reason, drawn and in words."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, islice

from dlx.message import Message
from dlx.message_flow import MessageFlow, State
from dlx.topology import STREAM
from simulator.broker import QueueState
from simulator.markup import Html, element, join, plural, text
from simulator.pictures.graph import Edge, Graph, Node, shortened
from simulator.server.management.page.frame import code, exchange_shown, listed, queue_link
from simulator.server.management.request import Request

_TARGETS_SHOWN, _COPIES_SHOWN = 5, 20
_QUEUES_DRAWN = 12
_GONE = frozenset({"cycle", "lost in a stream", "unroutable", "dead-letter exchange missing", "queue crashes"})
"""Unintended outcomes of a copy. Without a dead-letter exchange, dropping dead messages is intended."""


def in_short(queue: QueueState, request: Request) -> Html:
    """Tell where dead letters of the queue go, whatever their own keys; a way that leads nowhere is marked."""
    if queue.definition.type == STREAM:
        return element("span", "none: a stream", class_="muted")
    exchange = queue.settings.dead_letter_exchange
    if exchange is None:
        return element("span", "no dead-letter exchange", class_="muted")
    flow = queue.vhost.flow(request.broker.release)
    wrong = flow.why_never_routed(queue.name)
    if wrong is not None:
        return element("span", wrong, class_="bad")
    key = queue.settings.dead_letter_routing_key
    targets = _targets(queue, flow)
    links = [queue_link(queue.vhost.name, name) for name in targets[:_TARGETS_SHOWN]]
    if len(targets) > _TARGETS_SHOWN:
        links.append(text(f"{len(targets) - _TARGETS_SHOWN:,} more"))
    named = join(links, ", ") if links else element("span", "no queue", class_="bad")
    by = join((", key ", code(key))) if key is not None else text(", by their own keys")
    return join(("→ ", named, element("small", " through ", exchange_shown(exchange), by)))


@lru_cache(maxsize=16)  # many queues share one dead-letter exchange
def _in_order(names: frozenset[str]) -> list[str]:
    return sorted(names)


def _targets(queue: QueueState, flow: MessageFlow) -> list[str]:
    """Return the queues that dead letters enter, or may enter where their own keys decide."""
    if queue.settings.dead_letter_routing_key is None:
        return _in_order(flow.possible_targets(queue.name))
    sent = flow.sent_on(queue.name, Message(exchange="", routing_keys=(queue.name,)))
    return [] if sent is None else list(sent.queues)


def sample(queue: QueueState, request: Request) -> tuple[Message, str]:
    """Return the message whose ways are shown for a queue, and say which it is."""
    first = next(iter(queue.store.waiting()), None)
    if first is not None:
        return first.message, "for the message at its head"
    recorder = request.management.recorder
    if recorder is not None:
        entered = recorder.histories.last_in(queue.vhost.name, queue.name)
        if entered is not None:
            return entered, "for the message that entered it last"
    return Message(exchange="", routing_keys=(queue.name,)), "for a message published straight to it"


def by_reason(queue: QueueState, message: Message, request: Request) -> Html:
    """Return a table: what becomes of the message for each reason that it can die for, and by whose setting."""
    flow = queue.vhost.flow(request.broker.release)
    state = flow.state(queue.name, message)
    rows = []
    for death in flow.deaths(state):
        if not death.possible:
            continue
        copies = flow.copies(state, death.reason)
        lines = [_copy(queue, copy.outcome, copy.queue, str(copy.rule)) for copy in copies[:_COPIES_SHOWN]]
        if len(copies) > _COPIES_SHOWN:
            lines.append(element("li", plural(len(copies) - _COPIES_SHOWN, "more copy", "more copies")))
        told = element("ul", *lines, class_="plain")
        why = element("div", str(death.rule), class_="muted")
        rows.append(element("tr", element("td", element("b", death.reason), why), element("td", told)))
    if not rows:
        return element("p", "Nothing dies here: a stream keeps what it has.", class_="muted")
    return listed("What happens to a dead message", (("If it is", ""), ("then", "")), rows)


def _copy(queue: QueueState, outcome: str, target: str | None, rule: str) -> Html:
    where = [" → ", queue_link(queue.vhost.name, target)] if target is not None and outcome not in _GONE else []
    verdict = "dropped: no dead-letter exchange" if outcome == "no dead-letter exchange" else outcome
    kind = "bad" if outcome in _GONE else "muted" if outcome == "no dead-letter exchange" else "good"
    return element("li", element("span", verdict, class_=kind), *where, element("div", rule, class_="muted"))


def drawn(queue: QueueState, message: Message, request: Request) -> Graph | None:
    """Return the picture of the ways on from the queue, through as many queues as fit; ``None``: there are none."""
    flow = queue.vhost.flow(request.broker.release)
    first = flow.state(queue.name, message)
    nodes: dict[Node, tuple[str, ...]] = {_node(queue, queue.name): (shortened(queue.name),)}
    edges: dict[Edge, None] = {}
    ahead, seen = [first], {queue.name}
    for state in ahead:
        for edge in _edges(queue, flow, state):
            nodes.setdefault(edge.target, _lines(edge.target))
            edges[edge] = None
        deaths = (flow.hops(state, death.reason) for death in flow.deaths(state) if death.possible)
        for hop, after in chain.from_iterable(deaths):
            if hop.to_queue not in seen and len(seen) < _QUEUES_DRAWN:
                seen.add(hop.to_queue)
                ahead.append(after)
    return Graph(f"Where dead letters of {queue.name} go", nodes, tuple(edges)) if edges else None


def _edges(queue: QueueState, flow: MessageFlow, state: State) -> Iterator[Edge]:
    """Yield the arrows from a state; ways that differ only in the reason are one."""
    by_way: dict[tuple[Node, bool, str], list[str]] = {}
    for death in flow.deaths(state):
        for copy in flow.copies(state, death.reason) if death.possible else ():
            gone = copy.outcome in _GONE
            if copy.outcome in ("no dead-letter exchange", "held"):
                continue
            target = Node("lost", state.queue, queue.vhost.name) if gone else _node(queue, copy.queue or "")
            by_way.setdefault((target, gone, copy.outcome if gone else ""), []).append(death.reason)
    for (target, gone, outcome), reasons in islice(by_way.items(), _QUEUES_DRAWN):
        label = tuple(filter(None, (", ".join(dict.fromkeys(reasons)), outcome)))
        yield Edge(_node(queue, state.queue), target, "loss" if gone else "dead letter", label)


def _node(queue: QueueState, name: str) -> Node:
    return Node("queue", name, queue.vhost.name)


def _lines(node: Node) -> tuple[str, ...]:
    return ("lost",) if node.kind == "lost" else (shortened(node.name),)
