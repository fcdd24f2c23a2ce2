"""A test file as users write one. It passes on the simulator, on real servers and on one in a container.

pytest tests/testing/test_same_file.py
pytest tests/testing/test_same_file.py --dlx-broker amqp://guest:guest@127.0.0.1:5672/
pytest tests/testing/test_same_file.py --dlx-broker container:rabbitmq:4.3-management
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pika
import pytest

import dlx
from dlx.topology import Topology
from simulator.testing import assert_dead_lettered, assert_nothing_lost, assert_settles
from simulator.testing.brokers.broker_under_test import Broker, Clock

SECONDS = 10
PAUSE_S = 2  # in orders.wait: a busy machine needs more than a second to look into the queue twice

pytestmark = pytest.mark.dlx_topology("orders.json")


@pytest.fixture
def connection(dlx_amqp_url: str) -> Iterator[pika.BlockingConnection]:
    with pika.BlockingConnection(pika.URLParameters(dlx_amqp_url)) as connection:
        yield connection


@pytest.fixture
def channel(connection: pika.BlockingConnection) -> Any:
    channel = connection.channel()
    channel.confirm_delivery()
    return channel


def take(channel: Any, queue: str) -> tuple[int, dlx.DeathHistory, bytes]:
    """The next message of the queue: its delivery tag, its history and its body."""
    for method, properties, body in channel.consume(queue, inactivity_timeout=SECONDS):
        channel.cancel()
        assert method is not None, f"nothing came from {queue!r} within {SECONDS} s"
        return method.delivery_tag, dlx.death_history(properties), body
    raise AssertionError("the consumer was cancelled")


def test_a_rejected_order_comes_back_after_a_pause(dlx_broker: Broker, dlx_clock: Clock, channel: Any) -> None:
    channel.basic_publish("", "orders", b"one")
    tag, history, _ = take(channel, "orders")
    assert not history

    channel.basic_reject(tag, requeue=False)
    assert_dead_lettered(dlx_broker, to="orders.wait", reason="rejected", times=1)
    dlx_clock.advance(seconds=PAUSE_S)

    tag, history, body = take(channel, "orders")
    assert (history.path, body) == ("orders rejected -> orders.wait expired", b"one")
    channel.basic_ack(tag)
    assert_nothing_lost(dlx_broker)


def test_an_order_is_parked_after_three_attempts(dlx_broker: Broker, dlx_clock: Clock, channel: Any) -> None:
    channel.basic_publish("", "orders", b"one")
    for attempt in range(3):
        tag, history, _ = take(channel, "orders")
        assert history.rejected_in("orders") == attempt
        channel.basic_reject(tag, requeue=False)
        assert_dead_lettered(dlx_broker, to="orders.wait", times=1)
        dlx_clock.advance(seconds=PAUSE_S)

    tag, history, body = take(channel, "orders")
    assert history.rejected_in("orders") == history.count(queue="orders.wait", reason="expired") == 3
    channel.basic_publish("", "orders.parked", body)
    channel.basic_ack(tag)
    assert take(channel, "orders.parked")[2] == b"one"


def test_a_payment_that_crashes_its_consumer_is_set_aside(dlx_broker: Broker, dlx_amqp_url: str) -> None:
    """The delivery limit of a quorum queue."""
    with pika.BlockingConnection(pika.URLParameters(dlx_amqp_url)) as connection:
        connection.channel().basic_publish("", "payments", b"one")
    for _ in range(3):
        with pika.BlockingConnection(pika.URLParameters(dlx_amqp_url)) as connection:
            take(connection.channel(), "payments")
    assert_dead_lettered(dlx_broker, to="payments.dead", reason="delivery_limit", times=1)


def test_a_full_inbox_pushes_the_oldest_out(dlx_broker: Broker, channel: Any) -> None:
    """A length limit that a policy sets."""
    for body in (b"one", b"two", b"three"):
        channel.basic_publish("", "inbox", body)
    assert_dead_lettered(dlx_broker, to="inbox.overflow", reason="maxlen", times=1)
    assert take(channel, "inbox.overflow")[2] == b"one"


def test_a_message_with_an_expiration_dies_by_itself(dlx_broker: Broker, dlx_clock: Clock, channel: Any) -> None:
    channel.basic_publish("", "inbox", b"one", pika.BasicProperties(expiration="200"))
    dlx_clock.advance(seconds=1)
    assert_dead_lettered(dlx_broker, to="inbox.overflow", reason="expired")
    assert_dead_lettered(dlx_broker, to="inbox.overflow", reason="maxlen", times=0)


def test_what_waits_comes_to_rest(dlx_broker: Broker, channel: Any) -> None:
    soon = pika.BasicProperties(expiration="300")  # what waits for longer than a second looks at rest on a real server
    channel.basic_publish("", "orders.wait", b"one", soon)
    assert_settles(dlx_broker, within=timedelta(seconds=3))
    assert_dead_lettered(dlx_broker, to="orders", reason="expired", times=1)


def test_a_lost_message_is_noticed(dlx_broker: Broker, channel: Any) -> None:
    channel.basic_publish("", "orders.parked", b"one")
    tag, _, _ = take(channel, "orders.parked")
    channel.basic_reject(tag, requeue=False)
    with pytest.raises(AssertionError, match="expected that nothing is lost, but:"):
        assert_nothing_lost(dlx_broker)


def test_missing_dead_letters_are_noticed(dlx_broker: Broker, channel: Any) -> None:
    channel.basic_publish("", "orders", b"one")
    with pytest.raises(AssertionError, match="expected 2 dead letters"):
        assert_dead_lettered(dlx_broker, to="orders.wait", reason="rejected", times=2)


def test_the_topology_is_the_brokers(dlx_topology: Topology, dlx_broker: Broker) -> None:
    vhost = dlx_broker.vhost.replace("/", "%2F")
    queues = {queue["name"]: queue["type"] for queue in dlx_broker.api("GET", f"queues/{vhost}?columns=name,type")}
    assert queues == {queue.name: queue.type for queue in dlx_topology.queues.values()}
