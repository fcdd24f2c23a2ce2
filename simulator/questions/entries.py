"""Finds what publishers would publish: to every exchange, keys and headers that bring a message into a queue.

A queue that is bound is reached through its bindings, as its publishers reach it; the
default exchange reaches those that nothing else does, not even dead letters. Exchanges
that are internal are for dead letters and other exchanges alone. Routing keys are made
of the topology's bindings (``simulator.questions.routing_keys``): a dead letter keeps its
key, so one that another exchange knows may go another way than one that none does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice, product
from typing import Any, NamedTuple

from dlx.message_flow import MessageFlow
from dlx.topology import Binding, Exchange, Topology
from simulator.questions.reachability import flows_of, message_of, reached
from simulator.questions.routing_keys import Keys
from simulator.scenario.steps import Publish
from simulator.scenario.trial import Trial

PUBLISHES_MAX = 600
CANDIDATES_MAX = 3_000
TABLES_MAX = 30


class Entries(NamedTuple):
    """The publishes to try, the plainest first, and what was left out, in sentences."""

    publishes: list[Publish]
    left_out: list[str]


def entries(trial: Trial) -> Entries:
    """Return the publishes to try in this topology, each once; all of them reach a queue."""
    found: dict[str, Publish] = {}
    left_out: list[str] = []
    for name, flow in flows_of(trial).items():
        for step in _of(flow, name, left_out):
            found.setdefault(repr(step), step)
    return Entries(list(found.values()), left_out)


def _of(flow: MessageFlow, vhost: str, left_out: list[str]) -> Iterator[Publish]:
    topology = flow.topology
    bound = {
        binding.destination
        for bindings in topology.bindings.values()
        for binding in bindings
        if binding.source and binding.destination_type == "queue"
    }
    plain = [Publish("", name, vhost=vhost) for name in topology.queues if name not in bound]
    keys = Keys(topology)
    into = [
        list(_into(exchange, flow, vhost, keys, left_out))
        for exchange in topology.exchanges.values()
        if exchange.name and not exchange.internal
    ]
    yield from plain
    yield from _alone(flow, vhost, [*plain, *chain(*into)])
    yield from _in_turn(into)


def _alone(flow: MessageFlow, vhost: str, others: list[Publish]) -> Iterator[Publish]:
    """Yield publishes to queues that no other publish leads to, rather to those where messages do not pause."""
    there, _ = reached(flow, others)
    queues = flow.topology.queues
    for name in sorted(queues, key=lambda name: "x-message-ttl" in queues[name].arguments):
        if name not in there:
            step = Publish("", name, vhost=vhost)
            yield step
            there |= reached(flow, [step])[0]


def _in_turn(lists: Iterable[list[Publish]]) -> Iterator[Publish]:
    """Yield the first of each list, then the second of each, ..."""
    left = [each for each in lists if each]
    for place in range(max(map(len, left), default=0)):
        yield from (each[place] for each in left if place < len(each))


def _into(exchange: Exchange, flow: MessageFlow, vhost: str, keys: Keys, left_out: list[str]) -> Iterator[Publish]:
    """Yield the publishes to one exchange that reach a queue."""
    topology = flow.topology
    bindings = [each for each in topology.bindings.get(exchange.name, ()) if each.source]
    first = list(dict.fromkeys(keys.first(exchange, bindings)))
    more = dict.fromkeys(chain(keys.more(exchange, bindings), keys.others()))
    headers = list(islice(_tables(exchange, bindings, topology), TABLES_MAX + 1))
    tried = chain(product(headers[:TABLES_MAX], first), product(headers[:1], (key for key in more if key not in first)))
    steps = (Publish(exchange.name, key, headers=table, vhost=vhost) for table, key in islice(tried, CANDIDATES_MAX))
    found = list(islice((step for step in steps if flow.entries(message_of(step, flow.release))), PUBLISHES_MAX + 1))
    yield from found[:PUBLISHES_MAX]
    if len(found) > PUBLISHES_MAX or len(headers) > TABLES_MAX or next(tried, None) is not None:
        left_out.append(f"some of the routing keys and headers that exchange '{exchange.name}' takes")


def _tables(exchange: Exchange, bindings: Iterable[Binding], topology: Topology) -> Iterator[dict[str, Any]]:
    """Yield headers to publish with: none, those that its own bindings take, and those that other exchanges take."""
    yield {}  # the first
    own = [table for binding in bindings for table in _matching(binding.arguments)] if _by_headers(exchange) else []
    yield from own
    others = [
        table
        for other in topology.exchanges.values()
        if _by_headers(other) and other is not exchange
        for binding in topology.bindings.get(other.name, ())
        for table in _matching(binding.arguments)
    ]
    yield from others
    yield from (other | table for table in own for other in others)


def _by_headers(exchange: Exchange) -> bool:
    return exchange.type == "headers"


def _matching(arguments: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield headers that the binding of a headers exchange takes: all of its own, and each alone if any will do."""
    kind = str(arguments.get("x-match", "all"))
    with_x = kind.endswith("with-x")
    own = {key: value for key, value in arguments.items() if key != "x-match" and (with_x or not key.startswith("x-"))}
    yield dict(own)
    if kind.startswith("any"):
        for key, value in own.items():
            yield {key: value}
