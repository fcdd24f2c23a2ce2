"""Strategies, plugins and the audit: which messages have a dead letter, where it goes and what it carries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.systems.activemq import plugins
from simulator.systems.activemq.dead_letter_strategies import Audit, Discarding, Individual, Shared, refusal, target
from simulator.systems.activemq.destinations import Destination, DestinationMap, entries
from simulator.systems.activemq.messages import Message, dead_letter, rescheduled, sent_by_scheduler
from simulator.systems.activemq.redelivery_policy import RedeliveryPolicy

QUEUE, TOPIC = Destination("queue", "Q"), Destination("topic", "T")
NOW_MS = 1_000


def message(number: int = 1, producer: str = "ID:p", **fields: object) -> Message:
    return Message(message_id=f"{producer}:{number}", destination=QUEUE, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("strategy", "fields", "duplicate", "refused"),
    [
        (Shared(), {}, False, None),
        (Shared(), {}, True, "audit"),
        (Shared(enable_audit=False), {}, True, None),
        (Shared(), {"persistent": False}, False, "processNonPersistent"),
        (Shared(process_non_persistent=True), {"persistent": False}, False, None),
        (Shared(), {"expiration_ms": 5}, False, None),
        (Individual(process_expired=False), {"expiration_ms": 5}, False, "processExpired"),
        (Individual(process_expired=False), {"expiration_ms": NOW_MS}, False, None),
        (Discarding(), {}, False, "discards"),
    ],
)
def test_who_has_a_dead_letter(
    strategy: Shared | Individual | Discarding, fields: dict[str, object], duplicate: bool, refused: str | None
) -> None:
    found = refusal(strategy, message(**fields), NOW_MS, duplicate=duplicate)
    assert (found is None) == (refused is None)
    assert (refused or "") in (found or "")


@pytest.mark.parametrize(
    ("strategy", "source", "key", "to"),
    [
        (Shared(), QUEUE, None, "queue://ActiveMQ.DLQ"),
        (Shared(dead_letter_queue="topic://D"), QUEUE, None, "topic://D"),
        (Individual(), QUEUE, None, "queue://ActiveMQ.DLQ.Queue.Q"),
        (Individual(), TOPIC, "c:s", "queue://ActiveMQ.DLQ.Topic.T"),
        (Individual(queue_prefix="D.", queue_suffix=".E"), QUEUE, None, "queue://D.Q.E"),
        (Individual(use_queue_for_queue_messages=False), QUEUE, None, "topic://ActiveMQ.DLQ.Queue.Q"),
        (Individual(use_queue_for_topic_messages=False), TOPIC, None, "topic://ActiveMQ.DLQ.Topic.T"),
        (
            Individual(topic_prefix="D.", topic_suffix=".E", destination_per_durable_subscriber=True),
            TOPIC,
            "c:s",
            "queue://D.T.c:s.E",
        ),
        (Individual(destination_per_durable_subscriber=True), QUEUE, None, "queue://ActiveMQ.DLQ.Queue.Q"),
    ],
)
def test_where_a_dead_letter_goes(strategy: Shared | Individual, source: Destination, key: str | None, to: str) -> None:
    assert str(target(strategy, source, key)) == to


def test_a_dead_letter_keeps_the_message_and_says_why() -> None:
    died = message(persistent=False, expiration_ms=900, properties={"app": 1}, redelivery_counter=3, priority=9)
    letter = dead_letter(died, TOPIC, expiration_ms=0, cause="why", now_ms=NOW_MS)
    assert (letter.message_id, letter.priority, letter.redelivery_counter) == (died.message_id, 9, 0)
    assert (letter.destination, letter.original_destination) == (TOPIC, QUEUE)
    assert (letter.persistent, letter.expiration_ms) == (True, 0)
    assert letter.properties == {
        "app": 1,
        "originalExpiration": 900,
        "originalDeliveryMode": "NON_PERSISTENT",
        "dlqDeliveryFailureCause": "java.lang.Throwable: why",
    }


def test_a_dead_letter_that_lives_for_a_while_forgets_the_old_expiration() -> None:
    letter = dead_letter(message(expiration_ms=5), TOPIC, expiration_ms=60, cause="why", now_ms=NOW_MS)
    assert letter.expiration_ms == NOW_MS + 60
    assert "originalExpiration" not in letter.properties
    second = dead_letter(letter, QUEUE, expiration_ms=0, cause="late", now_ms=NOW_MS)
    assert second.properties["originalExpiration"] == NOW_MS + 60
    third = dead_letter(second, TOPIC, expiration_ms=0, cause="again", now_ms=NOW_MS)
    assert third.properties["originalExpiration"] == 0


def test_the_scheduler_begins_a_time_to_live_anew() -> None:
    copy = rescheduled(message(timestamp_ms=100, expiration_ms=600), counter=2, delay_ms=1000)
    assert copy.properties == {"redeliveryDelay": 1000}
    sent = sent_by_scheduler(copy, "ID:job", 1_100)
    assert (sent.expiration_ms, sent.timestamp_ms, sent.redelivery_counter) == (1_600, 1_100, 2)
    assert rescheduled(sent, counter=3, delay_ms=2000).properties == {"redeliveryDelay": 2000}
    assert sent_by_scheduler(message(), "ID:job", 1_100).expiration_ms == 0


@pytest.mark.parametrize(
    ("plugin", "destination", "lost"),
    [
        (plugins.Discarding(), QUEUE, "dropAll"),
        (plugins.Discarding(drop_all=False), QUEUE, None),
        (plugins.Discarding(drop_all=False), Destination("temp-queue", "x"), "dropTemporaryQueues"),
        (plugins.Discarding(drop_all=False), Destination("temp-topic", "x"), "dropTemporaryTopics"),
        (plugins.Discarding(drop_all=False, drop_temporary_queues=False), Destination("temp-queue", "x"), None),
        (plugins.Discarding(drop_all=False, drop_only="A.* Q"), QUEUE, "dropOnly"),
        (plugins.Discarding(drop_all=False, drop_only="Q.+ A"), QUEUE, None),
    ],
)
def test_the_discarding_plugin(plugin: plugins.Discarding, destination: Destination, lost: str | None) -> None:
    verdict = plugins.judge(plugin, destination, 0, expired=False)
    if lost is None:
        assert verdict is None
    else:
        assert isinstance(verdict, plugins.Lost)
        assert lost in verdict.reason


def test_the_redelivery_plugin() -> None:
    policy = RedeliveryPolicy(maximum_redeliveries=2)
    plugin = plugins.Redelivery(policies=DestinationMap(tuple(entries(QUEUE, policy))))
    assert plugins.judge(plugin, QUEUE, 1, expired=False) == plugins.Again(2, policy)
    assert plugins.judge(plugin, QUEUE, 2, expired=False) is None
    assert plugins.judge(plugin, QUEUE, 0, expired=True) is None
    assert plugins.judge(plugin, TOPIC, 0, expired=False) is None
    strict = plugins.Redelivery(policies=plugin.policies, fallback=False, dead_letter_when_exceeded=False)
    assert isinstance(plugins.judge(strict, QUEUE, 2, expired=False), plugins.Lost)
    assert isinstance(plugins.judge(strict, TOPIC, 0, expired=False), plugins.Lost)
    endless = plugins.Redelivery(policies=DestinationMap((), RedeliveryPolicy(maximum_redeliveries=-1)))
    assert isinstance(plugins.judge(endless, QUEUE, 99, expired=False), plugins.Again)


@pytest.mark.parametrize("fields", [{"initial_delay_ms": 999}, {"delay_ms": 0}])
def test_the_redelivery_plugin_wants_a_second(fields: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least 1000 ms"):
        plugins.Redelivery(policies=DestinationMap((), RedeliveryPolicy(**fields)))


def test_the_audit_knows_a_producer_and_a_number() -> None:
    audit = Audit(2048, 64)
    assert [audit.is_duplicate(message(number)) for number in (1, 2, 1)] == [False, False, True]
    assert not audit.is_duplicate(message(1, producer="ID:q"))
    audit.forget(message(1))
    audit.forget(message(1, producer="ID:unknown"))
    assert [audit.is_duplicate(message(1)), audit.is_duplicate(message(2))] == [False, True]


def test_the_audit_forgets_what_is_far_behind() -> None:
    audit = Audit(depth=100, producers=64)  # two steps of 64
    assert not audit.is_duplicate(message(1))
    assert not audit.is_duplicate(message(127))
    assert audit.is_duplicate(message(1))
    assert not audit.is_duplicate(message(128))  # the window moves on
    assert [audit.is_duplicate(message(1)) for _ in range(2)] == [False, False]
    assert audit.is_duplicate(message(127))


def test_the_audit_forgets_the_producer_that_was_not_used_longest() -> None:
    audit = Audit(depth=100, producers=2)
    for producer in ("ID:a", "ID:b", "ID:a", "ID:c"):
        audit.is_duplicate(message(1, producer=producer))
    assert audit.is_duplicate(message(1, producer="ID:a"))
    assert not audit.is_duplicate(message(1, producer="ID:b"))


@given(st.lists(st.integers(0, 2000), max_size=50))
def test_within_its_window_the_audit_is_a_set(numbers: list[int]) -> None:
    audit, seen = Audit(4096, 1), set()
    first = min(numbers, default=0)
    for number in [first, *numbers]:
        assert audit.is_duplicate(message(number)) == (number in seen)
        seen.add(number)
