"""Deaths that a client claims with fields of wrong types: servers of 3.13 fail over them, others do not read them."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from dlx.releases import RELEASES
from simulator.broker.commands import Consume, Get, OpenChannel, OpenConnection, Publish
from simulator.broker.replies import ConnectionClosed, Got, GotNothing
from tests.broker.told import CHANNEL, Told

DEATH: dict[str, Any] = {
    "count": 1, "reason": "expired", "queue": "wait", "time": datetime(2026, 1, 1, tzinfo=UTC), "exchange": "",
    "routing-keys": ["wait"],
}  # fmt: skip
OTHER = ("other", 1)
UNREADABLE = [
    {"reason": 5}, {"reason": None}, {"reason": ["expired"]}, {"original-expiration": 60_000},
    {"original-expiration": "soon"}, {"original-expiration": ""}, {"original-expiration": None},
]  # fmt: skip
UNWRITABLE = [
    {"count": "1"}, {"count": 1.5}, {"count": True}, {"count": None}, {"count": Decimal(1)}, {"queue": 5},
    {"queue": None}, {"exchange": 5}, {"exchange": {}}, {"routing-keys": "wait"}, {"routing-keys": [5]},
    {"routing-keys": {"wait": 1}},
]  # fmt: skip
TAKEN = [
    {}, {"count": datetime(2026, 1, 1, tzinfo=UTC)}, {"queue": b"\xff"}, {"original-expiration": "+060000"},
    {"routing-keys": []}, {"more": 5},
]  # fmt: skip
PASSED_OVER = [{"time": "now", "count": "1"}, {"time": True, "reason": 5}, {"time": 1.0, "queue": 5}]


def claiming(release: str, claim: dict[str, Any]) -> tuple[Told, list[Any]]:
    """A broker with a queue ``q``, and what it answers to a publish into it that claims this death."""
    told = Told(release)
    told.queue("q")
    return told, told.publish("q", "m", headers={"x-death": [DEATH | claim]})


def closed(connection: str, channel: int = 0) -> ConnectionClosed:
    return ConnectionClosed(connection, 541, "INTERNAL_ERROR", "", channel)


@pytest.mark.parametrize("claim", UNREADABLE, ids=str)
def test_a_reason_or_an_expiration_of_another_type_ends_the_publishers_connection(claim: dict[str, Any]) -> None:
    told, answers = claiming("3.13", claim)
    assert answers == [closed("client", 1)]
    told(OpenConnection(OTHER[0]), OpenChannel(OTHER))
    assert told(Get(OTHER, "q")) == [GotNothing(OTHER)]


@pytest.mark.parametrize("claim", UNWRITABLE, ids=str)
def test_other_fields_of_another_type_end_the_connection_of_whoever_gets_the_message(claim: dict[str, Any]) -> None:
    told, answers = claiming("3.13", claim)
    assert answers == []
    assert told(Get(CHANNEL, "q")) == [closed("client", 1)]
    told(OpenConnection(OTHER[0]), OpenChannel(OTHER))
    assert told(Consume(channel=OTHER, queue="q", consumer_tag="c"))[1:] == [closed(OTHER[0])]
    assert told.broker.vhosts["/"].queues["q"].messages_ready == 1, "it comes back every time"


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_what_is_behind_such_a_message_is_not_delivered(kind: str) -> None:
    told = Told("3.13")
    told.queue("q", x_queue_type=kind)
    told.publish("q", "before")
    told.publish("q", "m", headers={"x-death": [DEATH | {"count": "1"}]})
    told.publish("q", "behind")
    told(OpenConnection(OTHER[0]), OpenChannel(OTHER))
    _, delivered, end = told(Consume(channel=OTHER, queue="q", consumer_tag="c"))
    assert (delivered.body, end) == (b"before", closed(OTHER[0]))


def test_an_automatic_acknowledgement_loses_the_message() -> None:
    told, _ = claiming("3.13", {"count": "1"})
    assert told(Consume(channel=CHANNEL, queue="q", consumer_tag="c", no_ack=True))[1:] == [closed("client")]
    assert told.broker.vhosts["/"].queues["q"].messages == 0


def test_a_consumer_loses_its_connection_and_not_the_publisher() -> None:
    told = Told("3.13")
    told.queue("q")
    told(OpenConnection(OTHER[0]), OpenChannel(OTHER), Consume(channel=OTHER, queue="q", consumer_tag="c"))
    assert told.publish("q", "m", headers={"x-death": [DEATH | {"queue": 5}]}) == [closed(OTHER[0])]
    assert CHANNEL in told.broker.channels


def test_a_return_ends_the_publishers_connection() -> None:
    told = Told("3.13")
    headers = {"x-death": [DEATH | {"count": None}]}
    assert told(Publish(CHANNEL, "", "nowhere", {"headers": headers}, b"", mandatory=True)) == [closed("client", 1)]


@pytest.mark.parametrize("claim", TAKEN + PASSED_OVER, ids=str)
def test_everything_else_is_taken_or_passed_over(claim: dict[str, Any]) -> None:
    told, answers = claiming("3.13", claim)
    assert answers == []
    (got,) = told(Get(CHANNEL, "q"))
    assert isinstance(got, Got)
    assert len(got.message.deaths or ()) == (claim in TAKEN)


@pytest.mark.parametrize("release", [name for name in RELEASES if name != "3.13"])
@pytest.mark.parametrize("claim", [*UNREADABLE[:1], *UNWRITABLE[:1]], ids=str)
def test_other_releases_hand_on_what_is_claimed(release: str, claim: dict[str, Any]) -> None:
    told, answers = claiming(release, claim)
    assert answers == []
    _, delivered = told(Consume(channel=CHANNEL, queue="q", consumer_tag="c"))
    assert delivered.message.headers == {"x-death": [DEATH | claim]}
