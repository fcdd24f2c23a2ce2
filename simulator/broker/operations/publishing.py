"""basic.publish: checks, routing, returns, confirms; and transactions.

Publishes that look alike are remembered on their channel (``Channel.publishes``):
the same message, the same queues, checked once. Nothing that is remembered outlives
a change of the virtual host (``VirtualHost.generation``).

Source: rabbit_channel.erl handle_method basic.publish, deliver_to_queues, tx.*.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from dlx import amqp_errors, dead_lettering
from dlx.delays import delays_text, rewritten
from dlx.message import Amqp10, Message, PublishRefusedError, published
from dlx.releases import Release
from dlx.routing import Routed
from dlx.streams import can_keep
from dlx.topology import CLASSIC, QUORUM, STREAM, Exchange
from simulator.broker.commands import CheckTarget, Commit, Publish, Rollback, SelectConfirms, SelectTransactions
from simulator.broker.copies import Copy
from simulator.broker.effects import Traced
from simulator.broker.operations import access, acknowledgements, exchanges, queues, reply_to, tracing
from simulator.broker.replies import Confirmed, Done, Refused, Returned
from simulator.broker.state import Channel, NodeState, VirtualHost
from simulator.broker.state.clients import Publishing, Route
from simulator.events import Event

_PUBLISHED = Event.PUBLISHED  # Python 3.11 takes long to look it up


def publish(node: NodeState, command: Publish) -> None:
    """Publish a message (basic.publish)."""
    channel = node.channel(command.channel)
    counted = node.counters
    counted.received += 1
    if command.immediate:
        raise amqp_errors.immediate()
    if len(command.body) > node.max_message_size:
        raise amqp_errors.message_too_large(len(command.body), node.max_message_size)
    vhost = channel.connection.vhost
    key = (command.exchange, command.routing_key, id(command.properties))
    found = channel.publishes.get(key)
    if found is None or found.generation != vhost.generation:
        by_value = _by_value(command)
        found = _alike(channel, command, vhost, by_value) or _checked(node, channel, command)
        if vhost.remembers_routes:
            channel.publishes[key] = found
            if by_value is not None:
                channel.publishes[by_value] = found
    node.last_uid = uid = node.last_uid + 1
    number = channel.next_publish if channel.confirms else 0
    if number or (command.mandatory and node.release.mandatory_publishes_numbered):
        channel.next_publish += 1
    counted.received_confirm += channel.confirms or channel.transactional
    if _PUBLISHED in node.watched:
        node.happened(_PUBLISHED, vhost, Copy(uid, found.message, command.body))
    if found.delays:  # also in a transaction, whatever becomes of it: the exchange delays while it routes
        node.delay(vhost, found.delays, command.body, uid)
    if vhost.tracing:
        tracing.published(node, channel, found.message, command.body, found.queues, command.exchange)
    if node.release.direct_replies_taken_by == "channel":  # which does not wait for the commit
        reply_to.deliver(node, vhost, found.message, command.body)
    if channel.transactional:
        types = tuple(vhost.queues[name].definition.type for name in found.queues)
        channel.pending_tx.append(Publishing(found, types, command.body, uid, command.mandatory))
        return
    refused = _distribute(node, channel, found, command.body, uid, command.mandatory)
    if number:
        found.counters.confirm += not refused
        counted.confirmed += not refused
        # RabbitMQ says "multiple" even for a single refusal.
        answer = Refused(channel.id, number, True, refused) if refused else Confirmed(channel.id, number)
        node.out.append(answer)


def _by_value(command: Publish) -> tuple[Any, ...] | None:
    """Return what publishes that look alike have in common, or ``None`` if there are headers: they are not compared."""
    if "headers" in command.properties or command.amqp10 is not None:
        return None
    return command.exchange, command.routing_key, *command.properties.items()


def _alike(channel: Channel, command: Publish, vhost: VirtualHost, by_value: tuple[Any, ...] | None) -> Route | None:
    """Return the route of a publish with other but equal properties, if that is still right."""
    found = None if by_value is None else channel.publishes.get(by_value)
    if found is None or found.generation != vhost.generation:
        return None
    route: Route = msgspec.structs.replace(found, properties=command.properties)
    return route


def _checked(node: NodeState, channel: Channel, command: Publish) -> Route:
    """Check a publish, in RabbitMQ's order, and return the message and where it goes."""
    vhost = channel.connection.vhost
    exchange = _target(node, channel, command.exchange)
    publisher_first = node.release.publisher_checked == "before the message"
    if publisher_first:
        access.check_topic(node, channel, "write", exchange, (command.routing_key,))
    properties = reply_to.resolved(channel, command.properties)
    if publisher_first:
        _check_user(channel, properties)
    message = _message(node, exchange, command.routing_key, properties, command.amqp10)
    _check_delivery_mode(properties.get("delivery_mode"), node.release)
    if not publisher_first:
        access.check_topic(node, channel, "write", exchange, message.routing_keys)
        _check_user(channel, properties)
    counters = vhost.counters_of(command.exchange)
    reached, delays = exchanges.routed(node, vhost, message, command.body)
    if not command.encoded:
        delays = tuple(map(rewritten, delays))
    return Route(vhost.generation, command.properties, message, reached, counters, delays)


