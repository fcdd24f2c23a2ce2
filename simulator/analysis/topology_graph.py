"""Makes the picture of a topology: exchanges, queues with their limits, where dead letters go, and where they are lost.

What is lost, the losses question says (``simulator.analysis.losses``); each of its losses was played on a broker.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from dlx.deaths import REASONS
from dlx.delays import routing_type
from dlx.message_flow import MessageFlow
from dlx.releases import DEFAULT, known_release, release
from dlx.server_plugins import CHOOSING, DELAYED
from dlx.settings import DROP_HEAD, Settings, alternate_exchange
from dlx.shovels import ShovelDefinition
from dlx.topology import CLASSIC, STOCK_EXCHANGES, Binding, Exchange
from simulator.analysis.losses import MISSING, Loss, find_losses
from simulator.analysis.shovels import ShovelPath, shovels_of
from simulator.analysis.snapshot import Snapshot
from simulator.analysis.walk import Walk
from simulator.definitions import Definitions
from simulator.json_values import fields_shown
from simulator.pictures.graph import Edge, Graph, Node, at_most, shortened
from simulator.pictures.html import as_fragment
from simulator.time_spans import span

KEYS_SHOWN = 3
NODES_SHOWN = 60
"""Boxes of a picture, unless the caller asks for more."""
_STOCK = {exchange.name for exchange in STOCK_EXCHANGES}


def topology_graph(snapshot: Snapshot, vhost: str | None = None) -> Graph:
    """Return the graph of all virtual hosts, or of one. Raises ``DefinitionsError`` if it does not exist."""
    if vhost is not None:
        snapshot.definitions.topology(vhost)
    found = find_losses(snapshot)
    nodes: dict[Node, tuple[str, ...]] = {}
    edges: list[Edge] = []
    for name, walk in found.walks.items():
        if vhost in (None, name):
            types = {about.name: kind for about, (kind, _) in snapshot.of_plugins.items() if about.vhost == name}
            parts = _Parts(walk, [loss for loss in (*found.lost, *found.partial) if loss.vhost == name], types)
            nodes |= parts.nodes
            edges += parts.edges
    edges += [edge for edge in map(_moving, shovels_of(snapshot)) if {edge.source, edge.target} <= nodes.keys()]
    title = f"{snapshot.definitions.source} under RabbitMQ {snapshot.release.name}"
    said = [snapshot.sentence(each) for each in snapshot.refused]
    refused = [f"{sentence[0].upper()}{sentence[1:]}." for sentence in said]
    unchecked = [f"Not checked for losses: {each}." for each in found.unchecked]
    unproven = [f"Not drawn, since no history that leads to it was found: {_may_be(loss)}." for loss in found.unproven]
    return Graph(title, nodes, tuple(edges), (*refused, *unchecked, *unproven))


def _may_be(loss: Loss) -> str:
    return f"a loss in queue '{loss.queue}' ({loss.reason}): {loss.rule.text}"


def _moving(shovel: ShovelPath) -> Edge:
    """Return the arrow of a shovel: to a queue or an exchange."""
    does = shovel.definition
    kind, name = ("exchange", does.to_exchange) if does.to_queue is None else ("queue", does.to_queue)
    target = Node(kind, name, does.destination.vhost)  # type: ignore[arg-type]
    label = (f"shovel {shortened(shovel.name)}", *_key_of(does))
    return Edge(Node("queue", shovel.source[1], shovel.source[0]), target, "shovel", label)


def _key_of(does: ShovelDefinition) -> Iterator[str]:
    if does.to_queue is None and does.to_key is not None:
        yield f"key {shortened(does.to_key)}"


def definitions_html(definitions: Definitions) -> str:
    """Return the picture of definitions for a notebook, under the release that exported them if it is known."""
    exported = known_release(definitions.rabbitmq_version or DEFAULT) or DEFAULT
    found = topology_graph(Snapshot(definitions, release(exported)))
    see = "To see one queue: simulator.pictures.graph.around(topology_graph(...), Node('queue', NAME, VHOST))."
    return as_fragment(at_most(found, NODES_SHOWN, see))


class _Parts:
    """The nodes and edges of one virtual host. ``types`` are the declared types of exchanges with another one here."""

    def __init__(self, walk: Walk, losses: Iterable[Loss], types: Mapping[str, str]) -> None:
        self._flow, self._walk, self._types = walk.flow, walk, types
        self._vhost = walk.vhost
        self.nodes: dict[Node, tuple[str, ...]] = {}
        self.edges: list[Edge] = []
        self._exchanges()
        for name in self._flow.topology.queues:
            self.nodes[self._node("queue", name)] = tuple(_lines(self._flow.settings(name)))
        self._bindings()
        for name in self._flow.topology.queues:
            self._dead_letters(name)
        self._losses(losses)

    def _node(self, kind: str, name: str) -> Node:
        return Node(kind, name, self._vhost)  # type: ignore[arg-type]

    def _exchanges(self) -> None:
        topology = self._flow.topology
        used = {each.destination for bound in topology.bindings.values() for each in bound}
        used |= {self._flow.settings(name).dead_letter_exchange or "" for name in topology.queues}
        for name, exchange in topology.exchanges.items():
            if name and (name not in _STOCK or name in used or topology.bindings.get(name)):
                kind = self._types.get(name, exchange.type)
                routes_as = (f"routes as {routing_type(exchange)}",) if kind == DELAYED else ()
                self.nodes[self._node("exchange", name)] = (shortened(name), kind, *routes_as)

    def _bindings(self) -> None:
        topology = self._flow.topology
        together: defaultdict[tuple[Node, Node], list[str]] = defaultdict(list)
        for source, bound in topology.bindings.items():
            if source and source in topology.exchanges:
                for each in bound:
                    ends = self._node("exchange", source), self._node(each.destination_type, each.destination)
                    together[ends].append(_binding(each))
        for (source_node, target), keys in together.items():
            if target in self.nodes:
                how = _chosen(topology.exchanges[source_node.name])
                self.edges.append(
                    Edge(source_node, target, "binding", (*_some(dict.fromkeys(filter(None, keys))), *how))
                )
        for name, exchange in topology.exchanges.items():
            other = alternate_exchange(exchange, topology, self._flow.release)
            target = self._node("exchange", other or "")
            if target in self.nodes:
                self.edges.append(Edge(self._node("exchange", name), target, "alternate", ("if no binding fits",)))

    def _dead_letters(self, name: str) -> None:
        settings = self._flow.settings(name)
        dlx, key = settings.dead_letter_exchange, settings.dead_letter_routing_key
        if dlx is None:
            return
        reasons = ", ".join(reason for reason in REASONS if self._flow.why_impossible(name, reason) is None)
        label: tuple[str, ...] = (reasons, "with its own key" if key is None else f"key {shortened(key)}")
        targets = [self._node("exchange", dlx)]
        if dlx == "":
            targets = [self._node("queue", to) for to in (self._reached(name) if key is None else [key])]
            label = (reasons,)
        for target in targets:
            if target in self.nodes:
                self.edges.append(Edge(self._node("queue", name), target, "dead letter", label))

    def _reached(self, name: str) -> list[str]:
        """Return the queues that dead letters come to by the default exchange with their own keys."""
        places = (place for place in self._walk.places if place.queue == name)
        return list(dict.fromkeys(hop.to_queue for place in places for hop, _ in place.onward))

    def _losses(self, losses: Iterable[Loss]) -> None:
        together: defaultdict[tuple[str, str], dict[str, None]] = defaultdict(dict)
        for loss in losses:
            together[loss.queue, _why(loss, self._flow)][loss.reason] = None
        for (name, why), reasons in together.items():
            source, end = self._node("queue", name), self._node("lost", name)
            label = (*filter(None, [", ".join(filter(None, reasons))]), why)
            dlx = self._flow.settings(name).dead_letter_exchange
            if why == MISSING:
                end, label = self._node("missing", dlx or ""), label[:1]
                self.nodes[end] = (shortened(dlx or ""), "no such exchange")
            else:
                self.nodes[end] = ("lost",)
            self.edges.append(Edge(source, end, "loss", label))


def _lines(settings: Settings) -> Iterator[str]:
    """Yield the lines in a queue's box: its name, and what limits its messages."""
    yield shortened(settings.queue.name)
    if settings.queue.type != CLASSIC:
        yield settings.queue.type
    if settings.message_ttl_ms is not None:
        yield f"TTL {span(settings.message_ttl_ms * 1_000)}"
    limits = [
        *([f"{settings.max_length:,} messages"] if settings.max_length is not None else []),
        *([f"{settings.max_length_bytes:,} bytes"] if settings.max_length_bytes is not None else []),
    ]
    if limits:
        over = "" if settings.overflow == DROP_HEAD else f", {settings.overflow}"
        yield f"at most {' and '.join(limits)}{over}"
    if settings.delivery_limit is not None:
        yield f"delivery limit {settings.delivery_limit}"
    if settings.expires_ms is not None:
        yield f"deleted unused after {span(settings.expires_ms * 1_000)}"


