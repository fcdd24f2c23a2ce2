"""Dynamic shovels: they consume from one queue of the node and publish to another, or to an exchange.

A shovel is a client like any other: it has a channel at its source and one at its destination, and what it does on them
goes through the operations that clients' commands go through. It lives in the broker, and not in the server, so that
snapshots have it, time decides when it connects again, and everything that plays a broker plays its shovels.
Deliveries come to it as effects, in the order in which other processes hear of each other.

It moves a message in no time. A message that its destination refuses comes back to the source after ``REFUSED_US``: a
server's shovel goes round as fast as the machine lets it. A shovel with an end at one of the node's peers is moved by
who drives the broker (``simulator.server.shovels_to_peers``), which reports on it; other servers are not reached.

Source: rabbit_shovel_worker.erl, rabbit_amqp091_shovel.erl, rabbit_local_shovel.erl; live servers of 3.8, 3.10, 4.0 and
4.3 with the plugin.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dlx import amqp_errors, passwords
from dlx.amqp_errors import Refusal
from dlx.message import Message
from dlx.shovels import LOCAL_HOSTS, ShovelDefinition, ShovelUri, check_shovel, shovelled_properties
from simulator.broker.commands import (
    Ack,
    BindQueue,
    CloseConnection,
    Consume,
    DeclareQueue,
    Nack,
    OpenChannel,
    Publish,
    Qos,
    ReportShovel,
    SelectConfirms,
)
from simulator.broker.effects import Shovelled, ShovelLost
from simulator.broker.operations import acknowledgements, connections, consumers, declaring, publishing
from simulator.broker.replies import Delivered, Refused, Reply, delivered_properties
from simulator.broker.state import Channel, Connection, NodeState, Permissions, User, VirtualHost
from simulator.broker.state.virtual_hosts import Shovel

REFUSED_US = 100_000
_CAPABILITIES = {"capabilities": {"consumer_cancel_notify": True}}


# The parameter


def set_shovel(node: NodeState, vhost: VirtualHost, name: str, value: Any, user: str | None) -> None:
    """Set a shovel's parameter, and start the shovel anew if it has changed. Raises ``OperatorError``.

    ``user`` is who sets it over HTTP: that user must have access to the virtual hosts of the node that it names.
    """

    def refused(entered: str) -> str | None:
        known = node.users.get(user) if user is not None else None
        return None if user is None or (known is not None and entered in known.permissions) else user

    check_shovel(name, value, node.release, refused)
    if name in vhost.shovels and vhost.shovels[name].value == value:
        return
    clear_shovel(node, vhost, name)
    vhost.shovels[name] = shovel = Shovel(vhost.name, name, dict(value), since_us=node.now_us)
    node.agenda.append(ShovelLost(vhost.name, shovel))


def clear_shovel(node: NodeState, vhost: VirtualHost, name: str) -> None:
    """Stop a shovel, if there is one of that name, and remove its parameter."""
    shovel = vhost.shovels.pop(name, None)
    if shovel is not None:
        _disconnect(node, shovel)


def restart(node: NodeState, vhost: VirtualHost, name: str) -> None:
    """Connect a shovel anew."""
    shovel = vhost.shovels[name]
    _disconnect(node, shovel)
    shovel.state, shovel.starts_us, shovel.restarted = "starting", None, False
    node.agenda.append(ShovelLost(vhost.name, shovel))


def clear_all(node: NodeState, vhost: VirtualHost) -> None:
    """Stop the shovels of a virtual host that goes."""
    for name in list(vhost.shovels):
        clear_shovel(node, vhost, name)


def report(node: NodeState, shovel: Shovel, told: ReportShovel) -> None:
    """Note what has become of a shovel between the node and a peer. The last message ends it."""
    if told.left == 0:
        _end(node, shovel)
        return
    if shovel.state != told.state:
        shovel.since_us = node.now_us
    shovel.state, shovel.reason, shovel.forwarded, shovel.left = told.state, told.reason, told.forwarded, told.left


def _check_reached(node: NodeState, shovel: Shovel, uri: ShovelUri) -> None:
    """Raise ``Refusal`` for an address that is neither the node's nor a peer's, or not of AMQP 0-9-1."""
    if "amqp10" in (shovel.value.get("src-protocol"), shovel.value.get("dest-protocol")):
        raise amqp_errors.shovel_of_amqp_1_0()
    if uri.host not in LOCAL_HOSTS and uri.host != node.name.rpartition("@")[2] and uri.server not in node.peers:
        raise amqp_errors.shovel_to_another_server(uri.shown, uri.server)


def _is_there(node: NodeState, shovel: Shovel) -> bool:
    vhost = node.vhosts.get(shovel.vhost)
    return vhost is not None and vhost.shovels.get(shovel.name) is shovel


# It connects


def lost(node: NodeState, effect: ShovelLost) -> None:
    """Connect a new shovel, or note that a running one has lost a connection, and when it connects again."""
    shovel = effect.shovel
    if not _is_there(node, shovel):
        return
    if shovel.state == "starting":
        _start(node, shovel)
    elif shovel.state == "running" and shovel.starts_us is None:
        _terminate(node, shovel, "needed a restart")


def due(node: NodeState, due_us: int, shovel: Shovel) -> None:
    """Connect again, or give back what the destination has refused."""
    if not _is_there(node, shovel):
        return
    if shovel.starts_us == due_us:
        _start(node, shovel)
    elif shovel.refused and shovel.source is not None:
        tags, shovel.refused = shovel.refused, []
        for tag in tags:
            if tag in shovel.source.unacked:
                acknowledgements.nack(node, Nack(shovel.source.id, tag))


def _start(node: NodeState, shovel: Shovel) -> None:
    definition = shovel.definition
    shovel.starts_us, shovel.forwarded = None, 0
    try:
        for uri in (definition.source, definition.destination):
            _check_reached(node, shovel, uri)
        if definition.reaches(node.peers):
            return
        shovel.destination = _connect(node, shovel, "destination", definition.destination)
        _prepare_destination(node, shovel, definition)
        shovel.source = _connect(node, shovel, "source", definition.source)
        _prepare_source(node, shovel, definition)
        if shovel.left != 0:
            _consume(node, shovel, definition)
    except Refusal as refusal:
        _disconnect(node, shovel)
        _terminate(node, shovel, f'<<"{refusal.text}">>')
        return
    shovel.state, shovel.reason, shovel.since_us = "running", "", node.now_us
    if shovel.left == 0:
        _end(node, shovel)


def _terminate(node: NodeState, shovel: Shovel, reason: str) -> None:
    """Stop a shovel that failed. It connects again: the first time at once, later after its ``reconnect-delay``."""
    _disconnect(node, shovel)
    wait_s = shovel.definition.reconnect_s
    if wait_s and not shovel.restarted:
        shovel.state, shovel.restarted = "starting", True
        node.agenda.append(ShovelLost(shovel.vhost, shovel))
        return
    shovel.state, shovel.reason, shovel.since_us = "terminated", reason, node.now_us
    if wait_s:
        shovel.starts_us = node.now_us + round(wait_s * 1_000_000)
        node.timers.set(shovel.starts_us, "shovel", shovel)


def _connect(node: NodeState, shovel: Shovel, side: str, uri: ShovelUri) -> Channel:
    """Open a connection with one channel. Raises ``Refusal``."""
    vhost, user = node.vhosts.get(uri.vhost), _user(node, uri)
    if vhost is None:
        raise amqp_errors.no_vhost(uri.vhost)
    if uri.vhost not in user.permissions:
        raise amqp_errors.vhost_refused(uri.vhost, user.name)
    key = ("shovel", shovel.vhost, shovel.name, side, node.next_serial())
    name = f"Shovel {shovel.name}"
    connection = Connection(key, vhost, user, name, _CAPABILITIES, node.now_us, limited=False)
    node.connections[key] = connection
    _carry_out(node, connections.open_channel, OpenChannel((key, 1)))
    channel = node.channels[key, 1]
    channel.shovel = shovel
    return channel


def _user(node: NodeState, uri: ShovelUri) -> User:
    """Return who connects: without a name in the address it is the node itself, which may do everything."""
    if uri.user is None and not uri.host:
        everything = {name: Permissions(".*", ".*", ".*") for name in node.vhosts}
        return User("none", tags=("impersonator",), permissions=everything)
    name, password = (uri.user, uri.password) if uri.user is not None else ("guest", "guest")
    user = node.users.get(name)
    if user is None or not passwords.is_password(password, user.password_hash, user.hashing_algorithm):
        raise amqp_errors.shovel_login_refused(name, uri.shown)
    return user


def _prepare_destination(node: NodeState, shovel: Shovel, definition: ShovelDefinition) -> None:
    channel, value = _open(shovel.destination), definition.value
    if definition.to_queue is not None:
        _declare(node, channel, definition.to_queue, value.get("dest-queue-args"), value.get("dest-predeclared", False))
    if definition.ack_mode == "on-confirm":
        _carry_out(node, publishing.select_confirms, SelectConfirms(channel.id))


def _prepare_source(node: NodeState, shovel: Shovel, definition: ShovelDefinition) -> None:
    channel, value = _open(shovel.source), definition.value
    if definition.queue:
        _declare(node, channel, definition.queue, value.get("src-queue-args"), value.get("src-predeclared", False))
        shovel.queue = definition.queue
    else:
        _carry_out(node, declaring.declare_queue, DeclareQueue(channel=channel.id, exclusive=True))
        shovel.queue = channel.last_queue
        binding = BindQueue(channel.id, shovel.queue, definition.exchange, definition.key)
        _carry_out(node, declaring.bind_queue, binding)
    if definition.delete_after == "queue-length":
        shovel.left = channel.connection.vhost.queues[shovel.queue].store.ready
    else:
        shovel.left = definition.delete_after


def _open(channel: Channel | None) -> Channel:
    assert channel is not None
    return channel


def _declare(
    node: NodeState, channel: Channel, queue: str, arguments: Mapping[str, Any] | None, predeclared: bool
) -> None:
    """Declare a queue that is missing; one that is there may have other arguments."""
    if queue in channel.connection.vhost.queues or predeclared:
        _carry_out(node, declaring.declare_queue, DeclareQueue(channel=channel.id, queue=queue, passive=True))
    else:
        asked = DeclareQueue(channel=channel.id, queue=queue, durable=True, arguments=arguments or {})
        _carry_out(node, declaring.declare_queue, asked)


def _consume(node: NodeState, shovel: Shovel, definition: ShovelDefinition) -> None:
    channel, value = _open(shovel.source), definition.value
    _carry_out(node, consumers.qos, Qos(channel.id, min(definition.prefetch, 0xFFFF)))
    consume = Consume(
        channel=channel.id,
        queue=shovel.queue,
        no_ack=definition.ack_mode == "no-ack",
        arguments=value.get("src-consumer-args") or {},
    )
    _carry_out(node, consumers.consume, consume)


def _carry_out(node: NodeState, operation: Any, command: Any) -> list[Reply]:
    """Do as for a client's command, and return the answers to it: no client waits for them. Raises ``Refusal``."""
    before = len(node.out)
    try:
        operation(node, command)
    finally:
        new, node.out[before:] = node.out[before:], []
        answers: list[Reply] = []
        for each in new:
            if isinstance(each, Reply) and getattr(each, "channel", None) == command.channel:
                answers.append(each)
            else:
                node.out.append(each)
    return answers


