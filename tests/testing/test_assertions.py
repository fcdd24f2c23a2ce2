"""What the assertions accept, and what they say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pika
import pytest

import simulator
from dlx.deaths import REASONS
from simulator.broker import Broker
from simulator.broker.commands import (
    Ack,
    DeclareQueue,
    DeleteQueue,
    Get,
    OpenChannel,
    OpenConnection,
    PassTime,
    Publish,
    PurgeQueue,
    Reject,
)
from simulator.broker.replies import Got
from simulator.message_history import MESSAGES_MAX, MessageHistories, RecordingBroker
from simulator.server.node import Node
from simulator.testing import assert_dead_lettered, assert_nothing_lost, assert_settles
from simulator.testing.brokers import inspect_server
from simulator.testing.brokers.running_server import RunningServer, ServerBroker
from simulator.testing.brokers.servers import ask
from simulator.testing.brokers.simulated import Simulator

CHANNEL = ("me", 1)
START_US = 1_767_225_600_000_000  # 2026-01-01
TO_DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
QUORUM = {"x-queue-type": "quorum"}


class Bench:
    """A recording broker with one client."""

    def __init__(self, release: str = "4.3", broker: Broker | None = None) -> None:
        self.broker = RecordingBroker(release) if broker is None else broker
        self.do(OpenConnection("me"))
        self.do(OpenChannel(CHANNEL))

    def do(self, command: Any, ms: int = 0) -> list[Any]:
        """What a command causes, so many milliseconds after the one before."""
        return self.broker.handle(command, max(self.broker.now_us, START_US) + ms * 1000)

    def queue(self, name: str, **arguments: Any) -> None:
        """Declare a durable queue; ``x_message_ttl`` stands for ``x-message-ttl``."""
        named = {name.replace("_", "-"): value for name, value in arguments.items()}
        self.do(DeclareQueue(channel=CHANNEL, queue=name, durable=True, arguments=named))

    def publish(self, queue: str, **properties: Any) -> None:
        """Publish to a queue."""
        self.do(Publish(CHANNEL, "", queue, properties, b"x"))

    def get(self, queue: str) -> int:
        """The tag of the queue's next message."""
        (got,) = self.do(Get(CHANNEL, queue))
        assert isinstance(got, Got)
        return got.delivery_tag

    def reject(self, queue: str) -> None:
        """Reject the queue's next message for good."""
        self.do(Reject(CHANNEL, self.get(queue), requeue=False))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def failure(assertion: Any, *args: Any, **named: Any) -> list[str]:
    """The lines with which an assertion fails."""
    with pytest.raises(AssertionError) as raised:
        assertion(*args, **named)
    return str(raised.value).splitlines()


# assert_dead_lettered


@pytest.mark.parametrize("reason", REASONS)
def test_dead_letters_of_every_reason_are_found(bench: Bench, reason: str) -> None:
    bench.queue("dead")
    if reason == "rejected":
        bench.queue("q", **TO_DEAD)
        bench.publish("q")
        bench.reject("q")
    elif reason == "expired":
        bench.queue("q", **TO_DEAD, x_message_ttl=1000)
        bench.publish("q")
        bench.do(PassTime(), 1000)
    elif reason == "maxlen":
        bench.queue("q", **TO_DEAD, x_max_length=0)
        bench.publish("q")
    else:
        bench.queue("q", **TO_DEAD, **QUORUM, x_delivery_limit=0)
        bench.publish("q")
        bench.do(Reject(CHANNEL, bench.get("q"), requeue=True))
    assert_dead_lettered(bench.broker, to="dead")
    assert_dead_lettered(bench.broker, to="dead", reason=reason, times=1)
    for other in set(REASONS) - {reason}:
        assert_dead_lettered(bench.broker, to="dead", reason=other, times=0)
        assert failure(assert_dead_lettered, bench.broker, to="dead", reason=other)[:2] == [
            f"expected at least 1 dead letter ({other}) in the queue 'dead', found 0",
            f"also there: q {reason}",
        ]