def _chosen(exchange: Exchange) -> Iterator[str]:
    """Yield what an exchange of a plugin does with messages before they go the way of a binding."""
    if exchange.type == DELAYED:
        yield "after x-delay"
    if routing_type(exchange) in CHOOSING:
        yield "one of these"


def _binding(binding: Binding) -> str:
    arguments = " ".join(fields_shown(binding.arguments))
    return shortened(" ".join(filter(None, (binding.routing_key, arguments))))


def _some(labels: Iterable[str]) -> tuple[str, ...]:
    found = list(labels)
    more = (f"and {len(found) - KEYS_SHOWN} more",) if len(found) > KEYS_SHOWN else ()
    return (*found[:KEYS_SHOWN], *more)


def _why(loss: Loss, flow: MessageFlow) -> str:
    """Return why dead letters are lost, in few words."""
    target, dlx = shortened(loss.target or ""), flow.settings(loss.queue).dead_letter_exchange or ""
    keys = shortened(", ".join(map(repr, loss.keys)))
    texts = {
        "cycle": f"cycle: back to {target}",
        "unroutable": f"{shortened(dlx) or 'default exchange'} has no way for {keys}",
        "refused": f"{target} is full",
        "lost in a stream": f"stream {target} drops it",
        "removed with the queue": "the queue is deleted",
    }
    copy = "" if loss.whole else "a copy: "
    return copy + texts.get(loss.fate, loss.fate)
