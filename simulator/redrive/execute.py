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
deliveries as it had messages then.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import msgspec
import pika
from pika.adapters.select_connection import SelectConnection
from pika.channel import Channel
from pika.spec import Basic, BasicProperties

from dlx.delivery_counts import Return
from simulator.capture import CaptureUnavailable
from simulator.capture.amqp_values import exact_values
from simulator.capture.client_rows import delivered_row
from simulator.redrive.journal import Journal, Line, fingerprint
from simulator.redrive.plan import Planned
from simulator.redrive.waiting import Waiting, waiting

WINDOW = 1_000
"""How many deliveries a consumer has at most; those that stay in the queue are given to the next consumer's account."""
BATCH = 200
"""How many messages are sent between two looks at what came back."""
TICK_S = 0.005
IDLE_S = 5.0
"""After so long without a delivery, what is left belongs to others."""

PERSISTENT = 2


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
    """What came of a redrive, so far.

    Attributes:
        moved: messages that the broker has where they go, and that left the queue.
        looked_at: messages of the queue that were delivered here.
        of: how many there were at the start, or are looked at.
        left: how many of those at the start are still in the queue.
        fates: what was predicted for those that were looked at.
        refused: messages that stay in the queue, by the reason.
        finished: of those that were moved, those that an earlier run had published already.
        arrived: messages that came to the queue since it began: some of those that were moved, or others.
        stopped: why it ended before its time; empty if it did not.
    """

    moved: int = 0
    looked_at: int = 0
    of: int = 0
    left: int = 0
    finished: int = 0
    arrived: int = 0
    fates: Counter[str] = msgspec.field(default_factory=Counter)
    refused: Counter[str] = msgspec.field(default_factory=Counter)
    stopped: str = ""


