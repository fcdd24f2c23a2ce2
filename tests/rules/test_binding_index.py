"""The index of an exchange finds what the readable matching says, in the order of the bindings, through all changes."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dlx import Binding, Exchange, Message, Queue, Topology, UnknownExchangeTypeError, published, release, route
from dlx.binding_index import INDEXES, BindingIndex, headers_match, topic_matches, words
from dlx.death_headers import stored_headers
from dlx.erlang_hash import phash2
from dlx.jms_selectors import SELECTOR, selects
from dlx.releases import RELEASES, Release
from dlx.routing import share_indexes, visits

WORDS = st.sampled_from(["", "a", "b", "*", "#", "a*", "#b"])
KEYS = st.lists(WORDS, max_size=5).map(".".join)
"""Routing keys and patterns alike: a key may hold ``*`` and ``#`` as words, and both may hold empty ones."""

VALUES = st.sampled_from([None, "red", b"red", 1, 1.0, True, [1], {"a": 1}])
SELECTORS = st.sampled_from(["true.", "false.", "{'=',{ident,<<\"h\">>},1}.", '{is_null,{ident,<<"i">>}}.', "no"])
HEADERS = st.dictionaries(st.sampled_from(["h", "i", "x-h"]), VALUES, max_size=3)
MATCHES = st.sampled_from([{}, *({"x-match": kind} for kind in ("all", "any", "all-with-x", "any-with-x"))])
ARGUMENTS = st.builds(
    lambda match, compared, selector: {**match, **compared, SELECTOR: selector}, MATCHES, HEADERS, SELECTORS
) | st.builds(lambda match, compared: {**match, **compared}, MATCHES, HEADERS)

BINDINGS = st.builds(
    Binding,
    source=st.just("x"),
    destination=st.sampled_from("qrs"),
    destination_type=st.sampled_from(["queue", "exchange"]),
    routing_key=KEYS,
    arguments=ARGUMENTS,
)


@st.composite
def routed(draw: st.DrawFn, rules: Release) -> Message:
    """A message with headers, CC and BCC among them."""
    lists = {name: draw(st.lists(KEYS, max_size=2)) for name in draw(st.sets(st.sampled_from(["CC", "BCC"])))}
    return published("x", draw(KEYS), headers={**draw(HEADERS), **lists}, release=rules)


def met(kind: str, bound: list[Binding], message: Message, rules: Release) -> list[Binding]:
    """The bindings that the message meets, each tried by itself."""
    if kind in ("x-local-random", "x-random"):
        return bound[-1:]
    if kind == "x-modulus-hash":
        by_key = rules.modulus_hash_order == "by binding key"
        ordered = sorted(bound, key=lambda b: (b.routing_key * by_key, b.destination_type, b.destination))
        number = phash2([key.encode() for key in message.routing_keys]) % 2**27
        return [ordered[number % len(ordered)]] if ordered else []
    return [each for each in bound if meets(kind, each, message, rules)]


def meets(kind: str, binding: Binding, message: Message, rules: Release) -> bool:
    if kind == "topic":
        pattern = words(binding.routing_key)
        return any(topic_matches(pattern, words(key)) for key in message.routing_keys)
    if kind == "direct":
        return binding.routing_key in message.routing_keys
    if kind == "x-jms-topic":
        return selects(binding.arguments, stored_headers(message))
    every = ("fanout", "x-recent-history", "x-federation-upstream")
    return kind in every or headers_match(binding.arguments, stored_headers(message), rules)


def last(count: int) -> int:
    return count - 1


@pytest.mark.parametrize("kind", sorted(INDEXES.keys() - {"x-consistent-hash"}))
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])  # it measures the machine
@given(data=st.data(), name=st.sampled_from([*RELEASES]))
def test_an_index_finds_what_matching_says_through_all_changes(kind: str, name: str, data: st.DataObject) -> None:
    rules = release(name)
    bound = data.draw(st.lists(BINDINGS, max_size=8, unique_by=repr))
    index = INDEXES[kind](bound)
    for _ in range(data.draw(st.integers(1, 6))):
        change(data, bound, index)
        message = data.draw(routed(rules))
        assert [*index.met(message, rules, last)] == met(kind, bound, message, rules)


