"""Direct reply-to: answers to a channel without a queue.

A client consumes from the pseudo-queue ``amq.rabbitmq.reply-to`` and publishes with
that as ``reply_to``; the broker replaces it by a key that leads back to the channel.

Source: rabbit_channel.erl, rabbit_volatile_queue.erl, rabbit_direct_reply_to.erl.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dlx import amqp_errors
from dlx.global_counters import VOLATILE
from dlx.message import Message
from dlx.releases import Release
from dlx.routing import REPLY_TO
from dlx.topology import Binding
from simulator.broker.commands import Consume
from simulator.broker.operations import deliveries
from simulator.broker.replies import Consuming, Delivered, QueueDeclared
from simulator.broker.state import Channel, NodeState, VirtualHost

_ANSWERS = f"{REPLY_TO}."  # what a key of an answer begins with


def is_reply_queue(name: str) -> bool:
    """Return whether it names the pseudo-queue or the key of an answer."""
    return name.startswith(REPLY_TO)


def consume(node: NodeState, channel: Channel, command: Consume) -> None:
    """Let a channel take answers: one consumer for each channel, without acknowledgements."""
    if command.consumer_tag in channel.consumers:
        raise amqp_errors.consumer_tag_in_use(command.consumer_tag)
    if not command.no_ack:
        raise amqp_errors.reply_consumer_with_acknowledgements()
    if channel.reply_consumer is not None:
        raise amqp_errors.second_reply_consumer()
    channel.reply_consumer = command.consumer_tag or node.generated_name("amq.ctag")
    node.reply_keys.pop(channel.reply_key, None)
    channel.reply_key = node.generated_name(f"{REPLY_TO}.g1h")
    node.reply_keys[channel.reply_key] = channel.id
    node.out.append(Consuming(channel.id, channel.reply_consumer))


def resolved(channel: Channel, properties: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the properties of a publish, its ``reply_to`` replaced by the channel's own key."""
    if properties.get("reply_to") != REPLY_TO:
        return properties
    if channel.reply_consumer is None:
        raise amqp_errors.no_reply_consumer()
    return {**properties, "reply_to": channel.reply_key}


def deliver(node: NodeState, vhost: VirtualHost, message: Message, body: bytes) -> bool:
    """Hand an answer to the channels that its keys lead to, CC and BCC among them; return whether it counts as routed.

    Only the default exchange knows these keys.
    """
    if message.exchange:
        return False
    by_queue = node.release.direct_replies_taken_by == "volatile queue"
    routed = False
    for key in dict.fromkeys(message.routing_keys):
        if key.startswith(_ANSWERS):
            _hand_over(node, vhost, key, message, body, by_queue=by_queue)
            node.counters.routed += by_queue
            routed = by_queue
    return routed


def _hand_over(node: NodeState, vhost: VirtualHost, key: str, message: Message, body: bytes, *, by_queue: bool) -> None:
    """Hand an answer to the channel that waits for it under this key, if one does."""
    channel = _waiting(node, key)
    if channel is None or channel.reply_consumer is None or channel.connection.vhost is not vhost:
        return
    tag = channel.next_delivery_tag
    channel.next_delivery_tag = tag + by_queue
    if deliveries.can_write(node, channel, message):
        node.out.append(Delivered(channel.id, channel.reply_consumer, tag, False, message, body))
    if by_queue:
        node.counters.of_type(VOLATILE).deliver_no_ack += 1


def _waiting(node: NodeState, key: str) -> Channel | None:
    """Return the channel that takes answers under this key."""
    channel = node.channels.get(node.reply_keys.get(key, (None, 0)))
    return channel if channel is not None and channel.reply_key == key and channel.reply_consumer else None


def declare(node: NodeState, channel: Channel, name: str) -> None:
    """Answer queue.declare for a key of answers; refuse it unless a channel still waits for answers under that key."""
    if name != REPLY_TO and _waiting(node, name) is None:
        raise amqp_errors.no_queue(name, channel.connection.vhost.name)
    channel.last_queue = name
    node.out.append(QueueDeclared(channel.id, name, 0, 1))


def check_binding(binding: Binding, release: Release) -> None:
    """Refuse to bind the volatile queue of an answer, in releases that have such queues."""
    refused = binding.destination_type == "queue" and release.direct_replies_taken_by == "volatile queue"
    if refused and binding.destination.startswith(_ANSWERS):
        raise amqp_errors.binding_of_volatile_queue()


def check_use(node: NodeState, channel: Channel, name: str, method: str) -> None:
    """Refuse what a volatile queue cannot do."""
    if node.release.direct_replies_taken_by != "volatile queue" or _waiting(node, name) is None:
        return
    vhost = channel.connection.vhost.name
    if method == "basic.get":
        raise amqp_errors.get_from_volatile_queue(name, vhost)
    raise amqp_errors.volatile_queue_of_another_channel(name, vhost)
