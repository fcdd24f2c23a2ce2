"""The flag ``redelivered`` and the counts of quorum queues: what a first delivery and a redelivery cannot look like."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from simulator.capture import open_log
from simulator.definitions import Definitions
from simulator.replay import replay_table
from tests.replay.logs import Log, death, definitions_of, died, write_log


def work(kind: str) -> Definitions:
    arguments = {"x-queue-type": kind, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    return definitions_of({"work": arguments, "dead": {}})


def flagged(tmp_path: Any, log: Log, flags: list[bool | None], definitions: Definitions) -> list[tuple[str, list[str]]]:
    """The verdicts on the deliveries of a log, which have these flags, and the fields that differ."""
    return [
        (row["verdict"], [each["field"] for each in row["differences"]])
        for row in rows_of(tmp_path, log, flags, definitions)
    ]


def rows_of(tmp_path: Path, log: Log, flags: list[bool | None], definitions: Definitions) -> list[dict[str, Any]]:
    """The deliveries of a log, which have these flags."""
    (batch,) = open_log(write_log(tmp_path / "trace.log", log.records))
    events, given = batch.column("event").to_pylist(), iter(flags)
    column = pa.array([next(given) if event == "delivered" else None for event in events], pa.bool_())
    batch = batch.set_column(batch.schema.get_field_index("redelivered"), "redelivered", column)
    rows = sorted(replay_table([batch], definitions, "4.3").to_pylist(), key=lambda row: row["line"])
    return [row for row in rows if row["event"] == "delivered"]


AGREES: tuple[str, list[str]] = ("agree", [])


def test_the_first_delivery_is_not_repeated_after_its_redelivery(tmp_path: Any) -> None:
    """It died meanwhile, and comes once more as if it were new."""
    log = Log().publish("", "work").deliver("work", "", ["work"])
    counted = {"x-delivery-count": 1, "x-acquired-count": 1}
    log.deliver("work", "", ["work"], headers=counted)
    log.deliver("dead", "", ["dead"], headers=died(death("work", "rejected", keys=["work"])))
    log.deliver("work", "", ["work"])
    found = flagged(tmp_path, log, [False, True, False, False], work("quorum"))
    assert found == [AGREES, AGREES, AGREES, ("differ", ["redelivered"])]


@pytest.mark.parametrize(("publishes", "last"), [(1, ("differ", ["redelivered"])), (2, AGREES)])
def test_as_many_deliveries_are_new_as_copies_came(tmp_path: Any, publishes: int, last: tuple[str, list[str]]) -> None:
    """The same message may be published twice, and the redelivery of the first come before the second."""
    log = Log()
    for _ in range(publishes):
        log.publish("", "work")
    for _ in range(3):
        log.deliver("work", "", ["work"])
    assert flagged(tmp_path, log, [False, True, False], work("classic"))[-1] == last


def test_the_trace_of_the_first_delivery_may_come_late(tmp_path: Any) -> None:
    log = Log().publish("", "work").deliver("work", "", ["work"]).deliver("work", "", ["work"])
    assert flagged(tmp_path, log, [True, False], work("classic")) == [AGREES, AGREES]


def test_without_the_flag_nothing_is_said(tmp_path: Any) -> None:
    log = Log().publish("", "work").deliver("work", "", ["work"]).deliver("work", "", ["work"])
    assert flagged(tmp_path, log, [None, None], work("classic")) == [AGREES, AGREES]


@pytest.mark.parametrize(("kind", "verdict"), [("classic", AGREES), ("quorum", ("differ", ["x-delivery-count"]))])
def test_a_quorum_queue_counts_what_it_redelivers(tmp_path: Any, kind: str, verdict: tuple[str, list[str]]) -> None:
    log = Log().publish("", "work").deliver("work", "", ["work"]).deliver("work", "", ["work"])
    assert flagged(tmp_path, log, [False, True], work(kind)) == [AGREES, verdict]


def test_what_a_quorum_queue_has_counted_is_redelivered(tmp_path: Any) -> None:
    counted = {"x-delivery-count": 1, "x-acquired-count": 1}
    log = Log().publish("", "work").deliver("work", "", ["work"], headers=counted)
    assert flagged(tmp_path, log, [False], work("quorum")) == [("differ", ["redelivered"])]


def test_a_stream_delivers_to_whoever_asks(tmp_path: Any) -> None:
    log = Log().publish("", "log")
    for _ in range(2):
        log.deliver("log", "", ["log"], headers={"x-stream-offset": 0})
    definitions = definitions_of({"log": {"x-queue-type": "stream"}})
    assert flagged(tmp_path, log, [False, False], definitions) == [AGREES, AGREES]


def left_open(tmp_path: Path, log: Log, flags: list[bool | None], definitions: Definitions) -> list[list[str]]:
    """What is unchecked of each delivery of a log that agrees, whose deliveries have these flags."""
    return [[each["what"] for each in row["unchecked"]] for row in rows_of(tmp_path, log, flags, definitions)]


@pytest.mark.parametrize(("flags", "last"), [([False, True], []), ([False, False], ["redelivered"])])
def test_what_an_at_least_once_queue_may_have_sent_again_is_unchecked(
    tmp_path: Path, flags: list[bool | None], last: list[str]
) -> None:
    """As the same dead letter once more, the second delivery may be new."""
    safe = {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish", "x-queue-type": "quorum"}
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    log = Log().publish("", "work").deliver("work", "", ["work"])
    for _ in range(2):
        log.deliver("dead", "", ["dead"], headers=died(death("work", "rejected", keys=["work"])))
    definitions = definitions_of({"work": safe | dead, "dead": {}})
    assert left_open(tmp_path, log, [False, *flags], definitions) == [[], [], last]


def test_a_redelivery_without_a_delivery_before_it_is_unchecked(tmp_path: Path) -> None:
    """The first delivery may have been lost with its channel, or the flag is wrong. A count confirms it."""
    log = Log().publish("", "work").deliver("work", "", ["work"])
    assert left_open(tmp_path, log, [True], work("classic")) == [["redelivered"]]
    counted = (
        Log().publish("", "work").deliver("work", "", ["work"], headers={"x-delivery-count": 1, "x-acquired-count": 1})
    )
    assert left_open(tmp_path, counted, [True], work("quorum")) == [["delivery-count"]]