def change(data: st.DataObject, bound: list[Binding], index: BindingIndex) -> None:
    """Add a binding that is not there, or remove one that is."""
    if bound and data.draw(st.booleans()):
        index.remove(bound.pop(data.draw(st.integers(0, len(bound) - 1))))
    else:
        binding = data.draw(BINDINGS)
        if binding not in bound:
            bound.append(binding)
            index.add(binding)


@pytest.mark.parametrize(("pattern", "key", "matches"), [
    ("#", "", True),
    ("#.#", "", True),
    ("a.#.b", "a.b", True),
    ("a.#.b", "a.x.y.b", True),
    ("a.#.b", "a.x.y", False),
    ("#.a.#.a", "a.b.a.c.a", True),
    ("*", "", False),
    ("*.*", ".", True),
    ("a..b", "a..b", True),
    ("a.b", "a..b", False),
    ("*", "#", True),
    ("#.a", "#.a", True),
    ("a.#", "a.#", True),
    ("a", "*", False),
    ("a*", "ab", False),
])  # fmt: skip
def test_topic_patterns(pattern: str, key: str, matches: bool) -> None:
    binding = Binding(source="amq.topic", destination="q", routing_key=pattern)
    topology = Topology.of(queues=[Queue(name="q")], bindings=[binding])
    rules = release("4.3")
    assert bool(route(published("amq.topic", key, release=rules), topology, rules)) is matches
    assert topic_matches(words(pattern), words(key)) is matches


def test_many_hashes_in_a_pattern_take_no_exponential_time() -> None:
    bindings = [Binding(source="amq.topic", destination="q", routing_key=".".join(["#", "a"] * 40))]
    topology = Topology.of(queues=[Queue(name="q")], bindings=bindings)
    rules = release("3.8")
    assert route(published("amq.topic", ".".join("a" * 60), release=rules), topology, rules) == ("q",)
    assert route(published("amq.topic", ".".join("a" * 60 + "b"), release=rules), topology, rules) == ()


def test_a_binding_that_stands_there_twice_is_met_twice() -> None:
    twice = [Binding(source="amq.direct", destination="q")] * 2
    rules = release("4.3")
    (visit,) = visits(published("amq.direct", "", release=rules), Topology.of(bindings=twice), rules)
    assert visit.bindings == (*twice,)


def test_a_changed_copy_of_a_topology_is_routed_by_its_own_bindings() -> None:
    rules = release("4.3")
    message = published("amq.fanout", "", release=rules)
    topology = Topology.of(
        queues=[Queue(name="q"), Queue(name="r")], bindings=[Binding(source="amq.fanout", destination="q")]
    )
    assert route(message, topology, rules) == ("q",)
    other = {"amq.fanout": (Binding(source="amq.fanout", destination="r"),)}
    changed = msgspec.structs.replace(topology, bindings=other)
    assert route(message, changed, rules) == ("r",)
    assert route(message, topology, rules) == ("q",)
    assert repr(topology) == repr(msgspec.structs.replace(topology))


def test_an_exchange_of_an_unknown_type_is_named() -> None:
    rules = release("4.3")
    message = published("x", "", release=rules)
    told = "exchange 'x' is of type 'x-unheard-of': known are direct, fanout, topic, headers"
    with pytest.raises(UnknownExchangeTypeError, match=told):
        route(message, Topology.of(exchanges=[Exchange(name="x", type="x-unheard-of")]), rules)


def test_a_topology_routes_by_the_indexes_of_another_only_where_bindings_are_the_same() -> None:
    rules = release("4.3")
    message = published("amq.headers", "", headers={"h": True}, release=rules)

    def of(*arguments: dict[str, object]) -> Topology:
        bindings = [Binding(source="amq.headers", destination="q", arguments=each) for each in arguments]
        return Topology.of(queues=[Queue(name="q")], bindings=bindings)

    known = of({"h": 1}, {"h": 2})
    assert route(message, known, rules) == ()
    for other, shared in ((of({"h": 1}, {"h": 2}), True), (of({"h": True}, {"h": 2}), False), (of({"h": 1}), False)):
        share_indexes(other, known)
        assert (other.indexes.get("amq.headers") is known.indexes["amq.headers"]) is shared
        assert route(message, other, rules) == (("q",) if other == of({"h": True}, {"h": 2}) else ())
