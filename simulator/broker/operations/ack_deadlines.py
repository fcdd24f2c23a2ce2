"""Tells how long a delivery may stay unacknowledged, and when somebody notices that it is late.

Until 4.2 the channel looks at its oldest delivery once a minute. From 4.3 on only
quorum queues care, each delivery to the millisecond. ``ack_timeouts`` acts on a late delivery.

Source: rabbit_channel.erl evaluate_consumer_timeout (4.0.5); rabbit_fifo.erl evaluate_consumer_timeout (4.3.5).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dlx.releases import Release
from dlx.topology import QUORUM
from simulator.broker.state import Channel, Consumer, NodeState, QueueState, Unacked


def watch(node: NodeState, channel: Channel, unacked: Unacked) -> None:
    """Look at the channel when a delivery that has just gone out will time out."""
    due_us = late_us(node, channel, unacked)
    if due_us is not None:
        look_again(node, channel, due_us)


def needs_watch(node: NodeState, consumer: Consumer) -> bool:
    """Return whether a delivery may time out before its channel is looked at anyway; most have the default timeout."""
    timeout_ms = consumer.timeout_ms
    if timeout_ms is None:
        return False
    return consumer.channel.timeout_due_us is None or timeout_ms != node.release.consumer_timeout_ms


def look_again(node: NodeState, channel: Channel, due_us: int) -> None:
    """Look at the channel by ``due_us``, and no later than a delivery of now would time out by default."""
    default_ms = node.release.consumer_timeout_ms
    if default_ms is not None:
        due_us = min(due_us, noticed_us(node, channel, node.now_us + default_ms * 1_000))
    due_us = max(due_us, noticed_us(node, channel, node.now_us))
    if channel.timeout_due_us is None or due_us < channel.timeout_due_us:
        channel.timeout_due_us = due_us
        node.timers.set(due_us, "acknowledgement", channel.id)  # not the channel, which may be gone long before


def reconsider(node: NodeState, queue: QueueState) -> None:
    """Have channels that go by the timeout of their queue see at their next tick that a policy changed it."""
    if node.release.consumer_timeout_enforced_by == "channel":
        for consumer in queue.consumers:
            consumer.timeout_ms = timeout_ms(node.release, queue, {})
        for channel in node.channels.values():
            if channel.unacked and channel.connection.vhost is queue.vhost:
                look_again(node, channel, noticed_us(node, channel, node.now_us + 1))


def timeout_ms(release: Release, queue: QueueState, arguments: Mapping[str, Any]) -> int | None:
    """Return how long deliveries to a consumer with these arguments may stay unacknowledged; ``None``: for ever."""
    by = release.consumer_timeout_enforced_by
    if by == "nobody" or (by == "queue" and queue.definition.type != QUORUM):
        return None
    own = arguments.get("x-consumer-timeout") if by == "queue" else None
    if isinstance(own, int):
        return own
    configured = queue.settings.consumer_timeout_ms
    return release.consumer_timeout_ms if configured is None else configured


def is_late(node: NodeState, channel: Channel, unacked: Unacked) -> bool:
    due_us = None if unacked.timed_out else late_us(node, channel, unacked)
    return due_us is not None and due_us <= node.now_us


def late_us(node: NodeState, channel: Channel, unacked: Unacked) -> int | None:
    """Return when somebody notices that the delivery is late; ``None``: never."""
    timeout = timeout_of(node.release, unacked)
    if timeout is None:
        return None
    return noticed_us(node, channel, unacked.delivered_us + timeout * 1_000)


def noticed_us(node: NodeState, channel: Channel, time_us: int) -> int:
    """Return when somebody notices what is so from ``time_us`` on: a channel at its next tick, a queue at once.

    Its clock counts milliseconds: what went out in the same one is late together.
    """
    if node.release.consumer_timeout_enforced_by == "queue":
        return time_us - time_us % 1_000
    ticks = -((channel.opened_us - time_us) // node.channel_tick_us)
    return channel.opened_us + ticks * node.channel_tick_us


def timeout_of(release: Release, unacked: Unacked) -> int | None:
    """Return the timeout in ms: a quorum queue keeps that of the subscription, a channel takes the queue's of now."""
    if release.consumer_timeout_enforced_by == "queue":
        return None if unacked.queue.deleted else unacked.timeout_ms
    return timeout_ms(release, unacked.queue, {})
