"""Messages of one class are led to the same places from every exchange, when published and after any deaths."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dlx import Binding, Exchange, Message, MessageFlow, Queue, Topology, published, release
from dlx.deaths import REJECTED
from dlx.key_classes import KeyClasses
from dlx.releases import RELEASES, Release
from dlx.routing import visits

QUEUES = ("q", "r", "s")
EXCHANGES = {
    "d": "direct",
    "t": "topic",
    "f": "fanout",
    "h": "headers",
    "m": "x-modulus-hash",
    "c": "x-consistent-hash",
}
KEYS = st.sampled_from(["", "q", "r", "a", "b", "a.1", "a.2", "b.1", "c.1", "c.2", "#", "*"])
PATTERNS = st.sampled_from(["", "a", "q", "a.*", "#", "*", "b.#", "#.1", "a.1", "1", "2"])
HASHED = {
    "c": st.sampled_from([{}, {"hash-header": "n"}, {"hash-header": "x-first-death-queue"}]),
    "p": st.just({"hash-property": "message_id"}),
}
HEADERS = st.fixed_dictionaries({}, optional={"h": st.sampled_from([1, 2, "1"]), "n": st.integers(0, 3)})
MATCH = {"x-match": "any-with-x"}
ARGUMENTS = st.sampled_from([{}, {"h": 1}, {"h": None}, {**MATCH, "x-first-death-queue": "q"}, {**MATCH, "CC": None}])


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Exchanges of all types, bound to queues and to each other, and queues whose dead letters go to any of them."""
    names = draw(st.sets(st.sampled_from([*EXCHANGES]), min_size=1))
    ends = [("queue", each) for each in QUEUES] + [("exchange", each) for each in names]
    bindings = [
        Binding(source=source, destination=end[1], destination_type=end[0], routing_key=key, arguments=arguments)
        for source, end, key, arguments in draw(
            st.lists(st.tuples(st.sampled_from([*names]), st.sampled_from(ends), PATTERNS, ARGUMENTS), max_size=8)
        )
    ]
    exchanges = [
        Exchange(
            name=name, type=EXCHANGES[name], arguments=draw(alternates(names)) | draw(HASHED.get(name, st.just({})))
        )
        for name in names
    ]
    return Topology.of(exchanges=exchanges, queues=[draw(queues(name, names)) for name in QUEUES], bindings=bindings)


def alternates(names: set[str]) -> st.SearchStrategy[dict[str, Any]]:
    return st.just({}) | st.fixed_dictionaries({"alternate-exchange": st.sampled_from([*names])})


def queues(name: str, exchanges: set[str]) -> st.SearchStrategy[Queue]:
    led = {"x-dead-letter-exchange": st.sampled_from(["", *exchanges])}
    arguments = st.fixed_dictionaries(led, optional={"x-dead-letter-routing-key": KEYS})
    return st.builds(Queue, name=st.just(name), arguments=arguments)


@st.composite
def publishes(draw: st.DrawFn, rules: Release) -> Message:
    copies = draw(st.fixed_dictionaries({}, optional={name: st.lists(KEYS, max_size=2) for name in ("CC", "BCC")}))
    headers = {**draw(HEADERS), **copies}
    properties = draw(st.fixed_dictionaries({}, optional={"message_id": st.sampled_from("abc")}))
    expiration = draw(st.sampled_from([None, "5", "9"]))
    return published("", draw(KEYS), headers=headers, properties=properties, expiration=expiration, release=rules)


def classes_of(*bindings: Binding, name: str = "4.3", **more: Any) -> KeyClasses:
    return KeyClasses(Topology.of(queues=[Queue(name="q")], bindings=bindings, **more), release(name))


