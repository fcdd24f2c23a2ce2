"""Exchanges and bindings of a virtual host come and go, and route messages.

An auto-delete exchange goes with its last binding. An x-recent-history exchange keeps the last messages that come to
it (``VirtualHost.histories``), and a new binding of it gets them.

Source: rabbit_exchange.erl, rabbit_binding.erl remove_for_source, remove_for_destination;
rabbit_exchange_type_recent_history.erl.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TypeVar

import msgspec

from dlx import amqp_errors, routing
from dlx.binding_index import NotEnabled
from dlx.declarations import HISTORY_LENGTH
from dlx.delays import Delay, routing_type
from dlx.message import Message
from dlx.server_plugins import AT_RANDOM, CONSISTENT_HASH, EVENT_EXCHANGE, RECENT_HISTORY
from dlx.topology import Binding, Exchange
from simulator.broker.effects import DeadLettered
from simulator.broker.state import NodeState, VirtualHost

End = TypeVar("End")
"""One end of a binding: the name of its source, or type and name of its destination."""


def add_exchange(vhost: VirtualHost, exchange: Exchange) -> None:
    """Add an exchange under a name that is free."""
    vhost.exchanges[exchange.name] = exchange
    vhost.routes_at_random |= routing_type(exchange) in AT_RANDOM
    if exchange.type == RECENT_HISTORY:
        vhost.histories[exchange.name] = []
    vhost.changed()


def add_event_exchange(vhost: VirtualHost) -> None:
    """Add the exchange of the plugin for events, which none of them comes to here."""
    add_exchange(vhost, Exchange(name=EVENT_EXCHANGE, type="topic", durable=True, internal=True))


def follow_plugins(vhost: VirtualHost, types: Container[str]) -> None:
    """Have no exchange of another type than these route any more."""
    indexes = vhost.topology.indexes
    for name, exchange in vhost.exchanges.items():
        if exchange.type not in types:
            refusal = amqp_errors.type_not_enabled(name, vhost.name, exchange.type)
            indexes[name] = NotEnabled(refusal.explanation, vhost.bindings.get(name, ()))
        elif isinstance(indexes.get(name), NotEnabled):
            del indexes[name]


def remove_exchange(vhost: VirtualHost, name: str) -> None:
    """Delete an exchange, with the bindings from it and to it."""
    del vhost.exchanges[name]
    for binding in list(vhost.bindings.get(name, ())):
        _drop(vhost, binding)
    vhost.exchange_counters.pop(name, None)
    _drop_bindings_to(vhost, "exchange", name)
    vhost.topology.indexes.pop(name, None)
    vhost.histories.pop(name, None)
    vhost.changed()


def add_binding(node: NodeState, vhost: VirtualHost, binding: Binding) -> None:
    """Add a binding, unless it is there already. Raises ``Refusal`` where a kept message cannot go on."""
    exchange = vhost.exchanges[binding.source]
    if routing_type(exchange) == CONSISTENT_HASH:
        routing.index_of(exchange, vhost.topology)  # which remembers in what order destinations came and went
    bound = vhost.bindings.setdefault(binding.source, {})
    before = len(bound)
    bound.setdefault(binding)
    if len(bound) > before:
        note_destination(vhost, binding)
        if (index := vhost.own_index(binding.source)) is not None:
            index.add(binding)
        vhost.changed()
        _replay(node, vhost, binding)


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


def routed(
    node: NodeState, vhost: VirtualHost, message: Message, body: bytes, *, after: Delay | None = None
) -> routing.Routed:
    """Return where a message goes, and keep it in the histories of the exchanges that it comes to.

    ``after``: the delay that is over. Raises ``PublishRefusedError`` where an exchange fails over the message.
    """
    if not vhost.histories and after is None:
        return routing.routed(message, vhost.topology, node.release, node.choose)
    passed = tuple(routing.visits(message, vhost.topology, node.release, node.choose, after=after))
    if (message.headers or {}).get("x-recent-history-no-store") is not True:
        for visit in passed:
            if visit.exchange.name in vhost.histories:
                _keep(vhost, visit.exchange, message, body)
    return routing.reached(passed, message, vhost.topology, node.release)


def _keep(vhost: VirtualHost, exchange: Exchange, message: Message, body: bytes) -> None:
    history = vhost.histories[exchange.name]
    history.append((message, body))
    del history[: -exchange.arguments.get(HISTORY_LENGTH, 20)]


def _replay(node: NodeState, vhost: VirtualHost, binding: Binding) -> None:
    """Send the kept messages to a new destination: to a queue the oldest first, to an exchange the newest."""
    kept = [*vhost.histories.get(binding.source, ())]
    if binding.destination_type == "queue":
        for message, body in kept:
            _send(node, vhost, binding.destination, message, body)
        return
    before = {name: [*history] for name, history in vhost.histories.items()}
    for message, body in reversed(kept):
        onward = msgspec.structs.replace(message, exchange=binding.destination)
        queues, delays = routed(node, vhost, onward, body)
        for queue in queues:
            _send(node, vhost, queue, message, body)
        if delays:
            node.last_uid += 1
            node.delay(vhost, delays, body, node.last_uid)
        if queues:
            continue
        if node.release.binding_kept_over_crash:
            raise amqp_errors.lost_replay()
        _drop(vhost, binding)
        vhost.changed()
        vhost.histories.update(before)
        raise amqp_errors.internal_error()


def _send(node: NodeState, vhost: VirtualHost, queue: str, message: Message, body: bytes) -> None:
    node.last_uid += 1
    node.agenda.append(DeadLettered(vhost.name, queue, message, body, node.last_uid))


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
