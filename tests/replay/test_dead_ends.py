"""Where a message is lost that is not seen again, by the rules: told from where it was last seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from simulator.capture import open_log
from simulator.capture.schema import to_batches
from simulator.capture.trace_logs import read_trace_json
from simulator.definitions import Definitions
from simulator.replay import replay_table
from tests.replay.logs import Log, death, definitions_of, died, write_log

MISSPELT = "dead-letter exchange 'ordres.dlx' of queue '{}' does not exist"


def shop(**wait: Any) -> Definitions:
    """``work`` dead-letters to ``wait``, and that to an exchange that is misspelt."""
    work = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait"}
    return definitions_of({"work": work, "wait": {"x-dead-letter-exchange": "ordres.dlx", **wait}, "late": {}})


def ends(tmp_path: Path, log: Log, definitions: Definitions) -> list[Any]:
    """The dead ends of the last row of each message, with its line."""
    rows = replay_table(open_log(write_log(tmp_path / "trace.log", log.records)), definitions).to_pylist()
    told = [(row["line"], row["dead_ends"]) for row in rows if row["last"]]
    return [(line, [(end["queue"], end["after_ms"], end["certain"]) for end in found]) for line, found in sorted(told)]


def test_a_message_that_waits_where_no_exchange_takes_it_is_lost(tmp_path: Path) -> None:
    log = Log().publish("", "wait", message_id="one").publish("", "late", message_id="two")
    assert ends(tmp_path, log, shop(**{"x-message-ttl": 500})) == [(1, [("wait", 500, True)]), (2, [])]


def test_without_a_ttl_it_only_waits(tmp_path: Path) -> None:
    assert ends(tmp_path, Log().publish("", "wait"), shop()) == [(1, [])]


def test_the_rule_is_named(tmp_path: Path) -> None:
    log = write_log(tmp_path / "trace.log", Log().publish("", "wait").records)
    (row,) = replay_table(open_log(log), shop(**{"x-message-ttl": 500})).to_pylist()
    assert row["dead_ends"][0]["why"].startswith(MISSPELT.format("wait"))


def test_a_delivery_may_have_been_rejected_on_its_way_to_a_dead_end(tmp_path: Path) -> None:
    log = Log().publish("", "work").deliver("work", "", ["work"])
    assert ends(tmp_path, log, shop(**{"x-message-ttl": 500})) == [(2, [("wait", 500, False)])]
    assert ends(tmp_path, log, shop()) == [(2, [])]


def test_a_consumer_that_was_recorded_tells_what_became_of_it(tmp_path: Path) -> None:
    log = Log()
    for name in ("acked", "rejected", "requeued"):
        log.publish("", "wait", message_id=name).deliver("wait", "", ["wait"], message_id=name)
    with write_log(tmp_path / "trace.log", log.records).open("rb") as stream:
        rows = list(read_trace_json(stream, "trace.log"))
    delivered = [row for row in rows if row.event == "delivered"]
    rows += [
        msgspec.structs.replace(row, event=row.message_id, time_us=row.time_us + 1, line=10 + number)
        for number, row in enumerate(delivered)
    ]
    found = replay_table(to_batches(rows), shop(**{"x-message-ttl": 9_000})).to_pylist()
    told = {row["event"]: row["dead_ends"] for row in found if row["last"]}
    assert told["acked"] == []
    assert [(end["after_ms"], end["certain"]) for end in told["rejected"]] == [(0, True)]
    assert [(end["after_ms"], end["certain"]) for end in told["requeued"]] == [(9_000, True)]


def test_a_message_that_went_on_is_at_no_dead_end(tmp_path: Path) -> None:
    log = Log().publish("", "work").deliver("work", "", ["work"]).publish("", "late").deliver("late", "", ["late"])
    assert ends(tmp_path, log, shop(**{"x-message-ttl": 500})) == [(4, [])]


def test_an_automatic_cycle_is_a_dead_end(tmp_path: Path) -> None:
    loop = {"x-message-ttl": 100, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "b"}
    definitions = definitions_of({"a": loop, "b": {**loop, "x-dead-letter-routing-key": "a"}})
    assert ends(tmp_path, Log().publish("", "a"), definitions) == [(1, [("b", 200, True)])]


def test_what_a_consumer_drops_on_purpose_is_no_dead_end(tmp_path: Path) -> None:
    """A queue without a dead-letter exchange."""
    log = Log().publish("", "late").deliver("late", "", ["late"])
    assert ends(tmp_path, log, shop()) == [(2, [])]


CC = {"headers": {"CC": ["late"]}}


def test_a_copy_that_was_delivered_does_not_hide_one_that_is_lost(tmp_path: Path) -> None:
    log = Log().publish("", "wait", **CC).deliver("late", "", ["wait", "late"], **CC)
    assert ends(tmp_path, log, shop(**{"x-message-ttl": 500})) == [(2, [("wait", 500, True)])]


def test_each_copy_is_closed_by_its_own_delivery(tmp_path: Path) -> None:
    log = Log().publish("", "wait", **CC)
    for queue in ("wait", "late", "late"):  # the second delivery of ``late`` is of the same copy
        log.deliver(queue, "", ["wait", "late"], **CC)
    assert ends(tmp_path, log, shop(**{"x-message-ttl": 9_000})) == [(4, [("wait", 0, False)])]


def test_a_copy_whose_consumer_sent_it_on_is_at_no_dead_end(tmp_path: Path) -> None:
    log = Log().publish("", "late", headers={"CC": ["wait"]})
    log.deliver("wait", "", ["late", "wait"], headers={"CC": ["wait"]})
    log.publish("", "late").deliver("late", "", ["late"])
    assert ends(tmp_path, log, shop(**{"x-message-ttl": 9_000})) == [(4, [])]


def test_a_death_that_puts_copies_into_two_queues_loses_one_of_them(tmp_path: Path) -> None:
    """Its dead letter goes on to ``late``, where it is seen, and to ``wait``, where it is not."""
    queues = {
        "work": {"x-dead-letter-exchange": "both"},
        "wait": {"x-dead-letter-exchange": "ordres.dlx", "x-message-ttl": 500},
        "late": {},
    }
    definitions = definitions_of(queues, {"both": "fanout"}, [("both", "wait", ""), ("both", "late", "")])
    log = Log().publish("", "work").deliver("work", "", ["work"])
    log.deliver("late", "both", ["work"], headers=died(death("work", "rejected", keys=["work"])))
    assert ends(tmp_path, log, definitions) == [(3, [("wait", 500, True)])]


def test_of_several_copies_one_is_the_delivery_that_is_not_explained_and_the_others_may_be_lost(tmp_path: Path) -> None:
    """Which of them it is nobody knows; so none is lost for certain. A message with one copy is not lost."""
    definitions = shop(**{"x-message-ttl": 500})
    log = Log().publish("", "wait", **CC).deliver("elsewhere", "", ["wait", "late"], **CC)
    assert ends(tmp_path, log, definitions) == [(2, [("wait", 500, False)])]
    log = Log().publish("", "wait").deliver("elsewhere", "", ["wait"])
    assert ends(tmp_path, log, definitions) == [(2, [])]


def test_when_as_many_deliveries_were_seen_as_there_were_copies_none_is_in_doubt(tmp_path: Path) -> None:
    log = Log().publish("", "wait", **CC)
    for _ in range(2):
        log.deliver("elsewhere", "", ["wait", "late"], **CC)
    log.deliver("wait", "", ["wait", "late"], **CC)
    assert ends(tmp_path, log, shop(**{"x-message-ttl": 500})) == [(4, [("wait", 0, False)])]
