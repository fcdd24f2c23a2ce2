"""The simulator's time stands while consumers work, in whatever thread, event loop or library they run."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest

from simulator.testing import assert_settles
from simulator.testing.brokers import virtual_time
from simulator.testing.brokers.running_server import WallClock
from simulator.testing.brokers.simulated import SimulatedBroker, Simulator

aio_pika = pytest.importorskip("aio_pika")
kombu = pytest.importorskip("kombu")

pytest_plugins = ["pytester"]

WORK, WAIT, PARKED = "orders.work", "orders.wait", "orders.parked"
WORKS_S = 0.4
"""How long a consumer takes here: more than time stood once, 0.1 s."""


def declare(broker: SimulatedBroker, queue: str, to: str | None = None, **arguments: object) -> None:
    dead = {} if to is None else {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": to}
    broker.api("PUT", f"queues/%2F/{queue}", {"durable": True, "arguments": {**dead, **arguments}})


@pytest.fixture
def broker() -> Iterator[SimulatedBroker]:
    """A queue whose dead letters wait for a minute and are parked then."""
    with Simulator().broker(None, None) as broker:
        declare(broker, WORK, WAIT)
        declare(broker, WAIT, PARKED, **{"x-message-ttl": 60_000})
        declare(broker, PARKED)
        yield broker


@contextlib.contextmanager
def in_thread(broker: SimulatedBroker, handle: Callable[[Any, Any], None]) -> Iterator[None]:
    """Consume with pika, which blocks its thread."""
    subscribed, connections = threading.Event(), []

    def consume() -> None:
        connection = pika.BlockingConnection(pika.URLParameters(broker.amqp_url))
        connections.append(connection)
        channel = connection.channel()
        channel.basic_qos(prefetch_count=1)
        channel.basic_consume(WORK, lambda channel, method, _properties, _body: handle(channel, method.delivery_tag))
        subscribed.set()
        with contextlib.suppress(pika.exceptions.AMQPError):
            channel.start_consuming()

    thread = threading.Thread(target=consume, daemon=True)
    thread.start()
    subscribed.wait(60)
    try:
        yield
    finally:
        connections[0].add_callback_threadsafe(connections[0].close)
        thread.join(60)


def reject_late(channel: Any, tag: int) -> None:
    time.sleep(WORKS_S)
    channel.basic_reject(tag, requeue=False)


# Time stands


def test_time_stands_while_a_consumer_in_a_thread_works(broker: SimulatedBroker) -> None:
    with in_thread(broker, reject_late):
        broker.publish("", WORK)
        broker.publish("", WORK)
        assert broker.wait_for(PARKED, messages=2, within_s=3600) == 60
    assert broker.clock.remarks() == []


def test_time_stands_while_a_worker_of_kombu_works(broker: SimulatedBroker) -> None:
    """As Celery's workers do, it asks its connection for events between other things."""
    stop = threading.Event()

    def work() -> None:
        with kombu.Connection(broker.amqp_url) as connection:
            queue = kombu.Queue(WORK, no_declare=True)
            with connection.Consumer(queue, callbacks=[lambda _body, message: held.append(message)], prefetch_count=1):
                subscribed.set()
                while not stop.is_set():
                    with contextlib.suppress(TimeoutError):
                        connection.drain_events(timeout=0.05)
                    if held:
                        time.sleep(WORKS_S)
                        held.pop().reject()

    held: list[Any] = []
    subscribed, worker = threading.Event(), threading.Thread(target=work, daemon=True)
    worker.start()
    subscribed.wait(60)
    broker.publish("", WORK)
    assert broker.wait_for(PARKED, within_s=3600) == 60
    stop.set()
    worker.join(60)


def test_what_time_did_not_wait_for_is_named(broker: SimulatedBroker) -> None:
    """It is named where the wait fails, and the wait is as long as the call, or else the clock, says."""
    finish = threading.Event()

    def hold(channel: Any, tag: int) -> None:
        finish.wait(60)
        channel.basic_ack(tag)

    with in_thread(broker, hold):
        broker.clock.answer_within_s = 0.2
        broker.publish("", WORK)
        with pytest.raises(AssertionError) as raised:
            broker.wait_for(PARKED, within_s=60, answer_within_s=0.1)
        assert str(raised.value).splitlines()[:3] == [
            "expected 1 message in the queue 'orders.parked' within 1 min, found 0",
            "The consumer of 'orders.work' held a delivery for 0.1 s of real time (dlx_answer_within_s), so time went "
            "on without it.",
            "In the queues:",
        ]
        broker.clock.advance(seconds=1)
        assert "held a delivery for 0.2 s of real time" in broker.clock.remarks()[0]
        finish.set()


