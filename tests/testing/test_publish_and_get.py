"""What ``dlx_broker`` does with messages: publish, get, drain, wait. Where servers are given, on them too."""

from __future__ import annotations

import asyncio
import re
import threading
from pathlib import Path
from typing import Any

import pika
import pytest

from simulator.testing.brokers.broker_under_test import Broker
from simulator.testing.brokers.simulated import SimulatedBroker, Simulator

TO_DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


@pytest.fixture
def broker(dlx_broker: Broker) -> Broker:
    """A broker with the queues ``orders`` and ``dead``."""
    declare(dlx_broker, "orders", **TO_DEAD)
    declare(dlx_broker, "dead")
    return dlx_broker


def declare(broker: Broker, queue: str, **arguments: Any) -> None:
    with pika.BlockingConnection(pika.URLParameters(broker.amqp_url)) as connection:
        connection.channel().queue_declare(queue, durable=True, arguments=arguments)


# Publish


def test_what_is_published_is_got_as_it_was(broker: Broker) -> None:
    broker.publish("", "orders", "näher", message_id="order-1", headers={"shop": "berlin"})
    message = broker.get("orders")
    assert message is not None
    assert (message.body.decode(), message.exchange, message.routing_key, message.redelivered) == (
        "näher", "", "orders", False)  # fmt: skip
    assert (message.properties.message_id, message.headers["shop"]) == ("order-1", "berlin")
    assert not message.death_history
    assert broker.get("orders") is None


def test_properties_may_be_pikas(broker: Broker) -> None:
    broker.publish("", "orders", b"x", pika.BasicProperties(priority=3))
    assert [message.properties.priority for message in broker.drain("orders")] == [3]
    with pytest.raises(TypeError, match="expected properties or fields, got properties and 'priority'"):
        broker.publish("", "orders", b"x", pika.BasicProperties(), priority=3)
    with pytest.raises(TypeError, match="a message has no property 'mesage_id'; did you mean 'message_id'"):
        broker.publish("", "orders", mesage_id="order-1")


def test_an_unroutable_publish_tells(broker: Broker) -> None:
    with pytest.raises(pika.exceptions.UnroutableError) as raised:
        broker.publish("", "oders", b"x")
    assert raised.value.__notes__ == ["no queue takes what is published to the default exchange with the key 'oders'"]
    broker.publish("", "oders", b"x", mandatory=False)
    with pytest.raises(LookupError, match=r"^no exchange 'amq.topik'; did you mean 'amq.topic'"):
        broker.publish("amq.topik", "orders")
    broker.publish("", "orders")  # the client goes on after errors
    broker.wait_for("orders")


def test_a_refused_publish_tells(dlx_broker: Broker) -> None:
    declare(dlx_broker, "full", **{"x-max-length": 1, "x-overflow": "reject-publish"})
    dlx_broker.publish("", "full")
    with pytest.raises(pika.exceptions.NackError) as raised:
        dlx_broker.publish("", "full")
    assert raised.value.__notes__ == ["a queue refused what was published to the default exchange with the key 'full'"]


# Get and drain


def test_a_message_that_is_got_can_be_rejected(broker: Broker) -> None:
    broker.publish("", "orders", message_id="order-1")
    message = broker.get("orders", auto_ack=False)
    assert message is not None
    message.reject(requeue=False)
    broker.wait_for("dead")
    (dead,) = broker.drain("dead")
    assert dead.death_history.path == "orders rejected"
    assert dead.death_history.rejected_in("orders") == 1
    with pytest.raises(RuntimeError, match="acknowledged already: get it with auto_ack=False"):
        dead.reject(requeue=True)


@pytest.mark.parametrize("back", ["reject", "nack"])
def test_a_message_that_is_got_can_be_requeued_and_acknowledged(broker: Broker, back: str) -> None:
    broker.publish("", "orders")
    message = broker.get("orders", auto_ack=False)
    getattr(message, back)(requeue=True)
    broker.wait_for("orders")
    again = broker.get("orders", auto_ack=False)
    assert again is not None
    assert again.redelivered
    again.ack()
    assert broker.wait_for("orders", messages=0) < 5


def test_draining_takes_all_in_their_order(broker: Broker) -> None:
    for number in range(5):
        broker.publish("", "orders", str(number))
    assert [message.body for message in broker.drain("orders")] == [b"0", b"1", b"2", b"3", b"4"]
    assert broker.drain("orders") == []


@pytest.mark.parametrize("method", ["get", "drain", "wait_for"])
def test_a_queue_that_does_not_exist_is_named_with_the_nearest(broker: Broker, method: str) -> None:
    with pytest.raises(LookupError, match=r"^no queue 'order'; did you mean 'orders'"):
        getattr(broker, method)("order")


# Wait


def test_waiting_takes_as_long_as_the_message(dlx_broker: Broker) -> None:
    wait_ms = 3_600_000 if dlx_broker.simulated else 300
    declare(dlx_broker, "wait", **TO_DEAD, **{"x-message-ttl": wait_ms})
    declare(dlx_broker, "dead")
    dlx_broker.publish("", "wait", b"x")
    dlx_broker.publish("", "wait", b"y")
    passed_s = dlx_broker.wait_for("dead", messages=2, within_s=24 * 3600)
    assert passed_s == 3600 if dlx_broker.simulated else passed_s < 5
    assert [message.death_history.path for message in dlx_broker.drain("dead")] == ["wait expired"] * 2