def _disconnect(node: NodeState, shovel: Shovel) -> None:
    """Close the connections; what was not acknowledged goes back to its queue."""
    ends = [channel for channel in (shovel.source, shovel.destination) if channel is not None]
    shovel.source = shovel.destination = None
    shovel.refused = []
    for channel in ends:
        channel.shovel = None
        connections.close_connection(node, CloseConnection(channel.connection.id))


def _end(node: NodeState, shovel: Shovel) -> None:
    """Remove a shovel that has done what it was to do."""
    clear_shovel(node, node.vhosts[shovel.vhost], shovel.name)


# It moves messages


def shovelled(node: NodeState, effect: Shovelled) -> None:
    """Publish a delivery, and settle it as the shovel's mode of acknowledgement says."""
    shovel, delivered = effect.shovel, effect.delivered
    source, destination = shovel.source, shovel.destination
    if not _is_there(node, shovel) or source is None or source.id != delivered.channel or destination is None:
        return
    definition = shovel.definition
    if destination.id not in node.channels:  # closed: the shovel goes on taking messages, and publishes none
        _lose(node, shovel, definition, source, delivered)
        return
    try:
        taken = _forward(node, shovel, destination, definition, delivered)
    except Refusal as refusal:
        _lose(node, shovel, definition, source, delivered)
        if refusal.ends_connection or node.release.shovel_ends_with_channel:
            if _is_there(node, shovel):
                _terminate(node, shovel, f'<<"{refusal.text}">>')
        else:  # its channel is closed, which it does not notice
            destination.shovel = None
            connections.lose_channel(node, destination)
        return
    if taken:
        _settle(node, shovel, definition, source, delivered)
    else:
        shovel.refused.append(delivered.delivery_tag)
        node.timers.set(node.now_us + REFUSED_US, "shovel", shovel)
        _count(node, shovel)


