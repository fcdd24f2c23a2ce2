"""A topology as the definitions document that declares it."""

from __future__ import annotations

from typing import Any

import msgspec

from dlx.releases import DEFAULT, Release
from dlx.topology import STOCK_EXCHANGES, Policy, Queue, Topology
from simulator.testing.strategies.checks import check_topology, checked_release

_STOCK = frozenset(exchange.name for exchange in STOCK_EXCHANGES)
_VHOST = {"vhost": "/"}


def definitions_document(topology: Topology, release: Release | str = DEFAULT) -> dict[str, Any]:
    """Return the document that a server of the release would export of a virtual host ``/`` with this topology.

    With it, a ``Trial`` plays a topology that was drawn, or ``simulator.serve`` serves it. This is a function, not a
    strategy: ``definitions`` draws such documents.
    """
    check_topology(topology, queues_min=0)
    version = checked_release(release).version
    exchanges = [exchange for exchange in topology.exchanges.values() if exchange.name not in _STOCK]
    bindings = [binding for bound in topology.bindings.values() for binding in bound]
    return {
        "rabbitmq_version": version,
        "vhosts": [{"name": "/"}],
        "exchanges": [_VHOST | msgspec.to_builtins(exchange) for exchange in exchanges],
        "queues": [_VHOST | _queue(queue) for queue in topology.queues.values()],
        "bindings": [_VHOST | msgspec.to_builtins(binding) for binding in bindings],
        "policies": [_VHOST | {"name": policy.name, **_policy(policy)} for policy in topology.policies],
        "parameters": [
            _VHOST | {"component": "operator_policy", "name": policy.name, "value": _policy(policy)}
            for policy in topology.operator_policies
        ],
    }


def _queue(queue: Queue) -> dict[str, Any]:
    """Return the queue as exported: its type stands among the arguments, and documents do not say ``exclusive``."""
    fields: dict[str, Any] = msgspec.to_builtins(queue)
    return {name: value for name, value in fields.items() if name not in ("type", "exclusive")}


def _policy(policy: Policy) -> dict[str, Any]:
    return {
        "pattern": policy.pattern,
        "definition": dict(policy.definition),
        "apply-to": policy.apply_to,
        "priority": policy.priority,
    }
