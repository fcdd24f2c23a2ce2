"""Plays stories again: the same publishes and consumers, on a broker with settings and a release of its own.

Consumers take messages one by one with basic.get, as late after their arrival as they did in
the log, and do with the k-th delivery of a message in a queue what they did with it there. The
first run, under the log's own settings, finds out how long messages waited.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import count
from statistics import median_low
from typing import Any, Literal

import msgspec

from dlx.deaths import X_DEATH
from dlx.delivery_headers import stored_headers
from dlx.message import Message
from dlx.releases import DEFAULT, Release
from dlx.topology import STREAM
from simulator.bootstrap import import_definitions
from simulator.broker import Broker, QueueState
from simulator.broker import commands as amqp
from simulator.broker.replies import ChannelClosed, ConnectionClosed, Got
from simulator.capture.observe import shown_deaths
from simulator.events import Event, Happened
from simulator.replay.whatif.fates import Fate, FateTally
from simulator.replay.whatif.stories import Delivery, Outcome, Publication, Shown, Story

Unseen = Literal["ack", "repeat"]
"""What consumers do with a delivery that the log does not have: acknowledge it, or what they did the last time."""
USER = "dlx whatif"
CHANNELS_MAX = 2_000
ATTEMPTS_MAX = 100
"""Deliveries of a message from one queue that the log does not have; after them its consumer acknowledges it."""
EVENTS_PER_STORY_MAX = 20_000
LAST = 2**62
"""Stands behind every row of the log."""
_GONE = frozenset({Event.EXPIRED, Event.LENGTH_DROPPED, Event.LIMIT_DROPPED, Event.PURGED})

_Where = tuple[int, str]
"""A story by its number, and a queue."""


class TooMuchError(RuntimeError):
    """Messages go round without end."""


class Stay(msgspec.Struct):
    """One time that a message was ready in a queue: how it ended, and after how long."""

    since_us: int
    end: Literal["delivered", "died", "stayed"] = "stayed"
    after_us: int = 0


class Habits(msgspec.Struct):
    """How long messages waited in their queues, as the first run found.

    Attributes:
        stays: by story and queue, one after the other.
        typical_us: how long messages usually waited to be delivered, in each queue that anybody consumes.
        entered: the queues that messages came into.
    """

    stays: Mapping[_Where, Sequence[Stay]]
    typical_us: dict[tuple[str, str], int]
    entered: set[tuple[str, str]]


class Rerun:
    """One run of the stories.

    Args:
        definitions: an export, as JSON values.
        release: the RabbitMQ release.
        stories: all messages that meet in these queues.
        habits: what the first run found; ``None`` for the first run.
        unseen: what consumers do with deliveries that the log does not have.
        until_us: when the log ends, microseconds since 1970; by default with the last row of these stories. Until
            then what the log does not have did not happen; later the first run assumes it, too.
        watched: the stories whose events are kept, by number.

    Attributes:
        broker: the broker.
        seen: the events of each watched story.
    """

    def __init__(
        self,
        definitions: Mapping[str, Any],
        stories: Sequence[Story],
        *,
        release: Release | str = DEFAULT,
        habits: Habits | None = None,
        unseen: Unseen = "ack",
        until_us: int | None = None,
        watched: Collection[int] = (),
    ) -> None:
        self._stories, self._habits, self._unseen = stories, habits, unseen
        moments = [moment for story in stories for moment in story.moments_us()]
        self._start_us, self._end_us = min(moments, default=0), max(moments, default=0)
        if until_us is not None:
            self._end_us = until_us
        self.broker = Broker(release, observer=self._observe)
        import_definitions(self.broker, definitions, self._start_us)
        self._clients = _Clients(self.broker, self._start_us)
        self._tallies = [FateTally() for _ in stories]
        self._by_uid: dict[int, int] = {}
        self._publishing = 0
        self.seen: dict[int, list[Happened]] = {number: [] for number in watched}
        self._before: Happened | None = None
        self._events_left = EVENTS_PER_STORY_MAX + 200 * sum(1 for _ in moments)
        self._agenda: list[tuple[int, float, int, Callable[[], None]]] = []
        self._order = count()
        self._news: deque[tuple[int, str, int]] = deque()
        self._deliveries = [story.by_queue() for story in stories]
        self._taken: Counter[_Where] = Counter()
        self._stays: defaultdict[_Where, list[Stay]] = defaultdict(list)
        self._wanted: Counter[tuple[str, str]] = Counter()
        self._in_hand: tuple[int, Message]
        self._consumed = {
            (story.vhost, queue) for story, own in zip(stories, self._deliveries, strict=True) for queue in own
        }

    # The run

    def play(self) -> list[Fate]:
        """Play all, and return the fate of each story. Raises ``TooMuchError``."""
        for number, story in enumerate(self._stories):
            for publication in story.publications:
                if publication.after is None:
                    self._at(publication.at_us, publication.place, self._publisher(number, publication))
            if self._habits is None:
                for delivery in story.deliveries:
                    self._at(delivery.at_us, delivery.place, self._taker(story.vhost, delivery.queue))
        while self._step():
            pass
        self._count_waiting()
        return [tally.fate() for tally in self._tallies]

    def _at(self, time_us: int, place: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (time_us, place, next(self._order), action))

    def _step(self) -> bool:
        """Do what comes next: what the broker does by itself, or the next action; return whether there was anything."""
        due_us = self.broker.next_due()
        if self._agenda and (due_us is None or self._agenda[0][0] < due_us):
            time_us, _, _, action = heapq.heappop(self._agenda)
            self._clients.now_us = max(self._clients.now_us, time_us)
            action()
        elif due_us is not None and (self._agenda or self._anything_waits()):
            self._clients.now_us = max(self._clients.now_us, due_us)
            self._clients.tell(amqp.PassTime())
        else:
            return False
        self._hear()
        return True

    def _anything_waits(self) -> bool:
        """Tell whether time can still do anything to a message."""
        return any(
            queue.store.ready or queue.discards or queue.in_hand or queue.unacked
            for vhost in self.broker.vhosts.values()
            for queue in vhost.queues.values()
            if queue.definition.type != STREAM
        )

    # What the broker does

    def _observe(self, event: Happened, message: Message) -> None:
        self._events_left -= 1
        if self._events_left < 0:
            raise TooMuchError("messages go round without end")
        if event.event == Event.PUBLISHED:
            self._by_uid[event.uid] = self._publishing
        number = self._by_uid.get(event.uid)
        if number is None:
            return
        self._tallies[number].take(event, self._before, message)
        if number in self.seen:
            self.seen[number].append(event)
        self._before = event
        where = number, event.queue or ""
        if event.event in (Event.ROUTED, Event.REQUEUED):
            self._stays[where].append(Stay(event.time_us))
            self._news.append((*where, len(self._stays[where]) - 1))
        elif event.event == Event.DELIVERED:
            self._in_hand = number, message
            self._left(where, event.time_us, "delivered")
        elif event.event in _GONE:
            self._left(where, event.time_us, "died")

    def _left(self, where: _Where, time_us: int, end: Literal["delivered", "died"]) -> None:
        for stay in self._stays[where]:
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
        now_us = self._stays[number, queue][attempt].since_us
        if self._habits is None:
            if self._wanted[vhost, queue]:
                self._wanted[vhost, queue] -= 1
                self._take(vhost, queue)
            elif now_us > self._end_us and attempt >= len(seen):
                self._take_unseen(number, queue, attempt, now_us)
            return
        stays = self._habits.stays.get((number, queue), ())
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
        if (vhost, queue) in self._consumed:
            self._take_later(number, queue, attempt, at_us, LAST)
        elif self._habits is not None and (vhost, queue) not in self._habits.entered:
            self._assume(number, f"nobody consumes '{queue}': in the log no message came into it")

    def _assume(self, number: int, what: str) -> None:
        self._tallies[number].assumed[what] = None

    # What clients do

    def _publisher(self, number: int, publication: Publication) -> Callable[[], None]:
        def publish() -> None:
            self._publishing = number
            self._clients.publish(self._stories[number].vhost, publication)

        return publish

    def _take_later(self, number: int, queue: str, attempt: int, at_us: int, place: float) -> None:
        """Let a consumer take a message then; if this one has died by then, there is one less to take."""
        vhost, stay = self._stories[number].vhost, self._stays[number, queue][attempt]

        def take() -> None:
            if stay.end != "died":
                self._take(vhost, queue)

        if at_us <= self._clients.now_us:
            take()
        else:
            self._at(at_us, place, take)

    def _taker(self, vhost: str, queue: str) -> Callable[[], None]:
        return lambda: self._take(vhost, queue)

    def _take(self, vhost: str, name: str) -> None:
        """Let a consumer take the next message of the queue, and do with it what it does."""
        queue = self._queue(vhost, name)
        if queue is None or queue.definition.type == STREAM:
            return
        got = self._clients.get(vhost, name)
        if got is None:
            if self._habits is None:
                self._wanted[vhost, name] += 1
            return
        number, message = self._in_hand
        tally, story = self._tallies[number], self._stories[number]
        attempt = self._taken[number, name]
        self._taken[number, name] += 1
        seen = self._deliveries[number].get(name, [])
        in_log = self._habits is not None or self._clients.now_us <= self._end_us
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
            self._clients.settle(got, outcome)

        if after_us:
            self._at(self._clients.now_us + after_us, place, settle)
        else:
            settle()

    def _publish_again(self, number: int, story: Story, delivery: Delivery) -> None:
        """Let the consumer publish the message again, if it did so after this delivery."""
        for publication in story.publications:
            if publication.after is not None and story.deliveries[publication.after] is delivery:
                later_us = self._clients.now_us + publication.at_us - delivery.at_us
                self._at(later_us, publication.place, self._publisher(number, publication))

    def _shown(self, queue: str, message: Message) -> Shown:
        """Return what a delivery shows; the deaths only in the first run, which is held against the log."""
        x_death = ""
        if self._habits is None:
            deaths = stored_headers(message).get(X_DEATH)
            x_death = "" if deaths is None else shown_deaths(deaths)
        return Shown(queue, message.exchange, message.routing_keys, x_death)

    # What is left in the end

    def _queue(self, vhost: str, name: str) -> QueueState | None:
        host = self.broker.vhosts.get(vhost)
        return None if host is None else host.queues.get(name)

    def _count_waiting(self) -> None:
        for vhost in self.broker.vhosts.values():
            for queue in vhost.queues.values():
                held = [pending.copy for pending in (*queue.in_hand, *queue.discards)]
                for copy in (*queue.store.waiting(), *held):
                    number = self._by_uid.get(copy.uid)
                    if number is not None:
                        self._tallies[number].left(queue.name)

    def habits(self) -> Habits:
        """Return what this run, under the log's own settings, has found out."""
        by_queue: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        for (number, queue), stays in self._stays.items():
            waits_us = [stay.after_us for stay in stays if stay.end == "delivered"]
            by_queue[self._stories[number].vhost, queue] += waits_us
        typical_us = {key: median_low(waits_us) for key, waits_us in by_queue.items() if waits_us}
        return Habits(self._stays, typical_us, {*by_queue})


