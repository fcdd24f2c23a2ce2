"""How long a delivery may stay unacknowledged, and what happens then.

Until 4.2 the channel looks at its oldest delivery once a minute and closes itself
with an error. From 4.3 on only quorum queues care, each delivery to the
millisecond: it goes back to its queue, and its consumer is told that it is cancelled
but stays, deaf until it has acknowledged what timed out. A client that cannot be
told, because of basic.get or for want of the capability, loses its channel.

Source: rabbit_channel.erl evaluate_consumer_timeout (4.0.5), handle_queue_actions (4.3.5);
rabbit_fifo.erl evaluate_consumer_timeout (4.3.5).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dlx import amqp_errors
from dlx.releases import Release
from dlx.topology import QUORUM
from simulator.broker.commands import ChannelId
from simulator.broker.operations import connections, consumer_selection, consuming, queues
from simulator.broker.replies import ChannelClosed, ConsumerCancelled
from simulator.broker.state import Channel, Consumer, QueueState, Unacked, VirtualHost

if TYPE_CHECKING:
    from simulator.broker.broker import Broker

TICK_US = 60_000_000  # channel_tick_interval


def watch(broker: Broker, channel: Channel, unacked: Unacked) -> None:
    """A delivery went out: look at the channel again when it times out."""
    due_us = _due_us(broker, channel, unacked)
    if due_us is not None:
        _look_again(broker, channel, due_us)


def needs_watch(broker: Broker, consumer: Consumer) -> bool:
    """Whether a delivery may time out before its channel is looked at anyway; most have the default timeout."""
    return consumer.channel.timeout_due_us is None or consumer.timeout_ms != broker.release.consumer_timeout_ms


def _look_again(broker: Broker, channel: Channel, due_us: int) -> None:
    """Look at the channel then, or before: never later than what is delivered now would time out by default."""
    by_default_us = broker.now_us + (broker.release.consumer_timeout_ms or 0) * 1_000
    due_us = min(due_us, _noticed_us(broker, channel, by_default_us))
    due_us = max(due_us, _noticed_us(broker, channel, broker.now_us))
    if channel.timeout_due_us is None or due_us < channel.timeout_due_us:
        channel.timeout_due_us = due_us
        broker.timers.set(due_us, "acknowledgement", channel.id)  # not the channel, which may be gone long before


def due(broker: Broker, due_us: int, channel_id: ChannelId) -> None:
    """The time has come to look at the channel."""
    channel = broker.channels.get(channel_id)
    if channel is None or channel.timeout_due_us != due_us:
        return
    channel.timeout_due_us = None
    if broker.release.consumer_timeout_enforced_by == "channel":
        _look_at_oldest(broker, channel)
    else:
        _look_at_all(broker, channel)
    if broker.channels.get(channel.id) is not channel:
        return
    times = [_due_us(broker, channel, unacked) for unacked in channel.unacked.values() if not unacked.timed_out]
    soonest = min((time for time in times if time is not None), default=None)
    if soonest is not None:  # one that an older delivery shields is looked at with the next tick
        _look_again(broker, channel, max(soonest, _noticed_us(broker, channel, broker.now_us + 1)))


def _look_at_oldest(broker: Broker, channel: Channel) -> None:
    """Until 4.2: a delivery behind one with a longer timeout waits until that is settled."""
    oldest = next(iter(channel.unacked.values()), None)
    if oldest is not None and _is_late(broker, channel, oldest):
        broker.out.append(_closed(channel, _timeout_of(broker.release, oldest) or 0))
        connections.lose_channel(broker, channel)


def _look_at_all(broker: Broker, channel: Channel) -> None:
    late: dict[QueueState, list[Unacked]] = {}
    for unacked in channel.unacked.values():
        if _is_late(broker, channel, unacked):
            late.setdefault(unacked.queue, []).append(unacked)
    for queue, deliveries in late.items():
        if broker.channels.get(channel.id) is channel:
            _take_back(broker, channel, queue, deliveries)


def _take_back(broker: Broker, channel: Channel, queue: QueueState, late: list[Unacked]) -> None:
    """4.3: the deliveries go back to their queue, and their consumers are told, or their channel is lost."""
    closing = False
    for unacked in late:
        unacked.timed_out = True
        consumer = unacked.consumer
        if (
            consumer is None
            or consumer.tag not in channel.consumers
            or not consumer_selection.understands_cancel(channel)
        ):
            closing = True
            continue
        if not consumer.timed_out:
            broker.out.append(ConsumerCancelled(channel.id, consumer.tag))
        consumer.timed_out += 1
        consumer_selection.set_aside(queue, consumer)
        consumer_selection.step_down(queue, consumer, broker.release)
    queues.release(broker, queue, late)
    if closing:  # its consumers get nothing of what comes back
        broker.out.append(_closed(channel, -1))
        for consumer in channel.consumers.values():
            consuming.withdraw(broker, consumer)
    queues.requeue(broker, queue, [unacked.copy for unacked in late], "nack")
    if closing:
        connections.lose_channel(broker, channel)


def settled(broker: Broker, unacked: Unacked, how: str) -> None:
    """A delivery that had timed out is settled: only an acknowledgement brings its consumer back."""
    consumer = unacked.consumer
    if consumer is not None and how == "ack":
        consumer.timed_out -= 1
        if not consumer.timed_out and not consumer.queue.deleted:
            consumer_selection.unblock(consumer.queue, consumer.channel)
            queues.settled(broker, consumer.queue)


def _closed(channel: Channel, timeout: int) -> ChannelClosed:
    refusal = amqp_errors.acknowledgement_timeout(channel.number, timeout)
    return ChannelClosed(channel.id, refusal.code, refusal.text)


def reconsider(broker: Broker, vhost: VirtualHost) -> None:
    """A policy changed timeouts: channels that look at their queues' own see it at their next tick."""
    if broker.release.consumer_timeout_enforced_by == "channel":
        for queue in vhost.queues.values():
            for consumer in queue.consumers:
                consumer.timeout_ms = timeout_ms(broker.release, queue, {})
        for channel in broker.channels.values():
            if channel.unacked and channel.connection.vhost is vhost:
                _look_again(broker, channel, _noticed_us(broker, channel, broker.now_us + 1))


