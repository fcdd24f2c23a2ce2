"""Plays messages, each by itself; of those that are alike, only one.

All that happens to a message happens when a client does something, or a TTL later, and nothing else looks at a clock.
So of messages with the same actions those have the same play for which all that is planned in it has the same order
(``timetable``): they get what it gave, at their own times. Routing keys that no exchange tells apart count as the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
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
from simulator.replay.whatif.timetable import NO_PLANNER, AnyPlanner, Planner, Timetable

SIZE_MAX = 100_000_000
"""About so many bytes of plays are remembered."""
STEP_SIZE = 500
"""About so many bytes a delivery takes, or a stay in a queue."""
MOMENTS_MAX = 200
"""A message with more moments is played by itself."""
VARIANTS_MAX = 100
"""So many plays are remembered of messages that differ only in the order of what is planned."""
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
"""Stays by queue: how each ended, and the places of the times at which it began and ended."""


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

    def is_held_too_long(self, story: Story) -> bool:
        """Tell whether a consumer held the message so long that a timeout may have ended that."""
        may_us = self.holding_us
        return may_us is not None and any(each.until_us - each.at_us >= may_us for each in story.deliveries)


def _has_a_clock_of_its_own(settings: Settings) -> bool:
    return settings.message_ttl_ms == 0 or settings.delayed_retry is not None or settings.queue.type == STREAM


def _chooses_at_random(flow: MessageFlow) -> bool:
    return any(each.type == LOCAL_RANDOM for each in flow.topology.exchanges.values())


class AlikePlays:
    """Plays messages on one side, each by itself.

    Args:
        rerun: begins a run, of which somebody takes note.
        clocks: those of the side.
        reaches: how far messages may come on either side, and what decides that.
        end_us: when the log ends.
    """

    def __init__(self, rerun: Callable[[AnyPlanner], Rerun], clocks: Clocks, reaches: Reaches, end_us: int) -> None:
        self._rerun, self._clocks, self._reaches, self._end_us = rerun, clocks, reaches, end_us
        self._known: dict[Hashable, list[Planned]] = {}
        self._size = 0

    def play(self, given: First) -> First:
        """Return the message with what its run gives."""
        return self.timed(given)[0]

    def timed(self, given: First) -> tuple[First, Timed | None]:
        """Return the same, and how its times follow from its moments; ``None`` where that is not known."""
        rows = _rows(given.story)
        moments = sorted({*(at_us for at_us, _ in rows), *_times(given.stays)})
        places = dict(zip(moments, range(len(moments)), strict=True))
        key = self._key(given, rows, places) if len(moments) <= MOMENTS_MAX else None
        if key is None:
            return self._played(given, NO_PLANNER), None
        known = self._known.get(key, [])
        for play in known:
            if (times := play.timetable.times((*moments, self._end_us))) is not None:
                return play.at(given.story, times), Timed(moments, times, play)
        planner = Planner(moments, self._end_us, self._clocks.ttls_us)
        found = self._played(given, planner)
        made = self._planned(found, planner)
        if made is None:
            return found, None
        if len(known) < VARIANTS_MAX:
            self._remember(key, made)
        times = made.timetable.times((*moments, self._end_us))
        assert times is not None  # it was made from them
        return made.at(given.story, times), Timed(moments, times, made)

    def _remember(self, key: Hashable, made: Planned) -> None:
        size = made.size + len(repr(key))
        if self._size + size > SIZE_MAX:
            self._known.clear()
            self._size = 0
        self._size += size
        self._known.setdefault(key, []).append(made)

    def _played(self, given: First, planner: AnyPlanner) -> First:
        (played,) = self._rerun(planner).play([given])
        return played.first

    def _planned(self, found: First, planner: Planner) -> Planned | None:
        """Return what a play gave for any times that have the same order; ``None`` if something else decides, too.

        Of very many copies some may rest for a while.
        """
        fate, publications = found.fate, found.story.publications
        if sum(map(len, found.stays.values())) > MOMENTS_MAX:
            return None
        if any((found.story.vhost, queue) in self._clocks.others for queue in found.stays):
            return None
        first, last = planner.place(fate.first_us), planner.place(fate.last_us)
        stays = _in_places(found.stays, planner.place)
        if not planner.sure:
            return None
        deliveries = AnyKey(fate.deliveries, publications[0].routing_key if publications else "")
        return Planned(fate, deliveries, first, last, stays, planner.timetable())

    # What is equal for messages that are alike

    def _key(self, given: First, rows: Iterable[Row], places: Mapping[int, int]) -> Hashable | None:
        """Return what is equal for messages that differ only in their times; ``None`` for one like no other."""
        story = given.story
        if story.vhost in self._clocks.at_random:
            return None
        if any(len(each.body) > BODY_MAX or "expiration" in each.properties for each in story.publications):
            return None
        if self._clocks.is_held_too_long(story):
            return None
        order = {place: number for number, place in enumerate(sorted({place for _, place in rows}))}
        published = tuple([
            (places[each.at_us], order[each.place], *self._read(story, each), each.after)
            for each in story.publications
        ])  # fmt: skip
        delivered = tuple([
            (each.queue, places[each.at_us], order[each.place], each.outcome,
             places[each.until_us], order[each.until_place], each.traced)
            for each in story.deliveries
        ])  # fmt: skip
        return story.vhost, published, delivered, _in_places(given.stays, places.__getitem__)

    def _read(self, story: Story, publication: Publication) -> tuple[Hashable, ...]:
        """Return what a broker looks at in the exchange, the routing key, the headers, and the other properties."""
        headers = self._reaches.read_headers(story.vhost, publication.properties)
        key: Hashable = publication.routing_key
        if not headers and len(story.publications) == 1:
            key = self._reaches.alike(story.vhost, publication.routing_key)
        return publication.exchange, key, headers, read_properties(publication.properties)


def read_properties(properties: Mapping[str, Any]) -> str:
    """Return the properties that a broker looks at; the headers stand by themselves."""
    read = [(name, value) for name, value in properties.items() if _is_read(name, value)]
    return repr(read) if read else ""


def _is_read(name: str, value: object) -> bool:
    return value == REPLY_TO if name == "reply_to" else name not in _NOT_HERE


class Planned(msgspec.Struct, frozen=True, gc=False):
    """What a play gave, for any times in the same order.

    Attributes:
        fate: what became of the message, at its own times.
        deliveries: what its deliveries showed.
        first, last: the places of ``first_us`` and ``last_us`` among the times.
        stays: how long it waited, by queue.
        timetable: the times that were planned.
    """

    fate: Fate
    deliveries: AnyKey
    first: int
    last: int
    stays: StaysInPlaces
    timetable: Timetable

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        texts = sum(len(each.x_death) for each in self.fate.deliveries)
        steps = len(self.fate.deliveries) + sum(len(some) for _, some in self.stays) + len(self.timetable.sums)
        return STEP_SIZE * (1 + steps) + texts

    def at(self, story: Story, times: Sequence[int]) -> First:
        """Return it for a message with these times."""
        fate, ends = self.fate, (times[self.first], times[self.last])
        deliveries = self.deliveries.at(story.publications[0].routing_key) if story.publications else fate.deliveries
        stays: dict[str, list[Stay]] = {
            queue: [Stay(times[since], end, times[until] - times[since]) for end, since, until in some]
            for queue, some in self.stays
        }
        return First(story, Fate(fate.ends, deliveries, fate.deaths, *ends, fate.assumed), stays)


class Timed(NamedTuple):
    """When everything was in a play.

    Attributes:
        moments: those of the message.
        times_us: all times that were planned: the moments, the end of the log, and the others.
        play: what it gave for any times.
    """

    moments: Sequence[int]
    times_us: Sequence[int]
    play: Planned


def _times(stays: Stays) -> Iterator[int]:
    """Yield when stays began and ended."""
    for some in stays.values():
        for each in some:
            yield from (each.since_us, each.since_us + each.after_us)


def _in_places(stays: Stays, place: Callable[[int], int]) -> StaysInPlaces:
    """Return stays with places instead of times."""
    return tuple([
        (queue, tuple([(each.end, place(each.since_us), place(each.since_us + each.after_us)) for each in some]))
        for queue, some in stays.items()
    ])  # fmt: skip


def _rows(story: Story) -> list[Row]:
    """Return all that clients do."""
    found: list[Row] = [(each.at_us, each.place) for each in story.publications]
    for delivery in story.deliveries:
        found += (delivery.at_us, delivery.place), (delivery.until_us, delivery.until_place)
    return found
