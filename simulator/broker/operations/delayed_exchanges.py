"""Messages wait for the end of their delay, and are routed then by the bindings that there are by that time.

What waits belongs to the names of the virtual host and of the exchange, which may be
deleted and made again.

Source: rabbit_delayed_message.erl; live servers.
"""

from __future__ import annotations

from dlx import dead_lettering
from dlx.message import Message, PublishRefusedError
from dlx.policies import choose_policy
from dlx.streams import can_keep
from dlx.topology import STREAM
from simulator.broker.copies import Copy
from simulator.broker.operations import exchanges, queues
from simulator.broker.state import DelayedMessage, NodeState, QueueState, VirtualHost
from simulator.events import Event


def due(node: NodeState, _due_us: int, waiting: DelayedMessage) -> None:
    """Route a message whose delay is over."""
    delay, place = waiting.delay, (waiting.vhost, waiting.delay.exchange.name)
    del node.delayed[place][waiting]
    if not node.delayed[place]:
        del node.delayed[place]
    vhost = node.vhosts.get(waiting.vhost) or VirtualHost(waiting.vhost)  # deleted: nothing is bound
    try:
        found = exchanges.routed(node, vhost, delay.message, waiting.body, after=delay).queues
    except PublishRefusedError:
        found = ()
    reached = [vhost.queues[name] for name in found]
    if node.watched:
        _report(node, vhost, waiting, gone=not reached)
    for queue in reached:
        vhost.counters_of(delay.exchange.name).publish_out += 1
        _enter(node, queue, delay.message, waiting)


def _report(node: NodeState, vhost: VirtualHost, waiting: DelayedMessage, *, gone: bool) -> None:
    name, copy = waiting.delay.exchange.name, Copy(waiting.uid, waiting.delay.message, waiting.body)
    if Event.RELEASED in node.watched:
        node.happened(Event.RELEASED, vhost, copy, detail=f"in the exchange '{name}'")
    if gone and Event.DROPPED in node.watched:
        detail = f"the exchange '{name}' had delayed it, and then no queue was bound"
        node.happened(Event.DROPPED, vhost, copy, detail=detail)


def _enter(node: NodeState, queue: QueueState, message: Message, waiting: DelayedMessage) -> None:
    release = node.release
    if queue.definition.type == STREAM and not (release.stream_takes_dead_letters and can_keep(message, release)):
        if Event.DROPPED in node.watched:
            copy = Copy(waiting.uid, message, waiting.body)
            node.happened(Event.DROPPED, queue, copy, detail=dead_lettering.stream_drops(queue.name))
        return
    queue.counters.publish += 1
    queues.enter(node, queue, message, waiting.body, waiting.uid)


def messages_delayed(node: NodeState, vhost: VirtualHost, exchange: str) -> int:
    """Return how many messages the management API says that an exchange delays."""
    waiting = node.delayed.get((vhost.name, exchange), {})
    if node.release.delayed_messages_counted == "by name":
        return len(waiting)
    now = vhost.exchanges[exchange]
    policy = choose_policy(now, vhost.topology.policies, node.release).policy
    return sum(each.delay.exchange == now and each.delay.policy == policy for each in waiting)
