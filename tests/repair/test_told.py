"""What a repair says of small logs: the hypothesis in words, its count, its moment, and the rows around it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simulator.capture import open_log
from simulator.definitions import Definitions
from simulator.replay.engines.local import repair_table
from simulator.replay.repair.repair_report import Repair, Repairs
from tests.replay.logs import Log, death, definitions_of, died, example_definitions, example_records, write_log

WAIT = {"x-message-ttl": 100, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work"}
LADDER = definitions_of(
    {
        "work": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait"},
        "wait": WAIT,
        "late": WAIT,
        "parking": {},
    }
)
REJECTED = death("work", "rejected", keys=["work"])


def lap(queue: str = "wait") -> dict[str, Any]:
    """The headers in ``work`` after one lap through that queue."""
    return died(death(queue, "expired", keys=[queue]), REJECTED)


def repairs(path: Path, log: Log, definitions: Definitions = LADDER, rules: str = "4.3") -> Repairs:
    return repair_table(open_log(write_log(path / "trace.log", log.records)), definitions, rules)


def only(found: Repairs) -> Repair:
    (repair,) = found.found
    assert found.unexplained == 0
    return repair


def texts(repair: Repair) -> list[str]:
    return [likely.text for likely in repair.likely]


def messages(log: Log, queue: str, *names: str) -> Log:
    """Messages that are rejected once, and come back through that queue."""
    for name in names:
        log.publish("", "work", message_id=name).deliver("work", "", ["work"], message_id=name)
        log.deliver("work", "", ["work"], message_id=name, headers=lap(queue))
    return log


def test_nothing_is_said_of_a_log_that_agrees(tmp_path: Path) -> None:
    assert repairs(tmp_path, messages(Log(), "wait", "a", "b")) == Repairs()


def test_a_change_is_told_once_with_its_count_and_its_moment(tmp_path: Path) -> None:
    log = messages(messages(Log(), "late", "a", "b", "c"), "wait", "d", "e")
    repair = only(repairs(tmp_path, log))
    assert texts(repair) == [
        "Queue 'work' had the dead-letter-routing-key 'late' until some time between 10:00:07.000 and 10:00:11.000,"
        " and in the definitions it has 'wait' (by argument): check who declared it again then."
    ]
    assert (repair.deliveries, repair.messages, repair.message) == (3, 3, "a")
    assert [(row.role, row.line, row.where, row.deaths) for row in repair.rows] == [
        ("before", 2, "delivered from 'work'", ""),
        ("in question", 3, "delivered from 'work'", "late expired <- work rejected"),
    ]


def test_definitions_may_be_older_than_the_end_of_the_log(tmp_path: Path) -> None:
    log = messages(messages(Log(), "wait", "a", "b"), "late", "c", "d")
    (text,) = texts(only(repairs(tmp_path, log)))
    assert "had the dead-letter-routing-key 'late' from some time between 10:00:04.000 and 10:00:08.000 on" in text


def test_a_policy_is_named(tmp_path: Path) -> None:
    policy = {"name": "retry", "vhost": "/", "pattern": "^work$", "apply-to": "queues", "priority": 0}
    policy["definition"] = {"dead-letter-exchange": "", "dead-letter-routing-key": "wait"}
    given = definitions_of({"work": {}, "wait": WAIT, "late": WAIT}, policies=[policy])
    (text,) = texts(only(repairs(tmp_path, messages(messages(Log(), "late", "a", "b"), "wait", "c"), given)))
    assert text.endswith("in the definitions it has 'wait' (by policy retry): check who changed policy retry then.")


def test_a_change_back_and_forth_is_said(tmp_path: Path) -> None:
    log = Log()
    for name, queue in zip("abcdefgh", ["late", "wait"] * 4, strict=True):
        messages(log, queue, name)
    assert any("for some of the time, more than once" in text for text in texts(only(repairs(tmp_path, log))))


def test_definitions_of_another_broker(tmp_path: Path) -> None:
    (text,) = texts(only(repairs(tmp_path, messages(Log(), "late", "a", "b"))))
    assert "had the dead-letter-routing-key 'late' throughout this log" in text
    assert text.endswith("check whether these are the definitions of the broker that was traced.")


def test_a_limit_that_the_definitions_lack(tmp_path: Path) -> None:
    queues = {"work": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "parking"}, "parking": {}}
    log = Log()
    for name in "ab":
        log.publish("", "work", message_id=name)
        headers = died(death("work", "maxlen", keys=["work"]))
        log.deliver("parking", "", ["parking"], message_id=name, headers=headers)
    found = texts(only(repairs(tmp_path, log, definitions_of(queues))))
    assert len(found) == 2, "the trace does not show whether messages or bytes"
    assert found[0].startswith("Queue 'work' had a max-length throughout")
    assert found[1].startswith("Queue 'work' had a max-length-bytes throughout")


def test_another_time_to_live_is_read_off_the_clock(tmp_path: Path) -> None:
    work = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait"}
    slow = definitions_of({"work": work, "wait": {**WAIT, "x-message-ttl": 60_000}})
    (text,) = texts(only(repairs(tmp_path, messages(Log(), "wait", "a", "b"), slow)))
    assert text.startswith("Queue 'wait' had a message-ttl of at most 1,099 ms throughout this log")
    assert "it has 60000 (by argument)" in text


def test_a_message_that_outlived_its_time_to_live_may_be_another_one(tmp_path: Path) -> None:
    log = Log().publish("", "wait").publish("", "work", message_id="other").deliver("wait", "", ["wait"])
    found = texts(only(repairs(tmp_path, log)))
    assert [text.partition(" the default exchange")[0].partition(",900 ms")[0] for text in found] == [
        "The log lacks the row of the publish to",
        "A publish to",
        "Queue 'wait' had a message-ttl of at least 1",
    ]


def test_a_delivery_count_above_the_limit(tmp_path: Path) -> None:
    queues = {"work": {"x-queue-type": "quorum", "x-delivery-limit": 2}}
    log = Log().publish("", "work")
    for count in (1, 5, 7):
        log.deliver("work", "", ["work"], headers={"x-delivery-count": count, "x-acquired-count": count})
    (text,) = texts(only(repairs(tmp_path, log, definitions_of(queues))))
    assert text.startswith("Queue 'work' had a delivery-limit of at least 7, or none throughout this log")


def test_a_binding_that_is_gone(tmp_path: Path) -> None:
    given = definitions_of({"one": {}, "two": {}}, {"x": "direct"}, [("x", "one", "k")])
    log = Log()
    for name in "abc":
        log.publish("x", "k", message_id=name)
        for queue in ("one", "two") if name < "c" else ("one",):
            log.deliver(queue, "x", ["k"], message_id=name)
    (text,) = texts(only(repairs(tmp_path, log, given)))
    assert text.startswith("Queue 'two' was bound to exchange 'x' with the routing key 'k'")
    assert "at the time of these deliveries, and in the definitions it is not: check" in text, "c came when it was gone"


def test_an_exchange_that_is_gone(tmp_path: Path) -> None:
    given = definitions_of({"work": {"x-dead-letter-exchange": "old"}, "parking": {}})
    log = Log()
    for name in "ab":
        log.publish("", "work", message_id=name).deliver("work", "", ["work"], message_id=name)
        log.deliver("parking", "old", ["work"], message_id=name, headers=died(REJECTED))
    (text,) = texts(only(repairs(tmp_path, log, given)))
    assert text.startswith("Exchange 'old' was there, bound to 'parking' at the time of these deliveries")


def test_a_queue_that_is_gone(tmp_path: Path) -> None:
    log = messages(Log(), "wait", "a").publish("", "gone", message_id="b").deliver("gone", "", ["gone"], message_id="b")
    (text,) = texts(only(repairs(tmp_path, log)))
    assert text.startswith(
        "Queue 'gone' was there at the time of these deliveries, and in the definitions it is missing"
    )


def test_a_lost_publish_and_a_foreign_one_cannot_be_told_apart(tmp_path: Path) -> None:
    log = messages(Log(), "wait", "a").deliver("work", "", ["work"], message_id="b")
    repair = only(repairs(tmp_path, log))
    assert [likely.kind for likely in repair.likely] == ["rows missing", "foreign publish"]
    assert texts(repair) == [
        "The log lacks the row of the publish to the default exchange with the key 'work':"
        " check whether tracing was on then, and whether rows were lost.",
        "A publish to the default exchange with the key 'work' that the trace does not show put a copy into 'work':"
        " check for lost rows first, then for a shovel, or for a publisher that tracing does not cover.",
    ]


def test_an_address_that_no_publisher_uses_speaks_for_a_foreign_one(tmp_path: Path) -> None:
    log = messages(Log(), "wait", "a").deliver("parking", "", ["parking"], message_id="b")
    assert only(repairs(tmp_path, log)).likely[0].kind == "foreign publish"


def test_a_log_that_begins_late(tmp_path: Path) -> None:
    log = Log()
    for name in "abc":
        log.deliver("work", "", ["work"], message_id=name, headers=lap())
    repair = only(repairs(tmp_path, messages(log, "wait", "d")))
    assert texts(repair)[0] == "The log begins after 3 messages were published: look for the log before this one."
    assert repair.messages == 3


def test_late_messages_are_no_late_log(tmp_path: Path) -> None:
    log = messages(Log(), "wait", "a")
    for name in "bcd":
        log.deliver("work", "", ["work"], message_id=name)
    repair = only(repairs(tmp_path, log))
    assert "log cut" not in [likely.kind for likely in repair.likely], "a was published, and delivered before them"


def test_a_lost_delivery(tmp_path: Path) -> None:
    log = Log().publish("", "work").deliver("work", "", ["work"], headers=lap())
    assert repairs(tmp_path, log) == Repairs(), "it is unchecked, and no disagreement"


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        (died({**REJECTED, "count": 9}), "with an x-death of its own"),
        ({}, "without the x-death that it had"),
        ({**lap(), "kind": "b"}, "with another kind"),
    ],
)
def test_headers_that_a_client_wrote(tmp_path: Path, headers: dict[str, Any], told: str) -> None:
    log = messages(Log(), "wait", "a").deliver("parking", "", ["parking"], message_id="a", headers=headers)
    found = texts(only(repairs(tmp_path, log)))
    (text,) = [text for text in found if text.startswith("A client published")]
    assert f"again to the default exchange with the key 'parking', {told}, and the trace" in text


def test_what_a_release_changed_needs_no_repair(tmp_path: Path) -> None:
    records = example_records("4.3")[:400]
    log = write_log(tmp_path / "trace.log", records)
    assert repair_table(open_log(log), example_definitions("4.3"), "3.10") == Repairs()


def test_what_nothing_explains_is_counted(tmp_path: Path) -> None:
    log = messages(Log(), "wait", "a").deliver("parking", "elsewhere", ["?"], message_id="a", headers={"x-death": 5})
    found = repairs(tmp_path, log)
    assert (found.found, found.unexplained) == ((), 1)
