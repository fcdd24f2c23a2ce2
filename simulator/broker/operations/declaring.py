"""Exchanges, queues and bindings: declared, bound, deleted.

``dlx.declarations`` and its neighbours check arguments and word the refusals;
this file looks up, changes and answers.

Source: rabbit_channel.erl handle_method exchange.*, queue.*, binding_action_with_checks.
"""

from __future__ import annotations

from typing import Any

from dlx import amqp_errors, bindings, declarations
from dlx.topology import CLASSIC, QUORUM, STREAM, Arguments, Binding, Exchange, Queue
from simulator.broker.commands import (
    BindExchange,
    BindQueue,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    PurgeQueue,
    UnbindExchange,
    UnbindQueue,
)
from simulator.broker.operations import access, exchanges, limits, queue_lifecycle, queues, reply_to, sharding
from simulator.broker.replies import Done, QueueDeclared, QueueDeleted, QueuePurged
from simulator.broker.state import Channel, NodeState, QueueState, VirtualHost

_NO_BREAKS = str.maketrans("", "", "\r\n")  # RabbitMQ takes line breaks out of names


# Exchanges


def declare_exchange(node: NodeState, command: DeclareExchange) -> None:
    """Declare an exchange (exchange.declare)."""
    channel = node.channel(command.channel)
    vhost, name = channel.connection.vhost, command.exchange.translate(_NO_BREAKS)
    if command.passive:
        declarations.check_not_default(name)
        access.check_any(node, channel, "exchange", name)
        if name not in vhost.exchanges:
            raise amqp_errors.no_exchange(name, vhost.name)
    else:
        _declare_exchange(node, channel, command, name)
    node.out.append(Done(channel.id, "exchange.declare-ok"))


def _declare_exchange(node: NodeState, channel: Channel, command: DeclareExchange, name: str) -> None:
    vhost = channel.connection.vhost
    asked: dict[str, Any] = {
        "vhost": vhost.name,
        "type": command.type,
        "durable": command.durable,
        "auto_delete": command.auto_delete,
        "internal": command.internal,
        "arguments": command.arguments,
        "release": node.release,
        "types": node.exchange_types,
    }
    declarations.check_type(command.type, node.release, node.exchange_types)
    declarations.check_not_default(name)
    access.check(node, channel, "configure", "exchange", name)
    existing = vhost.exchanges.get(name)
    if existing is not None:
        declarations.check_exchange_equivalence(existing, **asked)
        return
    exchange = declarations.declared_exchange(name, **asked)
    alternate = command.arguments.get("alternate-exchange")
    if isinstance(alternate, str):
        access.check(node, channel, "read", "exchange", name)
        access.check(node, channel, "write", "exchange", alternate)
    exchanges.add_exchange(vhost, exchange)
    sharding.start(node, vhost, exchange)


def delete_exchange(node: NodeState, command: DeleteExchange) -> None:
    """Delete an exchange; one that does not exist is as good as deleted (exchange.delete)."""
    channel = node.channel(command.channel)
    vhost, name = channel.connection.vhost, command.exchange.translate(_NO_BREAKS)
    declarations.check_not_default(name)
    if name.startswith("amq."):
        raise amqp_errors.system_exchange(name, vhost.name)
    access.check(node, channel, "configure", "exchange", name)
    if command.if_unused and vhost.bindings.get(name):
        raise amqp_errors.exchange_in_use(name, vhost.name)
    if name in vhost.exchanges:
        exchanges.remove_exchange(vhost, name)
    node.out.append(Done(channel.id, "exchange.delete-ok"))


# Queues


def declare_queue(node: NodeState, command: DeclareQueue) -> None:
    """Declare a queue (queue.declare)."""
    channel = node.channel(command.channel)
    name = sharding.declared_as(node, channel.connection.vhost, command.queue.translate(_NO_BREAKS))
    if reply_to.is_reply_queue(name):
        reply_to.declare(node, channel, name)
        return
    queue = _passive(node, channel, name) if command.passive else _declare_queue(node, channel, command, name)
    channel.last_queue = queue.name
    if queue.definition.type == CLASSIC:
        node.used(queue)
    ready = queue.store.ready
    node.out.append(QueueDeclared(channel.id, queue.name, ready, declared_consumers(queue)))


