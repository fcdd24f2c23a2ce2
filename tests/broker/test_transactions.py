"""What a transaction does to acknowledgements. Seen on servers of 3.10.8, 4.0.5 and 4.3.6."""

from __future__ import annotations

import pytest

import dlx
from dlx.releases import RELEASES
from simulator.broker.commands import (
    Ack,
    Cancel,
    CloseChannel,
    Commit,
    Consume,
    Get,
    Nack,
    OpenChannel,
    Publish,
    Qos,
    SelectTransactions,
)
from simulator.broker.replies import Done
from tests.broker.told import Told, bodies, deliveries

OTHER = ("client", 2)


def transactional(release: str, **arguments: object) -> Told:
    """A broker with a queue q, and a second channel in a transaction."""
    told = Told(release)
    told.queue("q", **arguments)
    told(OpenChannel(OTHER), SelectTransactions(OTHER))
    return told


@pytest.mark.parametrize("release", RELEASES)
def test_what_was_acknowledged_and_not_committed_comes_back_with_its_channel(release: str) -> None:
    told = transactional(release)
    told.publish("q", "1")
    told.publish("q", "2")
    told(Get(OTHER, "q"), Ack(OTHER, 1), CloseChannel(OTHER))
    found = told.drained("q")
    assert bodies(found) == ["1", "2"]
    assert [got.redelivered for got in found] == [True, False]


@pytest.mark.parametrize("release", RELEASES)
def test_a_commit_publishes_before_it_gives_back(release: str) -> None:
    """So a queue that would be full with what comes back takes the new message."""
    told = transactional(release, x_max_length=1, x_overflow="reject-publish")
    told.publish("q", "old")
    told(Get(OTHER, "q"), Publish(OTHER, "", "q", {}, b"new"), Nack(OTHER, 1))
    assert told(Commit(OTHER)) == [Done(OTHER, "tx.commit-ok")]
    assert bodies(told.drained("q")) == ["old", "new"]


@pytest.mark.parametrize("release", [name for name in RELEASES if dlx.release(name).quorum_consumer_continues])
def test_what_a_consumer_settled_before_it_came_back_makes_room_at_the_commit(release: str) -> None:
    """A consumer is cancelled with a settled delivery in its transaction, comes back under its tag, and commits."""
    told = transactional(release, x_queue_type="quorum")
    for body in "123":
        told.publish("q", body)
    told(Qos(OTHER, prefetch_count=1))
    told(Consume(channel=OTHER, queue="q", consumer_tag="t"), Cancel(OTHER, "t"), Ack(OTHER, 1))
    assert deliveries(told(Consume(channel=OTHER, queue="q", consumer_tag="t"))) == []
    assert deliveries(told(Commit(OTHER))) == [("t", "2")]
    assert deliveries(told(Ack(OTHER, 2), Commit(OTHER))) == [("t", "3")]
