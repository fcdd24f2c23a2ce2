"""Exchanges and bindings of a virtual host come and go; an auto-delete exchange goes with its last binding.

Source: rabbit_exchange.erl, rabbit_binding.erl remove_for_source, remove_for_destination.
"""

from __future__ import annotations

from typing import TypeVar

from dlx.delays import routing_type
from dlx.server_plugins import LOCAL_RANDOM, RANDOM
from dlx.topology import Binding, Exchange
from simulator.broker.state import VirtualHost

End = TypeVar("End")
"""One end of a binding: the name of its source, or type and name of its destination."""


def add_exchange(vhost: VirtualHost, exchange: Exchange) -> None:
    """Add an exchange under a name that is free."""
    vhost.exchanges[exchange.name] = exchange
    vhost.routes_at_random |= routing_type(exchange) in (LOCAL_RANDOM, RANDOM)
    vhost.changed()


def remove_exchange(vhost: VirtualHost, name: str) -> None:
    """Delete an exchange, with the bindings from it and to it."""
    del vhost.exchanges[name]
    for binding in list(vhost.bindings.get(name, ())):
        _drop(vhost, binding)
    vhost.exchange_counters.pop(name, None)
    _drop_bindings_to(vhost, "exchange", name)
    vhost.topology.indexes.pop(name, None)
    vhost.changed()


def add_binding(vhost: VirtualHost, binding: Binding) -> None:
    """Add a binding, unless it is there already."""
    bound = vhost.bindings.setdefault(binding.source, {})
    before = len(bound)
    bound.setdefault(binding)
    if len(bound) > before:
        note_destination(vhost, binding)
        if (index := vhost.own_index(binding.source)) is not None:
            index.add(binding)
        vhost.changed()


def note_destination(vhost: VirtualHost, binding: Binding) -> None:
    """Let a binding be found by its destination."""
    vhost.bound_to.setdefault(_destination(binding), {})[binding] = None


def remove_binding(vhost: VirtualHost, binding: Binding) -> None:
    """Remove a binding that is there."""
    _drop(vhost, binding)
    vhost.changed()
    _delete_if_unbound(vhost, binding.source)


def forget_queue(vhost: VirtualHost, name: str) -> None:
    """Remove the bindings of a queue that is gone, and auto-delete exchanges that had no others."""
    _drop_bindings_to(vhost, "queue", name)
    vhost.changed()


def _drop_bindings_to(vhost: VirtualHost, kind: str, name: str) -> None:
    bound = list(vhost.bound_to.get((kind, name), ()))
    for binding in bound:
        _drop(vhost, binding)
    for source in {binding.source: None for binding in bound}:
        _delete_if_unbound(vhost, source)


def _drop(vhost: VirtualHost, binding: Binding) -> None:
    _remove(vhost.bindings, binding.source, binding)
    _remove(vhost.bound_to, _destination(binding), binding)
    if (index := vhost.own_index(binding.source)) is not None:
        index.remove(binding)


def _remove(bindings: dict[End, dict[Binding, None]], end: End, binding: Binding) -> None:
    del bindings[end][binding]
    if not bindings[end]:
        del bindings[end]


def _destination(binding: Binding) -> tuple[str, str]:
    return binding.destination_type, binding.destination


def _delete_if_unbound(vhost: VirtualHost, name: str) -> None:
    exchange = vhost.exchanges.get(name)
    if exchange is not None and exchange.auto_delete and not vhost.bindings.get(name):
        remove_exchange(vhost, name)
