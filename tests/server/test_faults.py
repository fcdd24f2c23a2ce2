"""Faults on request, each as a pika client sees it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker, StreamLostError

import simulator
from simulator.server.in_process import Server


@pytest.fixture
def server() -> Iterator[Server]:
    with simulator.serve("4.3") as running:
        yield running


def connected(server: Server) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.URLParameters(server.amqp_url))


def filled(server: Server, queue: str, count: int) -> None:
    """Declare a queue and publish ``count`` messages to it, which are there when this returns."""
    with connected(server) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare(queue)
        for number in range(count):
            channel.basic_publish("", queue, str(number).encode())


def length(server: Server, queue: str) -> int:
    with connected(server) as connection:
        return connection.channel().queue_declare(queue, passive=True).method.message_count


class Seen:
    """A consumer that keeps what it is given, on a connection of its own."""

    def __init__(self, server: Server, queue: str, **arguments: Any) -> None:
        self.connection = connected(server)
        self.channel = self.connection.channel()
        self.bodies: list[str] = []
        self.tag = self.channel.basic_consume(queue, lambda *got: self.bodies.append(got[3].decode()), **arguments)

    def now(self, queue: str = "q") -> list[str]:
        """Return what has come by now: an answer comes behind all that was sent before it."""
        with_answer = self.connection.channel()
        with_answer.queue_declare(queue, passive=True)
        with_answer.close()
        self.connection.process_data_events(0)
        return self.bodies


class Asynchronous:
    """A client that goes on where a blocking one would wait."""

    def __init__(self, server: Server) -> None:
        self.connection = pika.SelectConnection(pika.URLParameters(server.amqp_url))
        self.until(self.connection.add_on_open_callback)
        opened: list[Any] = []
        self.until(lambda done: opened.append(self.connection.channel(on_open_callback=done)))
        self.channel = opened[0]

    def until(self, ask: Callable[[Callable[..., None]], Any]) -> None:
        """Ask with a callback, and run until it is called."""
        ask(lambda *_: self.connection.ioloop.stop())
        self.connection.ioloop.start()

    def close(self) -> None:
        self.connection.close()
        self.until(self.connection.add_on_close_callback)
        self.connection.ioloop.close()


class Publisher(Asynchronous):
    """A publisher with confirms, which keeps what the server answers: acks as numbers, nacks as negative ones."""

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self.answers: list[tuple[int, bool]] = []
        self.until(lambda done: self.channel.confirm_delivery(self._answered, callback=done))

    def _answered(self, frame: Any) -> None:
        sign = 1 if frame.method.NAME == "Basic.Ack" else -1
        self.answers.append((sign * frame.method.delivery_tag, frame.method.multiple))

    def publish(self, queue: str, count: int = 1) -> list[tuple[int, bool]]:
        """Publish, each by itself, and return all answers so far."""
        for _ in range(count):
            self.channel.basic_publish("", queue, b"m")
            self.now(queue)
        return self.answers

    def now(self, queue: str) -> list[tuple[int, bool]]:
        for _ in range(2):  # a confirm may be sent behind the first answer
            self.until(lambda done: self.channel.queue_declare(queue, passive=True, callback=done))
        return self.answers


@pytest.fixture
def publisher(server: Server) -> Iterator[Publisher]:
    filled(server, "q", 0)
    found = Publisher(server)
    yield found
    found.close()


# Channels and connections


def test_a_channel_closes_after_the_nth_delivery(server: Server) -> None:
    filled(server, "q", 5)
    server.faults.add("close_channel", queue="q", nth=3)
    client, bodies, reasons = Asynchronous(server), list[bytes](), list[object]()
    client.channel.add_on_close_callback(lambda _, reason: reasons.append(reason))
    client.channel.basic_consume("q", lambda *got: bodies.append(got[3]))
    client.until(client.channel.add_on_close_callback)
    assert bodies == [b"0", b"1", b"2"]
    assert "406" in str(reasons)
    client.close()


def test_what_a_closed_channel_had_comes_back(server: Server) -> None:
    filled(server, "q", 5)
    server.faults.add("close_channel", queue="q", nth=3, delay_ms=1)
    consumer = Seen(server, "q")
    assert consumer.now() == ["0", "1", "2", "3", "4"]
    server.clock.advance(milliseconds=1)
    with pytest.raises(ChannelClosedByBroker, match=r"406.*PRECONDITION_FAILED - fault 1 on request: close_channel"):
        consumer.channel.start_consuming()
    assert consumer.connection.is_open
    channel = consumer.connection.channel()
    assert channel.queue_declare("q", passive=True).method.message_count == 5
    method, _, body = channel.basic_get("q")
    assert (body, method.redelivered) == (b"0", True)
    consumer.connection.close()


def test_other_queues_and_virtual_hosts_are_left_alone(server: Server) -> None:
    filled(server, "q", 1)
    server.faults.add("close_channel", queue="other")
    server.faults.add("close_channel", vhost="elsewhere")
    with connected(server) as connection:
        assert connection.channel().basic_get("q")[2] == b"0"
    assert [each.seen for each in server.faults.all()] == [0, 0]


def test_what_is_got_is_a_delivery_too(server: Server) -> None:
    filled(server, "q", 2)
    server.faults.add("close_channel", queue="q", nth=2, text="try again")
    with connected(server) as connection:
        channel = connection.channel()
        assert channel.basic_get("q")[2] == b"0"
        with pytest.raises(ChannelClosedByBroker, match="try again"):
            channel.basic_get("q")


def test_a_consumer_loses_its_channel_while_it_works(server: Server) -> None:
    filled(server, "q", 1)
    server.faults.add("close_channel", queue="q", delay_ms=1_000)
    with connected(server) as connection:
        channel = connection.channel()
        method, _, _ = channel.basic_get("q")
        server.clock.advance(milliseconds=999)
        channel.queue_declare("q", passive=True)
        server.clock.advance(milliseconds=1)
        with pytest.raises(ChannelClosedByBroker):
            channel.basic_ack(method.delivery_tag)
        assert connection.channel().basic_get("q")[0].redelivered


@pytest.mark.parametrize(("how", "error"), [
    ({"code": 541, "text": "out of luck"}, ConnectionClosedByBroker), ({"silent": True}, StreamLostError)
])  # fmt: skip
def test_a_connection_closes_with_a_code_or_without_a_word(
    server: Server, how: dict[str, Any], error: type[Exception]
) -> None:
    filled(server, "q", 3)
    server.faults.add("close_connection", queue="q", nth=2, delay_ms=1, **how)
    consumer = Seen(server, "q")
    assert consumer.now() == ["0", "1", "2"]
    server.clock.advance(milliseconds=1)
    with pytest.raises(error, match=how.get("text", "reset")):
        consumer.channel.start_consuming()
    assert length(server, "q") == 3


def test_another_consumer_gets_what_the_lost_one_had(server: Server) -> None:
    filled(server, "q", 0)
    server.faults.add("close_channel", queue="q", nth=2)
    lost = Seen(server, "q")
    filled(server, "q", 2)
    other = Seen(server, "q")
    with pytest.raises(ChannelClosedByBroker):
        lost.channel.start_consuming()
    assert other.now() == ["0", "1"]
    for each in (lost, other):
        each.connection.close()


# Confirms


def test_a_confirm_is_lost_and_none_later_speaks_for_it(server: Server, publisher: Publisher) -> None:
    server.faults.add("drop_confirm", exchange="", nth=2)
    assert publisher.publish("q", 4) == [(1, False), (3, False), (4, False)]
    assert length(server, "q") == 4


def test_a_confirm_comes_later_by_virtual_time(server: Server, publisher: Publisher) -> None:
    server.faults.add("delay_confirm", delay_ms=500)
    assert publisher.publish("q", 2) == [(2, False)]
    server.clock.advance(milliseconds=499)
    assert publisher.now("q") == [(2, False)]
    server.clock.advance(milliseconds=1)
    assert publisher.now("q") == [(2, False), (1, False)]


def test_a_refusal_does_not_answer_for_a_confirm_that_was_lost(server: Server, publisher: Publisher) -> None:
    with connected(server) as connection:
        connection.channel().queue_declare("full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    server.faults.add("drop_confirm")
    assert publisher.publish("full", 2) == [(-2, False)]


def test_confirms_of_another_exchange_are_left_alone(server: Server, publisher: Publisher) -> None:
    server.faults.add("drop_confirm", exchange="amq.topic", times=None)
    assert publisher.publish("q") == [(1, False)]


def test_a_blocking_publisher_waits_until_time_is_moved(server: Server) -> None:
    filled(server, "q", 0)
    server.faults.add("delay_confirm", delay_ms=86_400_000)
    with connected(server) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        waiting = threading.Thread(target=channel.basic_publish, args=("", "q", b"m"))
        waiting.start()
        while server.faults.get(1).struck == 0:
            pass
        assert waiting.is_alive()
        assert server.clock.jump()
        waiting.join(10)
        assert not waiting.is_alive()


# Deliveries that are late


def test_a_delivery_is_late_and_those_behind_it_wait(server: Server) -> None:
    filled(server, "q", 3)
    server.faults.add("delay_delivery", queue="q", nth=2, delay_ms=500)
    consumer = Seen(server, "q")
    assert consumer.now() == ["0"]
    server.clock.advance(milliseconds=499)
    assert consumer.now() == ["0"]
    server.clock.advance(milliseconds=1)
    assert consumer.now() == ["0", "1", "2"]
    filled(server, "q", 1)
    assert consumer.now() == ["0", "1", "2", "0"]
    consumer.connection.close()


def test_a_delay_counts_from_the_delivery_also_when_much_time_passes_at_once(server: Server) -> None:
    with connected(server) as connection:
        channel = connection.channel()
        channel.queue_declare("q")
        wait = {"x-message-ttl": 1_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}
        channel.queue_declare("wait", arguments=wait)
        channel.basic_publish("", "wait", b"m")
    server.faults.add("delay_delivery", queue="q", delay_ms=500)
    consumer = Seen(server, "q")
    server.clock.advance(milliseconds=1_499)
    assert consumer.now() == []
    server.clock.advance(milliseconds=1)
    assert consumer.now() == ["m"]
    consumer.connection.close()


def test_a_delay_is_real_on_a_wall_clock() -> None:
    with simulator.serve("4.3", clock="wall") as server:
        filled(server, "q", 1)
        server.faults.add("delay_delivery", queue="q", delay_ms=60)
        began_s = time.monotonic()
        consumer = Seen(server, "q")
        while not consumer.bodies:
            consumer.connection.process_data_events(1)
        assert time.monotonic() - began_s >= 0.06
        consumer.connection.close()


def test_late_deliveries_come_before_the_end_of_their_consumer(server: Server) -> None:
    filled(server, "q", 2)
    server.faults.add("delay_delivery", delay_ms=500, times=None)
    consumer = Seen(server, "q")
    assert consumer.now() == []
    consumer.channel.basic_cancel(consumer.tag)  # pika gives back what comes before the answer
    assert length(server, "q") == 2
    server.clock.advance(seconds=1)
    assert consumer.now() == []
    consumer.connection.close()


def test_a_late_delivery_of_a_channel_that_closed_does_not_come_on_the_next(server: Server) -> None:
    filled(server, "q", 1)
    server.faults.add("delay_delivery", queue="q", delay_ms=500)
    with connected(server) as connection:
        channel = connection.channel(1)
        channel.basic_consume("q", lambda *_: pytest.fail("it was delivered"))
        channel.close()
        channel = connection.channel(1)
        server.clock.advance(seconds=1)
        assert channel.queue_declare("q", passive=True).method.message_count == 1


# Declarations


@pytest.mark.parametrize(("code", "error"), [(405, ChannelClosedByBroker), (530, ConnectionClosedByBroker)])
def test_a_queue_cannot_be_declared(server: Server, code: int, error: type[Exception]) -> None:
    server.faults.add("refuse_declare", queue="q", code=code, text="not today")
    connection = connected(server)
    channel = connection.channel()
    channel.queue_declare("other")
    channel.exchange_declare("q")
    with pytest.raises(error, match=f"{code}.*not today"):
        channel.queue_declare("q")
    filled(server, "q", 0)
    assert server.faults.get(1).struck == 1
    if connection.is_open:
        connection.close()


def test_an_exchange_cannot_be_declared_twice_in_a_row(server: Server) -> None:
    server.faults.add("refuse_declare", exchange="x", times=2)
    with connected(server) as connection:
        for _ in range(2):
            with pytest.raises(ChannelClosedByBroker, match="406"):
                connection.channel().exchange_declare("x")
        connection.channel().exchange_declare("x")


# Alarms


@pytest.mark.parametrize("resource", ["memory", "disk"])
def test_publishers_are_blocked_until_the_alarm_is_cleared(server: Server, resource: str) -> None:
    filled(server, "q", 0)
    with connected(server) as connection:
        told: list[str] = []
        connection.add_on_connection_blocked_callback(lambda _, frame: told.append(frame.method.reason))
        connection.add_on_connection_unblocked_callback(lambda *_: told.append("unblocked"))
        alarm = server.faults.add("alarm", resource=resource)
        channel = connection.channel()
        channel.basic_publish("", "q", b"told at this one")  # of which the last bytes may be read no more
        while not told:
            connection.process_data_events(1)
        channel.basic_publish("", "q", b"not read")
        connection.process_data_events(0)
        assert length(server, "q") < 2
        server.faults.clear(alarm.id)
        channel.queue_declare("q", passive=True)
        connection.process_data_events(0)
        assert (told, length(server, "q")) == ([f"low on {resource}", "unblocked"], 2)


def test_an_alarm_ends_by_itself(server: Server) -> None:
    filled(server, "q", 0)
    server.faults.add("alarm", resource="memory", for_ms=60_000)
    with connected(server) as connection:
        told: list[str] = []
        connection.add_on_connection_blocked_callback(lambda *_: told.append("blocked"))
        connection.add_on_connection_unblocked_callback(lambda *_: told.append("unblocked"))
        connection.channel().basic_publish("", "q", b"m")
        while told != ["blocked"]:
            connection.process_data_events(1)
        server.clock.advance(minutes=1)
        while told != ["blocked", "unblocked"]:
            connection.process_data_events(1)


# How often


def strikes(seed: int) -> list[bool]:
    """On which of 20 declarations a fault strikes that does so on about every third."""
    with simulator.serve("4.3") as server, connected(server) as connection:
        server.faults.add("refuse_declare", queue="q", probability=0.3, seed=seed, times=None)
        found = []
        for _ in range(20):
            before = server.faults.get(1).struck
            try:
                connection.channel().queue_declare("q")
            except ChannelClosedByBroker:
                found.append(True)
            else:
                found.append(False)
            assert server.faults.get(1).struck - before == found[-1]
        return found


def test_chance_is_the_same_with_the_same_seed() -> None:
    first = strikes(1)
    assert first == strikes(1) != strikes(2)
    assert 1 < sum(first) < 19


def test_a_fault_strikes_as_often_as_asked_and_is_listed(server: Server) -> None:
    filled(server, "q", 6)
    server.faults.add("close_channel", queue="q", nth=2, times=2)
    with connected(server) as connection:
        for _ in range(2):
            channel = connection.channel()
            channel.basic_get("q")
            with pytest.raises(ChannelClosedByBroker):
                channel.basic_get("q")
        channel = connection.channel()
        for _ in range(6):
            assert channel.basic_get("q")[0] is not None
    (shown,) = server.faults.all()
    assert (shown.seen, shown.struck, shown.left) == (4, 2, 0)


def test_a_cleared_fault_strikes_no_more(server: Server) -> None:
    server.faults.add("refuse_declare", queue="q")
    server.faults.add("refuse_declare", queue="q")
    server.faults.clear(1)
    assert [each.id for each in server.faults.all()] == [2]
    server.faults.clear()
    filled(server, "q", 0)
    assert server.faults.all() == []
    with pytest.raises(KeyError):
        server.faults.clear(2)
