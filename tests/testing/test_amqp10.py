"""What ``dlx_broker`` does by AMQP 1.0. Where servers are given, on them too."""

from __future__ import annotations

import time
from typing import Any

import pytest

pytest.importorskip("proton")

import pika
from proton import Message, ProtonException

from dlx.releases import release as release_of
from simulator.testing import Broker
from simulator.testing.brokers.amqp10_client import Amqp10Client, Amqp10Message, NotAcceptedError
from simulator.testing.brokers.simulated import Simulator
from tests.testing.test_publish_and_get import TO_DEAD, declare


@pytest.fixture
def broker(dlx_broker: Broker) -> Broker:
    """A broker with the quorum queues ``orders`` and ``dead``."""
    if not release_of(dlx_broker.release).speaks_amqp_1_0:
        pytest.skip("speaks no AMQP 1.0")
    declare(dlx_broker, "orders", **TO_DEAD, **{"x-queue-type": "quorum"})
    declare(dlx_broker, "dead", **{"x-queue-type": "quorum"})
    return dlx_broker


@pytest.fixture
def client(broker: Broker) -> Amqp10Client:
    return broker.amqp10


def get(client: Amqp10Client, queue: str) -> Amqp10Message:
    """Take a message that may still be on its way."""
    until = time.monotonic() + 5
    while (found := client.get(queue)) is None:
        assert time.monotonic() < until, f"no message in {queue}"
    return found


def test_what_is_published_is_got_as_it_was(client: Amqp10Client) -> None:
    client.publish("", "orders", "näher", id="order-1", annotations={"x-opt-shop": "berlin"}, properties={"n": 1})
    message = get(client, "orders")
    assert (message.body, message.message.id, message.message.properties) == ("näher", "order-1", {"n": 1})
    assert message.annotations["x-opt-shop"] == "berlin"
    assert not message.death_history
    message.accept()
    with pytest.raises(RuntimeError, match="settled already"):
        message.release()
    assert client.get("orders") is None


@pytest.mark.parametrize(
    ("outcome", "how", "queue", "failed"),
    [
        ("reject", {}, "dead", 1),
        ("release", {}, "orders", 0),
        ("modify", {}, "orders", 0),
        ("modify", {"delivery_failed": True}, "orders", 1),
        ("modify", {"undeliverable_here": True}, "dead", 0),
        ("modify", {"undeliverable_here": True, "delivery_failed": True}, "dead", 1),
    ],
)
def test_every_outcome(client: Amqp10Client, outcome: str, how: dict[str, Any], queue: str, failed: int) -> None:
    client.publish("", "orders", b"x", durable=True)
    getattr(get(client, "orders"), outcome)(**how)
    message = get(client, queue)
    assert (message.body, message.delivery_count) == (b"x", failed)
    assert message.death_history.path == ("orders rejected" if queue == "dead" else "")


def test_annotations_of_an_outcome_say_why(client: Amqp10Client) -> None:
    client.publish("", "orders", message=Message(body=b"x", inferred=True))
    get(client, "orders").modify(undeliverable_here=True, annotations={"x-opt-why": "no such customer"})
    dead = get(client, "dead")
    assert dead.annotations["x-opt-why"] == "no such customer"


def test_the_other_protocol_sees_what_was_settled(client: Amqp10Client, broker: Broker) -> None:
    broker.publish("", "orders", b"x", headers={"shop": "berlin"})
    message = get(client, "orders")
    assert message.message.properties == {"shop": "berlin"}
    message.reject()
    broker.wait_for("dead")
    dead = broker.get("dead")
    assert dead is not None
    assert dead.death_history.path == "orders rejected"


def test_what_is_not_accepted_tells(client: Amqp10Client, broker: Broker) -> None:
    declare(broker, "full", **{"x-max-length": 1, "x-overflow": "reject-publish"})
    client.publish("", "full", b"1")
    with pytest.raises(NotAcceptedError, match="what was published to /queues/full was rejected") as refused:
        client.publish("", "full", b"2")
    with pytest.raises(NotAcceptedError, match=r"/exchanges/amq\.direct/nowhere was released") as unroutable:
        client.publish("amq.direct", "nowhere", b"x")
    assert (refused.value.outcome, unroutable.value.outcome) == ("rejected", "released")