def check_target(node: NodeState, command: CheckTarget) -> None:
    """Check that a link of AMQP 1.0 may publish to an exchange. Source: rabbit_amqp_session.erl ensure_target."""
    _target(node, node.channel(command.channel), command.exchange)


def _target(node: NodeState, channel: Channel, name: str) -> Exchange:
    """Return the exchange of that name. Raises ``Refusal`` unless the channel's user may publish to it."""
    access.check(node, channel, "write", "exchange", name)
    vhost = channel.connection.vhost
    exchange = vhost.exchanges.get(name)
    if exchange is None:
        raise amqp_errors.no_exchange(name, vhost.name)
    if exchange.internal:
        raise amqp_errors.internal_exchange(name, vhost.name)
    return exchange


def _message(
    node: NodeState, exchange: Exchange, routing_key: str, properties: Mapping[str, Any], amqp10: Amqp10 | None
) -> Message:
    own = {name: value for name, value in properties.items() if name not in ("headers", "expiration")}
    return published(
        exchange.name,
        routing_key,
        headers=properties.get("headers"),
        properties=own,
        expiration=properties.get("expiration"),
        release=node.release,
        amqp10=amqp10,
    )


def _check_delivery_mode(mode: Any, release: Release) -> None:
    if release.delivery_mode_checked and mode not in (None, 1, 2):
        raise amqp_errors.unknown_delivery_mode(mode)


def _check_user(channel: Channel, properties: Mapping[str, Any]) -> None:
    named, user = properties.get("user_id"), channel.connection.user
    if named is not None and not user.may_send_as(named):
        raise amqp_errors.wrong_user_id(named, user.name)


def _distribute(
    node: NodeState,
    channel: Channel,
    route: Route,
    body: bytes,
    uid: int,
    mandatory: bool,
    unheard: Collection[str] = (),
) -> str:
    """Put the message into its queues, or return it to its publisher; return the name of a queue that refused it.

    ``unheard``: queues whose refusals come too late to be heard.
    """
    vhost, message = channel.connection.vhost, route.message
    route.counters.publish += 1
    refused, reached, failed = "", False, False
    for name in route.queues:
        queue = vhost.queues.get(name)
        if queue is not None and queue.definition.type == STREAM and not can_keep(message, node.release):
            failed = True  # the server comes to streams last
        elif queue is not None:
            reached = True
            if message.amqp10 is not None:
                channel.queues_of_links[name] = None
            queue.counters.publish += 1
            route.counters.publish_out += 1
            node.counters.routed += 1
            publisher = None if name in unheard else channel.serial
            taken = queues.enter(node, queue, message, body, uid, publisher)
            if not taken and not (channel.transactional and queue.definition.type == QUORUM):
                refused = refused or name
        elif node.release.commit_to_deleted_queue == "by queue type":
            reached = True
    if failed:
        raise amqp_errors.internal_error()
    if node.release.direct_replies_taken_by == "volatile queue":
        reached |= reply_to.deliver(node, vhost, message, body)
    if not reached:
        _unroutable(node, channel, route, body, uid, mandatory)
    return refused


def _unroutable(node: NodeState, channel: Channel, route: Route, body: bytes, uid: int, mandatory: bool) -> None:
    vhost, message = channel.connection.vhost, route.message
    if mandatory:
        if not message.writable and message.amqp10 is None:
            raise amqp_errors.internal_error()
        route.counters.return_unroutable += 1
        channel.returned += 1
        node.counters.unroutable_returned += 1
        node.out.append(Returned(channel.id, *amqp_errors.NO_ROUTE, message, body))
    else:
        route.counters.drop_unroutable += 1
        node.counters.unroutable_dropped += 1
    event = Event.RETURNED if mandatory else Event.UNROUTABLE
    if event in node.watched and (mandatory or not route.delays):
        delayed = f"{delays_text(route.delays)}, which counts as no queue" if route.delays else ""
        detail = delayed or dead_lettering.routed_text(message, None)
        node.happened(event, vhost, Copy(uid, message, body), detail=detail)