def test_a_consumer_that_was_too_late_once_is_waited_for_again(broker: SimulatedBroker) -> None:
    finish, broker.clock.answer_within_s = threading.Event(), 2

    def be_late_once(channel: Any, tag: int) -> None:
        finish.wait(60)
        reject_late(channel, tag)

    with in_thread(broker, be_late_once):
        broker.publish("", WORK)
        broker.clock.advance(seconds=1)
        assert len(broker.clock.remarks()) == 1
        broker.publish("", WORK)
        finish.set()
        broker.clock.left_behind.clear()
        while broker.api("GET", f"queues/%2F/{WAIT}")["messages"] < 1:
            pass  # the first is answered when its consumer likes to
        assert broker.wait_for(PARKED, messages=2, within_s=3600) == 60
        assert broker.clock.remarks() == []


def test_a_failed_test_names_the_consumer(loaded: None, pytester: pytest.Pytester) -> None:
    """The consumer timeout closes the channel, and the failure says why."""
    pytester.makepyfile("""
        import contextlib, threading, pika, pytest

        @pytest.mark.dlx_topology(release="3.13")
        @pytest.mark.dlx_answer_within_s(0.1)
        def test_it(dlx_broker, dlx_clock, dlx_amqp_url):
            done, subscribed, failed = threading.Event(), threading.Event(), []

            def consume():
                connection = pika.BlockingConnection(pika.URLParameters(dlx_amqp_url))
                channel = connection.channel()
                channel.queue_declare("orders.work")
                channel.basic_consume("orders.work", lambda *_: done.wait(60))
                subscribed.set()
                try:
                    channel.start_consuming()
                except pika.exceptions.ChannelClosedByBroker as error:
                    failed.append(error)
                connection.close()

            consumer = threading.Thread(target=consume, daemon=True)
            consumer.start()
            subscribed.wait(60)
            dlx_broker.publish("", "orders.work", b"x")
            dlx_clock.advance(hours=1)
            done.set()
            consumer.join(60)
            assert not failed
    """)
    result = pytester.runpytest("-p", "no:cacheprovider")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([
        "*what became of the messages*",
        "The consumer of 'orders.work' held a delivery for 0.1 s of real time (dlx_answer_within_s), so time went on *",
    ])  # fmt: skip


def test_a_consumer_in_the_thread_of_the_test_is_named_at_once(
    broker: SimulatedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody could answer for it, so nobody waits. (Other threads are those that run the tests.)"""
    monkeypatch.setattr(virtual_time.threading, "enumerate", lambda: [threading.current_thread()])
    with pika.BlockingConnection(pika.URLParameters(broker.amqp_url)) as connection:
        connection.channel().basic_consume(WORK, print)
        broker.publish("", WORK)
        broker.clock.advance(hours=1, answer_within_s=60)
    assert broker.clock.remarks() == [
        "The consumer of 'orders.work' held a delivery and runs in the thread that moved the clock, so time went on "
        "without it."
    ]


@pytest.mark.parametrize("seconds", [-1, float("inf"), float("nan"), "soon", True])
def test_a_wait_that_cannot_be_is_refused(broker: SimulatedBroker, seconds: Any) -> None:
    for call in (
        lambda: broker.wait_for(WORK, messages=0, answer_within_s=seconds),
        lambda: broker.clock.advance(seconds=1, answer_within_s=seconds),
    ):
        with pytest.raises(
            ValueError, match=f"answer_within_s: expected seconds of real time, 0 or more, got {seconds!r}"
        ):
            call()


# In an event loop


def run_with_consumer(broker: SimulatedBroker, test: Callable[[], Any]) -> None:
    """Run a coroutine beside a consumer that takes its time, in one event loop."""

    async def run() -> None:
        connection = await aio_pika.connect(broker.amqp_url)
        async with connection:
            channel = await connection.channel()
            queue = await channel.get_queue(WORK)

            async def fail(message: Any) -> None:
                await asyncio.sleep(WORKS_S)
                with contextlib.suppress(aio_pika.exceptions.AMQPError):
                    await message.reject(requeue=False)

            await queue.consume(fail)
            await test()

    asyncio.run(run())


def test_a_coroutine_waits_and_its_consumer_goes_on(broker: SimulatedBroker) -> None:
    async def test() -> None:
        broker.publish("", WORK)
        assert await broker.wait_for_async(PARKED, within_s=3600) == 60
        before_us = broker.clock.now_us()
        assert await broker.clock.advance_async(hours=1) == before_us + 3_600_000_000
        with pytest.raises(
            AssertionError, match=r"^expected 2 messages in the queue 'orders\.parked' within 5 s, found 1"
        ):
            await broker.wait_for_async(PARKED, messages=2)

    run_with_consumer(broker, test)


def test_a_second_await_at_the_same_time_is_refused(broker: SimulatedBroker) -> None:
    async def test() -> None:
        broker.publish("", WORK)
        waited, advanced = await asyncio.gather(
            broker.wait_for_async(PARKED, within_s=3600), broker.clock.advance_async(hours=1), return_exceptions=True
        )
        assert waited == 60
        assert isinstance(advanced, RuntimeError)
        assert str(advanced) == (
            "another await lets time pass already (advance_async, wait_for_async): await one at a time"
        )
        await broker.clock.advance_async(hours=1)

    run_with_consumer(broker, test)


@pytest.mark.parametrize(
    "call",
    [
        lambda broker: broker.clock.advance_async(hours=1),
        lambda broker: broker.wait_for_async(PARKED, within_s=3600),
    ],
)
def test_a_cancelled_await_moves_the_clock_no_more(
    broker: SimulatedBroker, call: Callable[[SimulatedBroker], Any]
) -> None:
    async def test() -> None:
        began_us = broker.clock.now_us()
        broker.publish("", WORK)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(call(broker), WORKS_S / 4)
        while broker.api("GET", f"queues/%2F/{WAIT}")["messages"] < 1:
            await asyncio.sleep(0)  # the consumer answers when nobody waits for it
        assert broker.clock.now_us() == began_us
        assert await broker.wait_for_async(PARKED, within_s=3600) == 60

    run_with_consumer(broker, test)


def test_an_await_that_is_cancelled_on_a_server_ends_at_once() -> None:
    async def test() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(WallClock().advance_async(hours=1), 0.01)

    asyncio.run(test())


def test_the_traceback_of_an_await_ends_in_the_line_of_the_test(loaded: None, pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import asyncio

        def test_it(dlx_broker):
            async def run():
                await dlx_broker.wait_for_async("orders")
            asyncio.run(run())

        def test_clock(dlx_clock):
            async def run():
                await dlx_clock.advance_async(hours="1")
            asyncio.run(run())
    """)
    result = pytester.runpytest("-p", "no:cacheprovider")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines([
        ">*await dlx_broker.wait_for_async(*", "E *no queue 'orders'*", "", "test_*.py:5: LookupError",
        ">*await dlx_clock.advance_async(*", "E *TypeError: expected hours to be a number, got '1'", "",
        "test_*.py:10: TypeError",
    ])  # fmt: skip


