"""Where a log cannot tell an acknowledgement from a rejection: no trace shows what a rejected message became."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping
from typing import NamedTuple

from dlx.message import Message
from dlx.message_flow import MessageFlow
from simulator.analysis.slices import reached_by
from simulator.replay.results.summary import some_names
from simulator.whatif.playback_broker import QueueRef


class LastSeen(NamedTuple):
    """Where a message was delivered last, and under which address it was there."""

    vhost: str
    queue: str
    exchange: str
    routing_keys: tuple[str, ...]


def hidden_ends(
    ended: Mapping[LastSeen, int], flows: Mapping[str, MessageFlow], shown: Container[QueueRef]
) -> Iterator[str]:
    """Yield what nobody knows of last deliveries, in phrases.

    Args:
        ended: how many deliveries are the last that the log shows of their messages.
        flows: the virtual hosts of the log's own side.
        shown: the queues whose messages the log shows.
    """
    discarding: Counter[QueueRef] = Counter()
    rejecting: defaultdict[str, Counter[QueueRef]] = defaultdict(Counter)
    for last, count in ended.items():
        flow = flows.get(last.vhost)
        if flow is None or last.queue not in flow.topology.queues:
            continue
        ahead = _ahead(flow, last)
        if not ahead:
            discarding[last.vhost, last.queue] += count
        elif not any((last.vhost, name) in shown for name in ahead):
            rejecting[some_names(ahead)][last.vhost, last.queue] += count
    for into, counts in sorted(rejecting.items()):
        yield (
            f"whether the {counts.total():,} messages that ended in {_queues(counts)} were acknowledged, or"
            f" rejected into {into}, from which the log has no delivery (--left FILE shows what is there)"
        )
    if discarding:
        many = discarding.total()
        yield f"whether the {many:,} messages that ended in {_queues(discarding)} were acknowledged or discarded"


def _ahead(flow: MessageFlow, last: LastSeen) -> set[str]:
    """Return the queues that the message may come to if it is rejected, at once or later."""
    sent = flow.sent_on(last.queue, Message(exchange=last.exchange, routing_keys=last.routing_keys))
    return set() if sent is None else reached_by(flow, [sent.message])[0]


def _queues(counts: Mapping[QueueRef, int]) -> str:
    return some_names(queue for _, queue in counts)
