"""Plays messages, each by itself; of those that are alike, only one.

All that happens to a message happens when a client does something, or a TTL later. Of these moments a play compares
one with another, and nothing else looks at a clock; so only their order decides. What a play gave, with the places of
the moments in that order instead of their times, is what all messages with the same actions and the same order get.
Routing keys that no exchange tells apart count as the same.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from dlx.binding_index import LOCAL_RANDOM
from dlx.message_flow import MessageFlow
from dlx.routing import REPLY_TO
from dlx.settings import Settings
from dlx.topology import STREAM
from simulator.questions.snapshot import Snapshot
from simulator.replay.whatif.coupling import Reaches
from simulator.replay.whatif.fates import Fate
from simulator.replay.whatif.other_keys import AnyKey
from simulator.replay.whatif.rerun import End, First, Rerun, Stay, Stays
from simulator.replay.whatif.stage import Queue
from simulator.replay.whatif.stories import Publication, Story

SIZE_MAX = 100_000_000
"""About so many bytes of plays are remembered."""
STEP_SIZE = 500
"""About so many bytes a delivery takes, or a stay in a queue."""
MOMENTS_MAX = 200
"""A message with more moments is played by itself."""
BODY_MAX = 2**20
"""Messages with more bytes are played by themselves: a broker may refuse them."""
_NOT_HERE = frozenset(
    ("app_id", "cluster_id", "content_encoding", "content_type", "correlation_id", "headers", "message_id",
     "timestamp", "type")
)  # fmt: skip
"""Properties that no broker looks at, and the headers, of which it looks at some."""

Row = tuple[int, float]
"""When a client does something, and in which row of the log, or behind which."""
StaysInPlaces = tuple[tuple[str, tuple[tuple[End, int, int], ...]], ...]
"""Stays by queue: how each ended, and the places of the moments in which it began and ended."""


class Clocks(NamedTuple):
    """What a side does by itself after some time, or by chance.

    Attributes:
        ttls_us: the TTLs of queues.
        others: queues that look at the clock in another way: messages there are played by themselves.
        at_random: virtual hosts in which an exchange chooses at random: each message there is played by itself.
        holding_us: so long a consumer may hold a delivery that no timeout ends; ``None``: for ever.
    """

    ttls_us: Mapping[Queue, int]
    others: frozenset[Queue]
    at_random: frozenset[str]
    holding_us: int | None

    @classmethod
    def of(cls, snapshot: Snapshot) -> Clocks:
        """Return those of a side."""
        settings = {(vhost, each.queue.name): each for vhost, each in snapshot.queues()}
        ttls_us = {queue: 1_000 * each.message_ttl_ms for queue, each in settings.items() if each.message_ttl_ms}
        others = (queue for queue, each in settings.items() if _has_a_clock_of_its_own(each))
        at_random = (vhost for vhost, flow in snapshot.flows.items() if _chooses_at_random(flow))
        timeouts_ms = [snapshot.release.consumer_timeout_ms, *(each.consumer_timeout_ms for each in settings.values())]
        # A queue's clock counts milliseconds.
        holding_us = min((1_000 * (each - 1) for each in timeouts_ms if each is not None), default=None)
        return cls(ttls_us, frozenset(others), frozenset(at_random), holding_us)


def _has_a_clock_of_its_own(settings: Settings) -> bool:
    return settings.message_ttl_ms == 0 or settings.delayed_retry is not None or settings.queue.type == STREAM


def _chooses_at_random(flow: MessageFlow) -> bool:
    return any(each.type == LOCAL_RANDOM for each in flow.topology.exchanges.values())


class AlikePlays:
    """Plays messages on one side, each by itself.

    Args:
        rerun: begins a run.
        clocks: those of the side.
        ttls_us: tells the TTLs that a message may meet on either side.
        reaches: how far messages may come on either side, and what decides that.
        end_us: when the log ends.
        second: whether the messages have been played on the other side: then what that gave decides, too.
    """

    def __init__(
        self,
        rerun: Callable[[], Rerun],
        clocks: Clocks,
        ttls_us: Callable[[Story], Collection[int]],
        reaches: Reaches,
        end_us: int,
        *,
        second: bool = False,
    ) -> None:
        self._rerun, self._clocks, self._ttls_us = rerun, clocks, ttls_us
        self._reaches, self._end_us, self._second = reaches, end_us, second
        self._known: dict[Hashable, _Ordered] = {}
        self._size = 0

    def play(self, given: First) -> First:
        """Return the message with what its run gives."""
        rows = _rows(given.story)
        actions, ttls_us = sorted({at_us for at_us, _ in rows}), self._ttls_us(given.story)
        later = [action + ttl_us for action in actions for ttl_us in ttls_us]
        moments = sorted({*actions, *later})
        places = dict(zip(moments, range(len(moments)), strict=True))
        key = self._key(given, rows, places) if len(moments) <= MOMENTS_MAX else None
        if key is None:
            return self._played(given)[0]
        key = key, bisect_right(moments, self._end_us), *[places[each] for each in later]
        if key not in self._known:
            found, in_step = self._played(given)
            if not in_step or (ordered := self._ordered(found, {*actions}, places)) is None:
                return found
            self._size += ordered.size + len(repr(key))
            if self._size > SIZE_MAX:
                self._known.clear()
                self._size = 0
            self._known[key] = ordered
        return self._known[key].at(given.story, moments)

    def _played(self, given: First) -> tuple[First, bool]:
        run = self._rerun()
        (played,) = run.play([given])
        return played.first, run.in_step and (not self._second or _goes_on(played.stays, given.stays))

    def _ordered(self, found: First, actions: Collection[int], places: Mapping[int, int]) -> _Ordered | None:
        """Return what a play gave for any times, if all that happened, or might have, is at one of these moments.

        It is not where a TTL began when another one ended: the sum of both is no moment, though it may look like one.
        Of very many copies some may rest for a while.
        """
        vhost, fate = found.story.vhost, found.fate
        if sum(map(len, found.stays.values())) > MOMENTS_MAX:
            return None
        for queue, some in found.stays.items():
            if (vhost, queue) in self._clocks.others:
                return None
            if (vhost, queue) in self._clocks.ttls_us and any(each.since_us not in actions for each in some):
                return None
        stays = _in_places(found.stays, places)
        if stays is None or fate.first_us not in places or fate.last_us not in places:
            return None
        key = found.story.publications[0].routing_key if found.story.publications else ""
        return _Ordered(fate, AnyKey(fate.deliveries, key), places[fate.first_us], places[fate.last_us], stays)

    # What is equal for messages that are alike

    def _key(self, given: First, rows: Iterable[Row], places: Mapping[int, int]) -> Hashable | None:
        """Return what is equal for messages that differ only in their times; ``None`` for one like no other."""
        story, holding_us = given.story, self._clocks.holding_us
        if story.vhost in self._clocks.at_random:
            return None
        if any(len(each.body) > BODY_MAX or "expiration" in each.properties for each in story.publications):
            return None
        if holding_us is not None and any(each.until_us - each.at_us >= holding_us for each in story.deliveries):
            return None
        if self._second and not given.in_order:
            return None
        if (stays := _in_places(given.stays, places)) is None:
            return None
        order = {place: number for number, place in enumerate(sorted({place for _, place in rows}))}
        published = tuple([
            (places[each.at_us], order[each.place], each.exchange, *self._read(story, each), each.after)
            for each in story.publications
        ])  # fmt: skip
        delivered = tuple([
            (each.queue, places[each.at_us], order[each.place], each.outcome, places[each.until_us],
             order[each.until_place], each.traced)
            for each in story.deliveries
        ])  # fmt: skip
        return story.vhost, published, delivered, stays

    def _read(self, story: Story, publication: Publication) -> tuple[Hashable, str, str]:
        """Return what a broker looks at in the routing key, the headers, and the other properties."""
        headers = self._reaches.read_headers(story.vhost, publication.properties)
        key: Hashable = publication.routing_key
        if not headers and len(story.publications) == 1:
            key = self._reaches.alike(story.vhost, publication.routing_key)
        return key, headers, read_properties(publication.properties)


def read_properties(properties: Mapping[str, Any]) -> str:
    """Return the properties that a broker looks at; the headers stand by themselves."""
    read = [(name, value) for name, value in properties.items() if _is_read(name, value)]
    return repr(read) if read else ""


def _is_read(name: str, value: object) -> bool:
    return value == REPLY_TO if name == "reply_to" else name not in _NOT_HERE


class _Ordered(msgspec.Struct, frozen=True, gc=False):
    """What a play gave, for any times in the same order.

    Attributes:
        fate: what became of the message, at its own times.
        deliveries: what its deliveries showed.
        first, last: the places of ``first_us`` and ``last_us`` among the moments.
        stays: how long it waited, by queue.
    """

    fate: Fate
    deliveries: AnyKey
    first: int
    last: int
    stays: StaysInPlaces

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        texts = sum(len(each.x_death) for each in self.fate.deliveries)
        return STEP_SIZE * (1 + len(self.fate.deliveries) + sum(len(some) for _, some in self.stays)) + texts

    def at(self, story: Story, moments: list[int]) -> First:
        """Return it for a message with these moments."""
        fate, times = self.fate, (moments[self.first], moments[self.last])
        deliveries = self.deliveries.at(story.publications[0].routing_key) if story.publications else fate.deliveries
        stays: dict[str, list[Stay]] = {
            queue: [Stay(moments[since], end, moments[until] - moments[since]) for end, since, until in some]
            for queue, some in self.stays
        }
        return First(story, Fate(fate.ends, deliveries, fate.deaths, *times, fate.assumed), stays, in_order=True)


def _in_places(stays: Stays, places: Mapping[int, int]) -> StaysInPlaces | None:
    """Return stays with places of moments instead of times; ``None`` if one begins or ends at no moment of these."""
    ends = ((each.since_us, each.since_us + each.after_us) for some in stays.values() for each in some)
    if any(since not in places or until not in places for since, until in ends):
        return None
    return tuple([
        (queue, tuple([(each.end, places[each.since_us], places[each.since_us + each.after_us]) for each in some]))
        for queue, some in stays.items()
    ])  # fmt: skip


def _goes_on(stays: Stays, before: Stays) -> bool:
    """Tell whether a message came into queues, and was taken from them, when it was in its first run, and not later."""
    return all(
        each.end == "stayed" if queue not in before else some == before[queue][: len(some)]
        for queue, some in stays.items()
        for each in some
    )


def _rows(story: Story) -> list[Row]:
    """Return all that clients do."""
    found: list[Row] = [(each.at_us, each.place) for each in story.publications]
    for delivery in story.deliveries:
        found += (delivery.at_us, delivery.place), (delivery.until_us, delivery.until_place)
    return found
