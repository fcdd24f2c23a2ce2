"""Records what a consumer does, with a pika channel that writes down everything that goes through it.

    with Recorder("orders-worker.parquet") as recorder:
        channel = recorder.wrap(connection.channel())   # and on as before

A broker's trace ends at the delivery. The recorder adds the outcome, so that a log
is complete and not inferred: ``acked``, ``rejected`` or ``requeued`` follows
each ``delivered``, and what is published through a wrapped channel is ``published``.
The events are those of ``simulator.events``, the rows those of every capture.
Recording needs pika; only the capture that is made at the end needs pyarrow.

Rows are appended to ``PATH.journal`` while it runs (``simulator.capture.journal``),
and become the capture at PATH when the recorder is closed. After a crash,
``recover`` does that. A full disk does not disturb the consumer: the
recording ends there, and ``close`` says so.

Threads: a wrapped channel belongs to its connection's thread, as it does without.
Channels of several threads may share a recorder.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
from pika import BasicProperties

from dlx.value_kinds import value_kind
from simulator.capture.capture_errors import CaptureError
from simulator.capture.client_rows import delivered_row, published_row
from simulator.capture.journal import CaptureFile, journal_to_capture
from simulator.capture.schema import Observation
from simulator.events import Event

UNSETTLED_MAX = 100_000
"""How many unsettled deliveries of a channel are kept in memory; the ends of older ones are not recorded."""


def journal_of(path: str | os.PathLike[str]) -> Path:
    """Return the path of the journal that a recording writes while it runs."""
    return Path(f"{os.fspath(path)}.journal")


def recover(path: str | os.PathLike[str]) -> int:
    """Make the capture at ``path`` from the journal of a recorder that was not closed, and return its number of rows.

    Raises:
        CaptureError: nothing was left there, or the capture cannot be written.
    """
    return journal_to_capture(journal_of(path), path)


class Recorder:
    """A recording. Use it as a context manager, or ``close()`` it.

    Args:
        path: the capture to make. Each run of a consumer needs a path of its own.
        vhost: the virtual host of the channels; the definitions for a replay must have it.
        user, connection: what the columns of that name say.
        now_us: the time, microseconds since 1970; by default this machine's.

    Raises:
        CaptureError: the path or its journal exists, or cannot be written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        vhost: str = "/",
        user: str = "",
        connection: str = "",
        now_us: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        self.path = Path(path)
        if self.path.exists():
            raise CaptureError(os.fspath(path), "exists; each recording needs a path of its own")
        self.rows = 0
        self._about = (connection, vhost, user)
        self._now_us = now_us
        self._channels: list[RecordedChannel] = []
        self._failure: OSError | None = None
        self.lock = threading.RLock()  # for the rows, and for what the channels have unsettled
        self._journal: CaptureFile | None = CaptureFile(journal_of(path))

    def wrap(self, channel: Any) -> RecordedChannel:
        """Wrap a channel so that it is recorded: of a ``BlockingConnection``, or of pika's other connections.

        Raises:
            TypeError: it is no channel.
            ValueError: it is recorded already.
        """
        if isinstance(channel, RecordedChannel):
            raise ValueError("channel: expected one without a recorder, got one that a recorder has wrapped")
        if not hasattr(channel, "channel_number"):
            got = value_kind(channel)
            raise TypeError(f"channel: expected a channel of pika, such as connection.channel(), got {got}")
        recorded = RecordedChannel(channel, self)
        with self.lock:
            self._give_back_closed()
            self._channels.append(recorded)
        return recorded

    def close(self) -> None:
        """End the recording and make the capture. Closing twice does nothing.

        Raises ``CaptureError`` when not all was recorded, or the capture cannot be
        written; the journal stays then.
        """
        with self.lock:
            self._give_back_closed()
            journal, self._journal = self._journal, None
        if journal is None:
            return
        journal.close()
        if self._failure is not None:
            problem = f"recording ended after {self.rows} rows: {self._failure.strerror or self._failure}"
            raise CaptureError(os.fspath(journal.path), problem) from self._failure
        journal_to_capture(journal.path, self.path)

    def write(self, event: Event, channel: int, message: Observation) -> None:
        """Write a row: ``message`` as it was, with what happened to it now, and where."""
        connection, vhost, user = self._about
        with self.lock:
            if event is Event.DELIVERED:
                self._give_back_closed()  # or it may be delivered before it has gone back
            if self._journal is None or self._failure is not None:
                return
            row = msgspec.structs.replace(
                message, event=event.value, time_us=self._now_us(), line=self.rows + 1, channel=channel,
                file=self.path.name, connection=connection, vhost=vhost, user=user,
            )  # fmt: skip
            try:
                self._journal.append(row)
            except OSError as error:
                self._failure = error
            else:
                self.rows += 1

    def _give_back_closed(self) -> None:
        """Record that the deliveries of channels that are closed by now have gone back to their queues."""
        closed = [channel for channel in self._channels if channel.is_closed]
        for channel in closed:
            self._channels.remove(channel)
            channel.give_back()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class RecordedChannel:
    """A channel of pika that records. Any other attribute is the channel's own.

    A delivery is ``requeued`` by a nack, reject or recover that says so, and by the
    end of its channel. Cancelling a consumer requeues nothing. With automatic
    acknowledgement, ``acked`` follows at once. In a transaction, an acknowledgement is
    recorded when it is said, not when it is committed.
    """

    def __init__(self, channel: Any, recorder: Recorder) -> None:
        self._channel = channel
        self._recorder = recorder
        self._unsettled: dict[int, Observation] = {}
        self._consumed: dict[str, str] = {}  # the queue by consumer tag
        self._declared = ""  # the queue that was declared last, which the broker takes for the name ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._channel.is_open:
            self.close()

    # -- what is sent and received ------------------------------------------------

    def basic_publish(
        self,
        exchange: str,
        routing_key: str,
        body: str | bytes,
        properties: BasicProperties | None = None,
        *args: Any,
        **options: Any,
    ) -> Any:
        """Publish as the channel does. The row precedes the send and any delivery. A refused publish has no row."""
        # Only some versions of pika take values that are like bytes, such as a bytearray.
        sure = self._channel.is_open and isinstance(body, str | bytes)
        if sure:
            self._write(Event.PUBLISHED, published_row(exchange, routing_key, body, properties))
        result = self._channel.basic_publish(exchange, routing_key, body, properties, *args, **options)
        if not sure:
            self._write(Event.PUBLISHED, published_row(exchange, routing_key, body, properties))
        return result

    def basic_consume(
        self, queue: str, on_message_callback: Callable[..., Any], auto_ack: bool = False, *args: Any, **options: Any
    ) -> Any:
        """Consume as the channel does. The callback gets this channel."""
        name = queue or self._declared
        callback = self._recorded(name, on_message_callback, auto_ack)
        tag = self._channel.basic_consume(queue, callback, auto_ack, *args, **options)
        self._consumed[tag] = name
        return tag

    def basic_get(self, queue: str, callback: Any = None, auto_ack: bool = False) -> Any:
        """Get as the channel does: a ``BlockingChannel`` takes ``(queue, auto_ack)``, others a callback in between."""
        name = queue or self._declared
        if callable(callback):
            return self._channel.basic_get(queue, self._recorded(name, callback, auto_ack), auto_ack)
        automatic = auto_ack or bool(callback)
        method, properties, body = self._channel.basic_get(queue, automatic)
        if method is not None:
            self._deliver(name, method, properties, body, automatic)
        return method, properties, body

    def consume(self, queue: str, auto_ack: bool = False, *args: Any, **options: Any) -> Iterator[Any]:
        """Consume as a ``BlockingChannel`` does."""
        name = queue or self._declared
        for method, properties, body in self._channel.consume(queue, auto_ack, *args, **options):
            if method is not None:
                self._deliver(name, method, properties, body, auto_ack)
            yield method, properties, body

    def basic_cancel(self, consumer_tag: str = "", *args: Any, **options: Any) -> Any:
        """Cancel as the channel does. A ``BlockingChannel`` returns deliveries that are acknowledged automatically."""
        pending = self._channel.basic_cancel(consumer_tag, *args, **options)
        queue = self._consumed.pop(consumer_tag, None)
        for method, properties, body in pending or ():
            if queue is not None:
                self._deliver(queue, method, properties, body, auto_ack=True)
        return pending

    def stop_consuming(self, consumer_tag: str | None = None) -> None:
        """Stop consuming as a ``BlockingChannel`` does."""
        for tag in [consumer_tag] if consumer_tag else list(self._consumed):
            self.basic_cancel(tag)
        if not consumer_tag:
            self._channel.stop_consuming()  # what ``consume`` has begun

    def queue_declare(self, queue: str, *args: Any, **options: Any) -> Any:
        """Declare as the channel does. From now on the name ``""`` means this queue."""
        self._declared = queue
        callback: Any = options.get("callback")

        def on_declared(answer: Any) -> Any:
            self._declared = answer.method.queue
            return callback(answer)

        if callable(callback):
            return self._channel.queue_declare(queue, *args, **{**options, "callback": on_declared})
        answer = self._channel.queue_declare(queue, *args, **options)
        if answer is not None:
            self._declared = answer.method.queue
        return answer

    # -- what becomes of it -------------------------------------------------------

    def basic_ack(self, delivery_tag: int = 0, multiple: bool = False) -> None:
        """Acknowledge as the channel does."""
        self._channel.basic_ack(delivery_tag, multiple)
        self._settle(Event.ACKED, delivery_tag, multiple)

    def basic_nack(self, delivery_tag: int = 0, multiple: bool = False, requeue: bool = True) -> None:
        """Reject or requeue as the channel does."""
        self._channel.basic_nack(delivery_tag, multiple, requeue)
        self._settle(Event.REQUEUED if requeue else Event.REJECTED, delivery_tag, multiple)

    def basic_reject(self, delivery_tag: int = 0, requeue: bool = True) -> None:
        """Reject or requeue as the channel does."""
        self._channel.basic_reject(delivery_tag, requeue)
        self._settle(Event.REQUEUED if requeue else Event.REJECTED, delivery_tag, False)

    def basic_recover(self, *args: Any, **options: Any) -> Any:
        """Requeue as the channel does."""
        recovered = self._channel.basic_recover(*args, **options)
        self.give_back()
        return recovered

    def close(self, *args: Any, **options: Any) -> Any:
        """Close the channel."""
        closed = self._channel.close(*args, **options)
        self.give_back()
        return closed

    def give_back(self) -> None:
        """Record that all unsettled deliveries went back to their queues. Any thread may call this."""
        self._settle(Event.REQUEUED, 0, True)

    # -- rows ---------------------------------------------------------------------

    def _recorded(self, queue: str, callback: Callable[..., Any], auto_ack: bool) -> Callable[..., Any]:
        def on_message(_: Any, method: Any, properties: BasicProperties, body: bytes) -> Any:
            self._deliver(queue, method, properties, body, auto_ack)
            return callback(self, method, properties, body)

        return on_message

    def _deliver(self, queue: str, method: Any, properties: BasicProperties, body: bytes, auto_ack: bool) -> None:
        delivered = delivered_row(queue, method, properties, body)
        settled_later = msgspec.structs.replace(delivered, payload=b"")
        with self._recorder.lock:
            self._write(Event.DELIVERED, delivered)
            if auto_ack:
                self._write(Event.ACKED, settled_later)
                return
            self._unsettled[method.delivery_tag] = settled_later
            if len(self._unsettled) > UNSETTLED_MAX:
                del self._unsettled[next(iter(self._unsettled))]

    def _settle(self, event: Event, tag: int, multiple: bool) -> None:
        """Record the end of deliveries; tag 0 with ``multiple`` means all of them."""
        with self._recorder.lock:
            tags = [each for each in self._unsettled if each <= tag or tag == 0] if multiple else [tag]
            for each in tags:
                delivered = self._unsettled.pop(each, None)
                if delivered is not None:
                    self._write(event, delivered)

    def _write(self, event: Event, message: Observation) -> None:
        self._recorder.write(event, self._channel.channel_number, message)
