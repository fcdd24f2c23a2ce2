"""Exchanges that a policy shards (``shards-per-node``): they have queues, and clients name these by the exchange.

Clients that consume or get from the exchange's name get the shard with the fewest consumers. Shards stay when the
policy goes; only their bindings go.

Source: rabbit_sharding_shard.erl, rabbit_sharding_interceptor.erl; live servers for what ``tests/plugins`` plays.
"""

from __future__ import annotations

import contextlib
from typing import NamedTuple

from dlx import amqp_errors, bindings, declarations
from dlx.amqp_errors import Refusal
from dlx.policies import choose_policy
from dlx.server_plugins import PLUGINS
from dlx.topology import Binding, Exchange, Queue, Topology
from simulator.broker.operations import exchanges, limits, queue_lifecycle
from simulator.broker.state import NodeState, VirtualHost

SHARDS_MAX = 10_000
"""More are not made, where a server would be busy for a long time."""


class Shards(NamedTuple):
    """What a policy says of an exchange: how many queues it has on each node, and under which key they are bound."""

    size: int
    key: str


def start(node: NodeState, vhost: VirtualHost, exchange: Exchange) -> None:
    """Make the shards of a new exchange, if a policy shards it."""
    shards = _shards(node, exchange, vhost.topology)
    if shards is not None:
        _add(node, vhost, exchange, shards)


def update(node: NodeState, vhost: VirtualHost, before: Topology) -> None:
    """Make and bind the shards that the policies ask for now, and unbind those that they asked for ``before``."""
    for exchange in [*vhost.exchanges.values()] if _is_enabled(node) else ():
        old, new = _shards(node, exchange, before), _shards(node, exchange, vhost.topology)
        if old == new:
            continue
        if old is not None and (new is None or old.key != new.key):
            _unbind(node, vhost, exchange, old)
        if new is not None:
            _add(node, vhost, exchange, new)


def taken_from(node: NodeState, vhost: VirtualHost, name: str) -> str:
    """Return the queue that a client consumes from under a name: of a sharded exchange, one of its shards."""
    shards = _shards_named(node, vhost, name)
    if shards is None:
        return name
    found = [each for each in _names(node, name, shards) if each in vhost.queues]
    if not found:
        raise amqp_errors.no_shard(name)
    return min(found, key=lambda each: (len(vhost.queues[each].consumers), each))


def declared_as(node: NodeState, vhost: VirtualHost, name: str) -> str:
    """Return the queue that a client declares under a name: of a sharded exchange, its first shard."""
    return name if _shards_named(node, vhost, name) is None else _name(node, name, 0)


def check(node: NodeState, vhost: VirtualHost, name: str, what: str) -> None:
    """Raise ``Refusal`` for a client that is to delete, bind, unbind or purge a sharded exchange as a queue."""
    if _shards_named(node, vhost, name) is not None:
        raise amqp_errors.sharded_queue(what, name)


def _is_enabled(node: NodeState) -> bool:
    return PLUGINS["sharding"].name in node.plugins


def _shards_named(node: NodeState, vhost: VirtualHost, name: str) -> Shards | None:
    exchange = vhost.exchanges.get(name)
    return None if exchange is None else _shards(node, exchange, vhost.topology)


def _shards(node: NodeState, exchange: Exchange, topology: Topology) -> Shards | None:
    if not (exchange.name and topology.policies and _is_enabled(node)):
        return None
    policy = choose_policy(exchange, topology.policies, node.release).policy
    count = None if policy is None else policy.definition.get("shards-per-node")
    if policy is None or not isinstance(count, int | float):
        return None
    return Shards(min(int(count), SHARDS_MAX), str(policy.definition.get("routing-key", "")))


def _names(node: NodeState, exchange: str, shards: Shards) -> list[str]:
    return [_name(node, exchange, number) for number in range(shards.size)]


def _name(node: NodeState, exchange: str, number: int) -> str:
    return f"sharding: {exchange} - {node.name} - {number}"


def _bindings(node: NodeState, exchange: Exchange, shards: Shards) -> list[Binding]:
    return [
        Binding(source=exchange.name, destination=name, routing_key=shards.key)
        for name in _names(node, exchange.name, shards)
    ]


def _add(node: NodeState, vhost: VirtualHost, exchange: Exchange, shards: Shards) -> None:
    """Make the shards that are missing and bind all, as far as the virtual host and the exchange take them."""
    with contextlib.suppress(Refusal):
        for binding in _bindings(node, exchange, shards):
            if binding.destination not in vhost.queues:
                _declare(node, vhost, binding.destination)
            bindings.check_binding(exchange, shards.key, {}, release=node.release)
            exchanges.add_binding(node, vhost, binding)


def _declare(node: NodeState, vhost: VirtualHost, name: str) -> None:
    """Make a shard: a classic queue, whatever the virtual host's default type is."""
    declarations.check_queue_limit(name, vhost.name, limits.queue_limit_reached(vhost))
    queue_lifecycle.add(node, vhost, Queue(name=name), None)


def _unbind(node: NodeState, vhost: VirtualHost, exchange: Exchange, shards: Shards) -> None:
    for binding in _bindings(node, exchange, shards):
        if binding in vhost.bindings.get(exchange.name, ()):
            exchanges.remove_binding(vhost, binding)
