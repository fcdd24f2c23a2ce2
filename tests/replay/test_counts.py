"""Delivery counts against the delivery limit of the queue, and deaths by it against the counts that a log shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simulator.definitions import Definitions
from tests.replay.logs import Log, death, definitions_of, died


def poisoned(limit: int | None, kind: str = "quorum", first: str = "classic") -> Definitions:
    work = {"x-queue-type": kind, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "poison"}
    own = {} if limit is None else {"x-delivery-limit": limit}
    start = {"x-queue-type": first, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work"}
    return definitions_of({"start": start, "work": work | own, "poison": {}})


def counted(*counts: int | None, acquired: bool = True) -> Log:
    """Deliveries that show these counts of failures."""
    log = Log().publish("", "work")
    for count in counts:
        both = {"x-delivery-count": count, "x-acquired-count": count} if acquired else {"x-delivery-count": count}
        log.deliver("work", "", ["work"], **({} if count is None else {"headers": both}))
    return log


def told(row: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(each["field"], each["expected"], each["seen"]) for each in row["differences"]]


def test_a_count_above_the_limit_is_told_with_queue_and_setting(tmp_path: Path) -> None:
    rows = counted(None, 1, 2, 3).replay(tmp_path, poisoned(2))
    assert [row["verdict"] for row in rows] == ["agree", "agree", "agree", "differ"]
    assert told(rows[-1]) == [("x-delivery-count", "1 to 2 (delivery-limit 2 by argument in 'work')", "3")]


def test_a_limit_of_0_shows_no_count(tmp_path: Path) -> None:
    rows = counted(None, 1).replay(tmp_path, poisoned(0))
    assert told(rows[-1]) == [("x-delivery-count", "absent (delivery-limit 0 by argument in 'work')", "1")]


@pytest.mark.parametrize(("rules", "verdict"), [("3.10", "agree"), ("4.0", "differ")])
def test_the_default_limit_is_that_of_the_release(tmp_path: Path, rules: str, verdict: str) -> None:
    (row,) = counted(21, acquired=False).replay(tmp_path, poisoned(None), rules)
    assert row["verdict"] == verdict
    assert verdict == "agree" or "delivery-limit 20 by server default" in told(row)[0][1]


def test_there_are_not_more_failures_than_returns(tmp_path: Path) -> None:
    log = Log().publish("", "work")
    log.deliver("work", "", ["work"], headers={"x-delivery-count": 2, "x-acquired-count": 1})
    (row,) = log.replay(tmp_path, poisoned(5))
    assert row["verdict"] == "differ"


@pytest.mark.parametrize(
    ("rules", "first", "verdict"),
    [
        ("4.3", "classic", "agree"),
        ("4.0", "quorum", "agree"),
        ("4.0", "classic", "differ"),
        ("3.13", "quorum", "differ"),
    ],
)
def test_a_dead_letter_may_bring_a_count_along(tmp_path: Path, rules: str, first: str, verdict: str) -> None:
    headers = died(death("start", "rejected", keys=["start"])) | {"x-delivery-count": 9}
    if rules == "4.3":
        headers["x-acquired-count"] = 9
    log = Log().publish("", "start").deliver("start", "", ["start"]).deliver("work", "", ["work"], headers=headers)
    assert log.replay(tmp_path, poisoned(2, first=first), rules)[-1]["verdict"] == verdict


@pytest.mark.parametrize("rules", ["4.0", "4.1", "4.2", "4.3"])
@pytest.mark.parametrize("seen", [True, False])
def test_classic_queues_in_between_keep_the_count(tmp_path: Path, rules: str, seen: bool) -> None:
    start = {"x-queue-type": "quorum", "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait"}
    wait = {"x-message-ttl": 500, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work"}
    definitions = definitions_of(
        {"start": start, "wait": wait, "work": {"x-queue-type": "quorum", "x-delivery-limit": 0}}
    )
    rejected, expired = death("start", "rejected", keys=["start"]), death("wait", "expired", keys=["wait"])
    log = Log().publish("", "start").deliver("start", "", ["start"])
    if seen:
        log.deliver("wait", "", ["wait"], headers=died(rejected))
    log.deliver("work", "", ["work"], headers=died(expired, rejected) | {"x-delivery-count": 1})
    assert [row["verdict"] for row in log.replay(tmp_path, definitions, rules)] == ["agree"] * (2 + seen)


@pytest.mark.parametrize(("last", "unchecked"), [(3, []), (2, ["delivery-limit"]), (None, ["delivery-limit"])])
def test_a_death_by_the_limit_needs_a_delivery_that_reached_it(
    tmp_path: Path, last: int | None, unchecked: list[str]
) -> None:
    headers = died(death("work", "delivery_limit", keys=["work"]))
    log = counted(*range(1, (last or 0) + 1)) if last else Log().publish("", "work")
    row = log.deliver("poison", "", ["poison"], headers=headers).replay(tmp_path, poisoned(3))[-1]
    assert (row["verdict"], [each["what"] for each in row["unchecked"]]) == ("agree", unchecked)
    assert all(each["name"] == "work" and "delivery-limit 3 by argument" in each["why"] for each in row["unchecked"])
