"""The publisher of a case on a server: it counts what was refused, reached no queue, or had no answer."""

from __future__ import annotations

import time
from typing import Any

import pika

from simulator.scenario import steps
from simulator.scenario.player import published_properties

PATIENCE_S = 0.3
"""How long to wait for the answer to a publish where a fault may have taken it."""
_POLL_S = 0.02


class Publisher:
    """Publishes on a connection of its own, which a server that is short of memory reads no more.

    Attributes:
        unroutable: how many publishes reached no queue so far.
        refused: how many publishes were refused so far.
    """

    def __init__(self, amqp_url: str) -> None:
        self.unroutable = self.refused = 0
        self._published = 0
        self._waiting: set[int] = set()
        parameters = pika.URLParameters(amqp_url)
        parameters.heartbeat = 0  # a server that reads no more would answer none
        self._connection = pika.BlockingConnection(parameters)
        self._channel = self._connection.channel()
        self._closed: Exception | None = None
        self._channel._impl.add_on_close_callback(self._closes)
        self._channel.add_on_return_callback(self._returned)
        self._select_confirms()

    def _select_confirms(self) -> None:
        """Ask for confirms; pika's own blocking channel would wait for each, and so for ever for a lost one."""
        selected: list[Any] = []
        self._channel._impl.confirm_delivery(ack_nack_callback=self._answered, callback=selected.append)
        while not selected:
            self._connection.process_data_events(_POLL_S)

    def publish(self, step: steps.Publish, *, under_faults: bool) -> None:
        """Publish, and wait for the answer; for a moment only where a fault may have taken it.

        Raises ``AMQPError`` if the server refuses it.
        """
        properties = pika.BasicProperties(**published_properties(step))
        self._published += 1
        self._waiting.add(self._published)
        self._channel.basic_publish(step.exchange, step.routing_key, bytes(step.body_bytes), properties, mandatory=True)
        until = time.monotonic() + PATIENCE_S
        while self._published in self._waiting and not (under_faults and time.monotonic() > until):
            self._connection.process_data_events(_POLL_S)
            if self._closed is not None:
                raise self._closed

    @property
    def unconfirmed(self) -> int:
        """How many publishes were neither confirmed nor refused so far."""
        self.hear()
        return len(self._waiting)

    def hear(self) -> None:
        """Take the answers that have come."""
        self._connection.process_data_events(0)

    def close(self) -> None:
        """Close the connection."""
        if self._connection.is_open:
            self._connection.close()

    def _returned(self, *_returned: Any) -> None:
        self.unroutable += 1

    def _closes(self, _channel: Any, why: Exception) -> None:
        self._closed = why

    def _answered(self, frame: Any) -> None:
        answer = frame.method
        first = 1 if answer.multiple else answer.delivery_tag
        numbers = self._waiting & set(range(first, answer.delivery_tag + 1))
        self._waiting -= numbers
        if isinstance(answer, pika.spec.Basic.Nack):
            self.refused += len(numbers)
