"""Makes the picture of one message's way: the queues that it came to, numbered in their order, and its end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from simulator.events import LOSSES, REFUSALS, Event, Happened
from simulator.pictures.graph import Edge, EdgeKind, Graph, Node, shortened
from simulator.time_spans import span

TIMES_SHOWN = 5
PUBLISHER, DONE = Node("end", "published"), Node("end", "acknowledged")


def life_graph(title: str, events: Iterable[Happened], notes: Iterable[str] = ()) -> Graph:
    """Return the graph of a message's way, from what happened to it. Arrows have the numbers of their steps."""
    way = _Way()
    for event in events:
        way.add(event)
    nodes = {node: way.lines(node) for arrow in way.times for node in arrow[:2]} or {PUBLISHER: (PUBLISHER.name,)}
    edges = [
        Edge(source, target, kind, (f"{_numbers(times)}: {text}", *more))
        for (source, target, kind, (text, *more)), times in way.times.items()
    ]
    return Graph(title, nodes, tuple(edges), tuple(notes))


_Arrow = tuple[Node, Node, EdgeKind, tuple[str, ...]]


class _Way:
    """The arrows, each with the numbers of its steps."""

    def __init__(self) -> None:
        self.times: defaultdict[_Arrow, list[int]] = defaultdict(list)
        self._number = 0
        self._from: tuple[Node, str] | None = None
        self._entered: dict[str, int] = {}

    def add(self, event: Happened) -> None:
        """Add the arrow of an event, if it moves the message."""
        if event.queue is None:
            if event.event in (Event.UNROUTABLE, Event.DROPPED):  # the latter when its delay was over
                self._arrow(PUBLISHER, Node("lost", ""), "loss", _sent(event))
            return
        queue = Node("queue", event.queue, event.vhost)
        match event.event:
            case Event.ROUTED | Event.NACKED | Event.DEFERRED:
                refused = event.event in REFUSALS
                sender, reason = self._from or (PUBLISHER, "publish")
                sent = (reason, *_sent(event)[1:], *(["refused"] if refused else []))
                self._arrow(sender, queue, "loss" if refused else "dead letter" if self._from else "binding", sent)
                self._entered[event.queue] = event.time_us
            case Event.DEAD_LETTERED | Event.HELD:
                waited_us = event.time_us - self._entered.get(event.queue, event.time_us)
                self._from = queue, f"{event.reason}" + (f" after {span(waited_us)}" if waited_us else "")
            case Event.REQUEUED:
                self._arrow(queue, queue, "binding", (f"back ({event.detail})",))
            case Event.ACKED:
                self._arrow(queue, DONE, "binding", ("ack",))
            case lost if lost in LOSSES:
                self._arrow(queue, Node("lost", event.queue, event.vhost), "loss", (event.reason or "", lost.value))

    def lines(self, node: Node) -> tuple[str, ...]:
        """Return the lines in the box of a node."""
        return ("lost",) if node.kind == "lost" else (shortened(node.name),)

    def _arrow(self, source: Node, target: Node, kind: EdgeKind, text: tuple[str, ...]) -> None:
        self._number += 1
        self.times[source, target, kind, tuple(filter(None, text))].append(self._number)


def _sent(event: Happened) -> tuple[str, str]:
    """Say to which exchange a message was sent, and with which keys."""
    exchange = shortened(event.exchange or "") or "default exchange"
    return "publish", f"{exchange} {shortened(' '.join(event.routing_keys))}"


def _numbers(times: list[int]) -> str:
    more = f", … ({len(times):,} times)" if len(times) > TIMES_SHOWN else ""
    return ", ".join(map(str, times[:TIMES_SHOWN])) + more