def move(node: NodeState, channel: Channel, message: Message, to: str | None, body: bytes) -> bool:
    """Put a message into the queue ``to``, or into those behind its exchange, without a client's publish.

    It keeps what the broker knows of it. Returns whether no queue refused it. Raises ``Refusal`` if there is no such
    exchange. Source: rabbit_local_shovel.erl (4.3).
    """
    vhost = channel.connection.vhost
    if to is None and message.exchange not in vhost.exchanges:
        raise amqp_errors.no_exchange(message.exchange, vhost.name)
    found = exchanges.routed(node, vhost, message, body) if to is None else Routed((to,))
    node.last_uid += 1
    node.delay(vhost, found.delays, body, node.last_uid)
    taken = True
    for queue in [vhost.queues[name] for name in found.queues if name in vhost.queues]:
        taken &= queues.enter(node, queue, message, body, node.last_uid, channel.serial)
    return taken


# Confirms and transactions


def select_confirms(node: NodeState, command: SelectConfirms) -> None:
    """Confirm the channel's publishes from now on (confirm.select)."""
    channel = node.channel(command.channel)
    if channel.transactional:
        raise amqp_errors.confirms_after_transactions()
    channel.confirms = True
    node.out.append(Done(channel.id, "confirm.select-ok"))


def select_transactions(node: NodeState, command: SelectTransactions) -> None:
    """Make the channel transactional (tx.select)."""
    channel = node.channel(command.channel)
    if channel.confirms:
        raise amqp_errors.transactions_after_confirms()
    channel.transactional = True
    node.out.append(Done(channel.id, "tx.select-ok"))


def commit(node: NodeState, command: Commit) -> None:
    """Carry out the publishes, then the acknowledgements, each in their order (tx.commit)."""
    channel = _transactional(node, command)
    publishings = [item for item in channel.pending_tx if isinstance(item, Publishing)]
    _check_targets(node, channel, publishings)
    unheard = _unheard(channel, publishings)
    refused = False
    channel.pending_tx = [item for item in channel.pending_tx if not isinstance(item, Publishing)]
    for item in publishings:
        refused |= bool(_distribute(node, channel, item.route, item.body, item.uid, item.mandatory, unheard))
    acknowledgements.commit(node, channel)
    if refused:
        raise amqp_errors.partial_commit()
    node.out.append(Done(channel.id, "tx.commit-ok"))


def _check_targets(node: NodeState, channel: Channel, publishings: list[Publishing]) -> None:
    """Refuse a commit to a queue that is gone, in releases that looked it up when the message was published."""
    how = node.release.commit_to_deleted_queue
    vhost = channel.connection.vhost
    targets = [target for item in publishings for target in zip(item.route.queues, item.types, strict=True)]
    for name, kind in [(name, kind) for name, kind in targets if name not in vhost.queues]:
        if how == "ends the connection":
            raise amqp_errors.commit_to_deleted_queue(name, vhost.name)
        if how == "by queue type" and kind == STREAM:
            raise amqp_errors.commit_to_deleted_stream(name, vhost.name)
        if how == "by queue type" and kind == CLASSIC:
            raise amqp_errors.partial_commit()


def _unheard(channel: Channel, publishings: list[Publishing]) -> set[str]:
    """Return the quorum queues that take publishes now: before one could say no, all of the commit is on its way."""
    unheard = set()
    for item in publishings:
        for name in item.route.queues:
            queue = channel.connection.vhost.queues.get(name)
            if queue is None or queue.definition.type != QUORUM or not queue.store.limited:
                continue
            copy = Copy(item.uid, item.route.message, item.body)
            if not queue.store.refuses(copy, internal=False, publisher=channel.serial):
                unheard.add(name)
    return unheard


def rollback(node: NodeState, command: Rollback) -> None:
    """Forget the publishes; acknowledged deliveries wait again (tx.rollback)."""
    channel = _transactional(node, command)
    pending, channel.pending_tx = channel.pending_tx, []
    acknowledgements.roll_back(node, channel, [item for item in pending if not isinstance(item, Publishing)])
    node.out.append(Done(channel.id, "tx.rollback-ok"))


def _transactional(node: NodeState, command: Commit | Rollback) -> Channel:
    channel = node.channel(command.channel)
    if not channel.transactional:
        raise amqp_errors.not_transactional()
    return channel


def publish_trace(node: NodeState, effect: Traced) -> None:
    """Publish a trace of the firehose: nothing is checked or confirmed."""
    vhost = node.vhosts.get(effect.vhost)
    if vhost is None:
        return
    try:
        reached = exchanges.routed(node, vhost, effect.trace, effect.body)
    except PublishRefusedError:
        return
    for name in reached.queues:
        queue = vhost.queues.get(name)
        if queue is not None:
            node.last_uid += 1
            queues.enter(node, queue, effect.trace, effect.body, node.last_uid)