def declared_consumers(queue: QueueState) -> int:
    """Return how many consumers queue.declare-ok counts; of a stream it counts 0.

    A quorum queue also counts every basic.get that is not acknowledged, and a cancelled
    consumer until it has acknowledged its deliveries. It does not count consumers that
    wait to become the single active one.
    """
    if queue.definition.type == STREAM:
        return 0
    if queue.definition.type != QUORUM:
        return len(queue.consumers)
    taking = queue.active_single is not None if queue.single_active else len(queue.consumers)
    return taking + queue.unacked_gets + len(queue.cancelled)


def _passive(node: NodeState, channel: Channel, name: str) -> QueueState:
    access.check_any(node, channel, "queue", name)
    return access.queue(channel, name)


def _declare_queue(node: NodeState, channel: Channel, command: DeclareQueue, name: str) -> QueueState:
    vhost = channel.connection.vhost
    asked: dict[str, Any] = {
        "vhost": vhost.name,
        "durable": command.is_durable,
        "auto_delete": command.auto_delete,
        "exclusive": command.exclusive,
        "arguments": command.arguments,
        "release": node.release,
        "default_queue_type": vhost.default_queue_type,
    }
    generated = not name
    if generated:
        declarations.check_server_named(_augmented(node, vhost, command), node.release)
        name = node.generated_name("amq.gen")
    elif name.startswith("amq."):
        raise amqp_errors.reserved_name("queue", name)
    access.check(node, channel, "configure", "queue", name)
    existing = vhost.queues.get(name)
    if existing is not None:
        access.check_exclusive(existing, channel.connection)
        declarations.check_queue_equivalence(existing.definition, **asked)
        return existing
    reached = limits.queue_limit_reached(vhost)
    if node.release.queue_limit_checked == "by the channel":
        declarations.check_queue_limit(name, vhost.name, reached)
    declarations.check_dead_letter_exchange_type(name, vhost.name, command.arguments)
    dlx = command.arguments.get("x-dead-letter-exchange")
    if isinstance(dlx, str):
        access.check(node, channel, "read", "queue", name)
        access.check(node, channel, "write", "exchange", dlx)
    definition = declarations.declared_queue(name, server_named=generated, limit_reached=reached, **asked)
    owner = channel.connection if command.exclusive else None
    return queue_lifecycle.add(node, vhost, definition, owner)


def _augmented(node: NodeState, vhost: VirtualHost, command: DeclareQueue) -> Arguments:
    return declarations.augmented_arguments(
        command.arguments, vhost.default_queue_type, node.release, command.is_durable, command.auto_delete
    )


def delete_queue(node: NodeState, command: DeleteQueue) -> None:
    """Delete a queue; one that does not exist is as good as deleted (queue.delete)."""
    channel = node.channel(command.channel)
    vhost = channel.connection.vhost
    name = access.expand_queue(channel, command.queue).translate(_NO_BREAKS)
    sharding.check(node, vhost, name, "delete")
    access.check(node, channel, "configure", "queue", name)
    queue = vhost.queues.get(name)
    if queue is None:
        node.out.append(QueueDeleted(channel.id, 0))
        return
    access.check_exclusive(queue, channel.connection)
    _check_deletion(node, queue, command)
    node.out.append(QueueDeleted(channel.id, queue.store.ready if queue.definition.type != STREAM else 0))
    queue_lifecycle.delete(node, queue)


def _check_deletion(node: NodeState, queue: QueueState, command: DeleteQueue) -> None:
    kind, name, vhost = queue.definition.type, queue.name, queue.vhost.name
    if kind == STREAM:
        return
    for option, asked in (("if-unused", command.if_unused), ("if-empty", command.if_empty)):
        if asked and kind != CLASSIC:
            raise amqp_errors.conditional_delete(option, name, vhost)
    if command.if_empty and queue.store.ready:
        raise amqp_errors.queue_not_empty(name, vhost)
    if command.if_unused and queue.consumers:
        raise amqp_errors.queue_in_use(name, vhost)


def purge_queue(node: NodeState, command: PurgeQueue) -> None:
    """Remove what is ready; what is unacknowledged stays (queue.purge)."""
    channel = node.channel(command.channel)
    name = access.expand_queue(channel, command.queue)
    sharding.check(node, channel.connection.vhost, name, "purge")
    access.check(node, channel, "read", "queue", name)
    queue = access.queue(channel, name)
    if queue.definition.type == STREAM:
        raise amqp_errors.purge_of_stream(name, queue.vhost.name)
    node.out.append(QueuePurged(channel.id, queues.purge(node, queue)))


# Bindings


