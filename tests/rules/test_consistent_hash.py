"""Hash exchanges choose the queue that a server of the release chose for the same key, header or property."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dlx import Binding, Exchange, MessageFlow, Queue, Topology, published, release, route
from dlx.consistent_hash import Ring
from dlx.routing import index_of
from tests.real_servers import LIVE

RECORDED = Path(__file__).parents[1] / "plugins" / "recorded"
CASES = {
    (file, case["name"]): case
    for file in ("consistent-hash", "modulus-hash")
    for case in json.loads((RECORDED / f"{file}.json").read_text(encoding="utf-8"))["cases"]
}
BY_KEY = [key for key in CASES if key[1].startswith(("routing: 100 ", "routing: bound", "routing: binding keys"))]


def answers(case: dict[str, Any], name: str) -> list[Any]:
    """What the server of a release answered to a case."""
    (found,) = [seen["answers"] for seen in case["seen"] if name in seen["releases"]]
    return list(found)


def bound(exchange: Exchange, *keys: tuple[str, str]) -> Topology:
    """An exchange with a binding for each queue and key, in this order."""
    queues = {queue: Queue(name=queue) for queue, _ in keys}
    bindings = [Binding(source=exchange.name, destination=queue, routing_key=key) for queue, key in keys]
    return Topology.of(exchanges=[exchange], queues=[*queues.values()], bindings=bindings)


@pytest.mark.parametrize("name", LIVE)
@pytest.mark.parametrize("case", BY_KEY, ids=" ".join)
def test_keys_go_where_the_server_sent_them(case: tuple[str, str], name: str) -> None:
    steps, rules = CASES[case]["steps"], release(name)
    exchange = Exchange(name=steps[0]["exchange"], type=steps[0]["type"])
    topology = bound(exchange, *((step["bind"], step["key"]) for step in steps if "bind" in step))
    recorded = {key: queue for queue, keys in answers(CASES[case], name)[-1].items() for key in keys}
    assert len(recorded) == 100
    found = {key: route(published(exchange.name, key, release=rules), topology, rules) for key in recorded}
    assert found == {key: (queue,) for key, queue in recorded.items()}


@pytest.mark.parametrize("name", LIVE)
def test_texts_of_a_header_go_elsewhere_from_3_13_on(name: str) -> None:
    rules = release(name)
    topology = bound(hashing("hash-header", "h"), ("q1", "1"), ("q2", "1"))
    recorded = answers(CASES["consistent-hash", "hash-header: text values"], name)[-1]
    for queue, keys in recorded.items():
        for key in keys:
            assert route(published("c", "k", headers={"h": key}, release=rules), topology, rules) == (queue,)


def hashing(what: str, name: str) -> Exchange:
    return Exchange(name="c", type="x-consistent-hash", arguments={what: name})


@pytest.mark.parametrize("name", ["3.8", "4.3"])
def test_messages_without_the_property_share_a_queue(name: str) -> None:
    rules = release(name)
    topology = bound(hashing("hash-property", "message_id"), *((f"q{n}", "1") for n in range(9)))
    with_it = {route(published("c", "", properties={"message_id": str(n)}, release=rules), topology, rules)
               for n in range(50)}  # fmt: skip
    without = {route(published("c", str(n), release=rules), topology, rules) for n in range(50)}
    assert len(with_it) == 9
    assert len(without) == 1


def test_messages_whose_hashed_property_differs_are_told_apart() -> None:
    rules = release("4.3")
    topology = bound(hashing("hash-property", "message_id"), ("q1", "1"), ("q2", "1"))
    flow = MessageFlow(topology, rules)
    one, other = (published("c", "k", properties={"message_id": each}, release=rules) for each in "ab")
    assert flow.situation("q1", one) != flow.situation("q1", other)
    assert flow.state("q1", one) is not flow.state("q1", other)


@pytest.mark.parametrize(("name", "reached"), [("3.8", ()), ("3.10", ("b",)), ("4.3", ("b",))])
def test_a_queue_bound_twice_and_unbound_once_leaves_a_gap_on_3_8_alone(name: str, reached: tuple[str, ...]) -> None:
    topology, rules = (
        bound(Exchange(name="c", type="x-consistent-hash"), ("a", "1"), ("a", "3"), ("b", "1")),
        release(name),
    )
    index_of(topology.exchanges["c"], topology).remove(Binding(source="c", destination="a", routing_key="3"))
    assert route(published("c", "any", release=rules), topology, rules) == reached


def test_keys_of_the_queues_behind_an_unbound_one_move_up() -> None:
    ring = Ring(is_taken_twice=False)
    for queue in "abc":
        ring.add(Binding(source="c", destination=queue, routing_key="2"))
    ring.remove(Binding(source="c", destination="b", routing_key="2"))
    ring.add(Binding(source="c", destination="b", routing_key="1"))
    found = [ring.binding_of(each) for each in range(1_000)]
    assert {each.destination for each in found if each is not None} == {"a", "b", "c"}
    assert None not in found


def test_a_weight_that_no_server_has_memory_for_takes_no_time() -> None:
    ring = Ring(is_taken_twice=True)
    for queue in ("a", "b"):
        ring.add(Binding(source="c", destination=queue, routing_key="9" * 400))
    assert ring.binding_of(b"key") is not None