@pytest.mark.parametrize("release", ["3.8", "4.3"])
def test_the_last_death_counts(release: str) -> None:
    bench = Bench(release)
    bench.queue("dead")
    bench.queue("wait", **TO_DEAD, x_message_ttl=1000)
    bench.queue("q", **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait"})
    bench.publish("q")
    bench.reject("q")
    assert_dead_lettered(bench.broker, to="wait", reason="rejected", times=1)
    bench.do(PassTime(), 1000)
    assert_dead_lettered(bench.broker, to="dead", reason="expired", times=1)
    assert_dead_lettered(bench.broker, to="dead", reason="rejected", times=0)


def test_a_failure_tells_what_is_there_and_what_became_of_the_messages(bench: Bench) -> None:
    bench.queue("dead")
    bench.queue("q", **TO_DEAD)
    bench.publish("dead")
    bench.publish("q")
    bench.publish("q", message_id="order-7")
    bench.reject("q")
    bench.do(PassTime(), 90_000)
    bench.reject("q")
    bench.get("dead")
    assert failure(assert_dead_lettered, bench.broker, to="dead", reason="rejected", times=3) == [
        "expected 3 dead letters (rejected) in the queue 'dead', found 2",
        "also there: 1 that is not ready",
        "What became of 2 of the 3 messages:",
        "message 3 (id 'order-7'):",
        "  At 2026-01-01 00:00:00.000 it was published to the default exchange with the routing key 'q'.",
        "  At once it entered the queue 'q'.",
        "  1 min 30 s later the queue 'q' handed it to a consumer.",
        "  At once the consumer of 'q' rejected it for good.",
        "  At once it was dead-lettered from the queue 'q' (rejected) to dead.",
        "  At once it entered the queue 'dead'.",
        "  It is in the queue 'dead', ready at place 2 of 2.",
        "message 2:",
        "  At 2026-01-01 00:00:00.000 it was published to the default exchange with the routing key 'q'.",
        "  At once it entered the queue 'q'.",
        "  At once the queue 'q' handed it to a consumer.",
        "  At once the consumer of 'q' rejected it for good.",
        "  At once it was dead-lettered from the queue 'q' (rejected) to dead.",
        "  At once it entered the queue 'dead'.",
        "  It is in the queue 'dead', ready at place 1 of 2.",
    ]


def test_the_path_of_a_message_in_a_retry_loop_says_where_it_died_first(bench: Bench) -> None:
    bench.queue("q", **TO_DEAD)
    back = {"x-message-ttl": 1_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}
    bench.queue("dead", **back)
    bench.publish("q")
    for round_ in range(2):
        bench.do(PassTime(), 1_000 * round_)
        bench.reject("q")
    assert failure(assert_dead_lettered, bench.broker, to="dead", reason="expired")[1] == (
        "also there: dead expired -> q rejected x2 (died first in q)"
    )


def test_living_messages_are_no_dead_letters(bench: Bench) -> None:
    bench.queue("dead")
    bench.publish("dead")
    assert failure(assert_dead_lettered, bench.broker, to="dead")[:2] == [
        "expected at least 1 dead letter in the queue 'dead', found 0",
        "also there: 1 that did not die",
    ]


def test_a_queue_that_is_not_there_is_named(bench: Bench) -> None:
    assert failure(assert_dead_lettered, bench.broker, to="dead") == [
        "expected dead letters in the queue 'dead', but it does not exist; there are no queues",
        "No message was published.",
    ]


@pytest.mark.parametrize(
    ("asked", "kind", "error"),
    [
        ({"reason": "dropped"}, ValueError, "a reason of rejected, expired, maxlen, delivery_limit, got 'dropped'"),
        ({"times": -1}, ValueError, "expected times to be 0 or more, got -1"),
        ({"times": "1"}, TypeError, "expected times to be a whole number, got '1'"),
        ({"times": True}, TypeError, "expected times to be a whole number, got True"),
    ],
)
def test_what_makes_no_sense_is_refused(bench: Bench, asked: Any, kind: type[Exception], error: str) -> None:
    with pytest.raises(kind, match=error):
        assert_dead_lettered(bench.broker, to="dead", **asked)


def test_of_many_others_each_path_is_told_once(bench: Bench) -> None:
    bench.queue("dead")
    for number in range(12):
        bench.queue(f"q{number}", **TO_DEAD)
        for _ in range(2):
            bench.publish(f"q{number}")
            bench.reject(f"q{number}")
    told = failure(assert_dead_lettered, bench.broker, to="dead", reason="expired")
    assert told[1:12] == [
        *(f"also there: q{number} rejected (2 times)" for number in range(10)),
        "also there: dead letters that came on 2 more paths",
    ]


# assert_nothing_lost


def lose_to_nothing(bench: Bench) -> None:
    bench.queue("q")
    bench.publish("q")
    bench.reject("q")


def lose_to_a_missing_exchange(bench: Bench) -> None:
    bench.queue("q", **{"x-dead-letter-exchange": "gone"})
    bench.publish("q")
    bench.reject("q")


def lose_to_no_queue(bench: Bench) -> None:
    bench.queue("q", **{"x-dead-letter-exchange": "amq.direct"})
    bench.publish("q")
    bench.reject("q")


def lose_in_a_circle(bench: Bench) -> None:
    bench.queue("q", **{"x-dead-letter-exchange": "", "x-message-ttl": 1000})
    bench.publish("q")
    bench.do(PassTime(), 1000)


def lose_at_a_full_queue(bench: Bench) -> None:
    bench.queue("full", x_max_length=0, x_overflow="reject-publish")
    bench.queue("q", **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "full"})
    bench.publish("q")
    bench.reject("q")


