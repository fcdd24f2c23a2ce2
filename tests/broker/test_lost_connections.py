"""What a connection held comes back when it ends, and to whom. Seen on servers of 3.8.9, 3.10.8, 4.0.5 and 4.3.6.

There a classic queue may also hand it to an automatic consumer that is gone already, and lose it: left to chance.
"""

from __future__ import annotations

from typing import Any

import pytest

from dlx.releases import RELEASES
from simulator.broker.commands import CloseConnection, Consume, DeclareQueue, OpenChannel, OpenConnection, Qos
from tests.broker.told import CHANNEL, Told, bodies, deliveries

ENDING = "ending"
HOLDS, OTHER = (ENDING, 1), (ENDING, 2)
KINDS = ["classic", "quorum"]


def two_channels(name: str) -> Told:
    """A broker with a connection of two channels that will end."""
    told = Told(name)
    told(OpenConnection(ENDING), OpenChannel(HOLDS), OpenChannel(OTHER), Qos(HOLDS, prefetch_count=1))
    return told


def consume(told: Told, channel: tuple[str, int], tag: str, **given: Any) -> list[Any]:
    """Subscribe to the queue q."""
    return told(Consume(channel=channel, queue="q", consumer_tag=tag, **given))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", RELEASES)
def test_an_automatic_consumer_of_the_same_connection_gets_nothing_of_what_it_held(name: str, kind: str) -> None:
    told = two_channels(name)
    told.queue("q", x_queue_type=kind)
    consume(told, HOLDS, "holds")
    told.publish("q", "1")
    consume(told, OTHER, "automatic", no_ack=True)
    assert deliveries(told(CloseConnection(ENDING))) == []
    (got,) = told.drained("q")
    assert (got.body, got.redelivered) == (b"1", True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", RELEASES)
def test_a_consumer_of_another_connection_gets_it_at_once(name: str, kind: str) -> None:
    told = two_channels(name)
    told.queue("q", x_queue_type=kind)
    consume(told, HOLDS, "holds")
    told.publish("q", "1")
    consume(told, OTHER, "automatic", no_ack=True)
    consume(told, CHANNEL, "stays", no_ack=True)
    assert deliveries(told(CloseConnection(ENDING))) == [("stays", "1")]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", RELEASES)
def test_no_consumer_of_the_same_connection_becomes_the_single_active_one(name: str, kind: str) -> None:
    told = two_channels(name)
    told.queue("q", x_queue_type=kind, x_single_active_consumer=True)
    consume(told, HOLDS, "active")
    told.publish("q", "1")
    told.publish("q", "2")
    consume(told, OTHER, "waits", no_ack=True)
    assert deliveries(told(CloseConnection(ENDING))) == []
    assert deliveries(consume(told, CHANNEL, "stays", no_ack=True)) == [("stays", "1"), ("stays", "2")]


@pytest.mark.parametrize("name", RELEASES)
def test_a_queue_that_ends_with_its_connection_hands_out_nothing_more(name: str) -> None:
    told = two_channels(name)
    told(DeclareQueue(channel=HOLDS, queue="q", exclusive=True))
    consume(told, HOLDS, "holds")
    told.publish("q", "1")
    consume(told, OTHER, "automatic", no_ack=True)
    assert deliveries(told(CloseConnection(ENDING))) == []


@pytest.mark.parametrize("name", RELEASES)
def test_all_that_many_channels_held_comes_back(name: str) -> None:
    told = two_channels(name)
    told.queue("q", x_queue_type="quorum")
    for number in range(3, 6):
        told(OpenChannel((ENDING, number)), Qos((ENDING, number), prefetch_count=1))
        consume(told, (ENDING, number), f"holds {number}")
        told.publish("q", str(number))
    told(OpenChannel((ENDING, 6)))
    consume(told, (ENDING, 6), "automatic", no_ack=True)
    assert deliveries(told(CloseConnection(ENDING))) == []
    assert bodies(told.drained("q")) == ["3", "4", "5"]
