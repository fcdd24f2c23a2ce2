"""Drawn topologies: every release's broker imports them, and they are cyclic or not, as was asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dlx
from dlx.releases import RELEASES
from dlx.topology import STOCK_EXCHANGES, STREAM
from simulator.broker import Broker
from simulator.broker.commands import ImportDefinitions
from simulator.definitions import Definitions
from simulator.testing.strategies import bindings, definitions, definitions_document, exchanges, topologies
from tests.testing.reaching import reached

Place = tuple[str, str]
"""A queue, and the routing key of a message in it."""


def after(place: Place, topology: dlx.Topology, release: dlx.Release) -> Iterator[Place]:
    """Where the dead letters of a message in a queue go."""
    queue, key = place
    settings = dlx.effective_settings(topology.queues[queue], topology, release)
    exchange = settings.dead_letter_exchange
    if topology.queues[queue].type == STREAM or exchange is None:
        return
    key = settings.dead_letter_routing_key or key
    for target in dlx.route(dlx.Message(exchange=exchange, routing_keys=(key,)), topology, release):
        yield target, key


def comes_back(topology: dlx.Topology, release: dlx.Release, keys: Iterable[str]) -> bool:
    """Whether a message with one of the keys returns to a queue in which it died."""

    def walk(place: Place, seen: tuple[str, ...]) -> bool:
        if place[0] in seen:
            return True
        return any(walk(onward, (*seen, place[0])) for onward in after(place, topology, release))

    return any(walk((queue, key), ()) for queue in topology.queues for key in keys)


def with_release(strategy: Any, **how: Any) -> st.SearchStrategy[tuple[dlx.Release, Any]]:
    return st.sampled_from(RELEASES).flatmap(
        lambda name: st.tuples(st.just(dlx.release(name)), strategy(release=name, **how))
    )


@settings(max_examples=50)
@given(with_release(topologies))
def test_every_topology_is_imported(drawn: tuple[dlx.Release, dlx.Topology]) -> None:
    release, topology = drawn
    document = definitions_document(topology, release)
    broker = Broker(release)
    broker.handle(ImportDefinitions(document), 0)
    host = broker.vhosts["/"]
    assert set(host.queues) == set(topology.queues)
    assert set(host.exchanges) == set(topology.exchanges)
    assert set(host.policies) == {policy.name for policy in topology.policies}
    assert Definitions(document, "drawn").topology("/") == topology


@settings(max_examples=50)
@given(with_release(definitions, queues_max=2))
def test_definitions_are_those_of_a_topology(drawn: tuple[dlx.Release, dict[str, Any]]) -> None:
    release, document = drawn
    read = Definitions(document, "drawn")
    assert read.rabbitmq_version == release.version
    assert definitions_document(read.topology("/"), release) == document


@settings(max_examples=50)
@given(with_release(topologies, cyclic=True))
def test_a_cyclic_topology_has_a_cycle(drawn: tuple[dlx.Release, dlx.Topology]) -> None:
    release, topology = drawn
    assert comes_back(topology, release, ["nowhere"])


@settings(max_examples=50)
@given(with_release(topologies, cyclic=False))
def test_an_acyclic_topology_has_none_whatever_the_key(drawn: tuple[dlx.Release, dlx.Topology]) -> None:
    release, topology = drawn
    assert not comes_back(topology, release, [*topology.queues, "nowhere", "any.key"])


@given(topologies(queues_min=2, queues_max=3, types=["quorum"], limits=["max-length"], exchanges=False, policies=False))
def test_a_topology_has_only_what_was_allowed(topology: dlx.Topology) -> None:
    assert 2 <= len(topology.queues) <= 3
    assert len(topology.exchanges) == len(STOCK_EXCHANGES)
    assert not topology.policies
    assert not topology.operator_policies
    allowed = {"x-queue-type", "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-max-length"}
    for queue in topology.queues.values():
        assert queue.type == "quorum"
        assert set(queue.arguments) <= allowed


def targets(topology: dlx.Topology, queue: str) -> set[str]:
    return {place[0] for place in after((queue, queue), topology, dlx.release())}


def astray(topology: dlx.Topology, queue: str) -> bool:
    settings = dlx.effective_settings(topology.queues[queue], topology, dlx.release())
    return settings.dead_letters and not targets(topology, queue)


REACHED = {
    "a queue that is its own dead-letter queue": lambda t: targets(t, "orders") == {"orders"},
    "a ladder of two queues": lambda t: (
        len(t.queues) == 2
        and targets(t, "orders") == {"orders.wait"}
        and targets(t, "orders.wait") == {"orders"}
        and dlx.effective_settings(t.queues["orders.wait"], t, dlx.release()).message_ttl_ms
    ),
    "a dead-letter exchange that is missing": lambda t: (
        astray(t, "orders") and "nowhere" in repr((t.queues, t.policies))
    ),
    "one dead letter that becomes two": lambda t: len(targets(t, "orders")) == 2,
    "a stream as dead-letter queue": lambda t: any(t.queues[q].type == STREAM for q in targets(t, "orders")),
    "dead letters by policy": lambda t: any("dead-letter-exchange" in p.definition for p in t.policies),
    "an operator policy": lambda t: t.operator_policies != (),
    "at-least-once": lambda t: "at-least-once" in repr((t.queues, t.policies)),
    "each type of exchange": lambda t: len({e.type for n, e in t.exchanges.items() if n.startswith("to.")}) > 1,
}


@pytest.mark.parametrize("what", REACHED)
def test_what_matters_is_reached(what: str) -> None:
    assert REACHED[what](reached(topologies(), REACHED[what]))


@given(exchanges(names=["a", "b"], types=["topic"]), bindings(exchange_names=["a"], queue_names=["q"], types=["topic"]))
def test_exchanges_and_bindings_are_of_the_names_and_types(exchange: dlx.Exchange, binding: dlx.Binding) -> None:
    assert exchange.name in ("a", "b")
    assert exchange.type == "topic"
    assert (binding.source, binding.destination, binding.arguments) == ("a", "q", {})
