"""Plays stories again: the same publishes and consumers, on a broker with settings and a release of its own.

Consumers take messages one by one with basic.get, as late after their arrival as they did in
the log, and do with the k-th delivery of a message in a queue what they did with it there. The
first run, under the log's own settings, finds out how long messages waited; and where a refusal in the log says that a
queue was full, that a message had come back by then.

A run takes stories one by one, in the order in which they begin, and gives each back as soon as
nothing more can happen to it. So it holds those that wait somewhere, and not the whole log.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, count
from operator import attrgetter
from statistics import median_low
from types import MappingProxyType
from typing import Literal, NamedTuple

import msgspec

from dlx.message import Message
from dlx.topology import STREAM
from simulator.broker import RETRY_US, Copy, QueueState
from simulator.broker import commands as amqp
from simulator.broker.replies import Got
from simulator.capture.observe import shown_history
from simulator.events import Event, Happened, copies_added, delays_added
from simulator.whatif.outcomes import TELLING, Ends, Fate, FateTally
from simulator.whatif.playback_broker import PlaybackBroker, QueueRef
from simulator.whatif.stories import LAST, ConsumerAction, Publication, Shown, Story, StoryDelivery

Unseen = Literal["ack", "repeat"]
"""What consumers do with a delivery that the log does not have: acknowledge it, or what they did the last time."""
ATTEMPTS_MAX = 100
"""Deliveries of a message from one queue that the log does not have; after them its consumer acknowledges it."""
EVENTS_MAX = 20_000
EVENTS_PER_MOMENT_MAX = 200
"""A run that has more events than these, and than these for each row of the log, goes round without end."""
QUIET_MAX = 1_000
"""So often a broker may look in vain, when clients have nothing more to do: at-least-once tries for ever."""
VAIN_US = 2 * RETRY_US
"""In this time each at-least-once queue has tried all that it holds: what has not arrived then never does by itself."""
HELD_SHOWN = 3
"""Queues that an error names."""
_PUBLISHED, _DELIVERED = Event.PUBLISHED, Event.DELIVERED  # Python 3.11 takes long to look them up
_COMES = frozenset({Event.ROUTED, Event.REQUEUED})
_IN_VAIN = frozenset({Event.DEFERRED, Event.UNROUTABLE, Event.CYCLE_DROPPED, Event.DROPPED})
"""What comes of another event, or of one more try of an at-least-once queue, and leads to nothing."""
_GONE = frozenset({Event.EXPIRED, Event.LENGTH_DROPPED, Event.LIMIT_DROPPED, Event.PURGED})

Stays = Mapping[str, Sequence["QueueStay"]]
"""How often a message was ready in each queue, one time after the other."""


End = Literal["delivered", "died", "stayed"]


class _TooMuchError(RuntimeError):
    """Messages go round without end."""


class TooManyHeldError(Exception):
    """More messages wait at one time than a run may hold; the text says where."""


class QueueStay(msgspec.Struct, gc=False):
    """One time that a message was ready in a queue: since when, how it ended, and after how long."""

    since_us: int
    end: End = "stayed"
    after_us: int = 0


class LogFacts(msgspec.Struct, frozen=True):
    """What all messages of a log show together.

    Attributes:
        end_us: when it ends, microseconds since 1970. Until then what it does not have did not happen.
        consumed: the queues that it has deliveries from.
    """

    end_us: int
    consumed: frozenset[QueueRef]


TypicalWaits = Mapping[QueueRef, int | None]
"""How long messages usually waited to be delivered, in each queue that they came into; ``None`` where none was."""


class FirstRun(NamedTuple):
    """A story, and what its first run found: nothing before it."""

    story: Story
    fate: Fate = Fate(Ends())
    stays: Stays = MappingProxyType({})

    @property
    def waits_us(self) -> dict[QueueRef, list[int]]:
        """How long it waited to be delivered, in each queue that it came into."""
        return {
            (self.story.vhost, queue): [stay.after_us for stay in stays if stay.end == "delivered"]
            for queue, stays in self.stays.items()
        }


def typical_waits(found: Iterable[FirstRun]) -> TypicalWaits:
    """Return how long messages usually waited in the first runs of stories."""
    waits_us: dict[QueueRef, list[int]] = {}
    for first in found:
        for queue, found_us in first.waits_us.items():
            waits_us.setdefault(queue, []).extend(found_us)
    return {queue: median_low(waits) if waits else None for queue, waits in waits_us.items()}


_ENDLESS = Fate(Ends(endless=True))


class Played(NamedTuple):
    """A story that was played.

    Attributes:
        number: which of the run it was.
        given: it, as it was given.
        fate: what became of it.
        stays: how long it waited, by queue.
        seen: its events, if it was watched.
    """

    number: int
    given: FirstRun
    fate: Fate
    stays: Stays
    seen: Sequence[Happened]

    @property
    def first(self) -> FirstRun:
        """What a second run takes, if this was the first one."""
        return FirstRun(self.given.story, self.fate, self.stays)


def in_order(run: Iterable[Played]) -> list[Played]:
    """Return all stories of a run, in the order in which they began."""
    return sorted(run, key=attrgetter("number"))


class _InPlay:
    """A story that is being played: what has happened, and how many actions and copies of it are still to come."""

    __slots__ = ("actions", "copies", "deliveries", "first_stays", "given", "number", "publishes_again", "seen",
                 "stays", "story", "taken", "tally", "uids", "watched")  # fmt: skip

    def __init__(self, number: int, given: FirstRun, watched: bool) -> None:
        self.number, self.given, self.watched = number, given, watched
        self.story, self.first_stays = given.story, given.stays
        self.deliveries = self.story.by_queue()
        self.tally = FateTally()
        self.taken: dict[str, int] = {}
        self.stays: dict[str, list[QueueStay]] = {}
        self.seen: list[Happened] = []
        self.uids: list[int] = []
        self.actions = self.copies = 0
        self.publishes_again = False


_Action = Callable[[], None]


class _Return(NamedTuple):
    """What a consumer will return.

    Attributes:
        due_us, place: when.
        delivery: what it got, as the log shows it.
        taken_us: when it got that.
        do: returns it, once.
    """

    due_us: int
    place: float
    delivery: StoryDelivery
    taken_us: int
    do: _Action


class Playback:
    """One run of stories.

    Args:
        broker: where they are played.
        log: what all messages of the log show.
        unseen: what consumers do with deliveries that the log does not have.
        typical_waits: what the first runs of all stories found; ``None`` in the first run.
        watched: the stories whose events are kept, by number.
        held_max: how many stories may be on the broker at one time.
    """

    def __init__(
        self,
        broker: PlaybackBroker,
        log: LogFacts,
        unseen: Unseen,
        *,
        typical_waits: TypicalWaits | None = None,
        watched: Collection[int] = (),
        held_max: int | None = None,
    ) -> None:
        self._broker, self._log, self._unseen = broker, log, unseen
        self._is_first, self._typical_waits = typical_waits is None, typical_waits or {}
        self._watched, self._held_max = watched, held_max
        self._later_us = self._end_us = self._next_us = 0
        self._in_play: dict[int, _InPlay] = {}
        self._by_uid: dict[int, _InPlay] = {}
        self._touched: dict[_InPlay, None] = {}
        self._publishing: _InPlay
        self._in_hand: tuple[_InPlay, Message]
        self._before: Happened | None = None
        self._events_left = EVENTS_MAX
        self._agenda: list[tuple[int, float, int, _InPlay, _Action]] = []
        self._orders = count(-LAST), count()
        self._news: deque[tuple[_InPlay, str, int]] = deque()
        self._used: dict[QueueRef, None] = {}
        self._quiet = self._quiet_since_us = self._left_then = 0
        self._wanted: Counter[QueueRef] = Counter()
        self._out: defaultdict[QueueRef, list[_Return]] = defaultdict(list)

    # The run

    def play(self, stories: Iterable[FirstRun]) -> Iterator[Played]:
        """Play stories in the order in which they begin, yield each when it is over, and leave the broker empty.

        Raises ``TooManyHeldError`` where more than ``held_max`` are on the broker at one time.
        """
        self._coming = enumerate(stories)
        self._look_ahead()
        if self._next is None:
            return
        self._broker.rest()
        self._broker.now_us += (self._next_us - self._broker.now_us) % 1_000  # some clocks count milliseconds
        self._later_us, self._next_us = self._broker.now_us - self._next_us, self._broker.now_us
        self._end_us = self._log.end_us + self._later_us
        self._broker.observer = self._observe
        try:
            while self._step():
                for each in self._touched:
                    if not each.actions and each.copies <= 0:
                        yield self._take_out(each)
                self._touched.clear()
        except _TooMuchError:
            self._broker.begin_again()
            rest = [] if self._next is None else chain([self._next], self._coming)
            yield from (Played(number, given, _ENDLESS, {}, ()) for number, given in rest)
            yield from (self._played(each, _ENDLESS) for each in self._in_play.values())
            return
        except TooManyHeldError:
            self._broker.begin_again()
            raise
        held = list(self._broker.held(self._used))
        self._count_waiting(held)
        yield from (self._played(each, each.tally.fate(self._later_us)) for each in self._in_play.values())
        self._broker.clear(self._used if held else ())

    def _take_out(self, each: _InPlay) -> Played:
        """Forget a story to which nothing more can happen."""
        del self._in_play[each.number]
        for uid in each.uids:
            del self._by_uid[uid]
        return self._played(each, each.tally.fate(self._later_us))

    def _played(self, each: _InPlay, fate: Fate) -> Played:
        return Played(each.number, each.given, fate, each.stays, each.seen)

    def _look_ahead(self) -> None:
        """Take the next story, and note when it begins on the broker."""
        self._next = next(self._coming, None)
        if self._next is not None:
            self._next_us = self._next[1].story.began[0] + self._later_us

    def _enter(self) -> None:
        """Let the next story begin."""
        assert self._next is not None
        number, given = self._next
        self._look_ahead()
        each, story = _InPlay(number, given, number in self._watched), given.story
        self._in_play[number] = each
        self._touched[each] = None
        self._events_left += EVENTS_PER_MOMENT_MAX * (len(story.publications) + len(story.deliveries))
        order = self._orders[0]
        for publication in story.publications:
            if publication.after is not None:
                each.publishes_again = True
            else:
                self._put(publication.at_us + self._later_us, publication.place, next(order), each,
                          partial(self._publish, each, publication))  # fmt: skip
        if self._is_first:
            for delivery in story.deliveries:
                self._put(delivery.at_us + self._later_us, delivery.place, next(order), each,
                          partial(self._take, story.vhost, delivery.queue))  # fmt: skip
        if self._held_max is not None and len(self._in_play) > self._held_max:
            raise TooManyHeldError(self._where_held())

    def _put(self, time_us: int, place: float, order: int, each: _InPlay, action: _Action) -> None:
        each.actions += 1
        heapq.heappush(self._agenda, (time_us, place, order, each, action))

    def _at(self, time_us: int, place: float, each: _InPlay, action: _Action) -> None:
        """Do something at a moment, behind what the log has there."""
        self._put(time_us, place, next(self._orders[1]), each, action)

    def _step(self) -> bool:
        """Do what comes next: what the broker does by itself, or the next action; return whether there was anything."""
        due_us = self._broker.node.next_due()
        if self._next is not None:
            self._let_enter(due_us)
        if self._agenda and (due_us is None or self._agenda[0][0] < due_us):
            time_us, _, _, each, action = heapq.heappop(self._agenda)
            self._broker.now_us = max(self._broker.now_us, time_us)
            each.actions -= 1
            self._touched[each] = None
            action()
        elif due_us is not None and (
            self._agenda or self._next is not None or (not self._is_vain() and self._anything_waits())
        ):
            self._broker.now_us = max(self._broker.now_us, due_us)
            self._broker.tell(amqp.PassTime())
            self._quiet += 1
            if self._events_left != self._left_then:
                self._quiet, self._quiet_since_us, self._left_then = 0, self._broker.now_us, self._events_left
        else:
            return False
        while self._news:
            self._arrived(*self._news.popleft())
        return True

    def _let_enter(self, due_us: int | None) -> None:
        """Let stories enter that begin before anything else happens."""
        while self._next is not None:
            if (due_us is not None and due_us < self._next_us) or (self._agenda and self._agenda[0][0] < self._next_us):
                return
            self._enter()

    def _is_vain(self) -> bool:
        """Tell whether a broker has looked in vain for so long that it always will, as long as clients do nothing."""
        if self._events_left != self._left_then:
            return False
        tried = self._broker.now_us - self._quiet_since_us >= VAIN_US
        return self._quiet >= QUIET_MAX or (tried and self._broker.node.only_retries)

    def _anything_waits(self) -> bool:
        """Tell whether time can still do anything to a message."""
        return bool(self._broker.node.state.delayed) or any(
            queue.store.ready or queue.discards or queue.in_hand or queue.unacked
            for queue in self._broker.existing(self._used)
            if queue.definition.type != STREAM
        )

    # What the broker does

    def _observe(self, event: Happened, message: Message) -> None:
        self._events_left -= 1
        if self._events_left < 0:
            raise _TooMuchError("messages go round without end")
        kind = event.event
        if kind == _PUBLISHED:
            self._by_uid[event.uid] = self._publishing
            self._publishing.uids.append(event.uid)
        each = self._by_uid.get(event.uid)
        if each is None:
            return
        now_us, queue = event.time_us - self._later_us, event.queue or ""
        added = copies_added(event, self._before) + delays_added(event)
        if added:
            each.copies += added
            self._touched[each] = None
        if kind in TELLING:
            each.tally.take(event, self._before)
        if each.watched:
            each.seen.append(msgspec.structs.replace(event, time_us=now_us))
        self._before = event
        if kind in _COMES:
            self._comes(each, event.vhost, queue, now_us)
        elif kind == _DELIVERED:
            self._in_hand = each, message
            _left(each.stays.get(queue, ()), now_us, "delivered")
        elif kind in _GONE:
            _left(each.stays.get(queue, ()), now_us, "died")
        elif kind in _IN_VAIN:
            self._events_left += 1

    def _comes(self, each: _InPlay, vhost: str, queue: str, now_us: int) -> None:
        """Take note of a message that is ready in a queue from now on."""
        self._used[vhost, queue] = None
        stays = each.stays.setdefault(queue, [])
        self._news.append((each, queue, len(stays)))
        stays.append(QueueStay(now_us))

    def _arrived(self, each: _InPlay, queue: str, attempt: int) -> None:
        """Let the message that came into the queue be taken in its turn; ``attempt``: how often it came before."""
        vhost, seen = each.story.vhost, each.deliveries.get(queue, ())
        now_us = each.stays[queue][attempt].since_us + self._later_us
        if self._is_first:
            if self._wanted[vhost, queue]:
                self._wanted[vhost, queue] -= 1
                self._take(vhost, queue)
            elif now_us > self._end_us and attempt >= len(seen):
                self._take_unseen(each, queue, attempt, now_us)
            return
        stays = each.first_stays.get(queue, ())
        usual_us = self._typical_waits.get((vhost, queue)) or 0
        if attempt >= len(stays):
            self._take_unseen(each, queue, attempt, now_us + usual_us)
            return
        stay = stays[attempt]
        if stay.end == "died":
            self._take_unseen(each, queue, attempt, now_us + max(usual_us, stay.after_us + 1))
        elif stay.end == "delivered":
            before = sum([stay.end == "delivered" for stay in stays[:attempt]]) if attempt else 0
            place = seen[before].place if before < len(seen) else LAST
            self._take_later(each, queue, attempt, now_us + stay.after_us, place)

    def _take_unseen(self, each: _InPlay, queue: str, attempt: int, at_us: int) -> None:
        """Let the message be taken though the log has no such delivery, if anybody consumes the queue."""
        vhost = each.story.vhost
        if (vhost, queue) in self._log.consumed:
            self._take_later(each, queue, attempt, at_us, LAST)
        elif not (self._is_first or queue in each.first_stays or (vhost, queue) in self._typical_waits):
            _assume(each, f"no consumer reads '{queue}': in the log no message came into it")

    # What clients do

    def _publish(self, each: _InPlay, publication: Publication) -> None:
        self._publishing = each
        if publication.refused_by and self._is_first:
            self._fill(each.story.vhost, publication)
        if not self._broker.publish(each.story.vhost, publication):
            each.tally.refused(self._broker.now_us)

    def _fill(self, vhost: str, publication: Publication) -> None:
        """Let consumers return messages before a queue refuses another one, as many as it takes to fill it.

        No trace tells when they did; where nothing else does, they return them just before they are delivered again.
        """
        for name in publication.refused_by:
            out = self._out[vhost, name]
            while out and self._broker.has_room(vhost, name, publication):
                first = min(out, key=attrgetter("due_us", "place"))
                delivery = first.delivery
                delivery.until_us = delivery.at_us + self._broker.now_us - first.taken_us
                delivery.until_place = publication.place - 0.5
                first.do()

    def _take_later(self, each: _InPlay, queue: str, attempt: int, at_us: int, place: float) -> None:
        """Let a consumer take a message then; if this one has died by then, there is one less to take.

        What the log has before that in the same moment comes first.
        """
        vhost, stay = each.story.vhost, each.stays[queue][attempt]

        def take() -> None:
            if stay.end != "died":
                self._take(vhost, queue)

        now_us = self._broker.now_us
        if at_us <= now_us and not (self._agenda and self._agenda[0][:2] < (now_us, place)):
            take()
        else:
            self._at(at_us, place, each, take)

    def _take(self, vhost: str, name: str) -> None:
        """Let a consumer take the next message of the queue, and do with it what it does."""
        queue = self._broker.node.queue(name, vhost)
        if queue is None or queue.definition.type == STREAM:
            return
        got = self._broker.get(vhost, name)
        if got is None:
            if self._is_first:
                self._wanted[vhost, name] += 1
            return
        each, message = self._in_hand
        attempt = each.taken.get(name, 0)
        each.taken[name] = attempt + 1
        seen = each.deliveries.get(name, [])
        in_log = not self._is_first or self._broker.now_us <= self._end_us
        if in_log and (attempt >= len(seen) or seen[attempt].traced):
            each.tally.deliveries.append(self._shown(name, message))
        if attempt < len(seen):
            delivery = seen[attempt]
            after_us = delivery.until_us - delivery.at_us
            at_once = not after_us and delivery.until_place <= delivery.place
            if at_once:
                self._settle_later(each, got, delivery.action, None, LAST)
            elif self._is_first and delivery.may_be_back_before and queue.settings.dead_letters_refused:
                self._return_later(each, queue, got, delivery)
            else:
                self._settle_later(each, got, delivery.action, after_us, delivery.until_place)
            if each.publishes_again:
                self._publish_again(each, delivery)
            return
        action = ConsumerAction.ENDED
        if self._unseen == "repeat" and seen and attempt < len(seen) + ATTEMPTS_MAX:
            action = seen[-1].action
        _assume(each, f"the consumer of '{name}' {_ASSUMED[action]} a delivery that the log does not have")
        self._settle_later(each, got, action, None, LAST)

    def _settle_later(
        self, each: _InPlay, got: Got, action: ConsumerAction, after_us: int | None, place: float
    ) -> None:
        """Let the consumer do it then, ``None`` being at once."""
        if after_us is None:
            self._broker.settle(got, action)
        else:
            self._at(self._broker.now_us + after_us, place, each, partial(self._broker.settle, got, action))

    def _return_later(self, each: _InPlay, queue: QueueState, got: Got, delivery: StoryDelivery) -> None:
        """Let the consumer return it when the story says so, unless it has done so before."""
        out, now_us = self._out[queue.vhost.name, queue.name], self._broker.now_us

        def give_back() -> None:
            if own in out:
                out.remove(own)
                self._broker.settle(got, delivery.action)

        due_us = now_us + delivery.until_us - delivery.at_us
        own = _Return(due_us, delivery.until_place, delivery, now_us, give_back)
        out.append(own)
        self._at(due_us, delivery.until_place, each, give_back)

    def _publish_again(self, each: _InPlay, delivery: StoryDelivery) -> None:
        """Let the consumer publish the message again, if it did so after this delivery."""
        story = each.story
        for publication in story.publications:
            if publication.after is not None and story.deliveries[publication.after] is delivery:
                later_us = self._broker.now_us + publication.at_us - delivery.at_us
                self._at(later_us, publication.place, each, partial(self._publish, each, publication))

    def _shown(self, queue: str, message: Message) -> Shown:
        """Return what a delivery shows; the deaths only in the first run, which is held against the log."""
        x_death = shown_history(message) if self._is_first else ""
        return Shown(queue, message.exchange, message.routing_keys, x_death)

    # What is left in the end

    def _count_waiting(self, held: Iterable[tuple[QueueState, Copy]]) -> None:
        for queue, copy in held:
            each = self._by_uid.get(copy.uid)
            if each is None:
                continue
            if any(pending.copy is copy for pending in (*queue.in_hand, *queue.discards)):
                each.tally.held(queue.name)
            else:
                each.tally.left(queue.name)
                self._waits(each, queue.name)

    def _waits(self, each: _InPlay, queue: str) -> None:
        """Note what it rests on that a message waits where it did not in the first run."""
        if self._is_first or (each.story.vhost, queue) in self._log.consumed:
            return
        stays = each.first_stays.get(queue, ())
        if stays and all(stay.end != "stayed" for stay in stays):
            _assume(each, f"no consumer reads '{queue}': the log has no delivery from it")

    def _where_held(self) -> str:
        """Say which queues hold the most messages."""
        held = Counter(queue.name for queue, _ in self._broker.held(self._used))
        return ", ".join(f"{many:,} in '{queue}'" for queue, many in held.most_common(HELD_SHOWN)) or "none in a queue"


def _left(stays: Iterable[QueueStay], time_us: int, end: End) -> None:
    for stay in stays:
        if stay.end == "stayed":
            stay.end, stay.after_us = end, time_us - stay.since_us
            return


def _assume(each: _InPlay, what: str) -> None:
    each.tally.assumed[what] = None


_ASSUMED = {
    ConsumerAction.ENDED: "acknowledges",
    ConsumerAction.REJECTED: "rejects",
    ConsumerAction.FAILED: "rejects",
    ConsumerAction.REQUEUED: "returns",
    ConsumerAction.CRASHED: "returns",
}
