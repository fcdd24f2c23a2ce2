"""Exchanges, queues and bindings: declared, bound, deleted.

What is checked, in which order and with which words is in ``dlx.declarations`` and
its neighbours; this file looks up, changes and answers.

Source: rabbit_channel.erl handle_method exchange.*, queue.*, binding_action_with_checks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dlx import amqp_errors, bindings, declarations, exchange_declarations
from dlx.routing import LOCAL_RANDOM
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
from simulator.broker.operations import access, queues, reply_to
from simulator.broker.replies import Done, QueueDeclared, QueueDeleted, QueuePurged
from simulator.broker.state import Channel, QueueState, VirtualHost

if TYPE_CHECKING:
    from simulator.broker.broker import Broker

_NO_BREAKS = str.maketrans("", "", "\r\n")  # RabbitMQ takes line breaks out of names


# Exchanges


def declare_exchange(broker: Broker, command: DeclareExchange) -> None:
    """exchange.declare."""
    channel = broker.channel(command.channel)
    vhost, name = channel.connection.vhost, command.exchange.translate(_NO_BREAKS)
    if command.passive:
        exchange_declarations.check_not_default(name)
        access.check_any(broker, channel, "exchange", name)
        if name not in vhost.exchanges:
            raise amqp_errors.no_exchange(name, vhost.name)
    else:
        _declare_exchange(broker, channel, command, name)
    broker.out.append(Done(channel.id, "exchange.declare-ok"))


def _declare_exchange(broker: Broker, channel: Channel, command: DeclareExchange, name: str) -> None:
    vhost = channel.connection.vhost
    asked: dict[str, Any] = {
        "vhost": vhost.name,
        "type": command.type,
        "durable": command.durable,
        "auto_delete": command.auto_delete,
        "internal": command.internal,
        "arguments": command.arguments,
        "release": broker.release,
    }
    exchange_declarations.check_type(command.type, broker.release)
    exchange_declarations.check_not_default(name)
    access.check(broker, channel, "configure", "exchange", name)
    existing = vhost.exchanges.get(name)
    if existing is not None:
        exchange_declarations.check_exchange_equivalence(existing, **asked)
        return
    exchange = exchange_declarations.declared_exchange(name, **asked)
    alternate = command.arguments.get("alternate-exchange")
    if isinstance(alternate, str):
        access.check(broker, channel, "read", "exchange", name)
        access.check(broker, channel, "write", "exchange", alternate)
    add_exchange(vhost, exchange)


def add_exchange(vhost: VirtualHost, exchange: Exchange) -> None:
    """Add an exchange, of which there is none of that name."""
    vhost.exchanges[exchange.name] = exchange
    vhost.routes_at_random |= exchange.type == LOCAL_RANDOM
    vhost.generation += 1


def delete_exchange(broker: Broker, command: DeleteExchange) -> None:
    """exchange.delete; one that does not exist is as good as deleted."""
    channel = broker.channel(command.channel)
    vhost, name = channel.connection.vhost, command.exchange.translate(_NO_BREAKS)
    exchange_declarations.check_not_default(name)
    if name.startswith("amq."):
        raise amqp_errors.Refusal(403, f"deletion of system exchange '{name}' in vhost '{vhost.name}' not allowed")
    access.check(broker, channel, "configure", "exchange", name)
    if command.if_unused and vhost.bindings.get(name):
        raise amqp_errors.Refusal(406, f"exchange '{name}' in vhost '{vhost.name}' in use")
    if name in vhost.exchanges:
        remove_exchange(vhost, name)
    broker.out.append(Done(channel.id, "exchange.delete-ok"))


def remove_exchange(vhost: VirtualHost, name: str) -> None:
    """Delete an exchange, with the bindings from it and to it."""
    del vhost.exchanges[name]
    vhost.bindings.pop(name, None)
    vhost.exchange_counters.pop(name, None)
    _drop_bindings_to(vhost, name, "exchange")
    vhost.generation += 1


# Queues


def declare_queue(broker: Broker, command: DeclareQueue) -> None:
    """queue.declare."""
    channel = broker.channel(command.channel)
    name = command.queue.translate(_NO_BREAKS)
    if reply_to.is_reply_queue(name):
        reply_to.declare(broker, channel, name)
        return
    queue = _passive(broker, channel, name) if command.passive else _declare_queue(broker, channel, command, name)
    channel.last_queue = queue.name
    if queue.definition.type == CLASSIC:
        broker.used(queue)
    ready = queue.store.ready
    broker.out.append(QueueDeclared(channel.id, queue.name, ready, declared_consumers(queue)))


def declared_consumers(queue: QueueState) -> int:
    """How many consumers queue.declare-ok counts; of a stream it knows none.

    To a quorum queue every basic.get that is not acknowledged is one, and so is a
    cancelled consumer until it has acknowledged its deliveries; those that wait to
    become the single active consumer are none.
    """
    if queue.definition.type == STREAM:
        return 0
    if queue.definition.type != QUORUM:
        return len(queue.consumers)
    taking = queue.active_single is not None if queue.single_active else len(queue.consumers)
    return taking + queue.unacked_gets + len(queue.cancelled)


def _passive(broker: Broker, channel: Channel, name: str) -> QueueState:
    access.check_any(broker, channel, "queue", name)
    return broker.queue(channel, name)


def _declare_queue(broker: Broker, channel: Channel, command: DeclareQueue, name: str) -> QueueState:
    vhost = channel.connection.vhost
    asked: dict[str, Any] = {
        "vhost": vhost.name,
        "durable": command.durable and not command.exclusive,
        "auto_delete": command.auto_delete,
        "exclusive": command.exclusive,
        "arguments": command.arguments,
        "release": broker.release,
        "default_queue_type": vhost.default_queue_type,
    }
    generated = not name
    if generated:
        declarations.check_server_named(_augmented(broker, vhost, command), broker.release)
        name = broker.generated_name("amq.gen")
    elif name.startswith("amq."):
        raise amqp_errors.reserved_name("queue", name)
    access.check(broker, channel, "configure", "queue", name)
    existing = vhost.queues.get(name)
    if existing is not None:
        access.check_exclusive(existing, channel.connection)
        declarations.check_queue_equivalence(existing.definition, **asked)
        return existing
    declarations.check_dead_letter_exchange_type(name, vhost.name, command.arguments)
    dlx = command.arguments.get("x-dead-letter-exchange")
    if isinstance(dlx, str):
        access.check(broker, channel, "read", "queue", name)
        access.check(broker, channel, "write", "exchange", dlx)
    definition = declarations.declared_queue(name, server_named=generated, **asked)
    owner = channel.connection if command.exclusive else None
    return broker.add_queue(vhost, definition, owner)


def _augmented(broker: Broker, vhost: VirtualHost, command: DeclareQueue) -> Arguments:
    durable = command.durable and not command.exclusive
    return declarations.augmented_arguments(
        command.arguments, vhost.default_queue_type, broker.release, durable, command.auto_delete
    )


def delete_queue(broker: Broker, command: DeleteQueue) -> None:
    """queue.delete; one that does not exist is as good as deleted."""
    channel = broker.channel(command.channel)
    vhost = channel.connection.vhost
    name = access.expand_queue(channel, command.queue).translate(_NO_BREAKS)
    access.check(broker, channel, "configure", "queue", name)
    queue = vhost.queues.get(name)
    if queue is None:
        broker.out.append(QueueDeleted(channel.id, 0))
        return
    access.check_exclusive(queue, channel.connection)
    _check_deletion(broker, queue, command)
    broker.out.append(QueueDeleted(channel.id, queue.store.ready if queue.definition.type != STREAM else 0))
    broker.delete_queue(queue)


def _check_deletion(broker: Broker, queue: QueueState, command: DeleteQueue) -> None:
    kind, name, vhost = queue.definition.type, queue.name, queue.vhost.name
    if kind == STREAM:
        return
    for option, asked in (("if-unused", command.if_unused), ("if-empty", command.if_empty)):
        if asked and kind != CLASSIC:
            raise amqp_errors.conditional_delete(option, name, vhost)
    if command.if_unused and queue.consumers:
        raise amqp_errors.queue_in_use(name, vhost)
    if command.if_empty and queue.store.ready:
        raise amqp_errors.queue_not_empty(name, vhost)


def purge_queue(broker: Broker, command: PurgeQueue) -> None:
    """queue.purge: what is ready goes, what is unacknowledged stays."""
    channel = broker.channel(command.channel)
    name = access.expand_queue(channel, command.queue)
    access.check(broker, channel, "read", "queue", name)
    queue = broker.queue(channel, name)
    if queue.definition.type == STREAM:
        raise amqp_errors.purge_of_stream(name, queue.vhost.name)
    broker.out.append(QueuePurged(channel.id, queues.purge(broker, queue)))


# Bindings


def bind_queue(broker: Broker, command: BindQueue) -> None:
    """queue.bind."""
    channel = broker.channel(command.channel)
    _bind(broker, channel, _queue_binding(channel, command))
    broker.out.append(Done(channel.id, "queue.bind-ok"))


def unbind_queue(broker: Broker, command: UnbindQueue) -> None:
    """queue.unbind."""
    channel = broker.channel(command.channel)
    _unbind(broker, channel, _queue_binding(channel, command))
    broker.out.append(Done(channel.id, "queue.unbind-ok"))


def bind_exchange(broker: Broker, command: BindExchange) -> None:
    """exchange.bind."""
    channel = broker.channel(command.channel)
    _bind(broker, channel, _exchange_binding(command))
    broker.out.append(Done(channel.id, "exchange.bind-ok"))


def unbind_exchange(broker: Broker, command: UnbindExchange) -> None:
    """exchange.unbind."""
    channel = broker.channel(command.channel)
    _unbind(broker, channel, _exchange_binding(command))
    broker.out.append(Done(channel.id, "exchange.unbind-ok"))


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


def _check_binding(broker: Broker, channel: Channel, binding: Binding) -> None:
    """Permissions first, then whether both ends exist."""
    vhost = channel.connection.vhost
    reply_to.check_binding(binding, broker.release)
    access.check(broker, channel, "write", binding.destination_type, binding.destination)
    if binding.destination_type == "exchange":
        exchange_declarations.check_not_default(binding.destination)
    exchange_declarations.check_not_default(binding.source)
    access.check(broker, channel, "read", "exchange", binding.source)
    source = vhost.exchanges.get(binding.source)
    if source is not None:
        access.check_topic(broker, channel, "read", source, (binding.routing_key,))


def _ends(broker: Broker, channel: Channel, binding: Binding) -> Exchange:
    vhost = channel.connection.vhost
    source = vhost.exchanges.get(binding.source)
    if source is None:
        raise amqp_errors.no_exchange(binding.source, vhost.name)
    if binding.destination_type == "queue":
        broker.queue(channel, binding.destination)
    elif binding.destination not in vhost.exchanges:
        raise amqp_errors.no_exchange(binding.destination, vhost.name)
    return source


def _bind(broker: Broker, channel: Channel, binding: Binding) -> None:
    vhost = channel.connection.vhost
    _check_binding(broker, channel, binding)
    source = _ends(broker, channel, binding)
    destination: Queue | Exchange = (
        vhost.definitions[binding.destination]
        if binding.destination_type == "queue"
        else vhost.exchanges[binding.destination]
    )
    bindings.check_binding(
        source, binding.routing_key, binding.arguments, destination=destination, release=broker.release
    )
    add_binding(vhost, binding)


def _unbind(broker: Broker, channel: Channel, binding: Binding) -> None:
    vhost = channel.connection.vhost
    _check_binding(broker, channel, binding)
    bound = vhost.bindings.get(binding.source, ())
    if binding in bound:
        if binding.destination_type == "queue":
            access.check_exclusive(vhost.queues[binding.destination], channel.connection)
        vhost.bindings[binding.source] = tuple(b for b in bound if b != binding)
        vhost.generation += 1
        _delete_if_unbound(vhost, binding.source)


def add_binding(vhost: VirtualHost, binding: Binding) -> None:
    """Add a binding, unless it is there already."""
    bound = vhost.bindings.get(binding.source, ())
    if binding not in bound:
        vhost.bindings[binding.source] = (*bound, binding)
        vhost.generation += 1


def forget_queue(vhost: VirtualHost, name: str) -> None:
    """The queue is gone: so are its bindings, and auto-delete exchanges that had no others."""
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
