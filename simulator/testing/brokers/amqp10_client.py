"""A client of AMQP 1.0 for a broker under test: it publishes, takes messages, and settles them by any outcome."""

from __future__ import annotations

import contextlib
import itertools
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from pika.exceptions import AMQPError
from proton import Delivery, Endpoint, Message, ProtonException, SessionException, Timeout, symbol
from proton.utils import BlockingConnection, LinkDetached

from dlx.consumer import DeathHistory, death_history
from dlx.nearest_names import suggestion
from simulator.scenario import steps
from simulator.testing.brokers.servers import OWN_CONTAINER_ID
from simulator.testing.cases.stage import StepRefusedError

__tracebackhide__ = True  # pytest shows the line of the test instead

_ANSWER_S = 10
_GONE = ("amqp:not-found", "amqp:resource-deleted")
_NUMBERS = itertools.count(1)
_MOMENT_S = 0.005
_OUTCOMES_OF_STEPS = {
    steps.Ack: Delivery.ACCEPTED,
    steps.Reject: Delivery.REJECTED,
    steps.Requeue: Delivery.RELEASED,
    steps.Modify: Delivery.MODIFIED,
}
_OUTCOMES = {Delivery.ACCEPTED: "accepted", Delivery.REJECTED: "rejected", Delivery.RELEASED: "released"}
_FIELDS = (
    "annotations", "content_encoding", "content_type", "correlation_id", "creation_time", "delivery_count", "durable",
    "expiry_time", "first_acquirer", "group_id", "group_sequence", "id", "inferred", "instructions", "priority",
    "properties", "reply_to", "reply_to_group_id", "subject", "ttl", "user_id",
)  # fmt: skip


class NotAcceptedError(Exception):
    """The broker did not accept a message.

    Attributes:
        outcome: what it said instead: ``released`` where no queue takes the message, ``rejected`` where a full queue
            refuses it.
    """

    def __init__(self, outcome: str, text: str) -> None:
        super().__init__(text)
        self.outcome = outcome


@dataclass(frozen=True)
class Amqp10Message:
    """A message that was taken from a queue over AMQP 1.0.

    Attributes:
        body: its body; a binary one as ``bytes``.
        message: the whole as ``proton.Message``.
    """

    body: Any
    message: Message = field(repr=False)
    _delivery: Any = field(repr=False, compare=False)
    _receiver: Any = field(repr=False, compare=False)

    @property
    def annotations(self) -> Mapping[str, Any]:
        """Its message annotations by name; none is an empty mapping."""
        return {str(name): value for name, value in (self.message.annotations or {}).items()}

    @property
    def delivery_count(self) -> int:
        """How many deliveries of it have failed."""
        return int(self.message.delivery_count)

    @property
    def death_history(self) -> DeathHistory:
        """How it died (``dlx.death_history``): false if it never did."""
        return death_history(self.message)

    def accept(self) -> None:
        """Acknowledge it. Raises ``RuntimeError`` if it is settled already, as the others do."""
        self._settle(Delivery.ACCEPTED)

    def reject(self) -> None:
        """Reject it for good."""
        self._settle(Delivery.REJECTED)

    def release(self) -> None:
        """Return it to its queue."""
        self._settle(Delivery.RELEASED)

    def modify(
        self,
        *,
        delivery_failed: bool = False,
        undeliverable_here: bool = False,
        annotations: Mapping[str, Any] | None = None,
    ) -> None:
        """Return it to its queue, or with ``undeliverable_here`` reject it for good.

        Args:
            delivery_failed: whether the delivery counts as failed.
            undeliverable_here: whether it is dead-lettered, as a rejected message is.
            annotations: what a quorum queue adds to its message annotations, or replaces there.

        Raises ``ValueError`` for annotations with which RabbitMQ ends the session, or later those of consumers.
        """
        steps.check_annotations(annotations or {})
        _describe(self._delivery, delivery_failed, undeliverable_here, annotations or {})
        self._settle(Delivery.MODIFIED)

    def _settle(self, outcome: int) -> None:
        if self._delivery.local_state:
            raise RuntimeError("the message is settled already")
        self._delivery.update(outcome)
        self._delivery.settle()
        with _named_errors():
            self._receiver.close()  # when the broker answers, it has done what the outcome says