def bind_queue(node: NodeState, command: BindQueue) -> None:
    """Bind a queue (queue.bind)."""
    channel = node.channel(command.channel)
    binding = _queue_binding(channel, command)
    sharding.check(node, channel.connection.vhost, binding.destination, "bind")
    _bind(node, channel, binding)
    node.out.append(Done(channel.id, "queue.bind-ok"))


def unbind_queue(node: NodeState, command: UnbindQueue) -> None:
    """Unbind a queue (queue.unbind)."""
    channel = node.channel(command.channel)
    binding = _queue_binding(channel, command)
    sharding.check(node, channel.connection.vhost, binding.destination, "unbind")
    _unbind(node, channel, binding)
    node.out.append(Done(channel.id, "queue.unbind-ok"))


def bind_exchange(node: NodeState, command: BindExchange) -> None:
    """Bind an exchange (exchange.bind)."""
    channel = node.channel(command.channel)
    _bind(node, channel, _exchange_binding(command))
    node.out.append(Done(channel.id, "exchange.bind-ok"))


def unbind_exchange(node: NodeState, command: UnbindExchange) -> None:
    """Unbind an exchange (exchange.unbind)."""
    channel = node.channel(command.channel)
    _unbind(node, channel, _exchange_binding(command))
    node.out.append(Done(channel.id, "exchange.unbind-ok"))


def _queue_binding(channel: Channel, command: BindQueue | UnbindQueue) -> Binding:
    queue, key = access.expand_queue(channel, command.queue), command.routing_key
    if not command.queue and not key:
        key = channel.last_queue
    return Binding(
        source=command.exchange.translate(_NO_BREAKS),
        destination=queue.translate(_NO_BREAKS),
        routing_key=key,
        arguments=command.arguments,
    )


def _exchange_binding(command: BindExchange | UnbindExchange) -> Binding:
    return Binding(
        source=command.source.translate(_NO_BREAKS),
        destination=command.destination.translate(_NO_BREAKS),
        destination_type="exchange",
        routing_key=command.routing_key,
        arguments=command.arguments,
    )


def _check_binding(node: NodeState, channel: Channel, binding: Binding) -> None:
    """Check the permissions for a binding; whether both ends exist comes after."""
    vhost = channel.connection.vhost
    reply_to.check_binding(binding, node.release)
    access.check(node, channel, "write", binding.destination_type, binding.destination)
    if binding.destination_type == "exchange":
        declarations.check_not_default(binding.destination)
    declarations.check_not_default(binding.source)
    access.check(node, channel, "read", "exchange", binding.source)
    source = vhost.exchanges.get(binding.source)
    if source is not None:
        access.check_topic(node, channel, "read", source, (binding.routing_key,))


def _source(vhost: VirtualHost, binding: Binding) -> Exchange:
    """Return the exchange of a binding both of whose ends exist."""
    source = vhost.exchanges.get(binding.source)
    if source is None:
        raise amqp_errors.no_exchange(binding.source, vhost.name)
    if binding.destination_type == "queue":
        if binding.destination not in vhost.queues:
            raise amqp_errors.no_queue(binding.destination, vhost.name)
    elif binding.destination not in vhost.exchanges:
        raise amqp_errors.no_exchange(binding.destination, vhost.name)
    return source


def _bind(node: NodeState, channel: Channel, binding: Binding) -> None:
    vhost = channel.connection.vhost
    _check_binding(node, channel, binding)
    source = _source(vhost, binding)
    destination: Queue | Exchange = (
        vhost.definitions[binding.destination]
        if binding.destination_type == "queue"
        else vhost.exchanges[binding.destination]
    )
    enabled = source.type in node.exchange_types  # without its plugin, an exchange takes every binding
    if enabled:
        bindings.check_binding(
            source, binding.routing_key, binding.arguments, destination=destination, release=node.release
        )
    if binding.destination_type == "queue":  # only now, on all releases: rabbit_binding.erl add
        access.check_exclusive(vhost.queues[binding.destination], channel.connection)
    crashes = enabled and bindings.crashes(source, binding.arguments)
    if not crashes or node.release.binding_kept_over_crash:
        exchanges.add_binding(node, vhost, binding)
    if crashes:
        raise amqp_errors.internal_error()


def _unbind(node: NodeState, channel: Channel, binding: Binding) -> None:
    vhost = channel.connection.vhost
    _check_binding(node, channel, binding)
    bound = vhost.bindings.get(binding.source, ())
    if binding in bound:
        if binding.destination_type == "queue":
            access.check_exclusive(vhost.queues[binding.destination], channel.connection)
        exchanges.remove_binding(vhost, binding)
