"""Which queues are not the same on both sides: a message that comes to none of them fares the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dlx.message_flow import MessageFlow
from dlx.settings import alternate_exchange
from dlx.topology import Topology
from simulator.replay.whatif.stage import Queue


def differing_queues(before: Mapping[str, MessageFlow], after: Mapping[str, MessageFlow]) -> frozenset[Queue] | None:
    """Return the queues whose settings differ; ``None`` where the release differs, or how messages are routed."""
    if before.keys() != after.keys() or not all(_route_alike(flow, after[name]) for name, flow in before.items()):
        return None
    return frozenset((name, queue) for name, flow in before.items() for queue in _unlike(flow, after[name]))


def _route_alike(one: MessageFlow, other: MessageFlow) -> bool:
    mine, theirs = one.topology, other.topology
    if one.release != other.release or (mine.exchanges, mine.bindings) != (theirs.exchanges, theirs.bindings):
        return False
    return all(_alternate(name, one, mine) == _alternate(name, other, theirs) for name in mine.exchanges)


def _alternate(exchange: str, flow: MessageFlow, topology: Topology) -> str | None:
    return alternate_exchange(topology.exchanges[exchange], topology, flow.release)


def _unlike(one: MessageFlow, other: MessageFlow) -> Iterator[str]:
    mine, theirs = one.topology.queues, other.topology.queues
    yield from mine.keys() ^ theirs.keys()
    yield from (name for name in mine.keys() & theirs.keys() if one.settings(name) != other.settings(name))
