"""A message with thousands of rows costs no more per row than one with hundreds. Calls are counted, not seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from simulator.capture.schema import Observation, to_batches
from simulator.definitions import Definitions
from simulator.replay import replay_table
from simulator.scenario.steps import Ack, AnyStep, Publish, Reject, Requeue, Wait
from tests.replay.broker_logs import broker_log
from tests.replay.logs import definitions_of

LADDER = definitions_of(
    {
        "work": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait"},
        "wait": {"x-message-ttl": 1000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work"},
    }
)
DROPPED = definitions_of({"work": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "end"}, "end": {}})
ROUNDS = 200


def requeued(rounds: int) -> list[AnyStep]:
    """One message, requeued again and again."""
    return [Publish("", "work"), *[Requeue("work")] * rounds]


def retried(rounds: int) -> list[AnyStep]:
    """One message, retried again and again, and requeued before each retry."""
    return [Publish("", "work"), *[Requeue("work"), Reject("work"), Wait(1500)] * rounds]


def published_again(rounds: int) -> list[AnyStep]:
    """The same message, published and rejected again and again."""
    return [Publish("", "work"), Reject("work"), Ack("end")] * rounds


def calls_and_verdicts(rows: list[Observation], definitions: Definitions) -> tuple[int, set[Any]]:
    """How many Python functions a replay of the rows, all of one message, calls; and its verdicts."""
    for row in rows:
        row.message = "m1"
    batches = list(to_batches(iter(rows)))
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        table = replay_table(batches, definitions, "4.3")
    finally:
        sys.setprofile(before)
    return calls, set(table.column("verdict").to_pylist())


@pytest.mark.parametrize(
    ("history", "definitions"),
    [(requeued, LADDER), (retried, LADDER), (published_again, DROPPED)],
    ids=["requeued", "retried", "published again"],
)
def test_twice_the_rows_are_twice_the_work(history: Callable[[int], list[AnyStep]], definitions: Definitions) -> None:
    topology = definitions.topology("/")
    several = [broker_log(history(rounds), topology, "4.3") for rounds in (ROUNDS, 3 * ROUNDS)]
    calls_and_verdicts(several[0], definitions)  # what is imported or remembered once
    (few, verdicts), (many, more_verdicts) = (calls_and_verdicts(rows, definitions) for rows in several)
    assert verdicts == more_verdicts == {None, "agree"}
    assert many < 4 * few
