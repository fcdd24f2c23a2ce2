"""A neutral scenario is read from plain values, and what is wrong in it is named."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.scenario.scenario_errors import ScenarioError
from simulator.systems.compare import read


def scenario(**fields: Any) -> dict[str, Any]:
    return {"messages": [{"name": "a"}], "until_ms": 1_000} | fields


def test_defaults() -> None:
    found = read(scenario())
    assert (found.queue, found.dead_letter_queue, found.attempts_max, found.retry_delay_ms) == ("orders", None, 3, 0)
    assert (found.messages[0].fails, found.messages[0].how) == (0, "reject")


@pytest.mark.parametrize(("fails", "attempts"), [(0, 1), (2, 3)])
def test_a_delivery_succeeds_after_those_that_fail(fails: int, attempts: int) -> None:
    message = read(scenario(messages=[{"name": "a", "fails": fails}])).messages[0]
    assert [message.succeeds(attempt) for attempt in range(1, attempts + 1)] == [False] * fails + [True]


def test_always_never_succeeds() -> None:
    assert not read(scenario(messages=[{"name": "a", "fails": "always"}])).messages[0].succeeds(1_000)


@pytest.mark.parametrize(
    ("document", "where", "problem"),
    [
        ({}, "", "`messages`"),
        (scenario(retries=3), "", "unknown field `retries`; expected messages, until_ms, queue"),
        (scenario(messages=[]), "messages", "length >= 1"),
        (
            scenario(messages=[{"name": "a", "fail": 1}]),
            "messages[0]",
            "`fail`; did you mean fails? expected name, at_ms",
        ),
        (scenario(messages=[{"name": "a", "fails": "often"}]), "messages[0].fails", "from 0, or 'always'"),
        (scenario(messages=[{"name": "a", "fails": -1}]), "messages[0].fails", "a number from 0"),
        (scenario(messages=[{"name": "a", "how": "die"}]), "messages[0].how", "expected 'reject', 'crash' or 'hold'"),
        (scenario(messages=[{"name": "a b"}]), "messages[0].name", "letters, digits"),
        (scenario(messages=[{"name": "a"}, {"name": "a"}]), "messages[1].name", "a second message 'a'"),
        (scenario(messages=[{"name": "a", "at_ms": 1_001}]), "messages[0].at_ms", "at most until_ms, 1000"),
        (scenario(messages=[{"name": "a", "time_to_live_ms": 0}]), "messages[0].time_to_live_ms", ">= 1"),
        (scenario(queue="orders/new"), "queue", "expected 1 to 40 letters"),
        (scenario(dead_letter_queue="orders"), "dead_letter_queue", "expected another queue than 'orders'"),
        (scenario(attempts_max=0), "attempts_max", ">= 1"),
        (scenario(retry_delay_ms=1.5), "retry_delay_ms", "`int`"),
        (scenario(until_ms=10_000_000), "poll_ms", "expected 5000 or more"),
    ],
)
def test_what_is_wrong_is_named(document: dict[str, Any], where: str, problem: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        read(document)
    assert raised.value.where == where
    assert problem in raised.value.problem