def test_keys_that_differ_where_no_binding_looks_are_one_class() -> None:
    patterns = ("eu.*.paid", "eu.#", "us.#")
    classes = classes_of(*(Binding(source="amq.topic", destination="q", routing_key=each) for each in patterns))
    assert len({classes.key_class(f"eu.{number}.paid") for number in range(1_000)}) == 1
    assert len({classes.key_class(key) for key in ("eu.1.paid", "eu.1.sent", "cn.1", "q")}) == 4
    assert classes.key_class("us.1") == classes.key_class("eu.1.sent")  # by another pattern to the same queue
    assert classes.key_class("q") == "q"


def test_of_headers_only_those_that_bindings_compare_count() -> None:
    classes = classes_of(Binding(source="amq.headers", destination="q", arguments={"colour": "red"}))
    red, red_too, blue = (
        classes.message_class(published("amq.headers", "", headers=headers, release=release("4.3")))
        for headers in ({"colour": "red"}, {"colour": "red", "id": 7}, {"colour": "blue"})
    )
    assert red == red_too != blue


@pytest.mark.parametrize(("name", "matters"), [("3.8", False), ("3.10", True), ("4.3", True)])
def test_where_x_death_is_compared_every_key_matters(name: str, matters: bool) -> None:
    arguments = {"x-match": "any-with-x", "x-death": [{"queue": "q"}]}
    assert (
        classes_of(Binding(source="amq.headers", destination="q", arguments=arguments), name=name).every_key_matters
        is matters
    )


def test_where_keys_are_hashed_every_key_matters() -> None:
    exchange = Exchange(name="m", type="x-modulus-hash")
    classes = classes_of(Binding(source="m", destination="q"), exchanges=[exchange])
    assert classes.key_class("a") == "a"


@settings(suppress_health_check=[HealthCheck.too_slow])  # it measures the machine
@given(data=st.data(), name=st.sampled_from([*RELEASES]), topology=topologies())
def test_messages_of_one_class_go_the_same_ways(data: st.DataObject, name: str, topology: Topology) -> None:
    rules = release(name)
    classes, flow = KeyClasses(topology, rules), MessageFlow(topology, rules)
    messages = data.draw(st.lists(publishes(rules), min_size=2, max_size=8))
    for one, other in combinations(messages, 2):
        if classes.message_class(one) == classes.message_class(other):
            assert ways(flow, one, 2) == ways(flow, other, 2)


def ways(flow: MessageFlow, message: Message, deaths: int) -> list[Any]:
    """Where the message is led from each exchange, and its dead letters from each queue, up to so many deaths."""
    found: list[Any] = [met(flow, message, name) for name in flow.topology.exchanges]
    for queue in QUEUES if deaths else ():
        for reason in (REJECTED, "expired"):
            letter = flow.dead_letter(queue, message, reason)
            found.append((queue, reason, letter.outcome, sorted(letter.queues), sorted(letter.cycles)))
            assert letter.message is not None
            found += ways(flow, letter.message, deaths - 1)
    return found


def met(flow: MessageFlow, message: Message, exchange: str) -> list[Any]:
    there = msgspec.structs.replace(message, exchange=exchange)
    visited = visits(there, flow.topology, flow.release)
    led = {(each.destination_type, each.destination, *wildcards(each)) for visit in visited for each in visit.bindings}
    return [{visit.exchange.name for visit in visited}, led, set(flow.entries(there))]


def wildcards(binding: Binding) -> list[str]:
    return [word for word in "*#" if word in binding.routing_key]


def test_keys_that_lead_to_the_same_places_in_another_order_are_told_apart() -> None:
    """A message is led there in the order of the bindings, and dies there in that order."""
    bound = [("k1", "q"), ("k1", "r"), ("k2", "r"), ("k2", "q"), ("k3", "q"), ("k3", "r")]
    classes = classes_of(*(Binding(source="amq.direct", destination=queue, routing_key=key) for key, queue in bound))
    first, second, third = (classes.key_class(key) for key in ("k1", "k2", "k3"))
    assert first == third != second


def test_the_key_of_an_answer_is_like_no_other() -> None:
    """It leads to a channel, without a queue."""
    classes = classes_of()
    assert classes.key_class("amq.rabbitmq.reply-to.g1h.abc") != classes.key_class("nowhere")
