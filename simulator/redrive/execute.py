"""Brings messages back from a dead-letter queue of a running RabbitMQ, and can be killed at any point.

For each message, in this order:

1. the journal says that it is sent;
2. it is published, mandatory and with confirms;
3. the broker confirms it, and the journal says so;
4. it is acknowledged in the dead-letter queue; once the broker has heard that, the journal says so.

Whoever goes on with the journal after a kill knows: what was confirmed needs its acknowledgement
alone; what was sent and not confirmed may be there twice in the end, and is named before. What was
returned or refused, or would be lost, is given back to the queue.

Only what was in the queue at the start is looked at: queues are in order, so that is as many
deliveries as it had messages then. No more are taken than that: a consumer has a prefetch, and
nothing is acknowledged to it before it has been cancelled. What stays is held until the end, and
goes back all at once, in its order.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import pika
from pika.adapters.select_connection import SelectConnection
from pika.channel import Channel
from pika.spec import Basic, BasicProperties

from simulator.capture import CaptureUnavailable, Observation
from simulator.capture.amqp_values import exact_values
from simulator.capture.client_rows import delivered_row
from simulator.capture.connected import why_lost
from simulator.redrive.how_to_peek import Peek
from simulator.redrive.journal import Journal, JournalError, fingerprint
from simulator.redrive.peek import GivingBack
from simulator.redrive.plan import Planned, properties_carried
from simulator.redrive.waiting import Waiting, waiting

WINDOW = 1_000
"""How many messages a consumer takes at most: its prefetch. Then it is cancelled, and later there is another."""
WINDOW_MIN = 50
"""How many it has where few are to be moved."""
BATCH = 200
"""How many messages are sent between two looks at what came back."""
TICK_S = 0.005
AHEAD_MAX = 20_000
"""So many messages are read, and held in memory, to see what came behind them."""
BLOCKED_S = 60.0
"""So long the broker may take no publishes, since it is short of memory or disk; unless the URL says otherwise."""
IDLE_S = 5.0
"""After so long without a delivery, what is left belongs to others."""

Entry = tuple[str, str, str, str]
"""What the journal gets of a message: fingerprint, id, fate and note."""


class _Delivery(NamedTuple):
    tag: int
    fingerprint: str
    row: Observation
    properties: BasicProperties


class Moving(msgspec.Struct):
    """One message on its way.

    Attributes:
        tag: its delivery.
        fingerprint: by which the journal knows it.
        planned: what is planned for it.
        properties, body: as it was delivered.
        returned: whether no queue took it.
    """

    tag: int
    fingerprint: str
    planned: Planned
    properties: BasicProperties
    body: bytes
    returned: bool = False


class Done(msgspec.Struct):
    """What a run has done so far; what has become of the messages is in the journal.

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


