"""x-expires: when a queue that nobody uses goes. Times as on servers of 3.10.8, 4.0.5 and 4.3.6."""

from __future__ import annotations

import pytest

from dlx.topology import Policy
from simulator.broker import Broker
from simulator.broker.commands import Cancel, Command, Consume, DeclareQueue, Get, PassTime, Publish, SetPolicy
from tests import real_servers
from tests.broker.test_machine import CHANNEL, MS, START_US, opened

every_release = pytest.mark.parametrize("release", real_servers.since("3.10"))


def declared(release: str, expires_ms: int | None, kind: str = "quorum") -> Broker:
    """A broker with a queue ``q``, some time after the broker's start."""
    broker = opened(release)
    arguments = {"x-queue-type": kind} | ({} if expires_ms is None else {"x-expires": expires_ms})
    broker.handle(DeclareQueue(channel=CHANNEL, queue="q", durable=True, arguments=arguments), START_US + 1_300 * MS)
    return broker


def lives_ms(broker: Broker) -> int:
    """How long the queue lives after its declaration, to the tenth of a second."""
    for after_ms in range(0, 30_000, 100):
        broker.handle(PassTime(), START_US + (1_300 + after_ms) * MS)
        if "q" not in broker.vhosts["/"].queues:
            return after_ms
    raise AssertionError("the queue does not expire")


@every_release
@pytest.mark.parametrize(
    ("expires_ms", "lives"), [(1_000, 5_000), (4_900, 5_000), (5_100, 10_000), (9_900, 10_000), (10_100, 15_000)]
)
def test_a_quorum_queue_looks_every_five_seconds_from_its_declaration_on(
    release: str, expires_ms: int, lives: int
) -> None:
    assert lives_ms(declared(release, expires_ms)) == lives


@pytest.mark.parametrize(("release", "lives"), [("3.10", 5_000), ("4.0", 5_000), ("4.1", 100), ("4.3", 100)])
def test_a_new_quorum_queue_looks_once_more_when_its_leader_is_elected(release: str, lives: int) -> None:
    assert lives_ms(declared(release, 1)) == lives
    assert lives_ms(declared(release, 200)) == 5_000


@every_release
def test_a_classic_queue_goes_in_time(release: str) -> None:
    assert lives_ms(declared(release, 1_000, "classic")) == 1_000


@every_release
@pytest.mark.parametrize(
    ("use", "lives"),
    [
        (Get(CHANNEL, "q"), 10_000),
        (Publish(CHANNEL, "", "q"), 5_000),
        (DeclareQueue(channel=CHANNEL, queue="q", passive=True), 5_000),
    ],
    ids=["get", "publish", "declare"],
)
def test_using_a_quorum_queue_puts_it_off_to_a_later_look(release: str, use: Command, lives: int) -> None:
    broker = declared(release, 4_000)
    broker.handle(use, START_US + 4_300 * MS)
    assert lives_ms(broker) == lives


@every_release
def test_a_quorum_queue_with_a_consumer_stays_until_a_look_after_it_is_gone(release: str) -> None:
    broker = declared(release, 1_000)
    broker.handle(Consume(channel=CHANNEL, queue="q", consumer_tag="c"), START_US + 2_000 * MS)
    broker.handle(Cancel(CHANNEL, "c"), START_US + 7_300 * MS)
    assert lives_ms(broker) == 10_000


@every_release
def test_a_policy_counts_by_the_same_looks(release: str) -> None:
    broker = declared(release, None)
    broker.handle(SetPolicy("/", Policy(name="p", pattern="q", definition={"expires": 1_000})), START_US + 3_300 * MS)
    assert lives_ms(broker) == 5_000