def _lose(node: NodeState, shovel: Shovel, definition: ShovelDefinition, source: Channel, delivered: Delivered) -> None:
    """Settle a message that could not be published, unless its shovel waits for the confirm."""
    if definition.ack_mode != "on-confirm":
        _settle(node, shovel, definition, source, delivered)


def _settle(
    node: NodeState, shovel: Shovel, definition: ShovelDefinition, source: Channel, delivered: Delivered
) -> None:
    if definition.ack_mode != "no-ack":
        acknowledgements.ack(node, Ack(source.id, delivered.delivery_tag))
    _count(node, shovel)


def _count(node: NodeState, shovel: Shovel) -> None:
    """Count a message, taken or refused; the last one ends the shovel."""
    shovel.forwarded += 1
    if shovel.left is not None:
        shovel.left -= 1
        if shovel.left == 0:
            _end(node, shovel)


def _forward(
    node: NodeState, shovel: Shovel, destination: Channel, definition: ShovelDefinition, delivered: Delivered
) -> bool:
    """Publish a message at the destination; return whether it was taken, or that is not asked."""
    if definition.local:
        taken = publishing.move(
            node, destination, _addressed(definition, delivered.message), definition.to_queue, delivered.body
        )
        return taken or definition.ack_mode != "on-confirm"
    publish = Publish(
        destination.id,
        definition.to_exchange if definition.to_queue is None else "",
        definition.to_key if definition.to_key is not None else delivered.message.routing_keys[0],
        _properties(node, shovel, definition, delivered),
        delivered.body,
        encoded=bool(definition.destination.host),  # without a host there is no connection over the network
    )
    answers = _carry_out(node, publishing.publish, publish)
    return not any(isinstance(answer, Refused) for answer in answers)


def _properties(
    node: NodeState, shovel: Shovel, definition: ShovelDefinition, delivered: Delivered
) -> Mapping[str, Any]:
    properties = delivered_properties(delivered.message, node.release, delivered.added)
    return shovelled_properties(definition, properties, shovel.name, shovel.vhost, node.cluster_name, node.now_us)


def _addressed(definition: ShovelDefinition, message: Message) -> Message:
    """Return a message that moves inside the node as it comes to the destination's exchange, or queue."""
    if definition.to_queue is not None:
        return message
    keys = message.routing_keys if definition.to_key is None else (definition.to_key,)
    return msgspec.structs.replace(message, exchange=definition.to_exchange, routing_keys=keys)