def timeout_ms(release: Release, queue: QueueState, arguments: Mapping[str, Any]) -> int | None:
    """How long deliveries from the queue to a consumer with these arguments may stay unacknowledged."""
    by = release.consumer_timeout_enforced_by
    if by == "nobody" or (by == "queue" and queue.definition.type != QUORUM):
        return None
    own = arguments.get("x-consumer-timeout") if by == "queue" else None
    if isinstance(own, int):
        return own
    configured = queue.settings.consumer_timeout_ms
    return release.consumer_timeout_ms if configured is None else configured


def _is_late(broker: Broker, channel: Channel, unacked: Unacked) -> bool:
    due_us = None if unacked.timed_out else _due_us(broker, channel, unacked)
    return due_us is not None and due_us <= broker.now_us


def _due_us(broker: Broker, channel: Channel, unacked: Unacked) -> int | None:
    """When somebody notices that the delivery is late."""
    timeout = _timeout_of(broker.release, unacked)
    if timeout is None:
        return None
    return _noticed_us(broker, channel, unacked.delivered_us + timeout * 1_000)


def _noticed_us(broker: Broker, channel: Channel, time_us: int) -> int:
    """When what is so from ``time_us`` on is noticed: by a queue at once, by a channel at its next tick."""
    if broker.release.consumer_timeout_enforced_by == "queue":
        return time_us
    ticks = -((channel.opened_us - time_us) // TICK_US)
    return channel.opened_us + ticks * TICK_US


def _timeout_of(release: Release, unacked: Unacked) -> int | None:
    """A quorum queue keeps to what was so when the consumer came, a channel looks at the policies now."""
    if release.consumer_timeout_enforced_by == "queue":
        return None if unacked.queue.deleted else unacked.timeout_ms
    return timeout_ms(release, unacked.queue, {})