def lose_with_the_queue(bench: Bench) -> None:
    bench.queue("q")
    bench.publish("q")
    bench.do(DeleteQueue(channel=CHANNEL, queue="q"))


def lose_by_a_purge(bench: Bench) -> None:
    bench.queue("q")
    bench.publish("q")
    bench.do(PurgeQueue(channel=CHANNEL, queue="q"))


@pytest.mark.parametrize(
    ("lose", "why"),
    [
        (lose_to_nothing, "It was dropped: it died in the queue 'q' (rejected) and went nowhere "
         "(the queue has no dead-letter exchange)."),
        (lose_to_a_missing_exchange, "It was dropped: it died in the queue 'q' (rejected) and went nowhere "
         "(dead-letter exchange 'gone' of queue 'q' does not exist)."),
        (lose_to_no_queue, "No queue was bound for its dead letter from 'q' (rejected): it is gone "
         "(exchange 'amq.direct' routes key 'q' to no queue)."),
        (lose_in_a_circle, "It was dropped: its dead letter from 'q' (expired) would have gone in a circle "),
        (lose_at_a_full_queue, "It was dropped: it died in the queue 'full' (maxlen) and went nowhere "
         "(queue 'full' is full)."),
        (lose_with_the_queue, "It was removed with what else was in the queue 'q' (the queue was deleted)."),
        (lose_by_a_purge, "It was removed with what else was in the queue 'q'."),
    ],
)  # fmt: skip
def test_every_loss_is_named(bench: Bench, lose: Any, why: str) -> None:
    lose(bench)
    lines = failure(assert_nothing_lost, bench.broker)
    assert lines[0] == "expected that nothing is lost, but:"
    assert lines[1].startswith(f"message 1: {why}")
    assert lines[2].startswith("  At 2026-01-01 00:00:00.000 it was published to the default exchange")
    assert lines[-1] == "  Nothing is left of it."


def test_each_lost_copy_and_message_is_named(bench: Bench) -> None:
    lose_to_nothing(bench)
    bench.publish("q", message_id="order-7")
    bench.publish("q")
    bench.reject("q")
    lines = failure(assert_nothing_lost, bench.broker)
    assert [line.partition(":")[0] for line in lines if line.startswith("message")] == [
        "message 1 and 1 more (message 2 (id 'order-7'))"
    ]


