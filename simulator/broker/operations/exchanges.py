"""Exchanges and bindings of a virtual host come and go; an auto-delete exchange goes with its last binding.

Source: rabbit_exchange.erl, rabbit_binding.erl remove_for_source, remove_for_destination.
"""

from __future__ import annotations

from dlx.routing import LOCAL_RANDOM
from dlx.topology import Binding, Exchange
from simulator.broker.state import VirtualHost


def add_exchange(vhost: VirtualHost, exchange: Exchange) -> None:
    """Add an exchange under a name that is free."""
    vhost.exchanges[exchange.name] = exchange
    vhost.routes_at_random |= exchange.type == LOCAL_RANDOM
    vhost.generation += 1


def remove_exchange(vhost: VirtualHost, name: str) -> None:
    """Delete an exchange, with the bindings from it and to it."""
    del vhost.exchanges[name]
    vhost.bindings.pop(name, None)
    vhost.exchange_counters.pop(name, None)
    _drop_bindings_to(vhost, name, "exchange")
    vhost.generation += 1


def add_binding(vhost: VirtualHost, binding: Binding) -> None:
    """Add a binding, unless it is there already."""
    bound = vhost.bindings.get(binding.source, ())
    if binding not in bound:
        vhost.bindings[binding.source] = (*bound, binding)
        vhost.generation += 1


def remove_binding(vhost: VirtualHost, binding: Binding) -> None:
    """Remove a binding that is there."""
    vhost.bindings[binding.source] = tuple(b for b in vhost.bindings[binding.source] if b != binding)
    vhost.generation += 1
    _delete_if_unbound(vhost, binding.source)


def forget_queue(vhost: VirtualHost, name: str) -> None:
    """Remove the bindings of a queue that is gone, and auto-delete exchanges that had no others."""
    _drop_bindings_to(vhost, name, "queue")
    vhost.generation += 1


def _drop_bindings_to(vhost: VirtualHost, name: str, kind: str) -> None:
    for source in list(vhost.bindings):
        bound = vhost.bindings.get(source, ())  # an auto-delete exchange that went on the way took others with it
        kept = tuple(b for b in bound if b.destination != name or b.destination_type != kind)
        if len(kept) < len(bound):
            vhost.bindings[source] = kept
            _delete_if_unbound(vhost, source)


def _delete_if_unbound(vhost: VirtualHost, name: str) -> None:
    exchange = vhost.exchanges.get(name)
    if exchange is not None and exchange.auto_delete and not vhost.bindings.get(name):
        remove_exchange(vhost, name)