def test_what_is_not_there_is_named_with_the_nearest(client: Amqp10Client) -> None:
    with pytest.raises(LookupError, match=r"^no queue 'oders'; did you mean 'orders'"):
        client.get("oders")
    with pytest.raises(LookupError, match=r"^no exchange 'amq\.topik'; did you mean 'amq\.topic'"):
        client.publish("amq.topik", "x")
    with pytest.raises(TypeError, match="no field 'sbject'; did you mean 'subject'"):
        client.publish("", "orders", b"x", sbject="created")
    with pytest.raises(TypeError, match="expected a message, or a body and fields, got both"):
        client.publish("", "orders", b"x", Message())
    assert client.get("orders") is None  # the client goes on after errors


def test_what_is_held_is_all_that_it_keeps_of_a_queue(client: Amqp10Client, broker: Broker) -> None:
    client.publish("", "orders", b"1")
    get(client, "orders").accept()
    assert client.get("orders") is None
    with pika.BlockingConnection(pika.URLParameters(broker.amqp_url)) as connection:
        channel = connection.channel()
        assert channel.queue_declare("orders", passive=True).method.consumer_count == 0
        channel.queue_delete("orders")
    with pytest.raises(LookupError, match=r"^no queue 'orders'"):
        client.get("orders")
    declare(broker, "orders")
    client.publish("", "orders", b"2")
    assert get(client, "orders").body == b"2"


def test_it_goes_on_after_a_message_that_the_broker_does_not_take(client: Amqp10Client) -> None:
    client.publish("", "orders", b"1")
    with pytest.raises(ProtonException, match=r"reserved|annotation"):
        client.publish("", "orders", b"x", annotations={"foo": 1})
    client.publish("", "orders", b"2")
    assert [get(client, "orders").body for _ in range(2)] == [b"1", b"2"]


@pytest.mark.parametrize("annotations", [{"foo": 1}, {"x-opt-f": 1.5}, {"x-opt-f": None}])
def test_annotations_that_rabbitmq_fails_over_are_refused(client: Amqp10Client, annotations: dict[str, Any]) -> None:
    client.publish("", "orders", b"x")
    message = get(client, "orders")
    with pytest.raises(ValueError, match=r"RabbitMQ (ends|closes)"):
        message.modify(annotations=annotations)
    message.accept()


@pytest.mark.parametrize(
    "given", [{"body": object()}, {"ttl": -1}, {"ttl": "5"}, {"annotations": ["x"]}, {"message": "z"}]
)
def test_what_is_no_message_is_refused(client: Amqp10Client, given: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"expected|cannot hold"):
        client.publish("", "orders", **given)


def test_the_clock_does_not_wait_for_what_the_test_holds() -> None:
    with Simulator("4.3").broker(None, None) as broker:
        declare(broker, "orders", **{"x-message-ttl": 60_000})
        broker.amqp10.publish("", "orders", b"1")
        held = get(broker.amqp10, "orders")
        broker.amqp10.publish("", "orders", b"2")
        broker.clock.advance(minutes=1)
        assert broker.clock.remarks() == []
        assert broker.amqp10.get("orders") is None
        held.accept()


def test_a_release_that_does_not_speak_it_says_so() -> None:
    with Simulator("3.13").broker(None, None) as broker, pytest.raises(RuntimeError, match=r"RabbitMQ 3\.13 speaks no"):
        broker.amqp10.get("orders")


def test_lists_and_maps_that_modified_adds_are_for_amqp_1_0_alone(broker: Broker) -> None:
    broker.amqp10.publish("", "orders", b"x")
    given = {"x-opt-list": [1, 2], "x-opt-map": {"a": 1}, "x-opt-text": "s"}
    get(broker.amqp10, "orders").modify(delivery_failed=True, undeliverable_here=True, annotations=given)
    dead = get(broker.amqp10, "dead")
    assert {name: dead.annotations[name] for name in given} == given
    assert [type(key) for key in dead.annotations["x-opt-map"]] == [str]
    dead.release()
    broker.wait_for("dead")
    seen = broker.get("dead")
    assert seen is not None
    assert {name: each for name, each in seen.headers.items() if name.startswith("x-opt-")} == {"x-opt-text": "s"}