def test_of_many_losses_some_are_told(bench: Bench) -> None:
    bench.queue("q")
    for _ in range(1000):
        bench.publish("q")
    bench.do(PurgeQueue(channel=CHANNEL, queue="q"))
    told = failure(assert_nothing_lost, bench.broker)
    assert told[1].startswith("message 1 and 999 more (message 2, message 3, message 4, message 5, message 6, …): ")
    assert told[-1] == "  Nothing is left of it."
    assert len(told) < 10


def test_of_many_causes_some_are_told(bench: Bench) -> None:
    for number in range(5):
        bench.queue(f"q{number}")
        bench.publish(f"q{number}")
        bench.publish(f"q{number}")
        bench.do(PurgeQueue(channel=CHANNEL, queue=f"q{number}"))
    assert failure(assert_nothing_lost, bench.broker)[-1] == "and 4 more messages"


def test_of_a_long_life_the_beginning_and_the_end_are_told(bench: Bench) -> None:
    for number in range(20):
        bench.queue(f"q{number}", x_dead_letter_exchange="", x_dead_letter_routing_key=f"q{number + 1}")
    bench.publish("q0")
    for number in range(20):
        bench.reject(f"q{number}")
    told = failure(assert_nothing_lost, bench.broker)
    assert [line for line in told if "more sentences" in line] == ["  ... (42 more sentences)"]
    assert (len(told), told[-1]) == (43, "  Nothing is left of it.")


