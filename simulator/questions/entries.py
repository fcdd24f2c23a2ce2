"""Finds what publishers would publish: to every exchange, keys and headers that bring a message into a queue.

A queue that is bound is reached through its bindings, as its publishers reach it; the
default exchange reaches those that nothing else does, not even dead letters. Exchanges
that are internal are for dead letters and other exchanges alone. Routing keys are made
of the topology's bindings (``simulator.questions.routing_keys``): a dead letter keeps its
key, so one that another exchange knows may go another way than one that none does.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from itertools import chain, islice, product
from typing import Any, NamedTuple

from dlx.key_classes import KeyClass, KeyClasses
from dlx.message_flow import MessageFlow
from dlx.settings import alternate_exchange
from dlx.topology import Binding, Exchange
from simulator.questions.ahead import Ahead, Prospect
from simulator.questions.reachability import AT_RANDOM, message_of, reached
from simulator.questions.routing_keys import Keys
from simulator.scenario.steps import Publish

PUBLISHES_MAX = 600
CANDIDATES_MAX = 3_000
TABLES_MAX = 30
NAMED_MAX = 3


class Entries(NamedTuple):
    """The publishes to try, the plainest first, and what was left out, in sentences."""

    publishes: list[Publish]
    left_out: list[str]


def entries(flows: Mapping[str, MessageFlow]) -> Entries:
    """Return the publishes to try in these virtual hosts, each once; all of them reach a queue."""
    found: dict[str, Publish] = {}
    short: list[str] = []
    for name, flow in flows.items():
        for step in _OneVhost(flow, name, short).publishes():
            found.setdefault(repr(step), step)
    return Entries(list(found.values()), _left_out(short))


def _left_out(exchanges: list[str]) -> list[str]:
    if not exchanges:
        return []
    names = ", ".join(f"'{name}'" for name in exchanges[:NAMED_MAX])
    more = f" and {len(exchanges) - NAMED_MAX} more" if len(exchanges) > NAMED_MAX else ""
    exchange = "exchange" if len(exchanges) == 1 else "exchanges"
    take = "takes" if len(exchanges) == 1 else "take"
    return [f"some of the routing keys and headers that {exchange} {names}{more} {take}"]


class _OneVhost:
    """Finds the publishes of one virtual host. ``short`` gets the exchanges to which not all was published."""

    def __init__(self, flow: MessageFlow, vhost: str, short: list[str]) -> None:
        self._flow, self._topology, self._vhost, self._short = flow, flow.topology, vhost, short
        self._keys, self._prospect = Keys(flow.topology), Prospect(flow)
        classes = KeyClasses(flow.topology, flow.release)
        at_random = any(each.type in AT_RANDOM for each in flow.topology.exchanges.values())
        self._class_of: Callable[[str], KeyClass] = str if at_random else classes.key_class

    def publishes(self) -> Iterator[Publish]:
        """Yield them, the plainest first."""
        bound = {
            binding.destination
            for bindings in self._topology.bindings.values()
            for binding in bindings
            if binding.source and binding.destination_type == "queue"
        }
        plain = [Publish("", name, vhost=self._vhost) for name in self._topology.queues if name not in bound]
        exchanges = [each for each in self._topology.exchanges.values() if each.name and not each.internal]
        into = [list(self._into(exchange)) for exchange in exchanges]
        yield from plain
        yield from self._alone([*plain, *chain(*into)])
        yield from _in_turn(into)

    def _alone(self, others: list[Publish]) -> Iterator[Publish]:
        """Yield publishes to queues that no other publish leads to, rather to those where messages do not pause."""
        there, _ = reached(self._flow, others)
        queues = self._topology.queues
        for name in sorted(queues, key=lambda name: "x-message-ttl" in queues[name].arguments):
            if name not in there:
                step = Publish("", name, vhost=self._vhost)
                yield step
                there |= reached(self._flow, [step])[0]

    def _into(self, exchange: Exchange) -> Iterator[Publish]:
        """Yield publishes to one exchange that reach a queue, of those that nothing tells apart only one."""
        ways, more = self._ways(exchange)
        candidates = islice(ways, CANDIDATES_MAX)
        classes: set[Hashable] = set()
        for key, headers in candidates:
            step = Publish(exchange.name, key, headers=headers, vhost=self._vhost)
            kind = self._class_of(key), repr(sorted(headers.items()))
            if kind in classes or not self._flow.entries(message_of(step, self._flow.release)):
                continue
            if len(classes) == PUBLISHES_MAX:
                more = True
                break
            classes.add(kind)
            yield step
        if more or next(ways, None) is not None:
            self._short.append(exchange.name)

    def _ways(self, exchange: Exchange) -> tuple[Iterator[tuple[str, dict[str, Any]]], bool]:
        """Return pairs of a key and headers to publish with, and whether there are more to be thought of."""
        bindings = [each for each in self._topology.bindings.get(exchange.name, ()) if each.source]
        there = [(each, self._prospect.of((each.destination_type, each.destination))) for each in bindings]
        whole = self._prospect.of(("exchange", exchange.name)) if bindings or exchange.arguments else None
        keys = list(self._keys_for(exchange, there, whole))
        tables = list(islice(self._tables(exchange, bindings, whole), TABLES_MAX + 1))
        first = list(dict.fromkeys(keys[: len(bindings)]))
        rest = dict.fromkeys(keys[len(bindings) :])
        some = tables[:TABLES_MAX] if exchange.type == "headers" else tables[:1]
        ways = chain(product(first, tables[:TABLES_MAX]), product(rest, some))
        return ways, len(tables) > TABLES_MAX or any(ahead.more for _, ahead in there)

    def _keys_for(self, exchange: Exchange, there: list[tuple[Binding, Ahead]], whole: Ahead | None) -> Iterator[str]:
        """Yield a key for each binding, then those that are told apart further on, then those that no binding takes."""
        for binding, _ in there:
            yield self._keys.plain(binding.routing_key) if exchange.type == "topic" else binding.routing_key
        for binding, ahead in there:
            if exchange.type == "topic":
                yield from self._keys.met_by(binding.routing_key, ahead.patterns)
            elif exchange.type != "direct":
                yield from self._keys.of_any(ahead.patterns)
        other = alternate_exchange(exchange, self._topology, self._flow.release)
        if other:
            yield from self._keys.of_any(self._prospect.of(("exchange", other)).patterns)

    def _tables(self, exchange: Exchange, bindings: Iterable[Binding], whole: Ahead | None) -> Iterator[dict[str, Any]]:
        """Yield headers to publish with: none, those that its own bindings take, and those that matter further on."""
        yield {}  # the first
        own = [table for each in bindings for table in _matching(each.arguments)] if exchange.type == "headers" else []
        yield from own
        ahead = () if whole is None else whole.tables
        others = [table for arguments in ahead for table in _matching(arguments) if table not in own]
        yield from others
        yield from (other | table for table in own for other in others)


def _in_turn(lists: Iterable[list[Publish]]) -> Iterator[Publish]:
    """Yield the first of each list, then the second of each, ..."""
    left = [each for each in lists if each]
    for place in range(max(map(len, left), default=0)):
        yield from (each[place] for each in left if place < len(each))


def _matching(arguments: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield headers that the binding of a headers exchange takes: all of its own, and each alone if any will do."""
    kind = str(arguments.get("x-match", "all"))
    with_x = kind.endswith("with-x")
    own = {key: value for key, value in arguments.items() if key != "x-match" and (with_x or not key.startswith("x-"))}
    yield dict(own)
    if kind.startswith("any"):
        for key, value in own.items():
            yield {key: value}
