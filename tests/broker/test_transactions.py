"""What a transaction does to acknowledgements and publishes. Seen on servers of 3.10.8, 3.13.7, 4.0.5 and 4.3.6."""

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
    DeleteQueue,
    Get,
    Nack,
    OpenChannel,
    Publish,
    Qos,
    SelectTransactions,
)
from simulator.broker.replies import ChannelClosed, ConnectionClosed, Done, Returned
from tests.broker.told import CHANNEL, Told, bodies, deliveries

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


# A queue that is deleted between the publish and its commit


def gone(release: str, kind: str) -> list[object]:
    """What a client hears that commits a mandatory publish to a queue of that type, which was deleted before."""
    told = transactional(release, x_queue_type=kind)
    told(Publish(OTHER, "", "q", {}, b"m", True), DeleteQueue(CHANNEL, "q"))
    return told(Commit(OTHER))


@pytest.mark.parametrize("release", ["3.8", "3.10", "3.12"])
@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_message_to_a_queue_that_is_gone_is_returned(release: str, kind: str) -> None:
    returned, done = gone(release, kind)
    assert isinstance(returned, Returned)
    assert done == Done(OTHER, "tx.commit-ok")


@pytest.mark.parametrize("release", ["3.13", "4.0", "4.1"])
def test_the_type_of_the_queue_that_is_gone_decides(release: str) -> None:
    text = "PRECONDITION_FAILED - partial tx completion"
    assert gone(release, "classic") == [ChannelClosed(OTHER, 406, text, "tx.commit")]
    assert gone(release, "quorum") == [Done(OTHER, "tx.commit-ok")]
    text = "RESOURCE_ERROR - Stream not found for queue 'q' in vhost '/'"
    assert gone(release, "stream") == [ConnectionClosed("client", 506, text, "tx.commit", 2)]


@pytest.mark.parametrize("release", ["4.2", "4.3"])
@pytest.mark.parametrize("kind", ["classic", "quorum", "stream"])
def test_a_commit_to_a_queue_that_is_gone_ends_the_connection(release: str, kind: str) -> None:
    text = 'RESOURCE_ERROR - failed to deliver message: {not_found,{resource,<<"/">>,queue,<<"q">>}}'
    assert gone(release, kind) == [ConnectionClosed("client", 506, text, "tx.commit", 2)]