class Execution:
    """One run. ``run`` returns when all is moved or given back.

    Args:
        url: AMQP URL, whose virtual host is ``vhost``.
        queue: the dead-letter queue.
        journal: what earlier runs have done, and where this one writes.
        planned: returns what is planned for a message.
        how: how what stays in the queue goes back to it.
        looks_max: messages that are looked at, at most.
        moves_max: messages that are moved, at most.
        rate: messages that are sent in a second, at most.
        came: messages at the end of the queue that came just before: some of those that were moved, or others.
        moved: what tells messages that were moved from others; this adds to it.
        suspicious: so many messages that came and were not read, of which any may have been moved, and what was done
            so far: whether they are to be read before anything else is moved.
        may: asked before each batch with what was done; a text that is not empty stops the run, and says why.
    """

    def __init__(
        self,
        url: str,
        vhost: str,
        queue: str,
        journal: Journal,
        planned: Callable[[Waiting], Planned],
        *,
        how: Peek | None = None,
        looks_max: int | None = None,
        moves_max: int | None = None,
        rate: float | None = None,
        came: int = 0,
        moved: set[str] | None = None,
        suspicious: Callable[[int, Done], bool] = lambda unread, done: False,
        may: Callable[[Done], str] = lambda done: "",
    ) -> None:
        self._parameters = pika.URLParameters(url)
        self._parameters.virtual_host = vhost
        if self._parameters.blocked_connection_timeout is None:
            self._parameters.blocked_connection_timeout = BLOCKED_S
        self._queue, self._journal, self._plan = queue, journal, planned
        self._how, self._looks_max, self._rate, self._may = how, looks_max, rate, may
        self._moves_max: float = math.inf if moves_max is None else moves_max
        self._window = WINDOW if moves_max is None else min(WINDOW, max(WINDOW_MIN, moves_max))
        self._came, self._suspicious = came, suspicious
        self._marks = set() if moved is None else moved
        self.done = Done(arrived=came)
        self._inbox: deque[_Delivery] = deque()
        self._ready: deque[Moving] = deque()
        self._sent: dict[int, Moving] = {}
        self._acknowledged: list[tuple[int, Entry]] = []  # with its tag
        self._held: set[int] = set()
        self._newest: Observation | None = None
        self._number = self._going = self._delivered = self._to_take = self._consumers = 0
        self._consumer = ""
        self._consumes = self._looks_ahead = False
        self._blocked_at: float | None = None
        self._all = self._came_unread = 0
        self._last = self._began = 0.0
        self._error: BaseException | None = None
        self._unwritten: JournalError | None = None
        self._ended = False

    def run(self) -> Done:
        """Do it.

        Raises:
            CaptureUnavailable: no connection, it was lost, or the broker refuses. The journal can go on.
            JournalError: the journal cannot be written. What its lines would have announced was not done.
        """
        name = f"{self._parameters.host}:{self._parameters.port}/{self._parameters.virtual_host.removeprefix('/')}"
        self._connection = GatheringConnection(
            self._parameters, self._on_open, self._on_failed, self._on_closed, internal_connection_workflow=True
        )
        try:
            with exact_values(to_publish=True):
                self._connection.ioloop.start()
        finally:
            self._connection.ioloop.close()
        if self._unwritten is not None:
            raise self._unwritten
        if isinstance(self._error, Exception) and not self._ended:
            raise CaptureUnavailable(name, why_lost(self._error)) from self._error
        return self.done

    # -- beginning

    def _on_open(self, connection: Any) -> None:
        connection.add_on_connection_blocked_callback(self._on_blocked)
        connection.add_on_connection_unblocked_callback(self._on_unblocked)
        connection.channel(on_open_callback=self._on_in)

    def _on_in(self, channel: Channel) -> None:
        self._in = channel
        channel.add_on_close_callback(self._on_channel_closed)
        self._connection.channel(on_open_callback=self._on_out)

    def _on_out(self, channel: Channel) -> None:
        self._out = channel
        channel.add_on_close_callback(self._on_channel_closed)
        channel.add_on_return_callback(self._on_returned)
        channel.confirm_delivery(self._on_confirm, callback=lambda _: self._count())

    def _count(self) -> None:
        self._in.queue_declare(self._queue, passive=True, callback=self._on_counted)

    def _on_counted(self, frame: Any) -> None:
        ready = self.done.initially = frame.method.message_count
        if not self._written(self._journal.begin, ready):
            return
        old = self._journal.ledger.to_look_at(ready)
        self.done.of = old if self._looks_max is None else min(old, self._looks_max)
        self._began = self._last = time.monotonic()
        self._tick()

    # -- what waits

    def _take_more(self) -> None:
        """Begin a consumer where there is none, and little is left to decide on."""
        left = (self._all if self._looks_ahead else self.done.of) - self._delivered
        much = len(self._inbox) + len(self._ready) > self._window // 2 and not self._looks_ahead
        if self._consumer or left <= 0 or much:
            return
        self._take(min(self._window, left))

    def _take(self, count: int) -> None:
        """Begin a consumer of so many messages."""
        self._to_take, self._consumes = count, False
        self._consumers += 1
        self._in.basic_qos(prefetch_count=count)
        # Where the end of the channel gives them back, consumers are in the order of their tags.
        tag = f"redrive {self._consumers:09}"
        self._consumer = self._in.basic_consume(
            self._queue, self._on_message, consumer_tag=tag, callback=self._on_consuming
        )

    def _on_consuming(self, _: Any) -> None:
        self._consumes = True

    def _cancel(self) -> None:
        """Take no more. What is on its way comes before the next answer, and is held like the rest.

        pika's own cancel would give it back, and so in front of what is held, or drop it.
        """
        if self._consumer:
            send = self._in._send_method if self._consumes else self._in._rpc  # which waits for its turn
            send(Basic.Cancel(self._consumer, nowait=True))
            self._consumer = ""

    def _on_message(self, _: Channel, method: Basic.Deliver, properties: BasicProperties, body: bytes) -> None:
        self._last = time.monotonic()
        self._delivered += 1
        self._to_take -= 1
        if not self._to_take:
            self._cancel()
        self._held.add(method.delivery_tag or 0)
        if self._delivered > self.done.initially - self._came:
            self._note_late(properties, body)
        row = self._newest = delivered_row(self._queue, method, properties, body)
        mark = fingerprint(row)
        if not self._written(self._journal.seen, mark, row.message):
            return
        self._inbox.append(_Delivery(method.delivery_tag or 0, mark, row, properties))

    def _note_late(self, properties: BasicProperties, body: bytes) -> None:
        self.done.late += 1
        if _mark(properties, body) in self._marks:
            self.done.returned += 1
            self.done.without_id += not properties.message_id

    def _decide(self) -> None:
        """Look at the next messages: those that go are ready then, and the others stay."""
        stay = []
        self._note_back()
        for _ in range(min(BATCH, len(self._inbox))):
            if self.done.looked_at >= self.done.of or self._going >= self._moves_max:
                break
            given = self._inbox.popleft()
            self.done.looked_at += 1
            if self._journal.ledger.take_confirmed(given.fingerprint):
                self._acknowledge(given.tag, _entry_of(given))
                continue
            planned = self._plan(waiting(given.row))
            moving = Moving(given.tag, given.fingerprint, planned, given.properties, given.row.payload)
            if planned.goes:
                self._going += 1
                self._ready.append(moving)
            else:
                stay.append(_entry(moving, planned.fate.why))
        if stay:
            self._written(self._journal.write, "stays", stay)

    def _note_back(self) -> None:
        """Note those of the next messages that an earlier run had settled: they are looked at once more."""
        if not self._journal.ledger.settled_before:
            return
        ahead = [self._inbox[at] for at in range(min(BATCH, len(self._inbox), self.done.of - self.done.looked_at))]
        back = [given for given in ahead if self._journal.ledger.was_settled(given.fingerprint)]
        if back and self._written(self._journal.write, "back", [_entry_of(given) for given in back]):
            self.done.of = min(self.done.of + len(back), self._looks_max or self.done.initially)

    # -- what goes

    def _tick(self) -> None:
        if self._ended or self._error is not None:
            return
        if not self.done.stopped:
            self.done.stopped = self._may(self.done)
        if not self.done.stopped:
            self._look_ahead()
            self._take_more()
            if not self._looks_ahead:
                self._decide()
                self._send()
        self._settle()
        if self._unwritten is not None:
            return
        if self._is_over():
            self._finish()
        else:
            self._connection.ioloop.call_later(TICK_S, self._tick)

    def _look_ahead(self) -> None:
        """Where many messages have come, read up to them: some of those that were moved, or others?"""
        if self._looks_ahead:
            idle = time.monotonic() - self._last > IDLE_S
            if idle:
                self._cancel()  # others have the rest
                self._came_unread = self.done.arrived - self.done.late
            self._looks_ahead = not idle and self._delivered < self._all
        elif self._suspicious(self.done.arrived - self.done.late - self._came_unread, self.done):
            self._all = self.done.initially - self._came + self.done.arrived
            ahead = self._all - self._delivered
            if ahead > AHEAD_MAX:
                self.done.unread = ahead - (self.done.arrived - self.done.late)
            else:
                self._looks_ahead, self._last = True, time.monotonic()

    def _on_blocked(self, *_: Any) -> None:
        """Send no more: the broker reads nothing now, and nobody would know what became of it after a kill."""
        if self._blocked_at is None:
            self._blocked_at = time.monotonic()

    def _on_unblocked(self, *_: Any) -> None:
        if self._blocked_at is not None:
            self._began += time.monotonic() - self._blocked_at  # the rate does not make up for it
            self._blocked_at = None

    def _send(self) -> None:
        batch: list[Moving] = []
        if self._blocked_at is not None:
            return
        while self._ready and len(batch) < min(BATCH, self._allowed()):
            if self._ready[0].planned.fate.stops_publishers and (batch or self._sent):
                break  # this channel hears with its confirms that it should stop
            batch.append(self._ready.popleft())
        if not batch:
            return
        if self._written(self._journal.write, "sent", [_entry(each, str(each.planned.address)) for each in batch]):
            for moving in batch:
                self._publish(moving)

    def _allowed(self) -> int:
        """Return how many more the rate allows by now."""
        if self._rate is None:
            return BATCH
        return int((time.monotonic() - self._began) * self._rate) + 1 - self._number

    def _publish(self, moving: Moving) -> None:
        self._number += 1
        self._sent[self._number] = moving
        address = moving.planned.address
        assert address is not None
        properties = properties_carried(moving.properties, moving.planned.headers)
        self._out.basic_publish(address.exchange, address.routing_key, moving.body, properties, mandatory=True)

    def _on_returned(
        self, _: Channel, method: Basic.Return, properties: BasicProperties, body: bytes
    ) -> None:  # before its confirm
        for moving in self._sent.values():
            if not moving.returned and _is_same(moving, method, properties, body):
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
                stay.append(_entry(moving, "refused by the broker" if refused else "routed nowhere"))
            else:
                moved.append(moving)
        if stay and self._written(self._journal.write, "refused", stay):
            self._going -= len(stay)
        if moved and self._written(self._journal.write, "confirmed", [_entry(each) for each in moved]):
            for moving in moved:
                self._marks.add(_mark(moving.properties, moving.body))
                self._acknowledge(moving.tag, _entry(moving))

    def _acknowledge(self, tag: int, entry: Entry) -> None:
        self.done.moved += 1
        self._acknowledged.append((tag, entry))

    def _settle(self) -> None:
        """Acknowledge what is confirmed, and have the broker hear it: it answers one thing after the other.

        Not while there is a consumer, which would be given more then than are to be looked at. What can go in one
        answer goes in one: a quorum queue that has 32 to work off gets the next ones later, or, once the channel is
        closed, never (live, 3.10 to 4.3), and its messages would be there twice.
        """
        if self._acknowledged and not self._consumer:
            tags = sorted(tag for tag, _ in self._acknowledged)
            self._held.difference_update(tags)
            oldest_held = min(self._held, default=math.inf)
            together = [tag for tag in tags if tag < oldest_held]
            if together:
                self._in.basic_ack(together[-1], multiple=True)
            for tag in tags[len(together) :]:
                self._in.basic_ack(tag)
            entries = [entry for _, entry in self._acknowledged]
            self._acknowledged = []
            self._in.queue_declare(self._queue, passive=True, callback=lambda frame: self._settled(entries, frame))

    def _settled(self, entries: list[Entry], frame: Any) -> None:
        if not self._written(self._journal.write, "settled", entries):
            return
        came = frame.method.message_count + self._delivered - self.done.initially
        self.done.arrived = max(0, self._came + came)

    # -- the end

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

    def _is_over(self) -> bool:
        if self._sent:
            return False
        if self.done.stopped:
            return True
        if self._ready or self._looks_ahead:
            return False
        idle = time.monotonic() - self._last > IDLE_S
        enough = self.done.looked_at >= self.done.of or self._going >= self._moves_max
        return enough or (idle and not self._inbox)

    def _finish(self) -> None:
        self._ended = True
        self._cancel()
        self._settle()
        self._in.queue_declare(self._queue, passive=True, callback=self._read_on)

    def _read_on(self, frame: Any) -> None:
        """Take from a quorum queue what had come back before: what is held would go behind it."""
        self._inbox.clear()
        if frame.method.message_count and self._goes_behind():
            self._last = time.monotonic()
            self._take(min(self._window, frame.method.message_count))
            self._wait_for_them()
        else:
            self._give_back()

    def _goes_behind(self) -> bool:
        """Return whether what is held would go behind messages that were not taken."""
        newest, how = self._newest, self._how
        if how is None or newest is None or not self._held:
            return False
        return how.reads_on(waiting(newest).deaths, redelivered=bool(newest.redelivered))

    def _wait_for_them(self) -> None:
        if self._error is not None:
            return
        if self._consumer and time.monotonic() - self._last < IDLE_S:
            self._connection.ioloop.call_later(TICK_S, self._wait_for_them)
            return
        if self._consumer:  # others have the rest
            self._newest = None
            self._cancel()
        self._in.queue_declare(self._queue, passive=True, callback=self._read_on)

    def _give_back(self) -> None:
        if self._how is None or self._how.gives_back == "nack":  # otherwise the end of the channel gives it back
            later = self._connection.ioloop.call_later
            GivingBack(self._in, self._queue, self._held, later, self._connection.close).look()
        else:
            self._in.queue_declare(self._queue, passive=True, callback=lambda _: self._connection.close())

    def _on_channel_closed(self, _: Channel, reason: Exception) -> None:
        if self._connection.is_open:  # nobody here has closed it: the broker has refused something
            self._error, self._ended = reason, False
            self._connection.close()

    def _on_failed(self, _: Any, error: Any) -> None:
        self._error = error if isinstance(error, Exception) else ConnectionError(str(error))
        self._connection.ioloop.stop()

    def _on_closed(self, _: Any, reason: Exception) -> None:
        self._error = self._error or reason
        self._connection.ioloop.stop()


def _entry_of(given: _Delivery) -> Entry:
    return given.fingerprint, given.row.message, "", ""


def _entry(moving: Moving, note: str = "") -> Entry:
    planned = moving.planned
    return moving.fingerprint, planned.message.id, str(planned.fate.kind), note


def _mark(properties: BasicProperties, body: bytes) -> str:
    """Return what a message is known again by that was moved and has died once more."""
    return f"id {properties.message_id}" if properties.message_id else hashlib.blake2b(body, digest_size=16).hexdigest()


def _is_same(moving: Moving, method: Basic.Return, properties: BasicProperties, body: bytes) -> bool:
    address = moving.planned.address
    return (
        address is not None
        and (address.exchange, address.routing_key) == (method.exchange, method.routing_key)
        and moving.properties.message_id == properties.message_id
        and moving.body == body
    )


# A connection that gathers frames and writes them at once: a message is three, and its acknowledgement one more.


class GatheringConnection(SelectConnection):  # type: ignore[misc]  # pika has no types
    """pika's connection, with one write for all frames of a turn of its loop, instead of one for each."""

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
