"""Narrows when consumers rejected or returned: queues deliver in the order of arrival, so what came out later came in
later.

A trace tells the second of a rejection, or only that it was between two rows. Two dead letters of the
same second came into their queue in the order in which they were delivered.

When a consumer returned a message no trace tells. It matters in a queue with a length limit, which was the fuller
meanwhile, and in one that puts what is requeued behind all else: there it is taken to have come back as early as it
can.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from dlx.message_flow import MessageFlow
from dlx.topology import QUORUM
from simulator.whatif.playback_broker import QueueRef
from simulator.whatif.stories import Came, ConsumerAction, Story, StoryDelivery

Moment = tuple[int, float]
"""A time, and a place among the rows of it."""
_PRIORITIES = "x-max-priority"
_BEHIND = 2**-10
"""So much behind a row that many have place before the next one."""


def put_in_order(stories: Iterable[Story], flows: Mapping[str, MessageFlow]) -> Iterator[Story]:
    """Move rejections to later moments, as far as the order of the deliveries behind them asks for it, and returns to
    earlier ones, as far as it allows them.

    ``stories`` come in the order in which they begin, and are yielded once their last delivery has been seen.
    """
    order, queues = count(), _QueueOrders(flows)
    ahead: list[tuple[int, float, int, Story, StoryDelivery]] = []
    for story in stories:
        began = story.began
        while ahead and ahead[0][:2] < began:
            yield from queues.see(*heapq.heappop(ahead)[-2:])
        arrivals = [each for each in story.deliveries if each.traced]
        if not arrivals:
            yield story
            continue
        queues.expect(story, arrivals)
        for each in arrivals:
            heapq.heappush(ahead, (each.at_us, each.place, next(order), story, each))
    while ahead:
        yield from queues.see(*heapq.heappop(ahead)[-2:])


class _Order(NamedTuple):
    """In which order a queue delivers.

    Attributes:
        of_arrival: in that of arrival, but for what was returned.
        returned_last: and what was returned behind all that was there.
        returned_early: whether it matters otherwise when it was returned.
    """

    of_arrival: bool
    returned_last: bool
    returned_early: bool


class _QueueOrders:
    """What has come into queues so far, and what is awaited: how many deliveries of each story are still to be seen."""

    def __init__(self, flows: Mapping[str, MessageFlow]) -> None:
        self._flows = flows
        self._orders: dict[QueueRef, _Order] = {}
        self._latest: dict[QueueRef, Moment] = {}
        self._back_after: dict[QueueRef, Moment] = {}
        self._undelivered: defaultdict[QueueRef, list[Moment]] = defaultdict(list)  # when they were published, sorted
        self._awaited: dict[int, int] = {}

    def expect(self, story: Story, arrivals: Sequence[StoryDelivery]) -> None:
        """Take note of the deliveries of a story, all of which will be seen."""
        self._awaited[id(story)] = len(arrivals)
        for delivery in arrivals:
            if delivery.came is not None and delivery.came.after is None and self._order(story, delivery).returned_last:
                insort(self._undelivered[story.vhost, delivery.queue], (delivery.came.at_us, delivery.came.place))

    def see(self, story: Story, delivery: StoryDelivery) -> Iterator[Story]:
        """Put what led to a delivery behind what led to those before it, and yield its story if that was the last."""
        order, came = self._order(story, delivery), delivery.came
        if order.returned_early:
            self._return_early(story, delivery, came)
        if came is not None and (order.returned_last if came.back else order.of_arrival):
            if order.returned_last and came.after is None:
                self._undelivered[story.vhost, delivery.queue].remove((came.at_us, came.place))
            if not came.back or not self._was_first(story, delivery, came):
                self._put_in_order(story, delivery, came)
        self._awaited[id(story)] -= 1
        if not self._awaited[id(story)]:
            del self._awaited[id(story)]
            yield story

    def _order(self, story: Story, delivery: StoryDelivery) -> _Order:
        """Return in which order the queue of a delivery delivers."""
        queue = story.vhost, delivery.queue
        order = self._orders.get(queue)
        if order is None:
            order = self._orders[queue] = _order(self._flows.get(story.vhost), delivery.queue)
        return order

    def _was_first(self, story: Story, delivery: StoryDelivery, came: Came) -> bool:
        """Tell whether a message came back before what had been published before: then its channel was lost."""
        sent = story.deliveries[came.after or 0]
        undelivered = self._undelivered[story.vhost, delivery.queue]
        first = bool(undelivered) and undelivered[0] < (sent.at_us, sent.place)
        if first and not sent.observed:
            sent.action = ConsumerAction.CRASHED
        return first

    def _put_in_order(self, story: Story, delivery: StoryDelivery, came: Came) -> None:
        queue = story.vhost, delivery.queue
        latest = self._latest.get(queue, (0, 0.0))
        if came.after is None:
            self._latest[queue] = max(latest, (came.at_us, came.place))
            return
        sent = story.deliveries[came.after]
        if came.back:
            if not sent.observed:
                sent.until_us, sent.until_place = max(latest, (sent.at_us, sent.place))
                sent.until_place += _BEHIND
        elif sent.rejected and not sent.observed:
            wanted = latest[0] - came.later_us, latest[1] + _BEHIND if not came.later_us else 0.0
            if (sent.until_us, sent.until_place) < wanted and wanted[0] <= came.latest_us:
                sent.until_us, sent.until_place = wanted
        self._latest[queue] = max(latest, (sent.until_us + came.later_us, 0.0 if came.later_us else sent.until_place))

    def _return_early(self, story: Story, delivery: StoryDelivery, came: Came | None) -> None:
        """Let a consumer return a message as early as it can have.

        A quorum queue delivers what was returned before all else, and in the order in which it was returned: so it
        came back after those returned before it, and after any other delivery until it was delivered again.
        """
        queue = story.vhost, delivery.queue
        after = self._back_after.get(queue, (0, 0.0))
        moment = delivery.at_us, delivery.place
        if came is not None and came.back and came.after is not None:
            sent = story.deliveries[came.after]
            moment = max(after, (sent.at_us, sent.place))
            if not sent.observed:
                sent.until_us, sent.until_place = moment[0], moment[1] + _BEHIND
        self._back_after[queue] = max(after, moment)


def _order(flow: MessageFlow | None, name: str) -> _Order:
    """Return in which order a queue delivers."""
    if flow is None or name not in flow.topology.queues:
        return _Order(of_arrival=False, returned_last=False, returned_early=False)
    settings = flow.settings(name)
    drops_head = settings.has_length_limit and not settings.refuses_when_full
    last = settings.requeues_at_back and not drops_head  # else it makes room for itself, and nobody knows when
    early = settings.queue.type == QUORUM and settings.has_length_limit and not last
    return _Order(_PRIORITIES not in settings.queue.arguments, last, early)
