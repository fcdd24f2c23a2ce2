"""What a test does with messages, the same on the simulator and on a server: publish, get, drain, wait for them."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from dlx.nearest_names import suggestion
from dlx.operator_errors import no_amqp_1_0
from dlx.releases import release as release_of
from dlx.topology import STREAM
from simulator.clock import duration_us
from simulator.extras import importing
from simulator.testing.brokers.broker_under_test import AwaitableClock
from simulator.time_spans import span

if TYPE_CHECKING:
    from simulator.testing.brokers.amqp10_client import Amqp10Client
    from simulator.testing.brokers.client import Client, ReceivedMessage

__tracebackhide__ = True  # pytest shows the line of the test instead


class PublishAndGet:
    """Part of a broker under test: a client of its own for the thread of the test.

    Attributes:
        purged: how many messages ``empty`` has removed.

    A broker that has it also says how many messages are ready, how clients' work is waited for, and how time passes.
    """

    vhost: str
    release: str
    amqp_url: str
    clock: AwaitableClock
    purged: int = 0

    def publish(
        self,
        exchange: str,
        routing_key: str,
        body: bytes | str = b"",
        properties: Any = None,
        *,
        mandatory: bool = True,
        **fields: Any,
    ) -> None:
        """Publish a message and wait until the broker has confirmed it.

        Args:
            exchange: the exchange; ``""`` for the default one.
            routing_key: the routing key.
            body: the body; text is encoded as UTF-8.
            properties: ``pika.BasicProperties``.
            mandatory: whether it is an error that no queue takes the message.
            fields: properties by their names, in place of ``properties``: ``message_id="order-1"``, ``headers={...}``.

        Raises:
            pika.exceptions.UnroutableError: no queue takes it.
            pika.exceptions.NackError: a full queue refuses it.
            LookupError: there is no such exchange; it names the nearest.
            TypeError: there is no property of that name, or there are ``properties`` besides.
        """
        from simulator.testing.brokers.client import NotThereError, basic_properties

        if fields and properties is not None:
            raise TypeError(f"expected properties or fields, got properties and {', '.join(map(repr, fields))}")
        given = basic_properties(fields) if properties is None else properties
        try:
            self._client.publish(exchange, routing_key, body, given, mandatory=mandatory)
        except NotThereError:
            raise self._unknown("exchange", exchange) from None

    def get(self, queue: str, *, auto_ack: bool = True) -> ReceivedMessage | None:
        """Take the next message of a queue, and return it; ``None`` if none is ready now.

        Args:
            queue: the name of the queue.
            auto_ack: whether it is acknowledged at once. If not, its ``ack()``, ``reject(requeue=...)`` or
                ``nack(requeue=...)`` settles it; it goes back to the queue at the end of the test at the latest.

        Raises:
            LookupError: there is no such queue; it names the nearest.
            pika.exceptions.ChannelClosedByBroker: the queue is exclusive, or a stream.
        """
        from simulator.testing.brokers.client import NotThereError

        self._hear()
        try:
            return self._client.get(queue, auto_ack=auto_ack)
        except NotThereError:
            raise self._unknown("queue", queue) from None

    def drain(self, queue: str) -> list[ReceivedMessage]:
        """Take all messages of a queue that are ready, acknowledge them, and return them in the order of the queue.

        Raises as ``get`` does.
        """
        messages = []
        while (message := self.get(queue)) is not None:
            messages.append(message)
        return messages

    def wait_for(
        self, queue: str, *, messages: int = 1, within_s: float = 5, answer_within_s: float | None = None
    ) -> float:
        """Wait until exactly that many messages are ready in a queue; return how many seconds passed.

        On the simulator virtual time passes, from deadline to deadline, as in ``clock.advance``: it stops again at the
        first moment when they are there. A server is asked again and again.

        Args:
            queue: the name of the queue.
            messages: how many messages.
            within_s: how long to wait at most, seconds.
            answer_within_s: how long a consumer may hold a delivery, seconds of real time, before virtual time goes
                on without it; by default ``dlx_answer_within_s``. On a server it has no meaning.

        Raises:
            AssertionError: they were not there in that time; it says what is in the queues.
            LookupError: there is no such queue; it names the nearest.
            ValueError: the number or a time is negative, or the time would end after the year 9999.
            RuntimeError: a consumer that it waits for runs in the event loop that it blocks: ``await``
                ``wait_for_async`` there.
        """
        if messages < 0:
            raise ValueError(f"expected messages to be 0 or more, got {messages}")
        within_us = _microseconds(within_s)
        self._hear()
        if self._ready(queue) is None:
            raise self._unknown("queue", queue)
        passed_us = self._pass_time_until_ready(queue, messages, within_us, answer_within_s)
        if passed_us is not None:
            return passed_us / 1_000_000
        raise AssertionError("\n".join([self._missed(queue, messages, within_us), *self._in_queues()]))

    async def wait_for_async(
        self, queue: str, *, messages: int = 1, within_s: float = 5, answer_within_s: float | None = None
    ) -> float:
        """Do as ``wait_for`` without blocking the event loop, whose consumers go on."""
        return await self.clock.run_in_thread(
            partial(self.wait_for, queue, messages=messages, within_s=within_s, answer_within_s=answer_within_s)
        )

    def empty(self) -> None:
        """Purge all queues. What consumers hold, and what is in streams and exclusive queues, stays."""
        for queue in self.api("GET", f"queues/{quote(self.vhost, safe='')}"):
            if queue.get("type") != STREAM and not queue.get("exclusive"):
                self.purged += self._client.purge(queue["name"])

    def disconnect(self) -> None:
        """Close the connections of these methods; the next of them opens another."""
        for name in ("_client", "amqp10"):
            if name in self.__dict__:
                self.__dict__[name].close()

    # What the two kinds of broker do differently

    def api(self, method: str, path: str, body: object = None) -> Any:
        """Call the management API."""
        raise NotImplementedError

    def _hear(self) -> None:
        """Wait until the broker has done what clients asked for, where that can be known."""
        raise NotImplementedError

    def _ready(self, queue: str) -> int | None:
        """Return how many messages of a queue are ready; ``None`` if the queue does not exist."""
        raise NotImplementedError

    def _pass_time_until_ready(
        self, queue: str, messages: int, within_us: int, answer_within_s: float | None
    ) -> int | None:
        """Return after how many microseconds that many messages were ready; ``None`` if they were not in that time."""
        raise NotImplementedError

    def _in_queues(self) -> list[str]:
        """Say what waits in each queue."""
        raise NotImplementedError

    # What both do

    @cached_property
    def amqp10(self) -> Amqp10Client:
        """A client of AMQP 1.0: ``amqp10.publish(...)``, and ``amqp10.get(queue)``, whose messages take any outcome.

        Raises ``RuntimeError`` on a release that does not speak it.
        """
        if not release_of(self.release).speaks_amqp_1_0:
            raise RuntimeError(no_amqp_1_0(self.release).text)
        importing("amqp10")("proton")
        from simulator.testing.brokers.amqp10_client import Amqp10Client

        return Amqp10Client(self.amqp_url, self.vhost, self._check_is_there)

    @cached_property
    def _client(self) -> Client:
        importing("testing")("pika")
        from simulator.testing.brokers.client import Client

        return Client(self.amqp_url)

    def _check_is_there(self, kind: str, name: str) -> None:
        if name not in self._names(kind):
            raise self._unknown(kind, name)

    def _unknown(self, kind: str, name: str) -> LookupError:
        return LookupError(f"no {kind} {name!r}; {suggestion(name, self._names(kind))}")

    def _names(self, kind: str) -> list[str]:
        return [each["name"] for each in self.api("GET", f"{kind}s/{quote(self.vhost, safe='')}?columns=name")]

    def _missed(self, queue: str, messages: int, within_us: int) -> str:
        found = self._ready(queue)
        there = "the queue is gone" if found is None else f"found {found:,}"
        wanted = f"{messages:,} message{'s' * (messages != 1)}"
        return f"expected {wanted} in the queue {queue!r} within {span(within_us)}, {there}"


def _microseconds(within_s: float) -> int:
    try:
        return duration_us(seconds=within_s)
    except (OverflowError, ValueError):
        raise ValueError(f"expected within_s to be seconds, 0 or more, got {within_s!r}") from None
