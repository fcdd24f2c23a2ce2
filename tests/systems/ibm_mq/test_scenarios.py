"""Scenarios: what may stand in one, what is said of a wrong one, and the one of the document."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from simulator.events import Event
from simulator.scenario.scenario_errors import ScenarioError
from simulator.systems.ibm_mq import simulate

DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "ibm_mq.md"
MESSAGE = {"REASON": "MQRC_Q_FULL", "DESTQ": "ORDERS"}
SCENARIO: dict[str, Any] = {"rules_table": "ACTION(RETRY) RETRY(2)\n", "messages": [MESSAGE]}


@pytest.mark.parametrize(
    ("change", "where", "problem"),
    [
        ({"rules_table": None}, "rules_table", "expected a rules table, or queues with consumers in queues"),
        ({"rules_table": "ACTION(FWD)"}, "rules_table", "line 1, column 1: ACTION(FWD) needs FWDQ"),
        ({"rules_table": ["WAIT(NO)", "RETRY(1)"]}, "rules_table", "line 2, column 1: the rule has no ACTION"),
        (
            {"rule_table": ""},
            "",
            "unknown field `rule_table`; did you mean rules_table? expected rules_table, messages, queues, put_",
        ),
        (
            {"messages": [{**MESSAGE, "DESTQUEUE": "X"}]},
            "messages[0]",
            "unknown field `DESTQUEUE`; did you mean DESTQ or DESTQM? expected name",
        ),
        ({"messages": [{**MESSAGE, "reason": 1}]}, "messages[0]", "unknown field `reason`; expected name, time_s"),
        ({"messages": [{**MESSAGE, "time_s": -1}]}, "messages[0].time_s", "Expected `float` >= 0.0"),
        ({"messages": [{**MESSAGE, "priority": 10}]}, "messages[0].priority", "Expected `int` <= 9"),
        (
            {"messages": [{**MESSAGE, "REASON": "Q_FULL"}]},
            "messages[0].REASON",
            "expected a number or a name that begins with MQRC_ or MQFB_, got 'Q_FULL'",
        ),
        ({"messages": [{**MESSAGE, "FORMAT": "MQSTRING."}]}, "messages[0].FORMAT", "at most 8 characters, got 9"),
        ({"messages": [{**MESSAGE, "DESTQ": "ü" * 30}]}, "messages[0]", "DestQName: expected at most 48 bytes, got 60"),
        (
            {"messages": [{**MESSAGE, "coded_char_set_id": 9}]},
            "messages[0].coded_char_set_id",
            "CCSID 9: no codec for it",
        ),
        (
            {"messages": [{**MESSAGE, "coded_char_set_id": 37, "body": "€"}]},
            "messages[0].body",
            "expected text that CCSID 37 can hold",
        ),
        ({"messages": [{"data_hex": "0g"}]}, "messages[0].data_hex", "expected pairs of hexadecimal digits"),
        (
            {"messages": [{"name": "a"}, {"name": "a"}]},
            "messages[1].name",
            "expected a name of its own, got 'a' again",
        ),
        ({"put_results": ["OK", "FULL"]}, "put_results[1]", "a name that begins with MQRC_, got 'FULL'"),
        ({"outages": [{"queue": "ORDERS"}]}, "outages[0]", "Object missing required field `result`"),
        ({"outages": [{"queue": "ORDERS", "result": "NO"}]}, "outages[0].result", "a name that begins with MQRC_"),
        (
            {"outages": [{"queue": "ORDERS", "from_s": 5, "until_s": 1, "result": 2053}]},
            "outages[0].until_s",
            "expected a time after from_s, 5",
        ),
        (
            {"removals": [{"time_s": 1, "message": "b"}]},
            "removals[0].message",
            "expected the name of a message, got 'b'",
        ),
        ({"clock": "wall"}, "clock", "Invalid enum value 'wall'"),
        ({"arguments": ["Q", "QM", "-u"]}, "arguments", "Expected `array` of length <= 2"),
    ],
)
def test_a_wrong_scenario_is_refused_with_its_place(change: dict[str, Any], where: str, problem: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        simulate({**SCENARIO, **change})
    assert refused.value.where == where
    assert problem in refused.value.problem


def test_a_table_may_be_a_list_of_its_lines() -> None:
    assert simulate({**SCENARIO, "rules_table": ["ACTION(RETRY) +", "RETRY(2)"]}) == simulate(SCENARIO)


def test_the_trace_is_plain_json_in_the_vocabulary_of_events() -> None:
    trace = simulate({**SCENARIO, "put_results": ["MQRC_Q_FULL"] * 2})
    assert json.loads(json.dumps(trace)) == trace
    assert trace["system"] == "ibm_mq"
    assert [(Event(each["event"]), each["time_ms"]) for each in trace["events"]] == [
        (Event.DEAD_LETTERED, 0),
        (Event.DELIVERED, 0),
        (Event.REQUEUED, 0),
        (Event.DELIVERED, 60_000),
        (Event.REQUEUED, 60_000),
        (Event.HELD, 120_000),
    ]
    assert {each["queue"] for each in trace["events"]} == {"SYSTEM.DEAD.LETTER.QUEUE"}
    assert trace["events"][3]["detail"] == "rule 1 in line 1: RETRY, try 2 of 2"
    assert trace["events"][5]["detail"] == "no rule is left: IGNORE is assumed"


def test_the_example_of_the_document_runs_and_gives_what_it_shows() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    scenario, shown, consumed = re.findall(r"^```json\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    trace = simulate(json.loads(scenario))
    assert {"visits": trace["visits"], "handler": trace["handler"]} == json.loads(shown)
    left = simulate(json.loads(consumed))["queues"]
    assert {queue: [each["message"] for each in messages] for queue, messages in left.items() if messages} == {
        "ORDERS.BACKOUT": ["poison"],
        "PARKED": ["bill"],
    }


def test_the_table_of_the_document_names_every_field() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    for change in ({"": 1}, {"messages": [{"": 1}]}, {"outages": [{"": 1}]}, {"removals": [{"": 1}]}):
        with pytest.raises(ScenarioError) as refused:
            simulate({**SCENARIO, **change})
        fields = refused.value.problem.partition("expected ")[2].split(", ")
        assert [field for field in fields if f"`{field}`" not in text] == []
