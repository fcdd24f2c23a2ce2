"""Reads stories from a replayed log: the deaths that the replay found tell what consumers did with their deliveries.

A path that begins with a rejection in a queue says that the delivery from there was rejected;
one that leads from a delivery to the same queue again, that it was returned. What nothing
follows was the end: acknowledged, or rejected where nothing takes a dead letter.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec

from dlx.deaths import DELIVERY_LIMIT, EXPIRED, MAXLEN, REJECTED, X_DEATH
from dlx.delivery_counts import COUNT_HEADERS, X_DELIVERY_COUNT
from dlx.field_values import Timestamp
from dlx.message_flow import MessageFlow
from dlx.releases import Release
from dlx.settings import expires_messages
from dlx.topology import CLASSIC
from simulator.events import Event
from simulator.replay.rows.assumptions import TOLERANCE_MS
from simulator.replay.search.visible_state import bcc_keys
from simulator.whatif.log_rows import Row
from simulator.whatif.stories import Came, ConsumerAction, Publication, Shown, Story, StoryDelivery

SURELY_US = 1_000
"""So long before its TTL is over a message is there for certain: brokers count milliseconds."""
UNTRACED_MAX = 100
"""Deliveries in a row that are taken to be missing in the log."""
_SETTLED = {
    Event.ACKED.value: ConsumerAction.ENDED,
    Event.REJECTED.value: ConsumerAction.REJECTED,
    Event.REQUEUED.value: ConsumerAction.REQUEUED,
}
_NOT_THERE = ("user_id", "expiration")
"""Properties that nothing takes from that column; ``expiration`` has one of its own."""
Hops = Sequence[Mapping[str, Any]]
_decode = msgspec.json.decode


def read_stories(
    rows: Iterable[Row], flows: Mapping[str, MessageFlow], *, only: str | None = None, left: Container[str] = ()
) -> Iterator[Story]:
    """Yield a story for each message; its rows must follow each other, in the order of the log.

    Args:
        rows: the log with what its replay says (``log_rows``).
        flows: the virtual hosts by name, under the release of the broker that wrote the log.
        only: the virtual host for all rows, where definitions do not name theirs.
        left: names of files whose rows are no deliveries, but what was found in the queues in the end.
    """
    for (named, message), own in groupby(rows, key=itemgetter("vhost", "message")):
        vhost = only if only is not None else named
        if vhost in flows:
            yield _MessageReader(message, vhost, flows[vhost], left).read(list(own))


def tells_requeues(rules: Release) -> bool:
    """Tell whether a quorum queue counts other than a requeue that a delivery was lost with its channel."""
    return rules.quorum_delivery_limit_counts == "failures" and "nack" not in rules.returns_counted_as_failures


def tells_rejections(rules: Release) -> bool:
    """Tell whether a dead letter shows by its count of failed deliveries that it was rejected by basic.reject."""
    return {"final reject", "final nack"} & rules.returns_counted_as_failures == {"final reject"}


def _first_new(row: Row) -> int:
    """Return the place of the first death on the way to a delivery that no delivery before it has shown."""
    new = row["new_hops"] or 0
    return len(row["hops"] or ()) - new + (new > 0 and row["new_deaths"] < new)


class _MessageReader:
    """Reads the rows of one message."""

    def __init__(self, message: str, vhost: str, flow: MessageFlow, left: Container[str]) -> None:
        self._left = left
        self._story, self._flow = Story(vhost, message), flow
        self._by_row: list[StoryDelivery | None] = []
        self._settled: set[int] = set()
        self._sent: dict[int, tuple[StoryDelivery, Hops]] = {}  # by the deaths of which delivery another one came
        self._told: set[int] = set()  # of which counts tell how they were rejected
        self._publishers: set[str] = set()
        self._tells_requeues = tells_requeues(flow.release)
        self._tells_rejections = tells_rejections(flow.release)

    def read(self, rows: Sequence[Row]) -> Story:
        for number, row in enumerate(rows):
            self._by_row.append(None)
            if row["event"] == Event.PUBLISHED:
                self._story.publications.append(self._publication(row))
            elif row["event"] == Event.DELIVERED:
                self._delivery(number, row)
            elif row["file"] not in self._left:
                self._ended(row)
        return self._story

    def _publication(self, row: Row) -> Publication:
        keys = row["routing_keys"] or [""]
        return Publication(
            at_us=row["time_us"],
            place=row["place"],
            exchange=row["exchange"],
            routing_key=keys[0],
            properties=published_properties(row),
            body=row["payload"] or b"",
            after=self._whose(row),
        )

    def _whose(self, row: Row) -> int | None:
        """Return the delivery whose consumer has published the message again.

        That is the latest to the same connection, or with the same deaths; else the latest, if the publish names a
        message by its id that was delivered before, and does not come from a connection that published it by itself.
        """
        places = range(len(self._story.deliveries))[::-1]
        delivered = self._story.deliveries
        for mine in (
            lambda each: row["connection"] and each.connection == row["connection"],
            lambda each: row["x_death"] and each.shown.x_death == row["x_death"],
            lambda each: row["message_id"] is not None and row["connection"] not in self._publishers,
        ):
            found = next((place for place in places if delivered[place].traced and mine(delivered[place])), None)
            if found is not None:
                return found
        if row["connection"]:
            self._publishers.add(row["connection"])
        return None

    def _delivery(self, number: int, row: Row) -> None:
        headers = _decode(row["broker_headers"])
        counts = [headers[name] for name in COUNT_HEADERS if isinstance(headers.get(name), int)]
        failed = headers.get(X_DELIVERY_COUNT)
        delivery = StoryDelivery(
            Shown(row["queue"], row["exchange"], tuple(row["routing_keys"]), row["x_death"] or ""),
            at_us=row["time_us"],
            place=row["place"],
            connection=row["connection"],
            returned=max(counts, default=0),
            failed=failed if isinstance(failed, int) else 0,
            until_us=row["time_us"],
        )
        source = self._by_row[number - row["source"]] if row["source"] else None
        self._settle_before(delivery, source, row)
        if row["file"] not in self._left:
            self._by_row[number] = delivery
            self._story.deliveries.append(delivery)

    def _settle_before(self, delivery: StoryDelivery, source: StoryDelivery | None, row: Row) -> None:
        """Note what the way to a delivery says of those before it."""
        hops = row["hops"] or []
        if not hops:
            self._came_alive(source, delivery)
        elif source is None and hops[0]["reason"] == MAXLEN:
            self._was_refused(hops[0]["queue"])
        for place in range(_first_new(row), len(hops)):
            self._settle_death(source if place == 0 else None, hops[place:], delivery)
        if self._tells_rejections:
            self._count_failures(delivery)
        if hops and self._flow.release.delivery_count_carried == "never":
            self._untraced(delivery, delivery.returned, delivery.failed, delivery.at_us, delivery.place)

    def _came_alive(self, source: StoryDelivery | None, delivery: StoryDelivery) -> None:
        """Note where a message came from that did not die on its way: its queue, or its publish."""
        self._came_back(source, delivery)
        if source is None and self._story.publications:
            published = self._story.publications[-1]
            delivery.came = Came(published.at_us, published.place)

    def _settle_death(self, source: StoryDelivery | None, hops: Hops, delivery: StoryDelivery) -> None:
        """Note what became of the delivery that died in the first of these deaths, which led to a later delivery."""
        queue, reason = hops[0]["queue"], hops[0]["reason"]
        if source is not None and source.queue != queue:
            return
        if source is not None and source.observed and source.action == ConsumerAction.REJECTED:
            source.action = self._died(source, REJECTED, delivery)  # no recorder tells how
        died = source if source is not None and id(source) not in self._settled else self._open(queue)
        if died is None or _before(hops[0]["latest_us"], died.at_us):  # it was another copy
            return
        self._settle(died, self._died(died, reason, delivery), *self._moment(hops, delivery))
        self._sent[id(delivery)] = died, hops
        delivery.came = self._came(died, hops)
        if reason == DELIVERY_LIMIT:
            missing = self._missing(died)
            self._untraced(died, missing, missing, died.until_us, delivery.place)

    def _was_refused(self, name: str) -> None:
        """Note that a message died of the length limit as soon as it was published, if the queue drops no others."""
        queues, publications = self._flow.topology.queues, self._story.publications
        if publications and name in queues and self._flow.settings(name).dead_letters_refused:
            publications[-1].refused_by += (name,)

    def _came_back(self, before: StoryDelivery | None, delivery: StoryDelivery) -> None:
        """Note that a message was returned to its queue, and how often: counts tell of deliveries without a trace.

        In releases that do not count a requeue as a failure, they tell also how it was returned.
        """
        returned, failed = delivery.returned, delivery.failed
        if before is not None:
            returned, failed = returned - before.returned - 1, failed - before.failed
            crashed = self._tells_requeues and failed > 0
            self._settle(
                before, ConsumerAction.CRASHED if crashed else ConsumerAction.REQUEUED, *_just_before(delivery)
            )
            delivery.came = Came(after=self._place(before), latest_us=delivery.at_us, back=True)
            if sent := self._sent.get(id(before)):  # its TTL goes on
                self._sent[id(delivery)] = sent
                died, hops = sent
                if not died.observed and hops[0]["reason"] != EXPIRED:
                    died.until_us = max(died.until_us, self._sent_since_us(hops, delivery))
            failed -= crashed
        self._untraced(before or delivery, returned, failed, delivery.at_us, delivery.place)

    def _died(self, died: StoryDelivery, reason: str, delivery: StoryDelivery) -> ConsumerAction:
        """Tell what the consumer did before the message died for that reason, and was delivered as a dead letter."""
        if reason == REJECTED:
            told = self._tells_rejections and not self._is_classic(died.queue) and not self._is_classic(delivery.queue)
            if told:
                self._told.add(id(died))
            return ConsumerAction.FAILED if told and delivery.failed > died.failed else ConsumerAction.REJECTED
        if reason == DELIVERY_LIMIT and delivery.failed == died.failed > 0:
            return ConsumerAction.REQUEUED  # it was over the limit before, and no return more is counted
        return ConsumerAction.CRASHED if reason == DELIVERY_LIMIT and self._tells_requeues else ConsumerAction.REQUEUED

    def _count_failures(self, delivery: StoryDelivery) -> None:
        """Take the latest deliveries of which no counts tell for failed, as many as are missing.

        Deliveries from classic queues show none, nor do dead letters there.
        """
        deliveries = self._story.deliveries
        missing = delivery.failed - sum(
            each.action in (ConsumerAction.FAILED, ConsumerAction.CRASHED) for each in deliveries
        )
        for each in reversed(deliveries):
            failed = each.if_failed()
            unknown = id(each) not in self._told and (each.rejected or self._is_classic(each.queue))
            if missing > 0 and failed != each.action and unknown:
                each.action = failed
                missing -= 1

    def _is_classic(self, name: str) -> bool:
        queue = self._flow.topology.queues.get(name)
        return queue is not None and queue.type == CLASSIC

    def _came(self, died: StoryDelivery, hops: Hops) -> Came | None:
        """Return how the message came into its queue by these deaths, the first of which was after that delivery."""
        first, last = hops[0], hops[-1]
        if first["reason"] != REJECTED or None in (first["earliest_us"], first["latest_us"], last["earliest_us"]):
            return None
        later_us = last["earliest_us"] - first["earliest_us"]
        return Came(after=self._place(died), later_us=later_us, latest_us=first["latest_us"])

    def _moment(self, hops: Hops, delivery: StoryDelivery) -> tuple[int, float]:
        """Return when, and behind which rows, a consumer did what led to these deaths before a delivery.

        It rejects at once; what it returned has died in its queue before anybody took it again: of the length limit at
        the next publish, for which it was there. But it does so no sooner than the TTL of the queue that delivered it
        then allows.
        """
        hop = hops[0]
        at_us: int | None = hop["latest_us" if hop["reason"] == EXPIRED else "earliest_us"]
        if at_us is None:
            return 0, 0
        if hop["reason"] != EXPIRED:
            at_us = max(at_us, self._sent_since_us(hops, delivery))
        return (at_us, 0) if at_us < delivery.at_us else _just_before(delivery)

    def _sent_since_us(self, hops: Hops, delivery: StoryDelivery) -> int:
        """Return when these deaths can have begun at the earliest, as the message has not expired where they led to."""
        queue = self._flow.topology.queues.get(delivery.queue)
        if queue is None or not expires_messages(queue.type, self._flow.release):
            return 0
        ttl_ms, latest_us = self._flow.settings(queue.name).message_ttl_ms, hops[0]["latest_us"]
        if ttl_ms is None or None in (latest_us, hops[-1]["earliest_us"]):
            return 0
        waited_us: int = hops[-1]["earliest_us"] - hops[0]["earliest_us"]
        return min(delivery.at_us - waited_us - ttl_ms * 1_000 + SURELY_US, int(latest_us))

    def _place(self, delivery: StoryDelivery) -> int:
        """Return which delivery of the message it is."""
        return next(place for place, each in enumerate(self._story.deliveries) if each is delivery)

    def _missing(self, last: StoryDelivery) -> int:
        """Return how many deliveries the log lacks before the message exceeded its delivery limit."""
        limit = self._flow.settings(last.queue).delivery_limit if last.queue in self._flow.topology.queues else None
        shown = last.failed if self._tells_requeues else last.returned
        return 0 if limit is None else limit - shown

    def _untraced(self, like: StoryDelivery, times: int, failed: int, at_us: int, place: float) -> None:
        """Add deliveries without a trace, some of which failed: their channel was gone before they arrived."""
        for number in range(min(times, UNTRACED_MAX)):
            action = ConsumerAction.CRASHED if self._tells_requeues and number < failed else ConsumerAction.REQUEUED
            lost = StoryDelivery(
                like.shown, at_us, place, "", action=action, until_us=at_us, until_place=place, traced=False
            )
            self._settled.add(id(lost))
            self._story.deliveries.append(lost)

    def _open(self, queue: str) -> StoryDelivery | None:
        """Return the latest delivery from the queue of which it is not known yet what became of it."""
        for delivery in reversed(self._story.deliveries):
            if delivery.queue == queue and id(delivery) not in self._settled:
                return delivery
        return None

    def _settle(self, delivery: StoryDelivery, action: ConsumerAction, at_us: int, place: float) -> None:
        delivery.settle(action, at_us, place)
        self._settled.add(id(delivery))

    def _ended(self, row: Row) -> None:
        """Take what a recorder wrote down."""
        for delivery in self._story.deliveries:
            if delivery.queue == row["queue"] and not delivery.observed:
                delivery.settle(_SETTLED[row["event"]], row["time_us"], row["place"])
                delivery.observed = True
                self._settled.add(id(delivery))
                return


def _before(time_us: int | None, other_us: int) -> bool:
    """Tell whether a moment was before another one for certain."""
    return time_us is not None and time_us < other_us - TOLERANCE_MS * 1_000


def _just_before(delivery: StoryDelivery) -> tuple[int, float]:
    return delivery.at_us, delivery.place - 0.5


def published_properties(row: Row) -> dict[str, Any]:
    """Return the basic properties that a publish had, as far as a trace shows them.

    A trace shows the BCC keys among the routing keys, but no longer the header; a user id would have to be
    that of the connection, and decides nothing.
    """
    properties = {name: value for name, value in _decode(row["properties"]).items() if name not in _NOT_THERE}
    headers = {**_decode(row["headers"]), **_decode(row["broker_headers"])}
    if bcc := bcc_keys(row["routing_keys"], headers):
        headers["BCC"] = bcc
    if row["x_death"] is not None:
        headers[X_DEATH] = _with_times(_decode(row["x_death"]), row["x_death_times"])
    if headers:
        properties["headers"] = headers
    for name in ("message_id", "expiration"):
        if row[name] is not None:
            properties[name] = row[name]
    return properties


def _with_times(deaths: Any, times: Sequence[int | None] | None) -> Any:
    if not isinstance(deaths, list) or times is None:
        return deaths
    return [
        {**death, "time": Timestamp(time)} if isinstance(death, dict) and time is not None else death
        for death, time in zip(deaths, times, strict=False)
    ]
