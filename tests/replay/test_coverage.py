"""What a log has exercised: the checked-in captures keep what they show, and a small log shows no more than it has."""

from __future__ import annotations

import pytest

from dlx.releases import MESSAGE_ROWS
from simulator.capture import open_log
from simulator.replay import replay_table
from simulator.replay.coverage.catalogue import NEVER_SHOWN, RULES
from simulator.replay.coverage.totals import table_coverage
from tests.replay.exercised import CAPTURES, listed
from tests.replay.logs import Log, death, definitions_of, died, write_log

RETRY = definitions_of(
    {
        "work": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait"},
        "wait": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work", "x-message-ttl": 1000},
        "idle": {"x-dead-letter-exchange": "gone", "x-message-ttl": 1000},
    }
)


def covered(tmp_path, log, definitions=RETRY, rules="4.3"):
    path = write_log(tmp_path / "trace.log", log.records)
    return table_coverage(replay_table(open_log(path), definitions, rules), definitions, rules)


def retried():
    first = died(death("wait", "expired", keys=["wait"]), death("work", "rejected", keys=["work"]))
    return Log().publish("", "work").deliver("work", "", ["work"]).deliver("work", "", ["work"], headers=first)


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda each: each.folder)
def test_a_capture_exercises_what_it_did(capture):
    found = capture.coverage()
    exercised = [name for name, is_in in found.by_rule.items() if is_in]
    assert exercised == listed()[capture.folder], "python -m tests.replay.exercised writes the list"
    assert not found.rows_untried


def test_together_the_captures_exercise_every_rule_that_a_trace_can_show():
    exercised = {name for rules in listed().values() for name in rules}
    assert [name for name in RULES if name not in exercised] == []


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda each: each.folder)
def test_every_delivery_of_a_capture_agrees(capture):
    rows = capture.replayed().to_pylist()
    assert {row["verdict"] for row in rows if row["event"] == "delivered"} == {"agree"}


def test_what_no_trace_can_show_is_named_as_it_is_in_the_release_table():
    assert {*NEVER_SHOWN} <= {row.name for row in MESSAGE_ROWS}


def test_a_retry_exercises_its_rules_and_no_others(tmp_path):
    found = covered(tmp_path, retried())
    paths = {name for name in RULES if found.by_rule[name]} - {row.name for row in MESSAGE_ROWS}
    assert paths == {
        "rejected_in_classic",
        "expired_in_classic",
        "expired_by_queue_ttl",
        "ttl_by_argument",
        "exchange_by_argument",
        "key_by_argument",
        "through_default",
        "into_classic",
        "keys_replaced",
        "first_death",
        "another_death",
        "several_deaths",
        "return_after_rejection",
    }


def test_rows_are_exercised_where_another_value_explains_nothing(tmp_path):
    rows = {row.name for row in MESSAGE_ROWS}
    found = covered(tmp_path, retried())
    assert {name for name in RULES if found.by_rule[name]} & rows == {"last_death_headers"}
    untouched = covered(tmp_path, Log().publish("", "work").deliver("work", "", ["work"]))
    assert untouched.exercised == 0


def test_deaths_by_queue_are_those_that_its_settings_allow(tmp_path):
    found = covered(tmp_path, retried())
    assert [(each.queue, each.exercised, each.missing) for each in found.by_queue] == [
        ("idle", (), ()),
        ("wait", ("expired",), ("rejected",)),
        ("work", ("rejected",), ()),
    ]
    assert (found.deaths_exercised, found.deaths_of) == (2, 3)
    assert found.by_queue[0].never_shown == "dead-letter exchange 'gone' does not exist"


def test_a_delivery_that_differs_exercises_nothing(tmp_path):
    log = retried()
    log.records[-1]["properties"]["headers"]["x-last-death-queue"] = "work"
    assert covered(tmp_path, log).exercised == 0


def rejected_with(log, number, key):
    headers = died(death("work", "rejected", exchange="in", keys=[key]))
    of_message = {"message_id": f"m{number}"}
    log.publish("in", key, routed=["work"], **of_message).deliver("work", "in", [key], **of_message)
    return log.deliver("dead", "letters", [key], headers=headers, **of_message)


def test_dead_letters_that_keep_their_keys_show_each_its_own_way(tmp_path):
    kept = definitions_of(
        {"work": {"x-dead-letter-exchange": "letters"}, "dead": {}},
        {"in": "fanout", "letters": "topic"},
        [("in", "work", ""), ("letters", "dead", "*.paid"), ("letters", "dead", "sent.#")],
    )
    one = covered(tmp_path, rejected_with(Log(), 1, "eu.paid"), kept)
    both = covered(tmp_path, rejected_with(rejected_with(Log(), 1, "eu.paid"), 2, "sent.us"), kept)
    ways = ("topic_star", "topic_hash")
    assert [[found.by_rule[way] for way in ways] for found in (one, both)] == [[1, 0], [1, 1]]