def test_a_handler_that_moves_the_clock_is_told_that_it_waits_for_itself(broker: SimulatedBroker) -> None:
    moved = threading.Event()

    def move(channel: Any, tag: int) -> None:
        broker.clock.advance(seconds=1, answer_within_s=0.1)
        channel.basic_ack(tag)
        moved.set()

    with in_thread(broker, move):
        broker.publish("", WORK)
        assert moved.wait(60)
    assert broker.clock.remarks() == [
        "The consumer of 'orders.work' held a delivery for 0.1 s of real time (dlx_answer_within_s; a handler that "
        "moves the clock waits for itself), so time went on without it."
    ]


@pytest.mark.parametrize(
    ("call", "instead"),
    [
        (lambda broker: broker.wait_for(PARKED), "await dlx_broker.wait_for_async(...)"),
        (lambda broker: broker.clock.advance(hours=1), "await dlx_clock.advance_async(...)"),
        (lambda broker: assert_settles(broker, within=1), "await asyncio.to_thread(...) around it"),
    ],
)
def test_a_call_that_blocks_the_consumer_names_the_one_that_does_not(
    broker: SimulatedBroker, call: Callable[[SimulatedBroker], object], instead: str
) -> None:
    async def test() -> None:
        began_us = broker.clock.now_us()
        broker.publish("", WORK)
        with pytest.raises(RuntimeError) as raised:
            call(broker)
        assert str(raised.value) == (
            "this call blocks the event loop that runs the consumer of 'orders.work', which holds a delivery and "
            f"cannot answer: use {instead}"
        )
        assert broker.clock.now_us() == began_us
        broker.clock.advance(seconds=1, answer_within_s=0)  # whoever waits for nobody is blocked by nobody

    run_with_consumer(broker, test)


def test_a_coroutine_may_block_where_the_consumer_is_elsewhere(broker: SimulatedBroker) -> None:
    """The loop has a connection too, but no consumer that holds a delivery."""

    async def test() -> None:
        connection = await aio_pika.connect(broker.amqp_url)
        async with connection:
            channel = await connection.channel()
            await channel.default_exchange.publish(aio_pika.Message(b"x"), routing_key=WORK)
            assert broker.wait_for(PARKED, within_s=3600) == 60

    with in_thread(broker, reject_late):
        asyncio.run(test())


def test_looking_for_clients_leaves_no_file_open() -> None:
    read, write = os.pipe()
    before = len(os.listdir("/dev/fd"))
    for _ in range(5):
        virtual_time._ends(map(int, os.listdir("/dev/fd")))
    assert len(os.listdir("/dev/fd")) == before
    os.close(read)
    os.close(write)