_ASSUMED = {
    Outcome.ENDED: "acknowledges",
    Outcome.REJECTED: "rejects",
    Outcome.REQUEUED: "returns",
    Outcome.CRASHED: "returns",
}


class _Clients:
    """The connections of publishers and consumers; each delivery has a channel of its own."""

    def __init__(self, broker: Broker, now_us: int) -> None:
        self.now_us = now_us
        self._broker = broker
        self._free: defaultdict[str, list[amqp.ChannelId]] = defaultdict(list)
        self._publishers: dict[str, amqp.ChannelId] = {}
        self._vhost_of: dict[Any, str] = {}
        self._connections = count(1)
        broker.handle(amqp.AddUser(USER, ""), now_us)
        for vhost in broker.vhosts:
            broker.handle(amqp.SetPermissions(USER, vhost, ".*", ".*", ".*"), now_us)

    def tell(self, command: amqp.Command) -> Got | None:
        """Give the broker a command; return the message that it hands out."""
        got = None
        for reply in self._broker.handle(command, self.now_us):
            if isinstance(reply, Got):
                got = reply
            elif isinstance(reply, ChannelClosed):
                self._publishers = {vhost: each for vhost, each in self._publishers.items() if each != reply.channel}
            elif isinstance(reply, ConnectionClosed):
                gone = reply.connection
                self._publishers = {vhost: each for vhost, each in self._publishers.items() if each[0] != gone}
        return got

    def publish(self, vhost: str, publication: Publication) -> None:
        if vhost not in self._publishers:
            self._publishers[vhost] = self._connect(vhost)[0]
        channel, named = self._publishers[vhost], (publication.exchange, publication.routing_key)
        self.tell(amqp.Publish(channel, *named, publication.properties, publication.body))

    def get(self, vhost: str, queue: str) -> Got | None:
        free = self._free[vhost]
        if not free:
            free += self._connect(vhost, CHANNELS_MAX)
        got = self.tell(amqp.Get(free[-1], queue))
        if got is not None:
            free.pop()
        return got

    def settle(self, got: Got, outcome: Outcome) -> None:
        """Do with a delivery what its consumer does."""
        channel, tag = got.channel, got.delivery_tag
        if outcome == Outcome.CRASHED:
            self.tell(amqp.CloseChannel(channel))
            self.tell(amqp.OpenChannel(channel))
        elif outcome == Outcome.ENDED:
            self.tell(amqp.Ack(channel, tag))
        else:
            self.tell(amqp.Nack(channel, tag, requeue=outcome == Outcome.REQUEUED))
        self._free[self._vhost_of[channel[0]]].append(channel)

    def _connect(self, vhost: str, channels: int = 1) -> list[amqp.ChannelId]:
        connection = next(self._connections)
        self._vhost_of[connection] = vhost
        self.tell(amqp.OpenConnection(connection, vhost, USER, limited=False))
        opened: list[amqp.ChannelId] = [(connection, number) for number in range(1, channels + 1)]
        for channel in opened:
            self.tell(amqp.OpenChannel(channel))
        return opened