class Amqp10Client:
    """One connection of AMQP 1.0, which is opened when it is needed.

    Args:
        amqp_url: the URL of a broker, as for AMQP 0-9-1.
        vhost: the virtual host.
        check: raises ``LookupError`` if there is no ``exchange`` or ``queue`` of that name.
    """

    def __init__(self, amqp_url: str, vhost: str, check: Callable[[str, str], None]) -> None:
        self._amqp_url, self._vhost, self._check = amqp_url, vhost, check
        self._opened: Any = None

    def publish(
        self, exchange: str, routing_key: str, body: Any = b"", message: Message | None = None, **fields: Any
    ) -> None:
        """Publish a message, and wait for its outcome.

        Args:
            exchange: the exchange; ``""`` for the default one, where the routing key has to be the name of a queue.
            routing_key: the routing key.
            body: the body; bytes are sent as they are, anything else as a value of AMQP.
            message: ``proton.Message``, body and all.
            fields: fields of ``proton.Message`` by their names, in place of ``message``: ``subject="created"``,
                ``annotations={"x-opt-tenant": "a"}``, ``properties={...}`` (of the application), ``ttl=60`` (seconds).

        Raises:
            NotAcceptedError: no queue takes it, or a full queue refuses it.
            LookupError: there is no such exchange or queue; it names the nearest.
            TypeError: there is no field of that name, or there is a ``message`` besides.
        """
        if message is not None and (fields or body):
            raise TypeError("expected a message, or a body and fields, got both")
        given = made_message(body, fields) if message is None else message
        if not isinstance(given, Message):
            raise TypeError(f"expected proton.Message as message, got {given!r}")
        self._check("exchange" if exchange else "queue", exchange or routing_key)
        address = _address(exchange, routing_key)
        with self._careful():
            sender = self._connection.create_sender(address, name=f"dlx-{next(_NUMBERS)}")
            delivery = sender.link.send(given)
            self._wait(sender.link, lambda: delivery.settled)
            delivery.settle()
            sender.close()
        outcome = _OUTCOMES.get(delivery.remote_state)
        if outcome is None:
            self.close()
            raise ConnectionError("the broker closed the connection instead of an answer")
        if outcome != "accepted":
            why = "" if delivery.remote.condition is None else f": {delivery.remote.condition.description}"
            raise NotAcceptedError(outcome, f"what was published to {address} was {outcome}{why}")

    def get(self, queue: str) -> Amqp10Message | None:
        """Take the next message of a queue; ``None`` if none is ready now.

        As long as the message is not settled, the queue has a consumer; what is not settled at the end of the test
        goes back. Raises ``LookupError`` if there is no such queue; it names the nearest.
        """
        address = _address("", queue)
        self._check("queue", queue)
        with self._careful():
            receiver = self._connection.create_receiver(address, 0, name=f"dlx-{next(_NUMBERS)}")
            fetcher, link = receiver.fetcher, receiver.link
            link.drain(1)
            self._wait(link, lambda: fetcher.has_message or not link.credit)
            if not fetcher.has_message:
                receiver.close()
                return None
        message, delivery = fetcher.incoming.popleft()
        body = bytes(message.body) if isinstance(message.body, memoryview) else message.body
        return Amqp10Message(body, message, delivery, receiver)

    def close(self) -> None:
        """Close the connection, if it is open; what was not settled goes back to its queue."""
        connection, self._opened = self._opened, None
        if connection is not None:
            with contextlib.suppress(ProtonException):
                connection.close()

    @contextlib.contextmanager
    def _careful(self) -> Iterator[None]:
        """Close the connection after an error that is not of one link alone."""
        try:
            with _named_errors():
                yield
        except LinkDetached:
            raise
        except ProtonException:
            self.close()
            raise

    @property
    def _connection(self) -> Any:
        if self._opened is None:
            self._opened = _connected(self._amqp_url, self._vhost)
        return self._opened

    def _wait(self, link: Any, holds: Callable[[], Any]) -> None:
        """Wait until something holds. Raises ``SessionException`` if the broker ends the session instead."""
        session = link.session
        self._connection.wait(lambda: holds() or session.state & Endpoint.REMOTE_CLOSED, msg="Waiting for the broker")
        if session.state & Endpoint.REMOTE_CLOSED:
            raise SessionException(f"the broker ended the session: {session.remote_condition}")


