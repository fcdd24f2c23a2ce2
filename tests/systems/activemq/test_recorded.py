"""The simulator does what a real broker was recorded to do, each time with a configuration of its own."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from simulator.scenario.scenario_errors import ScenarioError
from simulator.systems.activemq import simulate
from simulator.systems.activemq.activemq_xml import ConfigurationError, broker_settings
from simulator.systems.activemq.destinations import Destination
from simulator.systems.activemq.lint import lint
from simulator.systems.activemq.messages import Message
from simulator.systems.activemq.selectors import SelectorError, parse_selector
from tests.systems.activemq.live.agreement import LATE_MS, SCHEDULER_LATE_MS, assert_agreement
from tests.systems.activemq.live.cases import CASES, REFUSALS, Case, configuration
from tests.systems.activemq.live.configurations import CONFIGURATIONS, NOT_SIMULATED
from tests.systems.activemq.live.documents import DOCUMENTS
from tests.systems.activemq.live.record import (
    ALL,
    RECORDED,
    RECORDED_CONFIGURATIONS,
    RECORDED_DOCUMENTS,
    RECORDED_SELECTORS,
    file_of,
    kept,
)
from tests.systems.activemq.live.selectors import PROPERTIES, SELECTORS


def simulated(case: Case) -> dict[str, Any]:
    """What the simulator makes of a case."""
    scenario = {"start_ms": 1_600_000_000_000, "broker": {"activemq_xml": case.xml}, "steps": case.steps}
    return simulate(scenario)


def late_ms(case: Case) -> int:
    """How late the broker may be."""
    return SCHEDULER_LATE_MS if "schedulerSupport" in case.attributes else LATE_MS


@pytest.mark.parametrize("name", CASES)
def test_the_simulator_does_what_was_recorded(name: str) -> None:
    assert_agreement(kept(name)["lines"], simulated(CASES[name]), late_ms(CASES[name]))


@pytest.mark.parametrize("name", REFUSALS)
def test_the_simulator_refuses_what_was_refused(name: str) -> None:
    *_, last = kept(name)["lines"]
    with pytest.raises(ScenarioError, match=re.escape(last["refused"].rpartition(": ")[2])) as refusal:
        simulated(REFUSALS[name])
    assert str(refusal.value).startswith(f"steps[{last['step']}]")


@pytest.mark.parametrize("name", ALL)
def test_what_was_recorded_is_the_case(name: str) -> None:
    recorded = kept(name)
    assert (recorded["xml"], recorded["steps"]) == (ALL[name].xml, json.loads(json.dumps(ALL[name].steps)))


def test_each_recording_belongs_to_a_case() -> None:
    assert {path.name for path in RECORDED.iterdir()} == {file_of(name).name for name in ALL}


def takes(name: str) -> bool:
    """Whether the simulator takes a configuration; what is wrong with it is said with its place."""
    inner, attributes = CONFIGURATIONS[name]
    try:
        broker_settings(configuration(inner, attributes))
    except ConfigurationError as error:
        return not str(error).startswith("line ")
    return True


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_simulator_takes_the_configurations_that_a_broker_takes(name: str) -> None:
    refused = json.loads(RECORDED_CONFIGURATIONS.read_text())[name]
    assert takes(name) == (not refused and name not in NOT_SIMULATED)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_lint_takes_the_files_that_a_broker_takes(name: str) -> None:
    assert reads(name) == (not json.loads(RECORDED_DOCUMENTS.read_text())[name])


def reads(name: str) -> bool:
    """Whether lint takes a whole file; what is wrong with it is said with its place."""
    try:
        lint(DOCUMENTS[name])
    except ConfigurationError as error:
        return not str(error).startswith("line 1, column ")
    return True


VERDICTS: dict[str, str] = json.loads(RECORDED_SELECTORS.read_text())


def test_every_selector_is_recorded() -> None:
    assert tuple(VERDICTS) == SELECTORS


@pytest.mark.parametrize("selector", SELECTORS)
def test_a_selector_selects_as_recorded(selector: str) -> None:
    message = Message(message_id="ID:a-1:1:1:1:1", destination=Destination("queue", "Q"), properties=PROPERTIES)
    try:
        read = parse_selector(selector)
        assert read is not None
        verdict = str(read.selects(message)).lower()
    except SelectorError:
        verdict = "refused"
    assert verdict == VERDICTS[selector].replace("fails", "false")
