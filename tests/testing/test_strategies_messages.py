"""Drawn messages: brokers take them or refuse them as was asked for, and no rule falls over them."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dlx
from dlx.death_headers import QueueCrashError, delivered_headers
from dlx.deaths import REASONS
from dlx.field_values import Long, UnsignedByte
from dlx.message import PublishRefusedError
from dlx.releases import RELEASES
from simulator.broker import Broker
from simulator.broker.commands import DeclareQueue, OpenChannel, OpenConnection, Publish
from simulator.broker.replies import ChannelClosed
from simulator.server.amqp.tables import decode_table, encode_table
from simulator.testing.strategies import (
    deaths,
    field_values,
    messages,
    properties,
    topologies,
    x_deaths,
)
from simulator.testing.strategies import message as strategies_of_messages
from tests.testing.reaching import reached

CHANNEL = ("c", 1)
ENTRY = {"count": Long(1), "reason": "rejected", "queue": "q", "exchange": "", "routing-keys": ["q"]}
UNREADABLE = ENTRY | {"time": datetime(2026, 1, 1, tzinfo=UTC), "original-expiration": "soon"}


def published(name: str, found: dict[str, Any]) -> list[Any]:
    """What a broker answers to a publish with these properties."""
    broker = Broker(name)
    broker.handle(OpenConnection("c"), 0)
    broker.handle(OpenChannel(CHANNEL), 0)
    broker.handle(DeclareQueue(channel=CHANNEL, queue="orders"), 0)
    return broker.handle(Publish(CHANNEL, "", "orders", found, b"body"), 0)


@given(st.sampled_from(RELEASES), properties(hostile=True))
def test_properties_are_taken(name: str, found: dict[str, Any]) -> None:
    assert published(name, found) == []


@given(st.sampled_from(RELEASES), properties(malformed=True))
def test_malformed_properties_are_refused(name: str, found: dict[str, Any]) -> None:
    (answer,) = published(name, found)
    assert isinstance(answer, ChannelClosed)
    assert answer.code == 406
    with pytest.raises(PublishRefusedError):
        dlx.published(
            "",
            "orders",
            headers=found.get("headers"),
            expiration=found.get("expiration"),
            release=dlx.release(name),
        )


@given(properties(carbon_copies=False))
def test_no_carbon_copies_unless_wanted(found: dict[str, Any]) -> None:
    assert not {"CC", "BCC"} & set(found.get("headers", {}))


@given(properties(hostile=True))
def test_hostile_headers_go_over_the_wire(found: dict[str, Any]) -> None:
    headers = found.get("headers", {})
    assert decode_table(encode_table(headers)[4:]) == headers


CASES = st.sampled_from(RELEASES).flatmap(
    lambda name: st.tuples(st.just(dlx.release(name)), topologies(release=name), messages(release=name, hostile=True))
)


@given(CASES, st.sampled_from(REASONS))
def test_no_rule_falls_over_a_message(case: tuple[dlx.Release, dlx.Topology, dlx.Message], reason: str) -> None:
    release, topology, message = case
    assert dlx.death_history(delivered_headers(message, release)).total >= 0
    assert set(dlx.route(message, topology, release)) <= set(topology.queues)
    for queue in topology.queues.values():
        settings = dlx.effective_settings(queue, topology, release)
        with contextlib.suppress(QueueCrashError):  # what a real queue does with some histories, too
            letter = dlx.dead_letter(message, reason, settings, topology, release)
            assert set(letter.queues) <= set(topology.queues)


@given(messages(deaths_max=3))
def test_an_honest_message_has_the_history_that_its_headers_tell(message: dlx.Message) -> None:
    history = dlx.death_history(delivered_headers(message, dlx.release()))
    assert history.malformed == ()
    assert history.total <= 3
    assert bool(history) == (message.deaths is not None)


@given(deaths(queue_names=["a"], exchange_names=["x"]))
def test_deaths_are_of_the_names(death: dlx.Death) -> None:
    assert (death.queue, death.exchange) == ("a", "x")
    assert set(death.routing_keys) == {"a"}


@given(x_deaths(entries_max=2))
def test_honest_histories_are_well_formed(value: Any) -> None:
    history = dlx.death_history({"x-death": value})
    assert history.malformed == ()
    assert len(history.deaths) == len(value) == len({(death.queue, death.reason) for death in history.deaths}) <= 2


def tables(value: Any) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def twins(value: Any) -> bool:
    kinds = [(entry["queue"], entry["reason"]) for entry in tables(value) if {"queue", "reason"} <= entry.keys()]
    return any(kinds.count(kind) > 1 for kind in kinds)


def depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return max((1 + depth(item) for item in inner), default=0)


REACHED = {
    "CC with two keys": (properties(), lambda p: len(p.get("headers", {}).get("CC", [])) == 2),
    "BCC beside CC": (properties(), lambda p: {"CC", "BCC"} <= set(p.get("headers", {}))),
    "a history that is no array": (x_deaths(hostile=True), lambda x: not isinstance(x, list)),
    "a huge count": (x_deaths(hostile=True), lambda x: any(entry.get("count") == 2**63 - 1 for entry in tables(x))),
    "an entry that is no table": (x_deaths(hostile=True), lambda x: isinstance(x, list) and tables(x) != x),
    "two entries of one kind": (x_deaths(hostile=True), twins),
    "not UTF-8": (field_values(), lambda v: type(v) is bytes),
    "8 bits": (field_values(), lambda v: type(v) is UnsignedByte),
    "64 bits": (field_values(), lambda v: type(v) is Long and abs(v) > 2**40),
    "deep": (field_values(), lambda v: depth(v) > 30),
    "a message that died twice in two queues": (messages(), lambda m: len(m.deaths or ()) == 2),
    "a made-up history": (messages(hostile=True, deaths_max=0), lambda m: bool(dlx.death_history(m.headers or {}))),
}  # fmt: skip


@pytest.mark.parametrize("what", REACHED)
def test_what_matters_is_reached(what: str) -> None:
    strategy, wanted = REACHED[what]
    assert wanted(reached(strategy, wanted))


def test_no_message_is_drawn_that_its_release_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PublishRefusedError):
        dlx.published("", "q", headers={"x-death": [UNREADABLE]}, release=dlx.release("3.13"))
    claims = st.sampled_from([{"x-death": [UNREADABLE]}, {"kind": "a"}])
    monkeypatch.setattr(strategies_of_messages, "_brokers_headers", lambda _: claims)

    @given(messages(hostile=True, release="3.13"))
    def kept(message: dlx.Message) -> None:
        assert "x-death" not in (message.headers or {})

    kept()
