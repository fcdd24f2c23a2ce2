"""A scenario with a wrong name gets an error with the names that are right there, the nearest first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from simulator.scenario.rabbitmq_scenario import simulate as rabbitmq
from simulator.scenario.scenario_errors import ScenarioError
from simulator.systems.activemq import simulate as activemq
from simulator.systems.compare import read as compare
from simulator.systems.ibm_mq import simulate as ibm_mq
from simulator.systems.ironmq import simulate as ironmq
from simulator.systems.zaqar import simulate as zaqar

Read = Callable[[Mapping[str, Any]], Any]
STRATEGY = {"policies": [{"queue": "Q", "deadLetterStrategy": {"strategy": "individul"}}]}
PREFIX = {"policies": [{"queue": "Q", "deadLetterStrategy": {"strategy": "individual", "queuePrefx": "D."}}]}


@pytest.mark.parametrize(
    ("read", "scenario", "said"),
    [
        (activemq, {"broker": STRATEGY}, "; did you mean individual? expected one of shared, individual, discarding"),
        (activemq, {"broker": PREFIX}, "unknown field `queuePrefx`; did you mean queuePrefix or"),
        (activemq, {"steps": [{"do": "recieve", "consumer": "c"}]}, "; did you mean receive"),
        (
            activemq,
            {"steps": [{"do": "session", "session": "s", "connection": "c", "acknowledge": "transaction"}]},
            "; did you mean transacted",
        ),
        (rabbitmq, {"definitions": {}, "steps": [{"do": "publsh"}]}, "; did you mean publish? expected one of publish"),
        (
            rabbitmq,
            {"definitions": {}, "steps": [{"do": "repeat", "times": 2, "steps": [{"do": "ack", "queu": "q"}]}]},
            "unknown field `queu`; did you mean queue?",
        ),
        (zaqar, {"steps": [{"do": "relese", "queue": "q"}]}, "; did you mean release"),
        (zaqar, {"steps": [{"do": "claim", "queue": "q", "grance": 60}]}, "; did you mean grace"),
        (ironmq, {"steps": [{"do": "reserv", "at_s": 0, "queue": "q"}]}, "; did you mean reserve"),
        (ironmq, {"steps": [{"at_s": 0, "queue": "q"}]}, "missing required field `do`; expected one of create, update"),
        (ibm_mq, {"rules_table": "", "outages": [{"queu": "q"}]}, "; did you mean queue? expected queue"),
        (compare, {"messages": [{"name": "a"}], "until": 5}, "; did you mean until_ms? expected messages, until_ms"),
    ],
)
def test_the_nearest_name_is_told(read: Read, scenario: Mapping[str, Any], said: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        read(scenario)
    assert said in refused.value.problem


@pytest.mark.parametrize(
    ("read", "scenario", "problem"),
    [
        (zaqar, {"steps": {}}, "Expected `array`, got `object`"),
        (ironmq, {"steps": [{"do": "peek", "queue": "q"}]}, "Object missing required field `at_s`"),
        (compare, {"messages": 1, "until_ms": 5}, "Expected `array`, got `int`"),
    ],
)
def test_where_no_name_is_wrong_none_is_told(read: Read, scenario: Mapping[str, Any], problem: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        read(scenario)
    assert refused.value.problem == problem
