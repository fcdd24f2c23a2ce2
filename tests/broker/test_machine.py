"""The broker as a state machine: the same commands give the same events, and time only goes forward."""

from __future__ import annotations

from typing import Any

import pytest

from dlx.releases import RELEASES
from simulator.broker import Broker
from simulator.broker.commands import (
    Ack,
    Command,
    Consume,
    DeclareQueue,
    Get,
    OpenChannel,
    OpenConnection,
    PassTime,
    Publish,
    Reject,
)
from simulator.broker.replies import ConnectionClosed, Delivered, Got, GotNothing
from simulator.events import Event, Happened

CHANNEL = ("client", 1)
START_US = 1_700_000_000_000_000
MS = 1_000


def opened(release: str = "4.3", **options: Any) -> Broker:
    """A broker with one connection and one channel."""
    broker = Broker(release, **options)
    broker.handle(OpenConnection("client"), START_US)
    broker.handle(OpenChannel(CHANNEL), START_US)
    return broker


def ladder() -> list[tuple[Command, int]]:
    """A retry ladder: work is rejected into a queue whose TTL sends it back."""
    wait = {"x-message-ttl": 1_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work"}
    work = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait"}
    return [
        (DeclareQueue(channel=CHANNEL, queue="wait", arguments=wait), 0),
        (DeclareQueue(channel=CHANNEL, queue="work", arguments=work), 0),
        (Consume(channel=CHANNEL, queue="work", consumer_tag="c"), 0),
        (Publish(CHANNEL, "", "work", {}, b"job"), 0),
        (Reject(CHANNEL, 1, False), 10),
        (PassTime(), 2_000),
        (Reject(CHANNEL, 2, False), 2_500),
        (PassTime(), 90_000),
        (Ack(CHANNEL, 3), 90_001),
    ]


def run(broker: Broker, script: list[tuple[Command, int]]) -> list[Any]:
    """What came of each command; the script's times are ms."""
    return [broker.handle(command, START_US + at_ms * MS) for command, at_ms in script]


@pytest.mark.parametrize("release", RELEASES)
def test_the_same_commands_give_the_same_events(release: str) -> None:
    events = run(opened(release, watch=Event), ladder())
    assert events == run(opened(release, watch=Event), ladder())
    deliveries = [reply for replies in events for reply in replies if isinstance(reply, Delivered)]
    assert [delivery.delivery_tag for delivery in deliveries] == [1, 2, 3]


@pytest.mark.parametrize("release", RELEASES)
def test_a_restored_snapshot_goes_on_as_the_original_does(release: str) -> None:
    script = ladder()
    for cut in range(len(script)):
        broker = opened(release, watch=Event)
        run(broker, script[:cut])
        copy = Broker.restore(broker.snapshot())
        assert copy.next_due() == broker.next_due()
        assert run(copy, script[cut:]) == run(broker, script[cut:])


def test_what_is_no_snapshot_is_refused() -> None:
    with pytest.raises(ValueError, match="not a snapshot of this version"):
        Broker.restore(b"something else")


def test_an_observer_gets_each_event_as_it_comes_with_the_message_as_it_was() -> None:
    seen: list[tuple[Event, int]] = []
    broker = opened(observer=lambda happened, message: seen.append((happened.event, len(message.deaths or ()))))
    replies = run(broker, ladder()[:5])
    assert seen[:3] == [(Event.PUBLISHED, 0), (Event.ROUTED, 0), (Event.DELIVERED, 0)]
    assert seen[3:] == [(Event.REJECTED, 0), (Event.DEAD_LETTERED, 0), (Event.ROUTED, 1)]
    assert not any(isinstance(reply, Happened) for each in replies for reply in each)


def test_an_observer_and_a_watcher_do_not_disturb_each_other() -> None:
    seen: list[Happened] = []
    broker = opened(watch=[Event.REJECTED], observer=lambda happened, _: seen.append(happened))
    broker.watch([Event.PUBLISHED])
    told = [event for replies in run(broker, ladder()) for event in replies if isinstance(event, Happened)]
    assert {event.event for event in told} == broker.watched == {Event.REJECTED, Event.PUBLISHED}
    assert [event for event in seen if event.event in broker.watched] == told
    broker.observe(None)
    seen.clear()
    assert broker.handle(Publish(CHANNEL, "", "work"), START_US + 100_000 * MS)
    assert seen == []


def test_each_thing_happens_at_its_own_time() -> None:
    broker = opened(watch=[Event.EXPIRED])
    for name, ttl_ms in (("late", 5_000), ("early", 1_000)):
        broker.handle(DeclareQueue(channel=CHANNEL, queue=name, arguments={"x-message-ttl": ttl_ms}), START_US)
        broker.handle(Publish(CHANNEL, "", name), START_US)
    assert broker.next_due() == START_US + 1_000 * MS
    expired = [e for e in broker.handle(PassTime(), START_US + 3_600_000 * MS) if isinstance(e, Happened)]
    assert [(e.queue, e.time_us - START_US) for e in expired] == [("early", 1_000 * MS), ("late", 5_000 * MS)]
    assert broker.next_due() is None


def test_a_command_with_an_earlier_time_does_not_turn_the_clock_back() -> None:
    broker = opened()
    broker.handle(DeclareQueue(channel=CHANNEL, queue="q", arguments={"x-message-ttl": 1_000}), START_US + 500 * MS)
    broker.handle(Publish(CHANNEL, "", "q"), START_US)
    assert broker.next_due() == START_US + 1_500 * MS


@pytest.mark.slow
def test_a_loop_without_end_does_not_hang_the_caller() -> None:
    # 3.8 and 3.10 spin here for ever: a rejection in the history shields the loop of two expiring queues.
    broker = opened("3.10")
    for name, to in (("a", "b"), ("b", "c"), ("c", "b")):
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": to}
        if name != "a":
            arguments["x-message-ttl"] = 0  # type: ignore[assignment]
        broker.handle(DeclareQueue(channel=CHANNEL, queue=name, arguments=arguments), START_US)
    broker.handle(Publish(CHANNEL, "", "a"), START_US)
    broker.handle(Get(CHANNEL, "a"), START_US)
    broker.handle(Reject(CHANNEL, 1, False), START_US)
    assert broker.next_due() == START_US + 1 * MS
    assert [type(e) for e in broker.handle(Get(CHANNEL, "a"), START_US)] == [GotNothing]


def test_unwatched_events_are_not_reported_and_watched_ones_tell_the_story() -> None:
    script = [
        (DeclareQueue(channel=CHANNEL, queue="q"), 0),
        (Publish(CHANNEL, "", "q"), 0),
        (Get(CHANNEL, "q"), 1),
        (Reject(CHANNEL, 1, False), 2),
    ]
    assert not [e for events in run(opened(), script) for e in events if isinstance(e, Happened)]
    events = [e for events in run(opened(watch=Event), script) for e in events if isinstance(e, Happened)]
    assert [e.event for e in events] == ["published", "routed", "delivered", "rejected", "dropped"]
    assert {e.uid for e in events} == {1}
    assert "no dead-letter exchange" in events[-1].detail


def test_a_method_on_a_channel_that_is_not_open_ends_the_connection() -> None:
    broker = opened()
    replies = broker.handle(Get(("client", 7), "q"), START_US)
    assert replies == [ConnectionClosed("client", 504, "CHANNEL_ERROR - expected 'channel.open'", "basic.get", 7)]
    assert not broker.connections


def test_a_message_is_handed_to_a_get_as_it_was_published() -> None:
    broker = opened()
    broker.handle(DeclareQueue(channel=CHANNEL, queue="q"), START_US)
    broker.handle(Publish(CHANNEL, "", "q", {"message_id": "m"}, b"body"), START_US)
    (got,) = broker.handle(Get(CHANNEL, "q"), START_US)
    assert isinstance(got, Got)
    assert (got.message.properties, got.body, got.redelivered, got.messages) == ({"message_id": "m"}, b"body", False, 0)
