"""Which queues may have sent messages to a queue whose delivery limit they exceed: whoever gives one back kills it.

From 4.3 on a dead letter brings the count of its failed deliveries along, and the limit of the next queue counts
on from it. A message that died of a delivery limit of 20 has failed 21 times: where it comes to a quorum queue with
the same limit, which is the default of all, it lies there until somebody looks at it and gives it back.

Source: live, 4.3, by ``basic.nack``, through the management API and by the end of the channel alike.
"""

from __future__ import annotations

from collections.abc import Iterator

from dlx.message_flow import MessageFlow
from dlx.topology import QUORUM


def over_limit_from(flow: MessageFlow, queue: str) -> tuple[str, ...]:
    """Return the quorum queues whose dead letters may come to this queue with a greater count than its limit.

    What is asked is which exchanges they go through, not which keys they have.
    """
    settings = flow.settings(queue)
    limit = settings.delivery_limit
    counts_on = (
        flow.release.quorum_delivery_limit_counts == "failures" and flow.release.delivery_count_carried != "never"
    )
    if settings.queue.type != QUORUM or limit is None or not counts_on:
        return ()
    return tuple(name for name in flow.topology.queues if name != queue and _brings(flow, name, queue, limit))


def _brings(flow: MessageFlow, source: str, queue: str, limit: int) -> bool:
    settings = flow.settings(source)
    own = settings.delivery_limit
    exchange, key = settings.dead_letter_exchange, settings.dead_letter_routing_key
    if settings.queue.type != QUORUM or own is None or own < limit or exchange is None:
        return False
    if exchange == "":
        return key == queue
    return queue in _behind(flow, exchange, set())


def _behind(flow: MessageFlow, exchange: str, seen: set[str]) -> Iterator[str]:
    """Yield the queues that are bound to an exchange, or to those behind it."""
    seen.add(exchange)
    for binding in flow.topology.bindings.get(exchange, ()):
        if binding.destination_type == "queue":
            yield binding.destination
        elif binding.destination not in seen:
            yield from _behind(flow, binding.destination, seen)
