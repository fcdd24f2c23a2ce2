"""Tells which patterns a message may still meet, with the routing keys that it was published with.

A dead letter keeps its keys unless its queue has a dead-letter routing key. So which keys
have to be told apart behind a queue depends on the exchanges that its dead letters can
come to before their keys are replaced. Whatever lies elsewhere in the topology does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from dlx.message_flow import MessageFlow
from dlx.settings import alternate_exchange
from dlx.topology import Binding, Exchange

PATTERNS_MAX = 200
NAMES_MAX = 30

Node = tuple[str, str]
"""``("queue" | "exchange", name)``."""


class Ahead(NamedTuple):
    """What lies ahead: patterns of bindings, arguments of headers bindings, and whether there is more of either."""

    patterns: tuple[str, ...]
    tables: tuple[Mapping[str, Any], ...]
    more: bool


class Prospect:
    """What lies ahead of the queues and exchanges of one topology; each answer is remembered."""

    def __init__(self, flow: MessageFlow) -> None:
        self._flow = flow
        self._known: dict[Node, Ahead] = {}
        self._next: dict[Node, tuple[Node, ...]] = {}

    def of(self, node: Node) -> Ahead:
        """Return what a message may meet from there on, with its own routing keys."""
        if node not in self._known:
            self._known[node] = self._ahead(node)
        return self._known[node]

    def _ahead(self, first: Node) -> Ahead:
        patterns: dict[str, None] = {}
        tables: list[Mapping[str, Any]] = []
        seen, pending, more = {first}, [first], False
        while pending:
            kind, name = pending.pop()
            for binding in self._bindings(name) if kind == "exchange" else ():
                patterns[binding.routing_key] = None
                if self._is_headers(name):
                    tables.append(binding.arguments)
            onward = self._onward((kind, name))
            if ("exchange", "") in onward:  # it routes by the names of queues: first by those on the way
                names = dict.fromkeys([*(each for at, each in seen if at == "queue"), *self._flow.topology.queues])
                more = more or len(names) > NAMES_MAX
                patterns.update(dict.fromkeys(list(names)[:NAMES_MAX]))
            pending += [each for each in onward if each not in seen]
            seen.update(onward)
            if len(patterns) > PATTERNS_MAX:
                return Ahead(tuple(patterns)[:PATTERNS_MAX], tuple(tables), True)
        return Ahead(tuple(patterns), tuple(tables), more)

    def _onward(self, node: Node) -> tuple[Node, ...]:
        """Return where a message can go next with its own keys."""
        if node not in self._next:
            self._next[node] = tuple(dict.fromkeys(self._led_to(*node)))
        return self._next[node]

    def _led_to(self, kind: str, name: str) -> Iterator[Node]:
        if kind == "queue":
            settings = self._flow.settings(name)
            dlx, replaced = settings.dead_letter_exchange, settings.dead_letter_routing_key is not None
            if dlx is not None and dlx in self._flow.topology.exchanges and not replaced:
                yield "exchange", dlx
            return
        for binding in self._bindings(name):
            yield binding.destination_type, binding.destination
        exchange = self._flow.topology.exchanges.get(name)
        other = exchange and alternate_exchange(exchange, self._flow.topology, self._flow.release)
        if other:
            yield "exchange", other

    def _bindings(self, exchange: str) -> Iterator[Binding]:
        """Yield the bindings of an exchange to what the topology has."""
        topology = self._flow.topology
        for binding in topology.bindings.get(exchange, ()) if exchange else ():
            there = topology.queues if binding.destination_type == "queue" else topology.exchanges
            if binding.destination in there:
                yield binding

    def _is_headers(self, exchange: str) -> bool:
        found: Exchange | None = self._flow.topology.exchanges.get(exchange)
        return found is not None and found.type == "headers"