def test_what_is_acknowledged_ready_held_or_never_entered_is_not_lost(bench: Bench) -> None:
    bench.queue("q")
    bench.publish("q")
    bench.do(Ack(CHANNEL, bench.get("q")))
    bench.publish("q")
    bench.get("q")
    bench.publish("q")
    bench.queue("full", x_max_length=0, x_overflow="reject-publish")
    bench.queue("fussy", x_max_length=0, x_overflow="reject-publish-dlx")
    for queue in ("full", "fussy", "nowhere"):
        bench.publish(queue)
    held = {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish", "x-dead-letter-exchange": ""}
    bench.queue("held", **QUORUM, **held, x_dead_letter_routing_key="full")
    bench.publish("held")
    bench.reject("held")
    assert_nothing_lost(bench.broker)


def test_what_was_not_recorded_cannot_be_told() -> None:
    bench = Bench(broker=RecordingBroker("4.3", histories=MessageHistories(limit=2)))
    bench.queue("q")
    for _ in range(3):
        bench.publish("q")
    with pytest.raises(ValueError, match=r"the histories of the first messages are not kept, so it is unknown"):
        assert_nothing_lost(bench.broker)


def test_the_fixtures_broker_keeps_many_lives() -> None:
    with Simulator().broker(None, None) as broker:
        broker.server.run(lambda node: _publish_unroutable(node, MESSAGES_MAX + 1))
        assert_nothing_lost(broker)


def _publish_unroutable(node: Node, times: int) -> None:
    node.handle(OpenConnection("me"))
    node.handle(OpenChannel(CHANNEL))
    for _ in range(times):
        node.handle(Publish(CHANNEL, "", "nowhere"))


def test_of_a_long_life_the_end_counts(bench: Bench) -> None:
    """A message that came back more often than its events are kept."""
    bench.queue("q", **QUORUM, x_delivery_limit=-1)
    for settle in (Ack(CHANNEL, 252), Reject(CHANNEL, 504, requeue=False)):
        bench.publish("q")
        for _ in range(251):
            bench.do(Reject(CHANNEL, bench.get("q"), requeue=True))
        assert bench.get("q") == settle.delivery_tag
        assert_nothing_lost(bench.broker)
        bench.do(settle)
    lines = failure(assert_nothing_lost, bench.broker)
    assert [line for line in lines if line.startswith("message")] == [
        "message 2: It was dropped: it died in the queue 'q' (rejected) and went nowhere "
        "(the queue has no dead-letter exchange)."
    ]
    assert lines[-3].startswith("  6 further events were not kept.")
    assert lines[-2].startswith("  At once it was dropped: it died in the queue 'q' (rejected)")
    assert lines[-1] == "  Nothing is left of it."


# assert_settles


def test_what_expires_in_time_settles(bench: Bench) -> None:
    bench.queue("dead")
    bench.queue("q", **TO_DEAD, x_message_ttl=60_000)
    bench.publish("q")
    assert_settles(bench.broker, within=timedelta(minutes=1))
    assert_dead_lettered(bench.broker, to="dead", times=1)  # the time has passed


def test_what_expires_later_does_not(bench: Bench) -> None:
    bench.queue("dead")
    bench.queue("q", **TO_DEAD, x_message_ttl=60_000)
    bench.publish("q")
    assert failure(assert_settles, bench.broker, within=45.5) == [
        "expected the broker to come to rest within 45.5 s, but then:",
        "14.5 s later, message 1: Its time to live ran out in the queue 'q'.",
        "14.5 s later, message 1: It was dead-lettered from the queue 'q' (expired) to dead.",
        "14.5 s later, message 1: It entered the queue 'dead'.",
        "message 1:",
        "  At 2026-01-01 00:00:00.000 it was published to the default exchange with the routing key 'q'.",
        "  At once it entered the queue 'q'.",
        "  It is in the queue 'q', ready at place 1 of 1.",
    ]
    assert_dead_lettered(bench.broker, to="dead", times=0)  # what would happen was tried on a copy


def test_the_next_steps_are_shown(bench: Bench) -> None:
    bench.queue("q", **{"x-message-ttl": 1000})
    for _ in range(100):
        bench.publish("q")
        bench.do(PassTime(), 1)
    lines = failure(assert_settles, bench.broker, within=0)
    assert [line for line in lines if "later, message" in line] == [
        "0.9 s later, message 1: Its time to live ran out in the queue 'q'.",
        "0.9 s later, message 1: It was dropped: it died in the queue 'q' (expired) and went nowhere "
        "(the queue has no dead-letter exchange).",
        "0.901 s later, message 2: Its time to live ran out in the queue 'q'.",
        "0.901 s later, message 2: It was dropped: it died in the queue 'q' (expired) and went nowhere "
        "(the queue has no dead-letter exchange).",
        "0.902 s later, message 3: Its time to live ran out in the queue 'q'.",
        "0.902 s later, message 3: It was dropped: it died in the queue 'q' (expired) and went nowhere "
        "(the queue has no dead-letter exchange).",
    ]


@pytest.mark.parametrize("target", ["gone", ""])
def test_timers_that_do_nothing_do_not_count(bench: Bench, target: str) -> None:
    """At-least-once dead-lettering tries again every three minutes, for want of an exchange or of room."""
    bench.queue("full", x_max_length=0, x_overflow="reject-publish")
    held = {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish", "x-dead-letter-exchange": target}
    bench.queue("held", **QUORUM, **held, x_dead_letter_routing_key="full")
    bench.queue("unused", x_expires=86_400_000)
    bench.publish("held")
    bench.reject("held")
    assert bench.broker.next_due() is not None
    assert_settles(bench.broker, within=1)


@pytest.mark.parametrize(
    ("within", "kind", "error"),
    [
        (-1, ValueError, "expected within to be a time that is not negative, got -1"),
        (timedelta(-1), ValueError, "expected within to be a time that is not negative, got"),
        (float("inf"), ValueError, "expected within to be a finite time, got inf"),
        (float("nan"), ValueError, "expected within to be a finite time, got nan"),
        ("60", TypeError, "expected within to be a timedelta or seconds, got '60'"),
        (timedelta(days=365 * 9000), ValueError, "expected within to end before the year 10000"),
    ],
)
def test_a_time_is_finite_and_not_negative(bench: Bench, within: Any, kind: type[Exception], error: str) -> None:
    with pytest.raises(kind, match=error):
        assert_settles(bench.broker, within=within)


def test_many_things_that_happen_are_summed_up(bench: Bench) -> None:
    bench.queue("q", **{"x-message-ttl": 1000})
    for _ in range(1000):
        bench.publish("q")
    told = failure(assert_settles, bench.broker, within=0)
    assert told[11] == "and 1,990 more events"
    assert len(told) < 30


# What they accept


class Wrapper:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker


def test_something_with_a_recording_broker_will_do(bench: Bench) -> None:
    lose_to_nothing(bench)
    wrapper = Wrapper(bench.broker)
    assert_dead_lettered(wrapper, to="q", times=0)
    assert_settles(wrapper, within=1)
    assert failure(assert_nothing_lost, wrapper) == failure(assert_nothing_lost, bench.broker)


def test_a_server_that_records_will_do() -> None:
    with simulator.serve("4.3", management_port=0) as server:
        with pika.BlockingConnection(pika.URLParameters(server.amqp_url)) as connection:
            connection.channel().queue_declare("q", arguments={"x-max-length": 0})
            connection.channel().basic_publish("", "q", b"x")
            lost = failure(assert_nothing_lost, server)
        assert lost[1] == (
            "message 1: It was dropped: it died in the queue 'q' (maxlen) and went nowhere "
            "(the queue has no dead-letter exchange)."
        )
        before_us = server.clock.now_us()
        assert_settles(server, within=2)
        assert server.clock.now_us() == before_us + 2_000_000


def test_what_records_nothing_is_refused() -> None:
    with simulator.serve("4.3") as server, pytest.raises(TypeError, match=r"nothing is recorded: .* got a Broker"):
        assert_nothing_lost(server)
    with pytest.raises(TypeError, match=r"nothing is recorded: .* got a Broker"):
        assert_settles(Broker("4.3"), within=1)
    with pytest.raises(TypeError, match=r"expected the fixture dlx_broker, .* got 'amqp://'"):
        assert_dead_lettered("amqp://", to="q")


def test_a_stopped_broker_is_said_to_be_stopped() -> None:
    with Simulator().broker(None, None) as broker:
        pass
    for act in (
        lambda: assert_nothing_lost(broker),
        lambda: assert_settles(broker.server, within=1),
        lambda: broker.clock.advance(hours=1),
        lambda: broker.api("GET", "queues"),
    ):
        with pytest.raises(RuntimeError, match="the broker is stopped"):
            act()


# A real server, whose part the simulator plays


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerBroker]:
    """A virtual host on a server that is known by its protocols alone."""
    for name, seconds in (("PATIENCE_S", 0.3), ("QUIET_S", 0.3), ("STATISTICS_S", 0.2)):
        monkeypatch.setattr(inspect_server, name, seconds)
    with simulator.serve("4.3", clock="wall", management_port=0) as server:
        backend = RunningServer(ask(f"{server.amqp_url}|{server.management_url}"))
        with backend.broker(None, None) as broker:
            yield broker


@pytest.fixture
def channel(real: ServerBroker) -> Iterator[Any]:
    with pika.BlockingConnection(pika.URLParameters(real.amqp_url)) as connection:
        channel = connection.channel()
        channel.queue_declare("dead")
        channel.queue_declare("q", arguments=TO_DEAD)
        yield channel


def test_on_a_server_what_is_in_queues_is_told(real: ServerBroker, channel: Any) -> None:
    channel.basic_publish("", "q", b"x")
    channel.basic_publish("", "q", b"y")
    channel.basic_reject(channel.basic_get("q")[0].delivery_tag, requeue=False)
    assert_dead_lettered(real, to="dead", reason="rejected", times=1)
    assert failure(assert_dead_lettered, real, to="dead", reason="expired") == [
        "expected at least 1 dead letter (expired) in the queue 'dead', found 0",
        "also there: q rejected",
        "What is ready in the queues (a real server does not say what became of messages):",
        "  dead: q rejected",
        "  q: 1 message, never dead-lettered",
    ]


def test_on_a_server_a_queue_that_is_not_there_is_not_waited_for(
    real: ServerBroker, channel: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(inspect_server, "PATIENCE_S", 60)
    channel.queue_declare("own", exclusive=True)
    for queue, why in (("parked", "it does not exist; the queues are 'dead', 'own', 'q'"), ("own", "it is exclusive")):
        told = failure(assert_dead_lettered, real, to=queue, times=0)
        assert told[0].startswith(f"expected dead letters in the queue '{queue}', but {why}")
    assert "  own: cannot be read" in told
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == []


def test_on_a_server_dead_letters_are_waited_for(real: ServerBroker, channel: Any) -> None:
    channel.basic_publish("", "q", b"x", pika.BasicProperties(expiration="100"))
    assert_dead_lettered(real, to="dead", reason="expired", times=1)


def test_on_a_server_a_number_has_to_last(real: ServerBroker, channel: Any) -> None:
    channel.basic_publish("", "q", b"x", pika.BasicProperties(expiration="100"))
    told = failure(assert_dead_lettered, real, to="dead", times=0)
    assert told[0] == "expected 0 dead letters in the queue 'dead', found 1"


def test_on_a_server_a_full_queue_is_summed_up(real: ServerBroker, channel: Any) -> None:
    for _ in range(12):
        channel.basic_publish("", "q", b"x")
    told = failure(assert_dead_lettered, real, to="dead")
    assert told[-1] == "  q: 10 messages, never dead-lettered; and 2 more"


def test_on_a_server_counters_tell_a_loss(real: ServerBroker, channel: Any) -> None:
    channel.queue_declare("drop", arguments={"x-dead-letter-exchange": "gone"})
    for queue in ("q", "q", "dead", "drop"):
        channel.basic_publish("", queue, b"x")
    channel.basic_ack(channel.basic_get("q")[0].delivery_tag)
    channel.basic_get("dead", auto_ack=True)
    assert_nothing_lost(real)
    channel.basic_reject(channel.basic_get("drop")[0].delivery_tag, requeue=False)
    assert failure(assert_nothing_lost, real) == [
        "expected that nothing is lost, but:",
        "1 of 4 copies are missing: publishes were routed to queues 4 times, consumers acknowledged 2, "
        "and 1 are in queues.",
        "What is ready in the queues (a real server does not say what became of messages):",
        "  dead: nothing",
        "  drop: nothing",
        "  q: 1 message, never dead-lettered",
    ]


def test_on_a_server_counters_are_waited_for(real: ServerBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """They come late: every few seconds, and not all at once."""
    clock = FakeTime()
    monkeypatch.setattr(inspect_server, "time", clock)
    monkeypatch.setattr(inspect_server, "STATISTICS_S", 5.5)
    monkeypatch.setattr(
        inspect_server.ServerInspection, "_counters", lambda _: (int(clock.now_s >= 4), int(clock.now_s >= 8), 0)
    )
    assert_nothing_lost(real)
    assert 13.5 <= clock.now_s < 14


class FakeTime:
    """Time that passes in sleep alone."""

    now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def test_on_a_server_depths_are_watched(real: ServerBroker, channel: Any) -> None:
    channel.basic_publish("", "q", b"x", pika.BasicProperties(expiration="100"))
    assert_settles(real, within=5)


class BusyTime(FakeTime):
    """Time in which a client publishes again and again, and reading the depths takes long."""

    def __init__(self, channel: Any) -> None:
        channel.confirm_delivery()
        self._channel = channel

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self._channel.basic_publish("", "dead", b"x")

    def read(self, inspection: inspect_server.ServerInspection, queues: list[str]) -> dict[str, int | None]:
        self.now_s += 1
        return DEPTHS(inspection, queues)


DEPTHS = inspect_server.ServerInspection._depths


@pytest.mark.parametrize("within", [0, 0.5])
def test_on_a_server_depths_that_change_are_named(
    real: ServerBroker, channel: Any, within: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = BusyTime(channel)
    monkeypatch.setattr(inspect_server, "time", clock)
    monkeypatch.setattr(inspect_server.ServerInspection, "_depths", lambda *args: clock.read(*args))
    told = failure(assert_settles, real, within=within)
    assert told[0] == f"expected the broker to come to rest within {within:g} s, but then:"
    assert re.fullmatch(r"  dead: \d+ ready, then \d+", told[1])
    assert len(told) == 2
