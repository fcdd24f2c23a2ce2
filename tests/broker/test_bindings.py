"""Bindings: two that differ in anything are two, and a queue or exchange that goes takes its own along."""

from __future__ import annotations

from typing import Any

from dlx.field_values import Long
from dlx.routing import share_indexes
from simulator.broker import Broker
from simulator.broker.commands import (
    BindExchange,
    BindQueue,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Publish,
    UnbindQueue,
)
from tests.broker.test_machine import CHANNEL, START_US, opened

RED, BLUE = {"x-match": "any", "colour": "red"}, {"x-match": "any", "colour": "blue"}


def bound() -> Broker:
    """A headers exchange with three bindings to ``a`` and one to ``b``."""
    broker = opened()
    broker.handle(DeclareExchange(channel=CHANNEL, exchange="x", type="headers"), START_US)
    for queue in ("a", "b"):
        broker.handle(DeclareQueue(channel=CHANNEL, queue=queue), START_US)
    for queue, arguments in (("a", RED), ("b", RED), ("a", BLUE), ("a", RED)):
        broker.handle(bind(queue, arguments), START_US)
    broker.handle(bind("a", RED, "key"), START_US)
    return broker


def bind(queue: str, arguments: dict[str, Any], key: str = "") -> BindQueue:
    return BindQueue(channel=CHANNEL, queue=queue, exchange="x", routing_key=key, arguments=arguments)


def kept(broker: Broker) -> list[tuple[str, str, Any]]:
    bindings = broker.vhosts["/"].bindings.get("x", ())
    return [(each.destination, each.routing_key, each.arguments["colour"]) for each in bindings]


def ready(broker: Broker) -> dict[str, int]:
    return {name: queue.messages_ready for name, queue in broker.vhosts["/"].queues.items()}


def test_bindings_with_other_arguments_or_keys_are_others_and_keep_their_order() -> None:
    broker = bound()
    assert kept(broker) == [("a", "", "red"), ("b", "", "red"), ("a", "", "blue"), ("a", "key", "red")]
    unbind = UnbindQueue(channel=CHANNEL, queue="a", exchange="x", arguments=RED)
    broker.handle(unbind, START_US)
    assert kept(broker) == [("b", "", "red"), ("a", "", "blue"), ("a", "key", "red")]


def test_a_restored_broker_finds_its_bindings() -> None:
    broker = Broker.restore(bound().snapshot())
    broker.handle(bind("a", RED), START_US)
    broker.handle(UnbindQueue(channel=CHANNEL, queue="a", exchange="x", routing_key="key", arguments=RED), START_US)
    broker.handle(DeleteQueue(channel=CHANNEL, queue="b"), START_US)
    assert kept(broker) == [("a", "", "red"), ("a", "", "blue")]
    broker.handle(Publish(CHANNEL, "x", "", {"headers": {"colour": "blue"}}), START_US)
    assert ready(broker) == {"a": 1}


def test_an_exchange_that_goes_takes_the_bindings_on_both_sides() -> None:
    broker = bound()
    broker.handle(DeclareExchange(channel=CHANNEL, exchange="up", type="fanout", auto_delete=True), START_US)
    broker.handle(BindExchange(channel=CHANNEL, source="up", destination="x"), START_US)
    broker.handle(DeleteExchange(channel=CHANNEL, exchange="x"), START_US)
    vhost = broker.vhosts["/"]
    assert (vhost.bindings, vhost.bound_to) == ({}, {})
    assert "up" not in vhost.exchanges, "an exchange that deletes itself goes with its last binding"
    broker.handle(DeclareExchange(channel=CHANNEL, exchange="x", type="headers"), START_US)
    broker.handle(Publish(CHANNEL, "x", "", {"headers": {"colour": "red"}}), START_US)
    assert ready(broker) == {"a": 0, "b": 0}


def test_a_running_exchange_routes_by_its_bindings_of_the_moment() -> None:
    broker = bound()
    red, blue = (Publish(CHANNEL, "x", "", {"headers": {"colour": colour}}) for colour in ("red", "blue"))
    broker.handle(red, START_US)
    broker.handle(UnbindQueue(channel=CHANNEL, queue="b", exchange="x", arguments=RED), START_US)
    broker.handle(red, START_US)
    broker.handle(bind("b", BLUE), START_US)
    broker.handle(blue, START_US)
    assert ready(broker) == {"a": 3, "b": 2}


def test_an_exchange_of_another_type_under_the_same_name_routes_by_its_own_type() -> None:
    broker = bound()
    broker.handle(Publish(CHANNEL, "x", "k", {}), START_US)
    broker.handle(DeleteExchange(channel=CHANNEL, exchange="x"), START_US)
    broker.handle(DeclareExchange(channel=CHANNEL, exchange="x", type="direct"), START_US)
    broker.handle(bind("b", {}, "k"), START_US)
    broker.handle(Publish(CHANNEL, "x", "k", {}), START_US)
    assert ready(broker) == {"a": 0, "b": 1}


def test_arguments_of_other_types_make_another_binding() -> None:
    broker = bound()
    broker.handle(DeclareQueue(channel=CHANNEL, queue="c"), START_US)
    for colour in (1, True, Long(1), 1.0, [1], [True], {"a": 1, "b": 2}, {"b": 2, "a": 1}, 1, True):
        broker.handle(bind("c", {"colour": colour, "x-match": "all"}), START_US)
    assert len(kept(broker)) == 4 + 8
    broker.handle(bind("c", {"x-match": "all", "colour": 1}), START_US)
    assert len(kept(broker)) == 4 + 8, "the order of arguments counts only within them"
    for colour in (1, Long(1), 1.0):
        broker.handle(
            UnbindQueue(channel=CHANNEL, queue="c", exchange="x", arguments={"colour": colour, "x-match": "all"}),
            START_US,
        )
    broker.handle(Publish(CHANNEL, "x", "", {"headers": {"colour": True}}), START_US)
    assert ready(broker)["c"] == 1


def test_a_broker_gives_up_an_index_that_others_use_before_it_changes_bindings() -> None:
    broker = bound()
    blue = Publish(CHANNEL, "x", "", {"headers": {"colour": "blue"}})
    broker.handle(blue, START_US)
    unbind = UnbindQueue(channel=CHANNEL, queue="a", exchange="x", arguments=BLUE)
    for change, reached in ((bind("b", BLUE), {"a": 1, "b": 1}), (unbind, {"a": 0, "b": 0})):
        other = bound()
        share_indexes(other.vhosts["/"].topology, broker.vhosts["/"].topology)
        other.handle(change, START_US)
        other.handle(blue, START_US)
        assert ready(other) == reached
    broker.handle(blue, START_US)
    assert ready(broker) == {"a": 2, "b": 0}
