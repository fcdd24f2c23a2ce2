"""Brings messages back from a dead-letter queue of a running RabbitMQ, and can be killed at any point.

For each message, in this order:

1. the journal says that it is sent;
2. it is published, mandatory and with confirms;
3. the broker confirms it, and the journal says so;
4. it is acknowledged in the dead-letter queue; once the broker has heard that, the journal says so.

A run that goes on with the journal after a kill knows: a confirmed message needs only its
acknowledgement; one that was sent and not confirmed may be there twice in the end, and is named before. What was
returned or refused, or would be lost, is given back to the queue.

Only messages that were in the queue at the start are read: queues are in order, so that is
as many deliveries as it had messages then. No more are taken than that: a consumer has a prefetch, and
nothing is acknowledged to it before it has been cancelled. What stays is held until the end, and
goes back all at once, in its order.

``Intake`` takes the messages on one channel, ``RedrivePublisher`` sends them on another, and ``Execution``
decides, a batch at each tick, and has the journal know each step before it is taken.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import pika
from pika.adapters.select_connection import SelectConnection
from pika.channel import Channel
from pika.spec import Basic, BasicProperties

from simulator.capture import CaptureUnavailable, Observation
from simulator.capture.client_rows import delivered_row
from simulator.capture.connected import amqp_parameters, exact_values, why_lost
from simulator.redrive.how_to_peek import PeekPlan
from simulator.redrive.journal import JournalError, RedriveJournal, fingerprint
from simulator.redrive.peek import GivingBack
from simulator.redrive.plan import Planned, properties_carried
from simulator.redrive.waiting import WaitingMessage, waiting

WINDOW = 1_000
"""How many messages a consumer takes at most: its prefetch. Then it is cancelled, and later there is another."""
WINDOW_MIN = 50
"""How many it has where few are to be moved."""
BATCH = 200
"""How many messages are sent between two looks at what came back."""
TICK_S = 0.005
AHEAD_MAX = 20_000
"""At most this many messages are read, and held in memory, to see what came behind them."""
BLOCKED_S = 60.0
"""So long the broker may take no publishes, since it is short of memory or disk; unless the URL says otherwise."""
IDLE_S = 5.0
"""After this long without a delivery, the remaining messages belong to others."""

Entry = tuple[str, str, str, str]
"""What the journal gets of a message: fingerprint, id, fate and note."""


class RedriveSource(msgspec.Struct, frozen=True):
    """The dead-letter queue.

    Attributes:
        url: AMQP URL, whose virtual host is ``vhost``.
        queue: its name.
        how: how what stays in the queue goes back to it.
    """

    url: str
    vhost: str
    queue: str
    how: PeekPlan | None = None


class RedriveLimits(msgspec.Struct, frozen=True):
    """How much a run does, at most: messages read, messages moved, and messages sent in a second."""

    looks_max: int | None = None
    moves_max: int | None = None
    rate: float | None = None

    @property
    def window(self) -> int:
        """How many messages a consumer takes."""
        return WINDOW if self.moves_max is None else min(WINDOW, max(WINDOW_MIN, self.moves_max))


class UnackedMessage(NamedTuple):
    """A message of the dead-letter queue, by its tag and by the fingerprint that the journal knows it by."""

    tag: int
    fingerprint: str
    row: Observation
    properties: BasicProperties

    @property
    def entry(self) -> Entry:
        """What the journal gets of it before anything is planned for it."""
        return self.fingerprint, self.row.message, "", ""


class Moving(msgspec.Struct):
    """One message on its way: its delivery, what is planned for it, and whether no queue took it."""

    delivery: UnackedMessage
    planned: Planned
    returned: bool = False

    def entry(self, note: str = "") -> Entry:
        """Return what the journal gets of it, with where it goes or why it stays."""
        return self.delivery.fingerprint, self.planned.message.id, str(self.planned.fate.kind), note

    def is_same(self, method: Basic.Return, properties: BasicProperties, body: bytes) -> bool:
        """Return whether this may be the message that the broker returned."""
        address = self.planned.address
        return (
            address is not None
            and (address.exchange, address.routing_key) == (method.exchange, method.routing_key)
            and self.delivery.properties.message_id == properties.message_id
            and self.delivery.row.payload == body
        )


OnAnswer = Callable[[Sequence[Moving], Sequence[Entry]], None]
"""Gets messages that have arrived where they go, and what the journal gets of those that stay."""


class RedriveProgress(msgspec.Struct):
    """What a run has done so far; what happened to the messages is in the journal.

    Attributes:
        moved: messages that the broker has where they go, and that left the queue.
        looked_at: messages of the queue that were decided on.
        of: how many there are to be looked at.
        arrived: messages that came to the queue since the run began: some of those that were moved, or others.
        late: how many of these were read.
        returned: how many of the late ones had been moved: of the same ``message_id``, or, without one, the same body.
        without_id: how many of these have no ``message_id``.
        unread: how many messages would have to be read before the late ones, where that is too many; otherwise 0.
        initially: how many messages were ready in the queue when the run began.
        stopped: why it ended before its time; empty if it did not.
    """

    moved: int = 0
    looked_at: int = 0
    of: int = 0
    arrived: int = 0
    late: int = 0
    returned: int = 0
    without_id: int = 0
    unread: int = 0
    initially: int = 0
    stopped: str = ""


class RedriveArrivals:
    """Messages that come to the queue during a run: those that were moved are known again.

    Args:
        before: how many came to its end just before the run.
        moved: what tells messages that were moved from others; the run adds to it.
        suspicious: gets how many came and were not read, of which any may have been moved, and what was done so far:
            whether they are to be read before anything else is moved.
    """

    def __init__(
        self,
        before: int = 0,
        moved: set[str] | None = None,
        suspicious: Callable[[int, RedriveProgress], bool] = lambda unread, done: False,
    ) -> None:
        self.before, self.suspicious = before, suspicious
        self._moved = set() if moved is None else moved

    def know(self, delivery: UnackedMessage) -> None:
        """Keep what a message that was moved is known by, if it dies once more."""
        self._moved.add(_mark(delivery))

    def count(self, delivery: UnackedMessage, done: RedriveProgress) -> None:
        """Count a message that came late, and whether it had been moved."""
        done.late += 1
        if _mark(delivery) in self._moved:
            done.returned += 1
            done.without_id += not delivery.properties.message_id


def _mark(delivery: UnackedMessage) -> str:
    message_id = delivery.properties.message_id
    return f"id {message_id}" if message_id else hashlib.blake2b(delivery.row.payload, digest_size=16).hexdigest()


class Execution:
    """One run. ``run`` returns when all is moved or given back.

    Args:
        source: the dead-letter queue.
        journal: what earlier runs have done, and where this one writes.
        plan: returns what is planned for a message.
        limits: how much is done, at most.
        arrivals: what tells messages that were moved, where they come back.
        may: asked before each batch with what was done; a text that is not empty stops the run, and says why.
        publisher: makes what sends the messages.
    """

    def __init__(
        self,
        source: RedriveSource,
        journal: RedriveJournal,
        plan: Callable[[WaitingMessage], Planned],
        limits: RedriveLimits | None = None,
        arrivals: RedriveArrivals | None = None,
        may: Callable[[RedriveProgress], str] = lambda done: "",
        publisher: Callable[[float | None, OnAnswer], RedrivePublisher] | None = None,
    ) -> None:
        self._source, self._journal, self._plan, self._may = source, journal, plan, may
        self._limits, self._arrivals = limits or RedriveLimits(), arrivals or RedriveArrivals()
        self.done = RedriveProgress(arrived=self._arrivals.before)
        self._intake = Intake(source.queue, self._on_delivery)
        self._publisher = (publisher or RedrivePublisher)(self._limits.rate, self._on_answer)
        self._inbox: deque[UnackedMessage] = deque()
        self._ready: deque[Moving] = deque()
        self._acknowledged: list[tuple[int, Entry]] = []  # with its tag
        self._going = 0
        self._reads_until: int | None = None  # it takes this many deliveries, where it reads ahead
        self._taken_by_others = 0  # of the messages that arrived
        self._error: BaseException | None = None
        self._unwritten: JournalError | None = None
        self._ended = False

    def run(self) -> RedriveProgress:
        """Do it.

        Raises:
            CaptureUnavailable: no connection, it was lost, or the broker refuses. The journal can go on.
            JournalError: the journal cannot be written. What its lines would have announced was not done.
        """
        to = _parameters(self._source)
        self._connection = GatheringConnection(
            to, self._on_open, self._on_failed, self._on_closed, internal_connection_workflow=True
        )
        try:
            with exact_values(to_publish=True):
                self._connection.ioloop.start()
        finally:
            self._connection.ioloop.close()
        if self._unwritten is not None:
            raise self._unwritten
        if isinstance(self._error, Exception) and not self._ended:
            name = f"{to.host}:{to.port}/{to.virtual_host.removeprefix('/')}"
            raise CaptureUnavailable(name, why_lost(self._error)) from self._error
        return self.done

    # -- beginning

    def _on_open(self, connection: Any) -> None:
        connection.add_on_connection_blocked_callback(self._publisher.block)
        connection.add_on_connection_unblocked_callback(self._publisher.unblock)
        connection.channel(on_open_callback=self._on_intake_open)

    def _on_intake_open(self, channel: Channel) -> None:
        channel.add_on_close_callback(self._on_channel_closed)
        self._intake.open(channel)
        self._connection.channel(on_open_callback=self._on_publisher_open)

    def _on_publisher_open(self, channel: Channel) -> None:
        channel.add_on_close_callback(self._on_channel_closed)
        self._publisher.open(channel, on_ready=lambda: self._intake.count_ready(self._begin))

    def _begin(self, ready: int) -> None:
        self.done.initially = ready
        if not self._written(self._journal.begin, ready):
            return
        old = self._journal.ledger.to_look_at(ready)
        self.done.of = old if self._limits.looks_max is None else min(old, self._limits.looks_max)
        self._publisher.start_clock()
        self._intake.restart_clock()
        self._tick()

    # -- each turn

    def _tick(self) -> None:
        if self._ended or self._error is not None:
            return
        if not self.done.stopped:
            self.done.stopped = self._may(self.done)
        if not self.done.stopped:
            self._read_ahead()
            self._take_more()
            if self._reads_until is None:
                self._decide()
                self._send()
        self._settle()
        if self._unwritten is not None:
            return
        if self._is_over():
            self._finish()
        else:
            self._connection.ioloop.call_later(TICK_S, self._tick)

    def _read_ahead(self) -> None:
        """Where many messages have come, read up to them: some of those that were moved, or others?"""
        done, unread = self.done, self.done.arrived - self.done.late
        if self._reads_until is not None:
            idle = self._intake.is_idle
            if idle:
                self._intake.cancel()  # others have the rest
                self._taken_by_others = unread
            if idle or self._intake.taken >= self._reads_until:
                self._reads_until = None
        elif self._arrivals.suspicious(unread - self._taken_by_others, done):
            until = done.initially - self._arrivals.before + done.arrived
            ahead = until - self._intake.taken
            if ahead > AHEAD_MAX:
                done.unread = ahead - unread
            else:
                self._reads_until = until
                self._intake.restart_clock()

    def _take_more(self) -> None:
        """Begin a consumer if there is none, and little is left to decide on."""
        window, ahead = self._limits.window, self._reads_until
        left = (self.done.of if ahead is None else ahead) - self._intake.taken
        much = ahead is None and len(self._inbox) + len(self._ready) > window // 2
        if left > 0 and not much and not self._intake.is_consuming:
            self._intake.take(min(window, left))

    def _on_delivery(self, delivery: UnackedMessage) -> None:
        if self._intake.taken > self.done.initially - self._arrivals.before:
            self._arrivals.count(delivery, self.done)
        if self._written(self._journal.seen, delivery.fingerprint, delivery.row.message):
            self._inbox.append(delivery)

    def _decide(self) -> None:
        """Plan the next messages: some are ready to be sent then, and the others stay."""
        stay = []
        self._note_back()
        for _ in range(min(BATCH, len(self._inbox))):
            if self._has_enough():
                break
            delivery = self._inbox.popleft()
            self.done.looked_at += 1
            if self._journal.ledger.take_confirmed(delivery.fingerprint):
                self._acknowledge(delivery, delivery.entry)
                continue
            moving = Moving(delivery, self._plan(waiting(delivery.row)))
            if moving.planned.goes:
                self._going += 1
                self._ready.append(moving)
            else:
                stay.append(moving.entry(moving.planned.fate.why))
        if stay:
            self._written(self._journal.write, "stays", stay)

    def _note_back(self) -> None:
        """Note which of the next messages an earlier run had settled: they are planned once more."""
        if not self._journal.ledger.settled_before:
            return
        ahead = [self._inbox[at] for at in range(min(BATCH, len(self._inbox), self.done.of - self.done.looked_at))]
        back = [each.entry for each in ahead if self._journal.ledger.was_settled(each.fingerprint)]
        if back and self._written(self._journal.write, "back", back):
            self.done.of = min(self.done.of + len(back), self._limits.looks_max or self.done.initially)

    def _has_enough(self) -> bool:
        """Return whether all messages have been read, or as many are on their way as may be moved."""
        moves_max = self._limits.moves_max
        return self.done.looked_at >= self.done.of or (moves_max is not None and self._going >= moves_max)

    def _send(self) -> None:
        batch: list[Moving] = []
        while self._ready and len(batch) < self._publisher.room():
            if self._ready[0].planned.fate.stops_publishers and (batch or self._publisher.waits):
                break  # this channel hears with its confirms that it should stop
            batch.append(self._ready.popleft())
        if not batch:
            return
        entries = [each.entry(self._publisher.describe(each)) for each in batch]
        if self._written(self._journal.write, "sent", entries):
            for moving in batch:
                self._publisher.publish(moving)
            self._written(self._publisher.flush)

    def _on_answer(self, moved: Sequence[Moving], stay: Sequence[Entry]) -> None:
        """Note what the broker has where it goes, and what it did not take."""
        if stay and self._written(self._journal.write, "refused", stay):
            self._going -= len(stay)
        if moved and self._written(self._journal.write, "confirmed", [each.entry() for each in moved]):
            for moving in moved:
                self._arrivals.know(moving.delivery)
                self._acknowledge(moving.delivery, moving.entry())

    def _acknowledge(self, delivery: UnackedMessage, entry: Entry) -> None:
        self.done.moved += 1
        self._acknowledged.append((delivery.tag, entry))

    def _settle(self) -> None:
        """Acknowledge what is confirmed, and have the broker hear it: it answers one thing after the other.

        Not while there is a consumer, which would get more messages then than are to be read.
        """
        if self._acknowledged and not self._intake.is_consuming:
            self._intake.acknowledge(sorted(tag for tag, _ in self._acknowledged))
            entries = [entry for _, entry in self._acknowledged]
            self._acknowledged = []
            self._intake.count_ready(lambda ready: self._on_settled(entries, ready))

    def _on_settled(self, entries: Sequence[Entry], ready: int) -> None:
        if self._written(self._journal.write, "settled", entries):
            came = ready + self._intake.taken - self.done.initially
            self.done.arrived = max(0, self._arrivals.before + came)

    def _written(self, write: Callable[..., None], *what: Any) -> bool:
        """Return whether the journal has it. Where it has not, nothing more is written or done: all goes back."""
        if self._unwritten is not None:
            return False
        try:
            write(*what)
        except JournalError as error:
            self._unwritten = error
            if not self._ended:
                self._finish()
        return self._unwritten is None

    # -- the end

    def _is_over(self) -> bool:
        if self._publisher.waits:
            return False
        if self.done.stopped:
            return True
        if self._ready or self._reads_until is not None:
            return False
        return self._has_enough() or (self._intake.is_idle and not self._inbox)

    def _finish(self) -> None:
        self._ended = True
        self._intake.cancel()
        self._settle()
        self._intake.count_ready(self._read_on)

    def _read_on(self, ready: int) -> None:
        """Take from a quorum queue what had come back before: what is held would go behind it."""
        self._inbox.clear()
        if ready and self._intake.goes_behind(self._source.how):
            self._intake.restart_clock()
            self._intake.take(min(self._limits.window, ready))
            self._wait_for_them()
        else:
            self._give_back()

    def _wait_for_them(self) -> None:
        if self._error is not None:
            return
        if self._intake.is_consuming and not self._intake.is_idle:
            self._connection.ioloop.call_later(TICK_S, self._wait_for_them)
            return
        if self._intake.is_consuming:  # others have the rest
            self._intake.newest = None
            self._intake.cancel()
        self._intake.count_ready(self._read_on)

    def _give_back(self) -> None:
        how = self._source.how
        if how is None or how.gives_back == "nack":  # otherwise the end of the channel gives it back
            self._intake.give_back(self._connection.ioloop.call_later, self._connection.close)
        else:
            self._intake.count_ready(lambda _: self._connection.close())

    def _on_channel_closed(self, _: Channel, reason: Exception) -> None:
        if self._connection.is_open:  # this side has not closed it: the broker has refused something
            self._error, self._ended = reason, False
            self._connection.close()

    def _on_failed(self, _: Any, error: Any) -> None:
        self._error = error if isinstance(error, Exception) else ConnectionError(str(error))
        self._connection.ioloop.stop()

    def _on_closed(self, _: Any, reason: Exception) -> None:
        self._error = self._error or reason
        self._connection.ioloop.stop()


def _parameters(source: RedriveSource) -> pika.URLParameters:
    parameters = amqp_parameters(source.url)
    parameters.virtual_host = source.vhost
    if parameters.blocked_connection_timeout is None:
        parameters.blocked_connection_timeout = BLOCKED_S
    return parameters


class Intake:
    """Takes messages out of the queue, by one consumer after the other, and holds them until they are settled.

    Args:
        queue: the dead-letter queue.
        on_delivery: called for each message.

    Attributes:
        taken: how many messages it has taken.
        newest: the last of them.
    """

    def __init__(self, queue: str, on_delivery: Callable[[UnackedMessage], None]) -> None:
        self._queue, self._on_delivery = queue, on_delivery
        self.taken = 0
        self.newest: Observation | None = None
        self._held: set[int] = set()
        self._left = self._consumers = 0
        self._consumer = ""
        self._answered = False
        self._last = 0.0

    def open(self, channel: Channel) -> None:
        """Use this channel."""
        self._channel = channel

    @property
    def is_consuming(self) -> bool:
        """Whether there is a consumer."""
        return bool(self._consumer)

    @property
    def is_idle(self) -> bool:
        """Whether nothing has come for long."""
        return time.monotonic() - self._last > IDLE_S

    def restart_clock(self) -> None:
        """Wait from now on for the next delivery."""
        self._last = time.monotonic()

    def count_ready(self, then: Callable[[int], None]) -> None:
        """Ask how many messages are ready in the queue."""
        self._channel.queue_declare(self._queue, passive=True, callback=lambda frame: then(frame.method.message_count))

    def take(self, count: int) -> None:
        """Begin a consumer of that many messages."""
        self._left, self._answered = count, False
        self._consumers += 1
        self._channel.basic_qos(prefetch_count=count)
        # Where the end of the channel gives them back, consumers are in the order of their tags.
        tag = f"redrive {self._consumers:09}"
        self._consumer = self._channel.basic_consume(
            self._queue, self._on_message, consumer_tag=tag, callback=self._on_consume_ok
        )

    def _on_consume_ok(self, _: Any) -> None:
        self._answered = True

    def cancel(self) -> None:
        """Take no more. What is on its way comes before the next answer, and is held like the rest.

        pika's own cancel would give it back, and so in front of what is held, or drop it.
        """
        if self._consumer:
            send = self._channel._send_method if self._answered else self._channel._rpc  # which waits for its turn
            send(Basic.Cancel(self._consumer, nowait=True))
            self._consumer = ""

    def _on_message(self, _: Channel, method: Basic.Deliver, properties: BasicProperties, body: bytes) -> None:
        self.restart_clock()
        self.taken += 1
        self._left -= 1
        if not self._left:
            self.cancel()
        tag = method.delivery_tag or 0
        self._held.add(tag)
        row = self.newest = delivered_row(self._queue, method, properties, body)
        self._on_delivery(UnackedMessage(tag, fingerprint(row), row, properties))

    def acknowledge(self, tags: Sequence[int]) -> None:
        """Acknowledge deliveries, by their tags in ascending order.

        What can go in one answer goes in one: a quorum queue that has 32 to work off gets the next ones later, or,
        once the channel is closed, never (live, 3.10 to 4.3), and its messages would be there twice.
        """
        self._held.difference_update(tags)
        oldest_held = min(self._held, default=math.inf)
        together = [tag for tag in tags if tag < oldest_held]
        if together:
            self._channel.basic_ack(together[-1], multiple=True)
        for tag in tags[len(together) :]:
            self._channel.basic_ack(tag)

    def goes_behind(self, how: PeekPlan | None) -> bool:
        """Return whether what is held would go behind messages that were not taken."""
        newest = self.newest
        if how is None or newest is None or not self._held:
            return False
        return how.reads_on(waiting(newest).deaths, redelivered=bool(newest.redelivered))

    def give_back(self, later: Callable[[float, Callable[[], None]], object], then: Callable[[], None]) -> None:
        """Return all that is held to the queue."""
        GivingBack(self._channel, self._queue, self._held, later, then).look()


class RedrivePublisher:
    """Publishes messages, mandatory and with confirms.

    Args:
        rate: messages in a second, at most.
        on_answer: gets messages that the broker has where they go, and what the journal gets of those that stay.
    """

    def __init__(self, rate: float | None, on_answer: OnAnswer) -> None:
        self._rate, self._on_answer = rate, on_answer
        self._sent: dict[int, Moving] = {}
        self._number = 0
        self._began = 0.0
        self._blocked_at: float | None = None

    def open(self, channel: Channel, on_ready: Callable[[], None]) -> None:
        """Use this channel."""
        self._channel = channel
        channel.add_on_return_callback(self._on_returned)
        channel.confirm_delivery(self._on_confirm, callback=lambda _: on_ready())

    def start_clock(self) -> None:
        """Count by the rate from now on."""
        self._began = time.monotonic()

    @property
    def waits(self) -> bool:
        """Whether something was sent that the broker has not answered."""
        return bool(self._sent)

    def block(self, *_: Any) -> None:
        """Send no more: the broker reads nothing now, and after a kill it would be unknown what happened to it."""
        if self._blocked_at is None:
            self._blocked_at = time.monotonic()

    def unblock(self, *_: Any) -> None:
        """Send again."""
        if self._blocked_at is not None:
            self._began += time.monotonic() - self._blocked_at  # the rate does not make up for it
            self._blocked_at = None

    def room(self) -> int:
        """Return how many messages may be sent now."""
        if self._blocked_at is not None:
            return 0
        if self._rate is None:
            return BATCH
        return min(BATCH, int((time.monotonic() - self._began) * self._rate) + 1 - self._number)

    def describe(self, moving: Moving) -> str:
        """Say where a message goes."""
        return str(moving.planned.address)

    def flush(self) -> None:
        """Do nothing: what was sent is on its way."""

    def publish(self, moving: Moving) -> None:
        """Send a message."""
        self._number += 1
        self._sent[self._number] = moving
        address, delivery = moving.planned.address, moving.delivery
        assert address is not None
        properties = properties_carried(delivery.properties, moving.planned.headers)
        body = delivery.row.payload
        self._channel.basic_publish(address.exchange, address.routing_key, body, properties, mandatory=True)

    def _on_returned(
        self, _: Channel, method: Basic.Return, properties: BasicProperties, body: bytes
    ) -> None:  # before its confirm
        for moving in self._sent.values():
            if not moving.returned and moving.is_same(method, properties, body):
                moving.returned = True
                return

    def _on_confirm(self, frame: Any) -> None:
        method = frame.method
        tags = [method.delivery_tag]
        if method.multiple:
            tags = [tag for tag in self._sent if tag <= method.delivery_tag]
        refused = isinstance(method, Basic.Nack)
        moved, stay = [], []
        for moving in [self._sent.pop(tag) for tag in tags if tag in self._sent]:
            if refused or moving.returned:
                stay.append(moving.entry("refused by the broker" if refused else "routed nowhere"))
            else:
                moved.append(moving)
        self._on_answer(moved, stay)


class GatheringConnection(SelectConnection):  # type: ignore[misc]  # pika has no types
    """pika's connection, with one write for all frames of a turn of its loop, instead of one for each.

    A message is three frames, and its acknowledgement one more.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._gathered: list[bytes] = []
        super().__init__(*arguments, **named)

    def _adapter_emit_data(self, data: bytes) -> None:
        if not self._gathered:
            self._adapter_call_later(0, self._write)
        self._gathered.append(data)

    def _write(self) -> None:
        data, self._gathered = b"".join(self._gathered), []
        if data and not self.is_closed:
            super()._adapter_emit_data(data)

    def _adapter_disconnect_stream(self) -> None:
        self._write()
        super()._adapter_disconnect_stream()
