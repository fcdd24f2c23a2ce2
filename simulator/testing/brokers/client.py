"""The client of a broker under test: publishes with confirms, gets messages, and counts ready messages."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pika
from pika.exceptions import AMQPError, ChannelClosedByBroker, NackError, UnroutableError

from dlx.consumer import DeathHistory, death_history
from dlx.nearest_names import suggestion
from simulator.capture.connected import amqp_parameters

__tracebackhide__ = True  # pytest shows the line of the test instead

_NOT_FOUND = 404
_BLOCKED_S = 10
"""How long the broker may keep a publisher waiting because it is short of memory."""


class NotThereError(LookupError):
    """There is no queue or exchange of that name, or it is exclusive to another connection."""


@dataclass(frozen=True)
class ReceivedMessage:
    """A message that was taken from a queue.

    Attributes:
        body: its body.
        exchange, routing_key: where it was published to last, by its publisher or as a dead letter.
        redelivered: whether it was delivered before.
        properties: its ``pika.BasicProperties``.
    """

    body: bytes
    exchange: str
    routing_key: str
    redelivered: bool
    properties: Any
    _tag: int = field(repr=False, compare=False)
    _channel: Any = field(repr=False, compare=False)

    @property
    def headers(self) -> Mapping[str, Any]:
        """Its headers; none is an empty mapping."""
        return self.properties.headers or {}

    @property
    def death_history(self) -> DeathHistory:
        """How it died (``dlx.death_history``): false if it never did."""
        return death_history(self.properties)

    def ack(self) -> None:
        """Acknowledge it. Raises ``RuntimeError`` if that is done already."""
        self._open().basic_ack(self._tag)

    def reject(self, *, requeue: bool) -> None:
        """Reject it: for good, or back into its queue. Raises ``RuntimeError`` if it is acknowledged already."""
        self._open().basic_reject(self._tag, requeue=requeue)

    def nack(self, *, requeue: bool) -> None:
        """Do the same by ``basic.nack``, which a quorum queue counts otherwise. Raises ``RuntimeError``."""
        self._open().basic_nack(self._tag, requeue=requeue)

    def _open(self) -> Any:
        if self._channel is None:
            raise RuntimeError("the message is acknowledged already: get it with auto_ack=False")
        if not self._channel.is_open:
            raise RuntimeError("the channel on which the message came is closed, so it is back in its queue")
        return self._channel


class Client:
    """One connection, which is opened when it is needed, and again after the broker closed it."""

    def __init__(self, amqp_url: str) -> None:
        self._parameters = amqp_parameters(amqp_url)
        self._parameters.heartbeat = 0  # no thread sends any while the test does something else
        self._parameters.blocked_connection_timeout = _BLOCKED_S
        self._connection: Any = None
        self._channels: dict[str, Any] = {}

    def publish(self, exchange: str, routing_key: str, body: bytes | str, properties: Any, *, mandatory: bool) -> None:
        """Publish, and wait for the confirm.

        Raises ``pika.exceptions.UnroutableError``, ``NackError``, and ``NotThereError`` without such an exchange.
        """
        channel = self._channel("publish")
        try:
            channel.basic_publish(exchange, routing_key, body, properties, mandatory=mandatory)
        except UnroutableError as error:
            error.add_note(
                f"no queue takes what is published to {_name_exchange(exchange)} with the key {routing_key!r}"
            )
            raise error.with_traceback(None) from None  # where in pika is of no interest
        except NackError as error:
            error.add_note(
                f"a queue refused what was published to {_name_exchange(exchange)} with the key {routing_key!r}"
            )
            raise error.with_traceback(None) from None
        except ChannelClosedByBroker as error:
            raise _not_there(error) from None

    def get(self, queue: str, *, auto_ack: bool) -> ReceivedMessage | None:
        """Take the next message of a queue; ``None`` if none is ready. Raises ``NotThereError``."""
        channel = self._channel("get")
        try:
            method, properties, body = channel.basic_get(queue, auto_ack=auto_ack)
        except ChannelClosedByBroker as error:
            raise _not_there(error) from None
        if method is None:
            return None
        delivered = method.exchange, method.routing_key, method.redelivered, properties, method.delivery_tag
        return ReceivedMessage(body, *delivered, None if auto_ack else channel)

    def ready(self, queue: str) -> int | None:
        """Return how many messages of a queue are ready; ``None`` if the queue does not exist.

        Raises ``NotThereError`` if it is exclusive: to others it does not exist.
        """
        try:
            count: int = self._channel("count").queue_declare(queue, passive=True).method.message_count
        except ChannelClosedByBroker as error:
            if error.reply_code != _NOT_FOUND:
                raise NotThereError(error.reply_text) from None
            return None
        return count

    def purge(self, queue: str) -> int:
        """Remove the ready messages of a queue, and return how many; 0 if the queue is gone."""
        try:
            count: int = self._channel("purge").queue_purge(queue).method.message_count
        except ChannelClosedByBroker:
            return 0
        return count

    def flush(self) -> None:
        """Wait until the broker has read what was sent: acknowledgements have no answer."""
        got = self._channels.get("get")
        if got is not None and got.is_open:
            got.basic_qos(prefetch_count=0)

    def close(self) -> None:
        """Close the connection, if the broker has not done so."""
        if self._connection is not None and self._connection.is_open:
            with contextlib.suppress(AMQPError):
                self._connection.close()

    def _channel(self, use: str) -> Any:
        """Return the channel of a use. Each has its own: an error closes the channel that it happens on."""
        if self._connection is None or not self._connection.is_open:
            self._connection = pika.BlockingConnection(self._parameters)
            self._channels = {}
        if use not in self._channels or not self._channels[use].is_open:
            self._channels[use] = channel = self._connection.channel()
            if use == "publish":
                channel.confirm_delivery()
        return self._channels[use]


def basic_properties(fields: Mapping[str, Any]) -> Any:
    """Return ``pika.BasicProperties``. Raises ``TypeError`` with the nearest name for a field that there is not."""
    known = [name for name in vars(pika.BasicProperties()) if not name.startswith("_")]
    for name in fields:
        if name not in known:
            raise TypeError(f"a message has no property {name!r}; {suggestion(name, known)}")
    return pika.BasicProperties(**fields)


def _name_exchange(exchange: str) -> str:
    return f"the exchange {exchange!r}" if exchange else "the default exchange"


def _not_there(error: ChannelClosedByBroker) -> Exception:
    return NotThereError(error.reply_text) if error.reply_code == _NOT_FOUND else error
