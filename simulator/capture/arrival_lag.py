"""Measures how late a live capture reads its rows, by messages that it sends to its own queue.

No trace has the time at which the broker wrote it. A row gets that of its arrival, which on a busy machine is later. So
about once a second a capture publishes a probe into the queue of its traces: it stands behind them, and arrives as late
as they do. Probes have a connection of their own: RabbitMQ stops reading from one that publishes when it runs short of
memory or disk, and the capture's acknowledgements must go on.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pika import BasicProperties, BlockingConnection
from pika.adapters.utils.connection_workflow import AMQPConnectorException
from pika.exceptions import AMQPError, ChannelWrongStateError

from simulator.capture.connected import amqp_parameters, why_lost
from simulator.capture.schema import PROBE

EVERY_S = 1.0
_NO_PERMISSION = "the broker refused a probe; its user needs write permission on amq.default, the default exchange"
_FAILURES = (AMQPError, AMQPConnectorException, OSError)


def is_probe(trace_headers: dict[str, Any]) -> bool:
    """Return whether a trace is of a probe."""
    properties = trace_headers.get("properties")
    return isinstance(properties, dict) and properties.get("type") == PROBE


class ArrivalLag:
    """Measures the lag of one queue, as long as it can.

    Attributes:
        problem: why it cannot, or can no longer: the user may not publish, or the connection was lost.
    """

    def __init__(self, url: str, vhost: str | None, queue: str, on_late: Callable[[int], None], poll_s: float) -> None:
        self.problem: str | None = None
        self._queue = queue
        self._on_late = on_late
        self._poll_s = poll_s
        self._largest_us = 0
        self._sent_s: dict[bytes, float] = {}
        self._probes = 0
        self._next_s = 0.0
        self._blocked = False
        self._connection: BlockingConnection | None = None
        parameters = amqp_parameters(url)
        if vhost is not None:
            parameters.virtual_host = vhost
        parameters.blocked_connection_timeout = EVERY_S  # the broker does not answer its close, either
        try:
            self._connection = BlockingConnection(parameters)
            self._connection.add_on_connection_blocked_callback(lambda *_: self._block(True))
            self._connection.add_on_connection_unblocked_callback(lambda *_: self._block(False))
            self._channel = self._connection.channel()
        except _FAILURES as error:
            self._give_up(error)

    def probe(self, now_s: float, before_s: float, *, at_once: bool = False) -> None:
        """Send a probe if it is time for one, or ``at_once``.

        ``before_s``: when the capture last looked for rows. If it did not look for longer than it waits for one, rows
        have waited since, and the probe counts from then.
        """
        held_up = now_s - before_s > 2 * self._poll_s
        if self._connection is None or self.problem or not (at_once or held_up or now_s >= self._next_s):
            return
        self._next_s = now_s + EVERY_S
        try:
            self._connection.process_data_events(0)
            if not self._blocked:
                self._probes += 1
                body = b"%d" % self._probes
                self._channel.basic_publish("", self._queue, body, BasicProperties(type=PROBE, delivery_mode=1))
                self._sent_s[body] = min(now_s, before_s + self._poll_s)
        except _FAILURES as error:
            self._give_up(error)

    def arrived(self, body: bytes, now_s: float) -> None:
        """Note that a probe has arrived."""
        if (sent_s := self._sent_s.pop(body, None)) is not None:
            self._note(now_s - sent_s)

    def end(self, now_s: float) -> None:
        """Note that the capture reads no more; a probe that is still on its way is as late as that."""
        if self._sent_s:
            self._note(now_s - min(self._sent_s.values()))

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None and self._connection.is_open:
            with suppress(*_FAILURES):
                self._connection.close()

    def _note(self, late_s: float) -> None:
        late_us = max(1, round(late_s * 1e6))
        if late_us > self._largest_us:
            self._largest_us = late_us
            self._on_late(late_us)

    def _block(self, blocked: bool) -> None:
        self._blocked = blocked
        self._sent_s.clear()

    def _give_up(self, error: BaseException) -> None:
        self.problem = _NO_PERMISSION if isinstance(error, ChannelWrongStateError) else why_lost(error)
        self._sent_s.clear()
