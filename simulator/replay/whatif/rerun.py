"""Plays stories again: the same publishes and consumers, on a stage with settings and a release of its own.

Consumers take messages one by one with basic.get, as late after their arrival as they did in
the log, and do with the k-th delivery of a message in a queue what they did with it there. The
first run, under the log's own settings, finds out how long messages waited.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from itertools import count
from statistics import median_low
from typing import Literal

import msgspec

from dlx.deaths import X_DEATH
from dlx.delivery_headers import stored_headers
from dlx.message import Message
from dlx.topology import STREAM
from simulator.broker import commands as amqp
from simulator.broker.replies import Got
from simulator.capture.observe import shown_deaths
from simulator.events import Event, Happened
from simulator.replay.whatif.fates import Ends, Fate, FateTally
from simulator.replay.whatif.stage import Queue, Stage
from simulator.replay.whatif.stories import Delivery, Outcome, Publication, Shown, Story

Unseen = Literal["ack", "repeat"]
"""What consumers do with a delivery that the log does not have: acknowledge it, or what they did the last time."""
ATTEMPTS_MAX = 100
"""Deliveries of a message from one queue that the log does not have; after them its consumer acknowledges it."""
EVENTS_MAX = 20_000
EVENTS_PER_MOMENT_MAX = 200
"""A run that has more events than these, and than these for each row of the log, goes round without end."""
QUIET_MAX = 1_000
"""So often a broker may look in vain, when clients have nothing more to do: at-least-once tries for ever."""
LAST = 2**62
"""Stands behind every row of the log."""
_GONE = frozenset({Event.EXPIRED, Event.LENGTH_DROPPED, Event.LIMIT_DROPPED, Event.PURGED})

_Where = tuple[int, str]
"""A story by its number, and a queue."""
Stays = Mapping[_Where, Sequence["Stay"]]
"""How often messages were ready in a queue, one time after the other."""


class _TooMuchError(RuntimeError):
    """Messages go round without end."""


class Stay(msgspec.Struct, gc=False):
    """One time that a message was ready in a queue: how it ended, and after how long."""

    since_us: int
    end: Literal["delivered", "died", "stayed"] = "stayed"
    after_us: int = 0


class Log(msgspec.Struct, frozen=True):
    """What all messages of a log show together.

    Attributes:
        end_us: when it ends, microseconds since 1970. Until then what it does not have did not happen.
        consumed: the queues that it has deliveries from.
    """

    end_us: int
    consumed: frozenset[Queue]

    @classmethod
    def of(cls, stories: Iterable[Story]) -> Log:
        """Return what the stories show."""
        end_us, consumed = 0, set()
        for story in stories:
            end_us = max(end_us, *story.moments_us())
            consumed |= {(story.vhost, delivery.queue) for delivery in story.deliveries}
        return cls(end_us, frozenset(consumed))


class Habits(msgspec.Struct, frozen=True):
    """How long messages wait in queues, as the first runs found.

    Attributes:
        typical_us: how long they usually waited to be delivered, in each queue that anybody consumes.
        entered: the queues that they came into.
    """

    typical_us: Mapping[Queue, int]
    entered: Container[Queue]

    @classmethod
    def of(cls, found: Iterable[tuple[Sequence[Story], Stays]]) -> Habits:
        """Return what the first runs of all stories found."""
        waits_us: defaultdict[Queue, list[int]] = defaultdict(list)
        for stories, by_queue in found:
            for (number, queue), stays in by_queue.items():
                waits_us[stories[number].vhost, queue] += [stay.after_us for stay in stays if stay.end == "delivered"]
        return cls({queue: median_low(waits) for queue, waits in waits_us.items() if waits}, {*waits_us})


NO_HABITS = Habits({}, frozenset())
"""What is known before the first runs."""


class Rerun:
    """One run of the stories.

    Args:
        stage: where they are played.
        stories: all messages that meet in these queues.
        log: what all messages of the log show.
        unseen: what consumers do with deliveries that the log does not have.
        habits: what the first runs of all stories found.
        stays: what the first run of these stories found; ``None`` in that run.
        watched: the stories whose events are kept, by number.

    Attributes:
        stays: how long messages waited, by story and queue.
        endless: whether messages went round without end, so that the run was given up.
        seen: the events of each watched story.
    """

    def __init__(
        self,
        stage: Stage,
        stories: Sequence[Story],
        log: Log,
        unseen: Unseen,
        *,
        stays: Stays | None = None,
        habits: Habits = NO_HABITS,
        watched: Collection[int] = (),
    ) -> None:
        self._stage, self._stories, self._log, self._unseen = stage, stories, log, unseen
        self._first_stays, self._habits = stays, habits
        moments = [moment for story in stories for moment in story.moments_us()]
        self._later_us = stage.now_us - min(moments, default=0)
        self._end_us = log.end_us + self._later_us
        self._tallies = [FateTally() for _ in stories]
        self._by_uid: dict[int, int] = {}
        self._publishing = 0
        self.seen: dict[int, list[Happened]] = {number: [] for number in watched}
        self._before: Happened | None = None
        self._events_left = EVENTS_MAX + EVENTS_PER_MOMENT_MAX * len(moments)
        self._agenda: list[tuple[int, float, int, Callable[[], None]]] = []
        self._order = count()
        self._news: deque[tuple[int, str, int]] = deque()
        self._deliveries = [story.by_queue() for story in stories]
        self._taken: Counter[_Where] = Counter()
        self.stays: defaultdict[_Where, list[Stay]] = defaultdict(list)
        self._used: dict[Queue, None] = {}
        self.endless = False
        self._quiet = 0
        self._wanted: Counter[tuple[str, str]] = Counter()
        self._in_hand: tuple[int, Message]

    # The run

    def play(self) -> None:
        """Play all, and leave the stage empty."""
        self._stage.observer = self._observe
        try:
            self._play()
        except _TooMuchError:
            self.endless = True
            self._stage.begin_again()
            return
        self._count_waiting()
        self._stage.clear(self._used)

    def _play(self) -> None:
        for number, story in enumerate(self._stories):
            for publication in story.publications:
                if publication.after is None:
                    self._at(
                        publication.at_us + self._later_us, publication.place, self._publisher(number, publication)
                    )
            if self._first_stays is None:
                for delivery in story.deliveries:
                    self._at(delivery.at_us + self._later_us, delivery.place, self._taker(story.vhost, delivery.queue))
        while self._step():
            pass

    def fates(self) -> list[Fate]:
        """Return what became of each story."""
        if self.endless:
            return [Fate(Ends(endless=True)) for _ in self._stories]
        return [tally.fate(self._later_us) for tally in self._tallies]

    def _at(self, time_us: int, place: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (time_us, place, next(self._order), action))

    def _step(self) -> bool:
        """Do what comes next: what the broker does by itself, or the next action; return whether there was anything."""
        due_us = self._stage.broker.next_due()
        if self._agenda and (due_us is None or self._agenda[0][0] < due_us):
            time_us, _, _, action = heapq.heappop(self._agenda)
            self._stage.now_us = max(self._stage.now_us, time_us)
            action()
        elif due_us is not None and (self._agenda or (self._quiet < QUIET_MAX and self._anything_waits())):
            events_left = self._events_left
            self._stage.now_us = max(self._stage.now_us, due_us)
            self._stage.tell(amqp.PassTime())
            self._quiet = self._quiet + 1 if self._events_left == events_left else 0
        else:
            return False
        self._hear()
        return True

    def _anything_waits(self) -> bool:
        """Tell whether time can still do anything to a message."""
        return any(
            queue.store.ready or queue.discards or queue.in_hand or queue.unacked
            for queue in self._stage.existing(self._used)
            if queue.definition.type != STREAM
        )

    # What the broker does

    def _observe(self, event: Happened, message: Message) -> None:
        self._events_left -= 1
        if self._events_left < 0:
            raise _TooMuchError("messages go round without end")
        if event.event == Event.PUBLISHED:
            self._by_uid[event.uid] = self._publishing
        number = self._by_uid.get(event.uid)
        if number is None:
            return
        self._tallies[number].take(event, self._before)
        if number in self.seen:
            self.seen[number].append(msgspec.structs.replace(event, time_us=event.time_us - self._later_us))
        self._before = event
        where = number, event.queue or ""
        if event.queue is not None:
            self._used[event.vhost, event.queue] = None
        if event.event in (Event.ROUTED, Event.REQUEUED):
            self.stays[where].append(Stay(event.time_us))
            self._news.append((*where, len(self.stays[where]) - 1))
        elif event.event == Event.DELIVERED:
            self._in_hand = number, message
            self._left(where, event.time_us, "delivered")
        elif event.event in _GONE:
            self._left(where, event.time_us, "died")

    def _left(self, where: _Where, time_us: int, end: Literal["delivered", "died"]) -> None:
        for stay in self.stays[where]:
            if stay.end == "stayed":
                stay.end, stay.after_us = end, time_us - stay.since_us
                return

    def _hear(self) -> None:
        """Take note of messages that have come into queues, and let consumers who wait for them take them."""
        while self._news:
            self._arrived(*self._news.popleft())

    def _arrived(self, number: int, queue: str, attempt: int) -> None:
        """Let the message that came into the queue for so many times be taken when its turn comes."""
        vhost, seen = self._stories[number].vhost, self._deliveries[number].get(queue, ())
        now_us = self.stays[number, queue][attempt].since_us
        if self._first_stays is None:
            if self._wanted[vhost, queue]:
                self._wanted[vhost, queue] -= 1
                self._take(vhost, queue)
            elif now_us > self._end_us and attempt >= len(seen):
                self._take_unseen(number, queue, attempt, now_us)
            return
        stays = self._first_stays.get((number, queue), ())
        usual_us = self._habits.typical_us.get((vhost, queue), 0)
        if attempt >= len(stays):
            self._take_unseen(number, queue, attempt, now_us + usual_us)
        elif stays[attempt].end == "died":
            self._take_unseen(number, queue, attempt, now_us + max(usual_us, stays[attempt].after_us + 1))
        elif stays[attempt].end == "delivered":
            before = sum(stay.end == "delivered" for stay in stays[:attempt])
            place = seen[before].place if before < len(seen) else LAST
            self._take_later(number, queue, attempt, now_us + stays[attempt].after_us, place)

    def _take_unseen(self, number: int, queue: str, attempt: int, at_us: int) -> None:
        """Let the message be taken though the log has no such delivery, if anybody consumes the queue."""
        vhost = self._stories[number].vhost
        if (vhost, queue) in self._log.consumed:
            self._take_later(number, queue, attempt, at_us, LAST)
        elif self._first_stays is not None and (vhost, queue) not in self._habits.entered:
            self._assume(number, f"nobody consumes '{queue}': in the log no message came into it")

    def _assume(self, number: int, what: str) -> None:
        self._tallies[number].assumed[what] = None

    # What clients do

    def _publisher(self, number: int, publication: Publication) -> Callable[[], None]:
        def publish() -> None:
            self._publishing = number
            if not self._stage.publish(self._stories[number].vhost, publication):
                self._tallies[number].refused(self._stage.now_us)

        return publish

    def _take_later(self, number: int, queue: str, attempt: int, at_us: int, place: float) -> None:
        """Let a consumer take a message then; if this one has died by then, there is one less to take."""
        vhost, stay = self._stories[number].vhost, self.stays[number, queue][attempt]

        def take() -> None:
            if stay.end != "died":
                self._take(vhost, queue)

        if at_us <= self._stage.now_us:
            take()
        else:
            self._at(at_us, place, take)

    def _taker(self, vhost: str, queue: str) -> Callable[[], None]:
        return lambda: self._take(vhost, queue)

    def _take(self, vhost: str, name: str) -> None:
        """Let a consumer take the next message of the queue, and do with it what it does."""
        queue = self._stage.broker.queue(name, vhost)
        if queue is None or queue.definition.type == STREAM:
            return
        got = self._stage.get(vhost, name)
        if got is None:
            if self._first_stays is None:
                self._wanted[vhost, name] += 1
            return
        number, message = self._in_hand
        tally, story = self._tallies[number], self._stories[number]
        attempt = self._taken[number, name]
        self._taken[number, name] += 1
        seen = self._deliveries[number].get(name, [])
        in_log = self._first_stays is not None or self._stage.now_us <= self._end_us
        if in_log and (attempt >= len(seen) or seen[attempt].traced):
            tally.deliveries.append(self._shown(name, message))
        if attempt < len(seen):
            delivery = seen[attempt]
            self._settle_later(got, delivery.outcome, delivery.until_us - delivery.at_us, delivery.until_place)
            self._publish_again(number, story, delivery)
            return
        outcome = Outcome.ENDED
        if self._unseen == "repeat" and seen and attempt < len(seen) + ATTEMPTS_MAX:
            outcome = seen[-1].outcome
        self._assume(number, f"the consumer of '{name}' {_ASSUMED[outcome]} a delivery that the log does not have")
        self._settle_later(got, outcome, 0, LAST)

    def _settle_later(self, got: Got, outcome: Outcome, after_us: int, place: float) -> None:
        def settle() -> None:
            self._stage.settle(got, outcome)

        if after_us:
            self._at(self._stage.now_us + after_us, place, settle)
        else:
            settle()

    def _publish_again(self, number: int, story: Story, delivery: Delivery) -> None:
        """Let the consumer publish the message again, if it did so after this delivery."""
        for publication in story.publications:
            if publication.after is not None and story.deliveries[publication.after] is delivery:
                later_us = self._stage.now_us + publication.at_us - delivery.at_us
                self._at(later_us, publication.place, self._publisher(number, publication))

    def _shown(self, queue: str, message: Message) -> Shown:
        """Return what a delivery shows; the deaths only in the first run, which is held against the log."""
        x_death = ""
        if self._first_stays is None:
            deaths = stored_headers(message).get(X_DEATH)
            x_death = "" if deaths is None else shown_deaths(deaths)
        return Shown(queue, message.exchange, message.routing_keys, x_death)

    # What is left in the end

    def _count_waiting(self) -> None:
        for queue, copy in self._stage.held(self._used):
            number = self._by_uid.get(copy.uid)
            if number is not None:
                self._tallies[number].left(queue.name)
                self._waits(number, queue.name)

    def _waits(self, number: int, queue: str) -> None:
        """Note what it rests on that a message waits where it did not in the first run."""
        if self._first_stays is None or (self._stories[number].vhost, queue) in self._log.consumed:
            return
        stays = self._first_stays.get((number, queue), ())
        if stays and all(stay.end != "stayed" for stay in stays):
            self._assume(number, f"nobody consumes '{queue}': the log has no delivery from it")


_ASSUMED = {
    Outcome.ENDED: "acknowledges",
    Outcome.REJECTED: "rejects",
    Outcome.REQUEUED: "returns",
    Outcome.CRASHED: "returns",
}
