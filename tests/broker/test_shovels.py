"""Dynamic shovels of a served node; ``tests/plugins`` plays the recorded cases."""

from __future__ import annotations

import re
from contextlib import nullcontext
from typing import Any

import pytest

from dlx.death_headers import delivered_headers
from dlx.operator_errors import UnforeseenError
from simulator.bootstrap import start_broker
from simulator.broker import Broker, OperatorError, Shovel
from simulator.broker.commands import (
    ClearShovel,
    DeleteQueue,
    Get,
    OpenChannel,
    OpenConnection,
    PassTime,
    Publish,
    SetParameter,
)
from simulator.broker.replies import Got

SHOVEL = {"src-uri": "amqp://", "dest-uri": "amqp://", "src-queue": "parked", "dest-queue": "work"}


def definitions(*queues: dict[str, Any], **value: Any) -> dict[str, Any]:
    """Definitions with queues and a shovel."""
    parameter = {"vhost": "/", "component": "shovel", "name": "back", "value": {**SHOVEL, **value}}
    plain = {"vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
    return {"queues": [{**plain, **queue} for queue in queues], "parameters": [parameter]}


def parked_and_work(**arguments: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    return {"name": "parked"}, {"name": "work", "arguments": arguments}


CHANNEL = ("client", 1)


def started(*queues: dict[str, Any], release: str = "4.3", **value: Any) -> Broker:
    """A broker with queues and a shovel, and a client on ``CHANNEL``."""
    broker = start_broker(release, definitions=definitions(*queues, **value), now_us=0)
    broker.handle(OpenConnection("client"), 0)
    broker.handle(OpenChannel(CHANNEL), 0)
    return broker


def ready(broker: Broker) -> dict[str, int]:
    return {name: queue.store.ready for name, queue in broker.vhosts["/"].queues.items()}


def test_definitions_with_a_shovel_start_it() -> None:
    broker = started(*parked_and_work())
    broker.handle(Publish(CHANNEL, "", "parked"), 0)
    assert ready(broker) == {"parked": 0, "work": 1}


def test_a_message_that_the_destination_refuses_stays_at_the_source() -> None:
    full = {"x-max-length": 0, "x-overflow": "reject-publish"}
    broker = started(*parked_and_work(**full))
    broker.handle(Publish(CHANNEL, "", "parked"), 0)
    broker.handle(PassTime(), 60_000_000)
    assert ready(broker)["work"] == 0
    assert broker.vhosts["/"].queues["parked"].unacked == 1


def test_a_restored_broker_goes_on_with_its_shovels() -> None:
    broker = Broker.restore(started(*parked_and_work()).snapshot())
    broker.handle(Publish(CHANNEL, "", "parked"), 0)
    assert ready(broker) == {"parked": 0, "work": 1}


def test_a_shovel_to_another_server_says_that_it_does_not_run() -> None:
    broker = started(*parked_and_work(), **{"dest-uri": "amqp://orders.example/"})
    broker.handle(Publish(CHANNEL, "", "parked"), 0)
    shovel = broker.vhosts["/"].shovels["back"]
    assert (shovel.state, ready(broker)["parked"]) == ("terminated", 1)
    assert "dlx serve --peer orders.example:5672 lets shovels reach it" in shovel.reason


def test_a_shovel_from_a_queue_to_itself_does_not_hang_the_broker() -> None:
    broker = started({"name": "parked"}, **{"dest-queue": "parked"})
    broker.handle(Publish(CHANNEL, "", "parked"), 0)
    queue = broker.vhosts["/"].queues["parked"]
    assert queue.store.ready + queue.unacked == 1


@pytest.mark.parametrize(("release", "count"), [("3.13", 5), ("4.3", 1)])
def test_a_retry_loop_through_a_shovel_never_ends(release: str, count: int) -> None:
    """RabbitMQ does not see the cycle; from 4.0 on it does not even count."""
    work = {"x-message-ttl": 1_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "parked"}
    broker = started(*parked_and_work(**work), release=release)
    broker.handle(Publish(CHANNEL, "", "work"), 0)
    broker.handle(PassTime(), 5_500_000)
    (got,) = [reply for reply in broker.handle(Get(CHANNEL, "work"), 5_500_000) if isinstance(reply, Got)]
    headers = delivered_headers(got.message, broker.release, got.added)
    assert headers is not None
    assert [death["count"] for death in headers["x-death"]] == [count]


def shovel_of(broker: Broker) -> Shovel:
    return broker.vhosts["/"].shovels["back"]


@pytest.mark.parametrize("arguments", [{"x-priority": "high"}, {"x-stream-offset": "first"}])
def test_a_shovel_that_may_not_consume_terminates(arguments: dict[str, Any]) -> None:
    shovel = shovel_of(started(*parked_and_work(), release="4.0", **{"src-consumer-args": arguments}))
    assert (shovel.state, shovel.source, shovel.destination) == ("terminated", None, None)
    assert "invalid arg" in shovel.reason


@pytest.mark.parametrize("ends", [3, "queue-length"])
def test_refused_messages_count_for_the_end_of_a_shovel(ends: int | str) -> None:
    full = {"x-max-length": 1, "x-overflow": "reject-publish"}
    broker = started(*parked_and_work(**full), **{"src-delete-after": "queue-length"})
    assert not broker.vhosts["/"].shovels
    for _ in range(3):
        broker.handle(Publish(CHANNEL, "", "parked"), 0)
    broker.handle(SetParameter("/", "shovel", "back", {**SHOVEL, "src-delete-after": ends}), 0)
    assert not broker.vhosts["/"].shovels
    assert ready(broker) == {"parked": 2, "work": 1}


@pytest.mark.parametrize("release", ["3.8", "4.3"])
@pytest.mark.parametrize("ends", ["src-delete-after", "delete-after"])
def test_no_shovel_counts_what_it_does_not_acknowledge(release: str, ends: str) -> None:
    broker = start_broker(release, plugins=["shovel"], now_us=0)
    with pytest.raises(OperatorError, match="Cannot specify 'no-ack' and numerical 'delete-after'"):
        broker.handle(SetParameter("/", "shovel", "back", {**SHOVEL, "ack-mode": "no-ack", ends: 3}), 0)


def test_messages_for_an_exchange_that_is_missing_die_by_the_delivery_limit() -> None:
    """The shovel takes them and fails, again and again, and each time counts."""
    parked = {
        "x-queue-type": "quorum",
        "x-delivery-limit": 3,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dead",
    }
    value = {name: each for name, each in SHOVEL.items() if name != "dest-queue"} | {"dest-exchange": "nowhere"}
    given = definitions({"name": "parked", "arguments": parked}, {"name": "dead"})
    given["parameters"][0]["value"] = value
    broker = start_broker("4.3", definitions=given, now_us=0)
    broker.handle(OpenConnection("client"), 0)
    broker.handle(OpenChannel(CHANNEL), 0)
    assert shovel_of(broker).state == "running"
    broker.handle(Publish(CHANNEL, "", "parked"), 0)
    assert shovel_of(broker).reason == "<<\"NOT_FOUND - no exchange 'nowhere' in vhost '/'\">>"
    assert ready(broker)["parked"] == 1
    broker.handle(PassTime(), 10_000_000)
    assert ready(broker) == {"parked": 0, "dead": 1}


def test_a_shovel_comes_back_at_once_the_first_time_and_then_after_its_delay() -> None:
    broker = started(*parked_and_work())
    broker.handle(DeleteQueue(CHANNEL, "parked"), 0)
    assert (shovel_of(broker).state, sorted(ready(broker))) == ("running", ["parked", "work"])
    broker.handle(DeleteQueue(CHANNEL, "parked"), 0)
    assert (shovel_of(broker).state, sorted(ready(broker))) == ("terminated", ["work"])
    broker.handle(ClearShovel("/", "back", restart=True), 0)
    assert shovel_of(broker).state == "running"


def test_the_same_parameter_once_more_does_not_start_a_shovel_anew() -> None:
    broker = started(*parked_and_work())
    before = shovel_of(broker)
    broker.handle(SetParameter("/", "shovel", "back", dict(SHOVEL)), 0)
    assert shovel_of(broker) is before


@pytest.mark.parametrize("release", ["3.10", "4.3"])
def test_an_empty_list_of_arguments_is_none(release: str) -> None:
    arguments: dict[str, Any] = {"src-consumer-args": [], "src-queue-args": [], "dest-queue-args": []}
    shovel = shovel_of(started(release=release, **arguments))
    assert (shovel.state, shovel.reason) == ("running", "")


@pytest.mark.parametrize(("release", "crashes"), [("3.10", True), ("4.0", True), ("4.3", False)])
@pytest.mark.parametrize("side", ["src-queue-args", "dest-queue-args"])
def test_a_dead_letter_routing_key_among_the_arguments(release: str, crashes: bool, side: str) -> None:
    broker = start_broker(release, plugins=["shovel"], now_us=0)
    retry = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work"}
    with pytest.raises(UnforeseenError) if crashes else nullcontext():
        broker.handle(SetParameter("/", "shovel", "back", {**SHOVEL, side: retry}), 0)
    assert ("back" in broker.vhosts["/"].shovels) is not crashes


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("amqp://localhost:1:2", "unable_to_parse_uri"),
        ("amqp://localhost:", "unable_to_parse_uri"),
        ("amqp://u:p@localhost:0", "{port_out_of_range,0}"),
        ("amqp://[::1]:65536/%2F", "{port_out_of_range,65536}"),
        ("amqp:///a/b", '{invalid_vhost,"a/b"}'),
        ("amqp://u:1:2@[::1]:5672/%2F", None),
    ],
)
def test_an_address_with_a_port_or_a_virtual_host_that_cannot_be(address: str, why: str | None) -> None:
    broker = start_broker("4.3", plugins=["shovel"], now_us=0)
    with nullcontext() if why is None else pytest.raises(OperatorError, match=re.escape(why)):
        broker.handle(SetParameter("/", "shovel", "back", {**SHOVEL, "dest-uri": address}), 0)
    assert ("back" in broker.vhosts["/"].shovels) is (why is None)


