"""Selectors: what they select, and what is wrong with one."""

from __future__ import annotations

import pytest

from simulator.systems.activemq.destinations import Destination
from simulator.systems.activemq.messages import Message
from simulator.systems.activemq.selectors import Selector, SelectorError, parse_selector

MESSAGE = Message(
    message_id="ID:1:1", destination=Destination("queue", "Q"), priority=7,
    properties={"colour": "red", "n": 4, "price": 2.5, "on": True, "empty": "", "percent": "50%"},
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("colour = 'red'", True),
        ("colour <> 'red'", False),
        ("n > 3 AND n <= 4", True),
        ("n BETWEEN 5 AND 6 OR price = 2.5", True),
        ("n NOT BETWEEN 5 AND 6", True),
        ("colour IN ('blue', 'red')", True),
        ("colour NOT IN ('blue')", True),
        ("colour LIKE 'r_d' AND colour LIKE 'r%'", True),
        ("percent LIKE '50!%' ESCAPE '!'", True),
        ("colour LIKE '50!%' ESCAPE '!'", False),
        ("missing IS NULL AND colour IS NOT NULL", True),
        ("missing = 'red'", False),
        ("NOT missing = 'red'", False),
        ("missing = 'red' OR on", True),
        ("on = TRUE AND NOT on = FALSE", True),
        ("colour = 4", False),
        ("n + 1 = 5 and n * 2 - 3 = 5 and -n = -4 and n / 2 = 2", True),
        ("(n = 4 OR n = 5) AND n <> 5", True),
        ("JMSPriority > 5 AND JMSDeliveryMode = 'PERSISTENT'", True),
        ("colour = 'it''s'", False),
    ],
)
def test_what_a_selector_selects(text: str, selected: bool) -> None:
    assert Selector(text).selects(MESSAGE) is selected


def test_no_selector_is_none() -> None:
    assert parse_selector(None) is None
    assert parse_selector(" ") is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a = = b", "'a = = b', character 5: expected a name or a value"),
        ("a = 'b", "character 5: expected a name, a value or an operator"),
        ("a LIKE 5", "character 8: expected a text in single quotes"),
        ("a IN ('x'", "character 10: expected )"),
        ("a = 1 b", "character 7: expected the end, AND or OR"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, problem: str) -> None:
    with pytest.raises(SelectorError) as raised:
        parse_selector(text)
    assert problem in str(raised.value)