def test_a_coroutine_waits_on_every_broker(broker: Broker) -> None:
    async def wait() -> None:
        before_us = broker.clock.now_us()
        broker.publish("", "orders")
        assert await broker.wait_for_async("orders") < 5
        assert await broker.clock.advance_async(milliseconds=10) >= before_us + 10_000

    asyncio.run(wait())


def test_what_is_not_there_in_time_tells_what_is_where(broker: Broker) -> None:
    declare(broker, "wait", **TO_DEAD, **{"x-message-ttl": 3_600_000})
    broker.publish("", "wait", b"x")
    within_s = 3599 if broker.simulated else 0.2
    with pytest.raises(AssertionError) as raised:
        broker.wait_for("dead", messages=2, within_s=within_s)
    first, *others = str(raised.value).splitlines()
    spent = "59 min 59 s" if broker.simulated else "200 ms"
    assert first == f"expected 2 messages in the queue 'dead' within {spent}, found 0"
    waits = "1 message, never dead-lettered; something is due in 1 s" if broker.simulated else "1"
    assert others[1:] == ["  dead: nothing", "  orders: nothing", f"  wait: {waits}"]


@pytest.mark.parametrize(("wrong", "why"), [({"messages": -1}, "0 or more, got -1"), ({"within_s": -1}, "got -1"),
                                            ({"within_s": float("inf")}, "got inf")])  # fmt: skip
def test_a_number_or_time_that_cannot_be_is_refused(broker: Broker, wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        broker.wait_for("orders", **wrong)


@pytest.fixture
def simulated() -> Any:
    with Simulator().broker(None, None) as broker:
        yield broker


def test_virtual_time_stands_where_the_condition_holds(simulated: SimulatedBroker) -> None:
    declare(simulated, "wait", **TO_DEAD, **{"x-message-ttl": 1000})
    declare(simulated, "dead")
    began_us = simulated.clock.now_us()
    for _ in range(3):
        simulated.publish("", "wait")
        simulated.clock.advance(milliseconds=100)
    simulated.wait_for("dead", messages=2, within_s=3600)
    assert simulated.clock.now_us() - began_us == 1_100_000
    with pytest.raises(AssertionError):
        simulated.wait_for("dead", messages=4, within_s=10)
    assert simulated.clock.now_us() - began_us == 11_100_000


def test_the_failure_is_told_as_the_document_shows_it(simulated: SimulatedBroker) -> None:
    text = (Path(__file__).parents[2] / "docs" / "how-to" / "testing.md").read_text(encoding="utf-8")
    (shown,) = re.findall(
        r"^AssertionError: (expected 1 message in the queue 'parked'.*?)^```$", text, re.DOTALL | re.MULTILINE
    )
    declare(simulated, "orders", **{**TO_DEAD, "x-dead-letter-routing-key": "wait"})
    declare(simulated, "wait", **{**TO_DEAD, "x-dead-letter-routing-key": "parked", "x-message-ttl": 3_600_000})
    declare(simulated, "parked")
    simulated.publish("", "orders")
    message = simulated.get("orders", auto_ack=False)
    assert message is not None
    message.reject(requeue=False)
    with pytest.raises(AssertionError) as raised:
        simulated.wait_for("parked", within_s=1800)
    assert str(raised.value) == shown.rstrip()


def test_a_queue_that_goes_away_is_told(simulated: SimulatedBroker) -> None:
    declare(simulated, "short", **{"x-expires": 500})
    with pytest.raises(AssertionError, match="expected 1 message in the queue 'short' within 10 s, the queue is gone"):
        simulated.wait_for("short", within_s=10)


def test_a_consumer_that_answers_is_waited_for(simulated: SimulatedBroker) -> None:
    """A retry goes round until its consumer parks the message: the time stops at that moment."""
    declare(simulated, "orders", **{**TO_DEAD, "x-dead-letter-routing-key": "wait"})
    back = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders"}
    declare(simulated, "wait", **back, **{"x-message-ttl": 60_000})
    declare(simulated, "parked")
    subscribed = threading.Event()

    def fail(channel: Any, method: Any, properties: pika.BasicProperties, body: bytes) -> None:
        deaths = (properties.headers or {}).get("x-death", [])
        if sum(death["count"] for death in deaths if death["queue"] == "orders") < 3:
            channel.basic_reject(method.delivery_tag, requeue=False)
            return
        channel.basic_publish("", "parked", body)
        channel.basic_ack(method.delivery_tag)
        channel.stop_consuming()

    def consume() -> None:
        with pika.BlockingConnection(pika.URLParameters(simulated.amqp_url)) as connection:
            channel = connection.channel()
            channel.basic_consume("orders", fail)
            subscribed.set()
            channel.start_consuming()

    consumer = threading.Thread(target=consume)
    consumer.start()
    subscribed.wait()
    simulated.publish("", "orders", b"x")
    assert simulated.wait_for("parked", within_s=24 * 3600) == 180
    consumer.join()


def test_the_client_connects_again_after_the_broker_closed_it(simulated: SimulatedBroker) -> None:
    declare(simulated, "orders")
    simulated.publish("", "orders", b"1")
    held = simulated.get("orders", auto_ack=False)
    for connection in simulated.api("GET", "connections"):
        simulated.api("DELETE", f"connections/{connection['name']}".replace(" ", "%20").replace(">", "%3E"))
    with pytest.raises(pika.exceptions.AMQPError):
        simulated.publish("", "orders", b"2")
    simulated.publish("", "orders", b"3")
    assert [message.body for message in simulated.drain("orders")] == [b"1", b"3"]
    assert held is not None
    with pytest.raises(RuntimeError, match="closed, so it is back in its queue"):
        held.ack()