class Execution:
    """One run. ``run`` returns when all is moved or given back.

    Args:
        url: AMQP URL, whose virtual host is ``vhost``.
        queue: the dead-letter queue.
        journal: what earlier runs have done, and where this one writes.
        planned: returns what is planned for a message.
        gives_back: how what stays in the queue goes back to it.
        limit: messages that are looked at, at most.
        rate: messages that are sent in a second, at most.
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
        gives_back: Return = "nack",
        limit: int | None = None,
        rate: float | None = None,
        may: Callable[[Done], str] = lambda done: "",
    ) -> None:
        self._parameters = pika.URLParameters(url)
        self._parameters.virtual_host = vhost
        self._queue, self._journal, self._plan = queue, journal, planned
        self._gives_back, self._limit, self._rate, self._may = gives_back, limit, rate, may
        self.done = Done()
        self._initially = self._delivered = 0
        self._ready: deque[Moving] = deque()
        self._sent: dict[int, Moving] = {}
        self._acknowledged: list[Line] = []
        self._wanted = self._got = self._number = self._held = self._of_consumer = 0
        self._tag = self._last_tag = 0
        self._consumer = ""
        self._last = self._began = 0.0
        self._error: BaseException | None = None
        self._ended = False

    def run(self) -> Done:
        """Do it.

        Raises:
            CaptureUnavailable: no connection, it was lost, or the broker refuses. The journal can go on.
        """
        name = f"{self._parameters.host}:{self._parameters.port}"
        self._connection = SelectConnection(
            self._parameters, self._on_open, self._on_failed, self._on_closed, internal_connection_workflow=True
        )
        try:
            with exact_values(to_publish=True):
                self._connection.ioloop.start()
        finally:
            self._connection.ioloop.close()
        if isinstance(self._error, Exception) and not self._ended:
            raise CaptureUnavailable(name, f"no connection to the broker, or it was lost: {self._error}")
        self.done.left = max(0, self._initially - self.done.moved)
        return self.done

    # -- beginning

    def _on_open(self, connection: Any) -> None:
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
        ready = self._initially = frame.method.message_count
        self._wanted = self.done.of = ready if self._limit is None else min(ready, self._limit)
        self._began = self._last = time.monotonic()
        if self._wanted:
            self._in.basic_qos(prefetch_count=WINDOW, callback=lambda _: self._consume())
        self._connection.ioloop.call_later(TICK_S, self._tick)

    def _consume(self) -> None:
        self._of_consumer = 0
        self._consumer = self._in.basic_consume(self._queue, self._on_message)

    # -- what waits

    def _on_message(self, _: Channel, method: Basic.Deliver, properties: BasicProperties, body: bytes) -> None:
        self._last_tag, self._last = method.delivery_tag or 0, time.monotonic()
        self._delivered += 1
        if self._got >= self._wanted:
            return  # it came later, and goes back at the end
        self._got += 1
        self.done.looked_at += 1
        row = delivered_row(self._queue, method, properties, body)
        mark = fingerprint(row)
        if self._journal.take_confirmed(mark):
            self.done.finished += 1
            self._acknowledge(self._last_tag, mark, row.message)
            return
        planned = self._plan(waiting(row))
        self.done.fates[planned.fate.kind] += 1
        moving = Moving(self._last_tag, mark, planned, properties, body)
        if not planned.goes:
            self._stays(moving, planned.fate.kind)
        else:
            self._ready.append(moving)

    def _stays(self, moving: Moving, why: str) -> None:
        self.done.refused[why] += 1
        self._held += 1
        self._of_consumer += 1
        if self._of_consumer >= WINDOW // 2 and self._got < self._wanted:
            # What stays takes up the consumer's prefetch: the next consumer has one of its own.
            self._in.basic_cancel(self._consumer, callback=lambda _: self._consume())
            self._of_consumer = 0

    # -- what goes

    def _tick(self) -> None:
        if self._ended:
            return
        if not self.done.stopped:
            self.done.stopped = self._may(self.done)
        if not self.done.stopped:
            self._send()
        self._settle()
        if self._is_over():
            self._finish()
        else:
            self._connection.ioloop.call_later(TICK_S, self._tick)

    def _send(self) -> None:
        room = min(BATCH, self._allowed(), len(self._ready))
        batch = [self._ready.popleft() for _ in range(room)]
        if not batch:
            return
        self._journal.write(
            Line("sent", each.fingerprint, each.planned.message.id, str(each.planned.address)) for each in batch
        )
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
        self._out.basic_publish(address.exchange, address.routing_key, moving.body, _carried(moving), mandatory=True)

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
        taken = [(tag, self._sent.pop(tag)) for tag in tags if tag in self._sent]
        refused = isinstance(method, Basic.Nack)
        lines, moved = [], []
        for _, moving in taken:
            stays = refused or moving.returned
            step = "refused" if stays else "confirmed"
            lines.append(Line(step, moving.fingerprint, moving.planned.message.id))  # type: ignore[arg-type]
            if stays:
                self._stays(moving, "refused by the broker" if refused else "routed nowhere")
            else:
                moved.append(moving)
        self._journal.write(lines)
        for moving in moved:
            self._acknowledge(moving.tag, moving.fingerprint, moving.planned.message.id)

    def _acknowledge(self, tag: int, mark: str, message_id: str) -> None:
        self._in.basic_ack(tag)
        self.done.moved += 1
        self._acknowledged.append(Line("settled", mark, message_id))

    def _settle(self) -> None:
        """Have the broker hear what was acknowledged: it answers one thing after the other."""
        if self._acknowledged:
            lines, self._acknowledged = self._acknowledged, []
            self._in.queue_declare(self._queue, passive=True, callback=lambda frame: self._settled(lines, frame))

    def _settled(self, lines: list[Line], frame: Any) -> None:
        self._journal.write(lines)
        self.done.arrived = max(0, frame.method.message_count + self._delivered - self._initially)

    # -- the end

    def _is_over(self) -> bool:
        if self._sent:
            return False
        if self.done.stopped:
            return True
        idle = time.monotonic() - self._last > IDLE_S
        return not self._ready and (self._got >= self._wanted or idle)

    def _finish(self) -> None:
        self._ended = True
        if self._consumer:
            self._in.basic_cancel(self._consumer, callback=lambda _: self._give_back())
        else:
            self._give_back()

    def _give_back(self) -> None:
        if self._gives_back == "nack":  # otherwise the end of the channel gives it back
            self._in.basic_nack(0, multiple=True, requeue=True)
        self._settle()
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


def _carried(moving: Moving) -> BasicProperties:
    """Return the properties that a message takes along: its headers with the types that they came with.

    Without the expiration, and without the user: a broker refuses a publish in the name of another one.
    """
    properties, came = moving.properties, moving.properties.headers or {}
    properties.headers = {name: came.get(name, value) for name, value in moving.planned.headers.items()} or None
    properties.expiration = properties.user_id = None
    return properties


def _is_same(moving: Moving, method: Basic.Return, properties: BasicProperties, body: bytes) -> bool:
    address = moving.planned.address
    return (
        address is not None
        and (address.exchange, address.routing_key) == (method.exchange, method.routing_key)
        and moving.properties.message_id == properties.message_id
        and moving.body == body
    )
