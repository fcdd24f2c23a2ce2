"""Narrows when consumers rejected: queues deliver in the order of arrival, so what came out later came in later.

A trace tells the second of a rejection, or only that it was between two rows. Two dead letters of the
same second came into their queue in the order in which they were delivered.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dlx.message_flow import MessageFlow
from simulator.replay.whatif.stories import Came, Delivery, Outcome, Story

_PRIORITIES = "x-max-priority"


def put_in_order(stories: Sequence[Story], flows: Mapping[str, MessageFlow]) -> None:
    """Move rejections to later moments, as far as the order of the deliveries behind them asks for it."""
    by_queue: defaultdict[tuple[str, str], list[_Arrival]] = defaultdict(list)
    for story in stories:
        for delivery in story.deliveries:
            if delivery.traced and delivery.came is not None:
                after = delivery.came.after
                sent = None if after is None else story.deliveries[after]
                by_queue[story.vhost, delivery.queue].append(_Arrival(delivery, delivery.came, sent))
    for (vhost, queue), arrivals in by_queue.items():
        if not _has_priorities(flows.get(vhost), queue):
            _put_in_order(sorted(arrivals, key=lambda each: (each.delivery.at_us, each.delivery.place)))


class _Arrival(NamedTuple):
    """A delivery, how it came into its queue, and the delivery whose end sent it there."""

    delivery: Delivery
    came: Came
    sent: Delivery | None


def _has_priorities(flow: MessageFlow | None, queue: str) -> bool:
    definition = None if flow is None else flow.topology.queues.get(queue)
    return definition is None or _PRIORITIES in definition.arguments


def _put_in_order(arrivals: Sequence[_Arrival]) -> None:
    latest = (0, 0.0)
    for _, came, sent in arrivals:
        if sent is None:
            latest = max(latest, (came.at_us, came.place))
            continue
        if sent.outcome == Outcome.REJECTED and not sent.observed:
            wanted = latest[0] - came.later_us, latest[1] + 0.25 if not came.later_us else 0.0
            if (sent.until_us, sent.until_place) < wanted and wanted[0] <= came.latest_us:
                sent.until_us, sent.until_place = wanted
        latest = max(latest, (sent.until_us + came.later_us, sent.until_place if not came.later_us else 0.0))