class Amqp10Consumer:
    """The consumer of one queue, on a connection of its own, for the steps of a case.

    Attributes:
        prefetch: how many messages it may hold.
        deliveries: those that it holds, the oldest first.
    """

    def __init__(self, amqp_url: str, vhost: str, queue: str) -> None:
        self.prefetch = 0
        self.deliveries: deque[Any] = deque()
        self._queue = queue
        with _as_amqp_errors():
            self._connection = _connected(amqp_url, vhost)
        self._receiver: Any = None

    def subscribe(self, prefetch: int) -> None:
        """Attach a link, or grant it more credit."""
        more, self.prefetch = prefetch - self.prefetch, prefetch
        if self._receiver is None:
            with _as_amqp_errors():  # 0: otherwise Proton grants credit anew by itself
                self._receiver = self._connection.create_receiver(_address("", self._queue), 0)
        self._receiver.link.flow(more)

    def settle(self, step: Any) -> None:
        """Settle the oldest delivery, and grant credit for another."""
        delivery, outcome = self.deliveries.popleft(), _OUTCOMES_OF_STEPS[type(step)]
        if isinstance(step, steps.Modify):
            _describe(delivery, step.delivery_failed, step.undeliverable_here, step.annotations)
        elif isinstance(step, steps.Requeue) and step.method == "reject":  # it counts as a failed delivery
            outcome = Delivery.MODIFIED
            _describe(delivery, True, False, {})
        delivery.update(outcome)
        delivery.settle()
        self.hear()  # Proton would send the credit before the outcome
        if self._receiver is not None:
            self._receiver.link.flow(1)

    def get(self) -> None:
        """Raise ``StepRefusedError``: AMQP 1.0 has no ``basic.get``."""
        raise StepRefusedError(f"the consumer of '{self._queue}' speaks AMQP 1.0, for 'modify', which has no 'get'")

    def hear(self, seconds: float = 0) -> None:
        """Take what has come. Raises ``AMQPError`` if the server has closed the link or the connection."""
        with _as_amqp_errors(), contextlib.suppress(Timeout):
            self._connection.wait(lambda: False, timeout=max(seconds, _MOMENT_S), msg="Listening")
        if self._receiver is not None:
            incoming = self._receiver.fetcher.incoming
            while incoming:
                self.deliveries.append(incoming.popleft()[1])

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


@contextlib.contextmanager
def _as_amqp_errors() -> Iterator[None]:
    """Raise pika's error for one of Proton's: who plays the steps of a case need not know which protocol it was."""
    try:
        yield
    except ProtonException as error:
        raise AMQPError(str(error)) from error


def _connected(amqp_url: str, vhost: str) -> Any:
    url = urlsplit(amqp_url)
    return BlockingConnection(
        f"{url.scheme}://{url.hostname}:{url.port}",
        timeout=_ANSWER_S,
        user=unquote(url.username or "guest"),
        password=unquote(url.password or "guest"),
        virtual_host=f"vhost:{vhost}",
        allowed_mechs="PLAIN",
        allow_insecure_mechs=True,
        container_id=OWN_CONTAINER_ID,
    )


def _describe(delivery: Any, failed: bool, undeliverable: bool, annotations: Mapping[str, Any]) -> None:
    """Say what the outcome ``modified`` of a delivery means."""
    local = delivery.local
    local.failed, local.undeliverable = failed, undeliverable
    local.annotations = {symbol(name): value for name, value in annotations.items()} or None


@contextlib.contextmanager
def _named_errors() -> Iterator[None]:
    """Raise ``LookupError`` where a link is detached because its queue is gone."""
    try:
        yield
    except LinkDetached as error:
        if error.condition in _GONE:
            raise LookupError(str(error)) from None
        raise


def made_message(body: Any, fields: Mapping[str, Any]) -> Message:
    """Return ``proton.Message``. Raises ``TypeError`` with the nearest name for a field that there is not."""
    for name in fields:
        if name not in _FIELDS:
            raise TypeError(f"a message of AMQP 1.0 has no field {name!r}; {suggestion(name, _FIELDS)}")
    given = dict(fields)
    if not isinstance(given.get("annotations") or {}, Mapping):
        raise TypeError(f"expected annotations by their names, got {given['annotations']!r}")
    given["annotations"] = {symbol(name): value for name, value in (given.get("annotations") or {}).items()} or None
    try:
        message = Message(body=body, inferred=isinstance(body, bytes), **given)
        message.encode()
    except Exception as error:  # Proton's library raises whatever it meets
        raise TypeError(f"AMQP 1.0 cannot hold the message: {type(error).__name__}: {error}") from None
    return message


def _address(exchange: str, routing_key: str) -> str:
    key = quote(routing_key, safe="")
    return f"/exchanges/{quote(exchange, safe='')}/{key}" if exchange else f"/queues/{key}"
