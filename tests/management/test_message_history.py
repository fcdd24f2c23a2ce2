"""The history of a message is told completely, within limits, and found again."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from simulator import message_history
from simulator.broker import Broker
from simulator.broker.commands import (
    DeclareQueue,
    Get,
    OpenChannel,
    OpenConnection,
    PassTime,
    Publish,
    Reject,
)
from simulator.events import Event, Happened
from simulator.message_history import EVENTS_PER_MESSAGE_MAX, MessageHistories, RecordingBroker

START_US = 1_700_000_000_000_000
CHANNEL = ("c", 1)


@pytest.fixture
def broker() -> RecordingBroker:
    """``work`` dead-letters to ``wait``, which gives back after 90 minutes."""
    broker = RecordingBroker("4.3")
    arguments = {
        "work": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait"},
        "wait": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work", "x-message-ttl": 5_400_000},
        "plain": {"x-max-length": 1},
    }
    commands = [OpenConnection("c"), OpenChannel(CHANNEL)]
    commands += [
        DeclareQueue(channel=CHANNEL, queue=name, durable=True, arguments=given) for name, given in arguments.items()
    ]
    for command in commands:
        broker.handle(command, START_US)
    return broker


def publish(broker: RecordingBroker, queue: str, message_id: str, time_us: int = START_US) -> None:
    broker.handle(Publish(CHANNEL, "", queue, {"message_id": message_id}, b"x"), time_us)


def uid(broker: RecordingBroker, message_id: str) -> int:
    return next(broker.histories.find(message_id=message_id)).uid


def test_a_history_is_told_with_its_dead_letters_and_the_time_between(broker: RecordingBroker) -> None:
    publish(broker, "work", "m")
    broker.handle(Get(CHANNEL, "work"), START_US)
    broker.handle(Reject(CHANNEL, 1, requeue=False), START_US + 2_500_000)
    broker.handle(PassTime(), START_US + 10_000_000_000)
    assert broker.histories.explain(uid(broker, "m")) == [
        "At 2023-11-14 22:13:20.000 it was published to the default exchange with the routing key 'work'.",
        "At once it entered the queue 'work'.",
        "At once the queue 'work' handed it to a consumer.",
        "2 s 500 ms later the consumer of 'work' rejected it for good.",
        "At once it was dead-lettered from the queue 'work' (rejected) to wait.",
        "At once it entered the queue 'wait'.",
        "1 h 30 min later its time to live ran out in the queue 'wait'.",
        "At once it was dead-lettered from the queue 'wait' (expired) to work.",
        "At once it entered the queue 'work'.",
        "It is in 'work'.",
    ]


def test_what_repeats_itself_is_told_once(broker: RecordingBroker) -> None:
    """The time after it counts from its last repetition; times of rounds that differ are told."""
    publish(broker, "plain", "m")
    for round_ in range(21):
        broker.handle(Get(CHANNEL, "plain"), START_US + round_ * 1_000_000)
        broker.handle(Reject(CHANNEL, round_ + 1, requeue=True), START_US + round_ * 1_000_000 + 250_000)
    broker.handle(Get(CHANNEL, "plain"), START_US + 25_250_000)
    assert broker.histories.explain(uid(broker, "m")) == [
        "At 2023-11-14 22:13:20.000 it was published to the default exchange with the routing key 'plain'.",
        "At once it entered the queue 'plain'.",
        "At once the queue 'plain' handed it to a consumer.",
        "250 ms later it went back to the queue 'plain' (reject)."
        " (These 2, 21 times in 20 s 250 ms, 250 ms to 1 s each.)",
        "5 s later the queue 'plain' handed it to a consumer.",
        "It is in 'plain'.",
    ]


@pytest.mark.parametrize(
    ("first_s", "told"),
    [(1, "(These 2, 3 times in 3 s.)"), (18_000, "(These 2, 3 times in 5 h 2 s, 1 s to 5 h each.)")],
)
def test_rounds_of_unequal_times_are_not_told_as_if_they_were_equal(
    broker: RecordingBroker, first_s: int, told: str
) -> None:
    publish(broker, "plain", "m")
    for round_ in range(3):
        time_us = START_US + (first_s + round_) * 1_000_000
        broker.handle(Get(CHANNEL, "plain"), time_us)
        broker.handle(Reject(CHANNEL, round_ + 1, requeue=True), time_us)
    assert broker.histories.explain(uid(broker, "m"))[3].endswith(told)


def test_why_a_message_was_dropped(broker: RecordingBroker) -> None:
    publish(broker, "plain", "first")
    publish(broker, "plain", "second")
    told = broker.histories.explain(uid(broker, "first"))
    assert told[-3:-1] == [
        "At once a length limit pushed it out of the queue 'plain'.",
        "At once it was dropped: it died in the queue 'plain' (maxlen) and went nowhere"
        " (the queue has no dead-letter exchange).",
    ]
    assert told[-1] == "Nothing is left of it."
    assert broker.histories.explain(uid(broker, "second"))[-1] == "It is in 'plain'."


def test_unroutable_messages_are_gone(broker: RecordingBroker) -> None:
    publish(broker, "nowhere", "m")
    history = next(broker.histories.find(message_id="m"))
    assert history.ended
    assert history.last() == history.loss
    assert history.last().startswith("No queue was bound for it: it is gone (")


def test_histories_are_found_by_queue_virtual_host_and_whether_they_ended(broker: RecordingBroker) -> None:
    publish(broker, "plain", "first")
    publish(broker, "plain", "second")
    publish(broker, "work", "third")

    def found(**filters: object) -> list[str | None]:
        return [history.message_id for history in broker.histories.find(**filters)]  # type: ignore[arg-type]

    assert found(queue="plain") == ["first", "second"]
    assert found(queue="plain", ended=False) == ["second"]
    assert found(ended=True) == ["first"]
    assert found(vhost="/") == ["first", "second", "third"]
    assert found(vhost="other") == []
    assert found(message_id="nope") == []


def test_the_oldest_are_forgotten(broker: RecordingBroker) -> None:
    broker.histories = MessageHistories(limit=2)
    for message_id in ("first", "second", "third"):
        publish(broker, "plain", message_id)
    assert [history.message_id for history in broker.histories.find()] == ["second", "third"]
    assert broker.histories.explain(1) == broker.explain(1) == []


def test_endless_histories_are_cut_short(broker: RecordingBroker) -> None:
    publish(broker, "work", "m")  # two events; a get and a return are two more
    for tag in range(1, EVENTS_PER_MESSAGE_MAX // 2 + 4):
        broker.handle(Get(CHANNEL, "work"), START_US)
        broker.handle(Reject(CHANNEL, tag, requeue=True), START_US)
    history = next(broker.histories.find(message_id="m"))
    assert len(history.events) == EVENTS_PER_MESSAGE_MAX
    assert "8 further events were not kept." in broker.histories.explain(history.uid)


def test_only_what_was_asked_for_is_reported(broker: RecordingBroker) -> None:
    command = Publish(CHANNEL, "", "plain", {}, b"x")
    assert broker.handle(command, START_US) == []
    broker.watch([Event.ROUTED])
    assert [type(event) for event in broker.handle(command, START_US)] == [Happened]


def test_a_broker_can_be_taken_over_at_any_time() -> None:
    plain = Broker("4.0")
    plain.handle(OpenConnection("c"), START_US)
    plain.handle(OpenChannel(CHANNEL), START_US)
    recorder = RecordingBroker.taking_over(Broker.restore(plain.snapshot()))
    assert recorder.release.name == "4.0"
    publish(recorder, "nowhere", "m")
    assert [history.message_id for history in recorder.histories.find(lost=True)] == ["m"]
    assert RecordingBroker.taking_over(recorder) is recorder


def test_a_limit_must_be_positive() -> None:
    with pytest.raises(ValueError):
        MessageHistories(limit=0)


def test_a_restored_broker_remembers(broker: RecordingBroker) -> None:
    publish(broker, "work", "m")
    restored = RecordingBroker.restore(broker.snapshot())
    assert isinstance(restored, RecordingBroker)
    assert restored.histories.explain(uid(broker, "m")) == broker.histories.explain(uid(broker, "m"))


def test_what_is_lost_is_found_as_it_happens(broker: RecordingBroker) -> None:
    histories = broker.histories
    assert histories.lost() == []
    for number in range(3):
        publish(broker, "plain", f"m{number}")
        assert [each.message_id for each in histories.lost()] == [f"m{lost}" for lost in reversed(range(number))]
    publish(broker, "work", "alive")
    broker.handle(Get(CHANNEL, "plain"), START_US)
    broker.handle(Reject(CHANNEL, 1, requeue=False), START_US)
    found = histories.lost()
    assert [each.message_id for each in found] == ["m2", "m1", "m0"]
    assert [[event.event for event in each.events] for each in found] == [[Event.DROPPED]] * 3
    assert {each.uid for each in found} == {each.uid for each in histories.find(lost=True)}


def test_losses_are_not_looked_for_where_nothing_is_new(
    broker: RecordingBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page asks twice a second, of up to 10,000 messages with 500 events each."""
    for number in range(20):
        publish(broker, "plain", f"m{number}")
    found = broker.histories.lost()
    publish(broker, "work", "new")
    looked_at: list[str] = []
    losses = message_history.losses

    def counting(events: Sequence[Happened]) -> list[Happened]:
        looked_at.append(events[0].event)
        return losses(events)

    monkeypatch.setattr(message_history, "losses", counting)
    assert broker.histories.lost() == found
    assert looked_at == []


def test_a_forgotten_message_is_not_among_the_lost() -> None:
    histories = MessageHistories(limit=2)
    broker = RecordingBroker("4.3", histories=histories)
    for command in (OpenConnection("c"), OpenChannel(CHANNEL)):
        broker.handle(command, START_US)
    for number in range(5):
        broker.handle(Publish(CHANNEL, "amq.fanout", "", {"message_id": f"m{number}"}, b""), START_US)
        assert histories.lost()[0].message_id == f"m{number}"
    assert [each.message_id for each in histories.lost()] == ["m4", "m3"]
