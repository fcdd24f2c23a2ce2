"""The counts of quorum queues from delivery to delivery of one copy: each return makes them larger.

What servers do was asked of live 3.8, 3.10, 4.0 and 4.3: requeue by nack, reject and recover, a channel that closes,
by ``basic.get`` and as a consumer, count one return each.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simulator.definitions import Definitions
from tests.replay.logs import Log, death, definitions_of, died

WORK = definitions_of({"work": {"x-queue-type": "quorum", "x-dead-letter-exchange": "", "x-delivery-limit": 20}})
QUORUM = {"x-queue-type": "quorum"}
Told = list[tuple[str, list[str], list[str]]]


def told(tmp_path: Path, log: Log, rules: str, definitions: Definitions = WORK) -> Told:
    """Of each delivery: the verdict, the fields that differ, and what is unchecked."""
    found = log.replay(tmp_path, definitions, rules)
    return [
        (row["verdict"], [each["field"] for each in row["differences"]], [each["what"] for each in row["unchecked"]])
        for row in found
    ]


def shown(*counts: dict[str, int], publishes: int = 1) -> Log:
    log = Log()
    for _ in range(publishes):
        log.publish("", "work")
    for count in counts:
        log.deliver("work", "", ["work"], **({"headers": count} if count else {}))
    return log


def returns(count: int, rules: str, **more: int) -> dict[str, int]:
    name = "x-acquired-count" if rules == "4.3" else "x-delivery-count"
    return {name: count, **{key.replace("_", "-"): value for key, value in more.items()}}


AGREE = ("agree", [], [])
OPEN = ("agree", [], ["delivery-count"])


@pytest.mark.parametrize("rules", ["3.8", "3.10", "4.0", "4.3"])
def test_a_count_that_grows_by_one_agrees(tmp_path: Path, rules: str) -> None:
    log = shown({}, returns(1, rules), returns(2, rules), returns(3, rules))
    assert told(tmp_path, log, rules) == [AGREE] * 4


@pytest.mark.parametrize("rules", ["3.10", "4.0", "4.3"])
@pytest.mark.parametrize("counts", [(1, 1), (2, 1), (3, 0)])
def test_a_count_that_stands_still_or_falls_differs(tmp_path: Path, rules: str, counts: tuple[int, int]) -> None:
    first, last = counts
    log = shown(*({} for _ in [0]), *(returns(each, rules) for each in range(1, first + 1)), returns(last, rules))
    if not last:
        log.records[-1]["properties"].pop("headers")
    field = "x-acquired-count" if rules == "4.3" else "x-delivery-count"
    assert told(tmp_path, log, rules)[-1] == ("differ", [field], [])


@pytest.mark.parametrize("rules", ["3.10", "4.0", "4.3"])
def test_a_count_that_jumps_is_unchecked(tmp_path: Path, rules: str) -> None:
    """A delivery on its way to a channel that died is counted and not traced; the captured examples have such."""
    assert told(tmp_path, shown({}, returns(3, rules)), rules) == [AGREE, OPEN]
    assert told(tmp_path, shown(returns(2, rules), returns(3, rules)), rules) == [OPEN, AGREE]


def test_3_8_delivers_again_without_a_count(tmp_path: Path) -> None:
    assert told(tmp_path, shown({}, {"x-delivery-count": 1}, {}), "3.8") == [AGREE, AGREE, OPEN]


def test_failed_deliveries_are_some_of_the_new_returns(tmp_path: Path) -> None:
    log = shown({}, returns(1, "4.3", x_delivery_count=1), returns(2, "4.3", x_delivery_count=2), returns(3, "4.3"))
    assert told(tmp_path, log, "4.3") == [AGREE, AGREE, AGREE, ("differ", ["x-delivery-count"], [])]
    log = shown({}, returns(1, "4.3"), returns(2, "4.3", x_delivery_count=2))
    assert told(tmp_path, log, "4.3")[-1] == ("differ", ["x-delivery-count"], [])


def test_of_several_copies_the_counts_are_unchecked(tmp_path: Path) -> None:
    log = shown({}, {}, {"x-delivery-count": 1}, {"x-delivery-count": 1}, publishes=2)
    assert [each[2] for each in told(tmp_path, log, "4.0")][2:] == [["delivery-count"], ["delivery-count"]]


def test_a_count_that_a_dead_letter_brought_along_is_unchecked_and_the_next_counts_from_one(tmp_path: Path) -> None:
    to_late = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "late", "x-delivery-limit": 20}
    definitions = definitions_of({"work": {**QUORUM, **to_late}, "late": {**QUORUM, "x-delivery-limit": 20}})
    headers: dict[str, Any] = died(death("work", "rejected", keys=["work"]))
    log = shown({})
    log.deliver("late", "", ["late"], headers={**headers, "x-acquired-count": 1, "x-delivery-count": 1})
    log.deliver("late", "", ["late"], headers={**headers, "x-acquired-count": 1, "x-delivery-count": 2})
    log.deliver("late", "", ["late"], headers={**headers, "x-acquired-count": 1, "x-delivery-count": 2})
    assert told(tmp_path, log, "4.3", definitions)[1:] == [OPEN, AGREE, ("differ", ["x-acquired-count"], [])]


def test_the_offset_of_a_stream_is_unchecked(tmp_path: Path) -> None:
    log = Log().publish("", "stream").deliver("stream", "", ["stream"], headers={"x-stream-offset": 7})
    definitions = definitions_of({"stream": {"x-queue-type": "stream"}})
    assert told(tmp_path, log, "4.3", definitions) == [("agree", [], ["stream-offset"])]
