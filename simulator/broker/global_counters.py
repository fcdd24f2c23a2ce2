"""Reads the global counters of a node: what it has received, delivered and dead-lettered since it started."""

from __future__ import annotations

from collections.abc import Iterator

from dlx.global_counters import Series, accounts, by_protocol, of_queues
from simulator.broker.state import Counters, NodeState

PROTOCOL = "amqp091"
"""The protocol that clients speak here."""
_OF_NODE = (
    "received", "received_confirm", "routed", "unroutable_dropped", "unroutable_returned", "confirmed",
)  # fmt: skip


def global_counters(node: NodeState) -> dict[Series, int]:
    """Return all global counters of the node's release; those that have counted nothing are 0."""
    numbers = dict.fromkeys(by_protocol(node.release), 0)
    if not numbers:
        return {}
    counted = node.counters
    numbers |= {Series(f"messages_{name}", (("protocol", PROTOCOL),)): getattr(counted, name) for name in _OF_NODE}
    for kind, counters in _by_queue_type(node):
        for name, count in _of_queues(counters).items():
            numbers[of_queues(name, kind, PROTOCOL)] += count
    for account in accounts(node.release):
        numbers[account.series] = counted.dead_letters.get(account, 0)
    return numbers


def _by_queue_type(node: NodeState) -> Iterator[tuple[str, Counters]]:
    yield from node.counters.gone.items()
    for vhost in node.vhosts.values():
        for queue in vhost.queues.values():
            yield queue.definition.type, queue.counters


def _of_queues(counters: Counters) -> dict[str, int]:
    """Return the counts under their names in RabbitMQ's global counters."""
    consumed = counters.deliver + counters.deliver_no_ack
    return {
        "delivered": consumed + counters.get + counters.get_no_ack,
        "delivered_consume_manual_ack": counters.deliver,
        "delivered_consume_auto_ack": counters.deliver_no_ack,
        "delivered_get_manual_ack": counters.get,
        "delivered_get_auto_ack": counters.get_no_ack,
        "get_empty": counters.get_empty,
        "redelivered": counters.redeliver,
        "acknowledged": counters.ack,
    }
