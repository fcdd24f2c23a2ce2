"""Looks into a queue of a running RabbitMQ, and leaves its messages there."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import msgspec
from pika import BlockingConnection
from pika.adapters.blocking_connection import BlockingChannel
from pika.channel import Channel
from pika.exceptions import ConnectionClosedByBroker

from dlx.topology import QUORUM, STREAM
from simulator.capture import CaptureUnavailable, Observation
from simulator.capture.client_rows import delivered_row, routing_keys_of
from simulator.capture.connected import connected, exact_values
from simulator.capture.management_api import ManagementError, call, server_of
from simulator.capture.observe import split_properties
from simulator.events import Event
from simulator.redrive.how_to_peek import TOGETHER, PeekPlan
from simulator.redrive.waiting import LOOKED, waiting

IDLE_S = 3.0
"""After so long without a delivery, the messages that are left belong to others."""
SETTLE_S = 5.0
"""After this long without another message in the queue, what was given back is with others, or has died."""
WINDOW = 10_000
"""How many messages one channel takes; its prefetch."""
GET_MAX = 100_000
"""How many messages the management API is asked for where nothing else is said: it makes one answer of them."""
_POLL_S = 0.1
_INTERNAL_ERROR, _SERVER_ERROR = 541, 500  # of AMQP, and of HTTP

OnRow = Callable[[int, int], None]
"""Gets how many messages have been read, of how many."""


class UnreadableMessage(CaptureUnavailable):
    """Raised for a queue with a message that the server fails over when it hands it to a client of AMQP 0-9-1.

    ``cost`` says what reading has done, in a sentence.
    """

    def __init__(self, server: str, peek: PeekPlan) -> None:
        limit = peek.settings.delivery_limit
        self.cost = "the messages that were read went back to the queue"
        if peek.settings.queue.type == QUORUM:
            self.cost += ", and that counts as a failed delivery of each"
            self.cost += "" if limit is None else f": after {limit:,}, messages die"
        super().__init__(
            server,
            f"'{peek.settings.queue.name}' has a message that the server fails to send by AMQP 0-9-1 (541), probably"
            " one that came by AMQP 1.0 with a value such as a UUID, which AMQP 0-9-1 does not have. Take it out with a"
            f" client of AMQP 1.0; {self.cost}",
        )


class PeekResult(msgspec.Struct, frozen=True):
    """What reading a queue found.

    Attributes:
        rows: the messages from its head on, as deliveries from the queue.
        ready: how many messages were ready before the look.
        killed: how many of the rows exceeded the delivery limit by being given back. The look ended with the first,
            and with those that were taken together with it.
        confirmed: whether the queue was seen to have again all that was given back.
        read_on: how many more messages were read, and are no rows, so that the order stays.
        behind: whether the rows went back behind others, that had come back before and were not read.
    """

    rows: list[Observation]
    ready: int
    killed: int = 0
    confirmed: bool = True
    read_on: int = 0
    behind: bool = False

    @property
    def unseen(self) -> int:
        """How many messages were ready, and were not read."""
        return max(0, self.ready - len(self.rows))


def peek(
    url: str, vhost: str, peek: PeekPlan, *, limit: int | None = None, on_row: OnRow = lambda rows, of: None
) -> PeekResult:
    """Read the queue as a consumer, and give every message back.

    If this process is killed meanwhile, the server gives the messages back itself.

    Args:
        url: AMQP URL.
        vhost: virtual host of the queue.
        peek: how to look into it.
        limit: show no more than this number of messages, from the head of the queue. Beyond them, others are read only
            where a quorum queue would put these behind them.
        on_row: called for each message read.

    Raises:
        CaptureUnavailable: no connection, it was lost, or the broker refuses.
        UnreadableMessage: the broker fails over a message.
    """
    with exact_values(), connected(url, vhost) as (connection, name), _naming_the_unreadable(name, peek):
        look = _Look(connection, peek)
        ready = look.ready()
        rows: list[Observation] = []
        killed = 0
        for row in look.messages(ready if limit is None else min(ready, limit)):
            rows.append(placed(row, name, vhost, len(rows) + 1))
            on_row(len(rows), max(ready, len(rows)))
            if peek.kills(waiting(row).deaths):
                killed += 1
                look.ended = True
        beyond = look.read_on(rows[-1], ready - len(rows)) if rows and not killed else []
        last = (rows + beyond)[-1:]
        for row in [each for each in beyond if peek.kills(waiting(each).deaths)]:
            killed += 1
            beyond.remove(row)
            rows.append(placed(row, name, vhost, len(rows) + 1))
        confirmed = look.give_back(killed)
    left = ready - len(rows) - len(beyond)
    behind = left > 0 and any(_is(peek.came_back, row) for row in last)
    return PeekResult(rows, max(ready, len(rows)), killed, confirmed, len(beyond), behind)


def peek_by_management(url: str, vhost: str, peek: PeekPlan, *, limit: int | None = None) -> PeekResult:
    """Look into the queue through the management API, in one request, which gives every message back.

    Args:
        url: management URL.
        vhost, peek, limit: as for ``peek``.

    Raises:
        CaptureUnavailable: no answer, or the API refuses.
        UnreadableMessage: the broker fails over a message.
    """
    queue = peek.settings.queue.name
    path = f"queues/{quote(vhost, safe='')}/{quote(queue, safe='')}"
    name = server_of(url)
    try:
        ready = call(url, path).get("messages_ready", 0)  # which is some seconds old
        count = min(limit or GET_MAX, TOGETHER) if peek.settings.queue.type == QUORUM else limit or GET_MAX
        asked = {"count": count, "ackmode": "ack_requeue_true", "encoding": "auto"}
        got = call(url, f"{path}/get", method="POST", body=asked)
    except ManagementError as error:
        if error.status == _SERVER_ERROR:
            raise UnreadableMessage(name, peek) from error
        raise CaptureUnavailable(name, str(error)) from error
    except OSError as error:
        raise CaptureUnavailable(name, f"no answer: {getattr(error, 'reason', error)}") from error
    rows = [placed(_row_of_json(queue, each), name, vhost, line) for line, each in enumerate(got, 1)]
    behind = bool(rows) and ready > len(rows) and _is(peek.came_back, rows[-1])
    return PeekResult(rows, max(ready, len(rows)), sum(peek.kills(waiting(row).deaths) for row in rows), behind=behind)


@contextmanager
def _naming_the_unreadable(name: str, peek: PeekPlan) -> Iterator[None]:
    try:
        yield
    except ConnectionClosedByBroker as error:
        if error.reply_code != _INTERNAL_ERROR:
            raise
        raise UnreadableMessage(name, peek) from error


class _Look:
    """Takes messages out of a queue, and gives all of them back."""

    def __init__(self, connection: BlockingConnection, peek: PeekPlan) -> None:
        self._connection, self._asking = connection, connection.channel()
        self._queue, self._type = peek.settings.queue.name, peek.settings.queue.type
        self._peek = peek
        self._channels: list[tuple[BlockingChannel, int]] = []  # with the last tag of each
        self.ended = False  # nothing more is taken

    def ready(self) -> int:
        """Return how many messages are ready; of a stream, how many it had some seconds ago."""
        found: int = self._asking.queue_declare(self._queue, passive=True).method.message_count
        return found

    def messages(self, wanted: int) -> Iterator[Observation]:
        """Yield that many messages, or fewer if others have the rest."""
        if self._type == STREAM:
            yield from self._of_stream()
        elif self._peek.may_kill:
            yield from self._carefully(wanted)
        else:
            yield from self._in_windows(wanted)

    def read_on(self, last: Observation, left: int) -> list[Observation]:
        """Take, behind the last message that was read, what had come back before, so that the order stays."""
        beyond: list[Observation] = []
        if left > 0 and _is(self._peek.reads_on, last):
            singly = self._peek.gives_back == "nack"  # the end of a channel mixes messages that were got one by one
            for row in self._carefully(left) if singly else self._in_windows(left):
                beyond.append(row)
                if singly and not _is(self._peek.reads_on, row):
                    self.ended = True  # after those that were taken together with it
        return beyond

    def give_back(self, killed: int) -> bool:
        """Give everything back, and return whether the queue was seen to have it again, without those killed.

        A channel that ends before the server has worked off its nacks is a lost channel for the rest of its
        messages, which counts as failed deliveries. So the channels stay open until the messages are ready again.
        """
        if self._type == STREAM:
            self._close()
            return True
        for channel, _ in self._channels:
            channel.cancel()
        ready = self.ready()
        if self._peek.gives_back == "nack":
            confirmed = self._nack(ready, killed)
            self._close()
            return confirmed
        return self._lose(ready, killed)

    def _nack(self, ready: int, killed: int) -> bool:
        """Give back as many together as reach the queue in order, and the next ones when it has them."""
        confirmed = True
        for channel, last in self._channels:
            step = TOGETHER if self._type == QUORUM else max(1, last)
            for tag in range(0, last, step):
                until = min(tag + step, last)
                channel.basic_nack(until, multiple=True, requeue=True)
                ready += until - tag
                confirmed = confirmed and self._wait_for(ready - killed)
        return confirmed

    def _lose(self, ready: int, killed: int) -> bool:
        """End a channel, and the next one when the queue has what that one held.

        A broker answers before a channel's process is gone, so the queue might hear of the next one's end first.
        """
        confirmed = True
        for channel, last in self._channels:
            channel.close()
            ready += last
            confirmed = confirmed and self._wait_for(ready - killed)
        return confirmed

    def _close(self) -> None:
        for channel, _ in self._channels:
            channel.close()

    def _wait_for(self, wanted: int) -> bool:
        """Return whether the queue has that many messages again, after waiting for as long as more come back."""
        most, since, pause_s = self.ready(), time.monotonic(), _POLL_S / 64
        while most < wanted:
            self._connection.sleep(pause_s)
            pause_s = min(2 * pause_s, _POLL_S)
            now = self.ready()
            if now > most:
                most, since = now, time.monotonic()
            elif time.monotonic() - since > SETTLE_S:
                return False
        return True

    def _carefully(self, wanted: int) -> Iterator[Observation]:
        """Yield messages that may die, so that only few do: one by one at first, and together where that is safe."""
        taken, together = 0, 1 if wanted else None
        for row in self._one_by_one(wanted):
            yield row
            taken += 1
            together = self._together_behind(row)
            if together != 1:
                break
        else:
            return
        channel = None
        while together is not None and taken < wanted and not self.ended:
            channel = channel or self._taking_channel()
            wants, before = min(together, wanted - taken), taken
            for row in self._consumed(channel, wants, wants):
                yield row
                taken += 1
            if taken - before < wants:
                return
            together = self._together_behind(row)
        if taken < wanted and not self.ended:
            yield from self._in_windows(wanted - taken)

    def _together_behind(self, row: Observation) -> int | None:
        return self._peek.together_behind(waiting(row).deaths, redelivered=bool(row.redelivered))

    def _one_by_one(self, wanted: int) -> Iterator[Observation]:
        """Yield messages that were got singly, so that whoever sees one that dies can end there."""
        channel = self._taking_channel()
        for _ in range(wanted):
            if self.ended:
                return
            method, properties, body = channel.basic_get(self._queue)
            if method is None or properties is None or body is None:
                return
            self._channels[-1] = (channel, method.delivery_tag)
            yield delivered_row(self._queue, method, properties, body)

    def _in_windows(self, wanted: int) -> Iterator[Observation]:
        """Yield messages, as many to a channel as its prefetch: nothing is on its way when they go back."""
        left = wanted
        while left:
            window = min(left, WINDOW)
            taken = 0
            for row in self._consumed(self._taking_channel(), window, window):
                taken += 1
                yield row
            left = left - taken if taken == window else 0

    def _of_stream(self) -> Iterator[Observation]:
        yield from self._consumed(self._taking_channel(), None, WINDOW, **{"x-stream-offset": "first"})

    def _taking_channel(self) -> BlockingChannel:
        """Open a channel whose deliveries are given back in the end."""
        channel = self._connection.channel()
        self._channels.append((channel, 0))
        return channel

    def _consumed(
        self, channel: BlockingChannel, wanted: int | None, prefetch: int, **arguments: Any
    ) -> Iterator[Observation]:
        """Yield what a new consumer of the last channel gets, until it has as many as wanted, or no more come."""
        last, before = time.monotonic(), self._channels[-1][1]
        channel.basic_qos(prefetch_count=prefetch)
        for method, properties, body in channel.consume(self._queue, arguments=arguments, inactivity_timeout=_POLL_S):
            if method is None:
                if time.monotonic() - last > IDLE_S:
                    return
                continue
            last, tag = time.monotonic(), method.delivery_tag
            self._channels[-1] = (channel, tag)
            if wanted is None:
                channel.basic_ack(tag)  # which takes nothing out of a stream, and lets the next ones come
            yield delivered_row(self._queue, method, properties, body)
            if wanted is not None and tag == before + wanted:
                channel.cancel()
                return


def _is(said: Callable[..., bool], row: Observation) -> bool:
    return said(waiting(row).deaths, redelivered=bool(row.redelivered))


def placed(row: Observation, name: str, vhost: str, line: int) -> Observation:
    """Return the row with where and when it was read."""
    row.time_us, row.file, row.line, row.vhost = time.time_ns() // 1_000, name, line, vhost
    row.event, row.connection = Event.DELIVERED.value, LOOKED
    return row


def _row_of_json(queue: str, got: Mapping[str, Any]) -> Observation:
    """Return the row of a message as the management API shows it. BCC keys it does not show."""
    encoded = got["payload"].encode()
    payload = base64.b64decode(encoded) if got["payload_encoding"] == "base64" else encoded
    properties = dict(got["properties"] or {})
    headers = dict(properties.get("headers") or {})
    keys = [str(key) for key in routing_keys_of(got["routing_key"], headers)]
    return Observation(
        0, "", 0, "", "", "", "", "", 0, got["exchange"], queue, None, keys, bool(got["redelivered"]),
        *split_properties({**properties, "headers": headers}, payload), payload,
    )  # fmt: skip


# Gives deliveries back to their queue in order, and waits until the queue has them, over a connection with callbacks.
#
# A channel that ends before the server has worked off its nacks is a lost channel for the rest of its
# messages: on 4.3 that counts as failed deliveries. ``peek`` does the same over a blocking connection.


PAUSE_S = 0.005

Later = Callable[[float, Callable[[], None]], object]
"""Calls something after that many seconds."""


class GivingBack:
    """Nacks some deliveries, and the next ones when the queue has those.

    Args:
        channel, queue: where they were delivered, and from what.
        tags: of the deliveries: all that the channel has not settled. They are read when the broker has answered
            once: by then nothing is on its way any more.
        later: of the connection's loop.
        done: called at the end.
    """

    def __init__(
        self, channel: Channel, queue: str, tags: Collection[int], later: Later, done: Callable[[], None]
    ) -> None:
        self._channel, self._queue, self._later, self._done = channel, queue, later, done
        self._held = tags
        self._tags: list[int] = []
        self._most = self._wanted = -1
        self._since = time.monotonic()

    def look(self) -> None:
        """Ask how many messages are ready, and go on; unless the broker has closed the channel meanwhile."""
        if not self._channel.is_open:
            return
        self._channel.queue_declare(self._queue, passive=True, callback=self._on_count)

    def _on_count(self, frame: Any) -> None:
        ready: int = frame.method.message_count
        if ready > self._most:
            self._most, self._since = ready, time.monotonic()
        if self._wanted < 0:
            self._wanted, self._tags = ready, sorted(self._held)
        if ready < self._wanted and time.monotonic() - self._since < SETTLE_S:
            self._later(PAUSE_S, self.look)
        elif self._tags:
            self._give_some(ready)
        else:
            self._done()

    def _give_some(self, ready: int) -> None:
        together = TOGETHER if ready >= self._wanted else len(self._tags)  # others take them: no order to keep
        some, self._tags = self._tags[:together], self._tags[together:]
        self._channel.basic_nack(some[-1], multiple=True, requeue=True)
        self._wanted += len(some)
        self._since = time.monotonic()
        self.look()