@pytest.mark.parametrize("name", ["src-queue-args", "src-consumer-args", "dest-queue-args"])
def test_arguments_that_are_none_set_no_shovel(name: str) -> None:
    broker = start_broker("4.3", plugins=["shovel"], now_us=0)
    with pytest.raises(UnforeseenError):
        broker.handle(SetParameter("/", "shovel", "back", {**SHOVEL, name: "x"}), 0)
    assert not broker.vhosts["/"].shovels


@pytest.mark.parametrize("name", ["src-queue-args", "src-consumer-args", "dest-queue-args"])
def test_arguments_that_no_queue_or_consumer_has_are_refused_by_name(name: str) -> None:
    broker = start_broker("4.0", plugins=["shovel"], now_us=0)
    with pytest.raises(OperatorError, match=f"Unrecognised terms .*foo.* in {name}"):
        broker.handle(SetParameter("/", "shovel", "back", {**SHOVEL, name: {"foo": 1}}), 0)


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("src-queue-args", {"x-message-ttl": "a"}, '"expected integer, got longstr"'),
        ("dest-queue-args", {"x-dead-letter-routing-key": "k"}, "routing_key_but_no_dlx_defined"),
        ("src-consumer-args", {"x-priority": 1.5}, '"expected integer, got double"'),
    ],
)
def test_arguments_with_wrong_values_are_refused_from_4_3_on(name: str, arguments: dict[str, Any], why: str) -> None:
    broker = start_broker("4.3", plugins=["shovel"], now_us=0)
    with pytest.raises(OperatorError) as refused:
        broker.handle(SetParameter("/", "shovel", "back", {**SHOVEL, name: arguments}), 0)
    assert f"invalid arg '{next(iter(arguments))}' in {name}: {why}" in refused.value.text


def test_a_text_is_no_shovel() -> None:
    broker = start_broker("4.3", plugins=["shovel"], now_us=0)
    with pytest.raises(UnforeseenError):
        broker.handle(SetParameter("/", "shovel", "back", "x"), 0)
