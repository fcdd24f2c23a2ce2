"""Scenarios: the documented example, and what is wrong with one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from simulator.scenario.scenario_errors import ScenarioError
from simulator.systems.zaqar import simulate, zaqar_scenario

DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "zaqar.md"


def test_the_example_of_the_document() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    scenario, expected = re.findall(r"```(?:json|text)\n(.*?)```", text, re.DOTALL)[:2]
    told = [
        f"{event['time_ms'] / 1000:g} s".rjust(6)
        + f"  {event['event']} {event['message']} {event['queue']} {event['detail']}".rstrip()
        for event in simulate(json.loads(scenario))["events"]
    ]
    assert "\n".join(told) == expected.rstrip("\n")


def test_every_step_is_documented() -> None:
    known = {
        cls.__struct_config__.tag
        for cls in vars(zaqar_scenario).values()
        if isinstance(cls, type) and issubclass(cls, zaqar_scenario.Step)
    }
    documented = set(re.findall(r"^\| `(\w+)` \|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE))
    assert known - {"Step"} <= documented


def test_equal_seeds_give_equal_traces() -> None:
    scenario = {"steps": [{"do": "post", "queue": "q", "messages": [{"body": 1}]}]}
    assert simulate(scenario) == simulate(scenario)
    assert simulate(scenario) != simulate({**scenario, "seed": 1})


def test_a_trace_is_plain_json() -> None:
    trace = simulate(
        {
            "steps": [
                {"do": "post", "queue": "q", "messages": [{"id": "a", "body": {"x": [1, None]}}]},
                {"do": "claim", "queue": "q"},
            ]
        }
    )
    assert json.loads(json.dumps(trace)) == trace


def test_time_goes_on_to_the_end() -> None:
    trace = simulate({"steps": [{"do": "post", "queue": "q", "messages": [{"id": "a", "ttl": 60}]}], "until_s": 60})
    assert [event["event"] for event in trace["events"]] == ["published", "expired"]


def step(**fields: Any) -> dict[str, Any]:
    return {"steps": [{"do": "wait", "s": 5}, fields]}


@pytest.mark.parametrize(
    ("scenario", "where", "said"),
    [
        ({}, "", "steps"),
        ({"steps": {}}, "steps", "Expected `array`"),
        ({"steps": [], "queue": {}}, "", "queue"),
        ({"steps": [], "system": "rabbitmq"}, "system", "expected 'zaqar'"),
        ({"steps": [], "profile": "mysql"}, "profile", "expected one of spec, redis, mongodb, swift"),
        ({"steps": [], "queues": {"a b": {}}}, "queues.a b", "The format of the submitted queue name"),
        ({"steps": [], "queues": {"a": {"_max_claim_count": "x"}}}, "queues.a", "_max_claim_count must be integer."),
        (step(do="jump"), "steps[1].do", "jump"),
        (step(do="claim"), "steps[1]", "queue"),
        (step(do="claim", queue="q", claims="1"), "steps[1]", "claims"),
        (step(do="claim", queue=""), "steps[1].queue", "length >= 1"),
        (step(do="wait", s=-1), "steps[1].s", ">= 0"),
        (step(do="end_claims", at_s=4), "steps[1].at_s", "expected 5 or later"),
        (step(do="post", queue="q", messages=[{"id": "a"}, {"id": "a"}]), "steps[1]", "'a' is taken already"),
        ({"steps": [{"do": "wait", "s": 5}], "until_s": 4}, "until_s", "expected 5 or later"),
    ],
)
def test_what_is_wrong_with_a_scenario(scenario: dict[str, Any], where: str, said: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        simulate(scenario)
    assert raised.value.where == where
    assert said in raised.value.problem
