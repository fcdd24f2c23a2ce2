"""Histories of every system replay under that system's rules, in this process and on Spark."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simulator.cli.main import main
from simulator.replay.histories import replay_history
from simulator.systems import SYSTEMS, simulate
from simulator.systems.compare import compare, read

NEUTRAL = json.loads(Path("examples/compare/consumers-that-die.json").read_text())


def histories() -> Iterator[dict[str, Any]]:
    """One history of each system: what each makes of the same neutral scenario, and what it then did."""
    for outcome in compare(read(NEUTRAL), list(SYSTEMS)):
        scenario = json.loads(json.dumps(outcome.scenario))
        trace = json.loads(json.dumps(simulate(outcome.system, scenario), default=str))
        yield {
            "history": f"of {outcome.system}",
            "system": outcome.system,
            "scenario": scenario,
            "events": trace["events"],
        }


@pytest.fixture(scope="module")
def known() -> dict[str, dict[str, Any]]:
    return {each["system"]: each for each in histories()}


def verdict(history: dict[str, Any], **how: Any) -> Any:
    return replay_history(json.dumps(history), **how)


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_a_system_did_agrees(known: dict[str, dict[str, Any]], system: str) -> None:
    found = verdict(known[system])
    assert (found.verdict, found.problem) == ("agree", None)
    assert found.events == len(known[system]["events"]) > 0


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("altered", ["queue", "event", "time_ms", "gone", "more"])
def test_what_it_did_not_differs_at_that_event(known: dict[str, dict[str, Any]], system: str, altered: str) -> None:
    history = copy.deepcopy(known[system])
    events = history["events"]
    at = len(events) // 2
    if altered == "gone":
        at = len(events) - 1
        del events[at]
    elif altered == "more":
        at = len(events)
        events.append(events[0])
    else:
        events[at][altered] = 10**9 if altered == "time_ms" else "another"
    found = verdict(history)
    assert (found.verdict, found.at) == ("differs", at)


def test_the_identities_of_messages_are_the_logs_own(known: dict[str, dict[str, Any]]) -> None:
    history = copy.deepcopy(known["zaqar"])
    for event in history["events"]:
        event["message"] = f"id-{event['message']}"
    assert verdict(history).verdict == "agree"


def test_a_log_may_hold_some_kinds_of_events_alone(known: dict[str, dict[str, Any]]) -> None:
    history = copy.deepcopy(known["rabbitmq"])
    kinds = ["published", "delivered"]
    history["events"] = [event for event in history["events"] if event["event"] in kinds]
    assert verdict(history).verdict == "differs"
    assert verdict({**history, "kinds": kinds}).verdict == "agree"


def test_clocks_of_real_servers_are_allowed_for(known: dict[str, dict[str, Any]]) -> None:
    history = copy.deepcopy(known["activemq"])
    for event in history["events"]:
        event["time_ms"] += 20
    assert verdict(history).verdict == "differs"
    assert verdict(history, tolerance_ms=30).verdict == "agree"


def test_what_another_limit_would_change(known: dict[str, dict[str, Any]]) -> None:
    def older(scenario: dict[str, Any]) -> dict[str, Any]:
        return {**scenario, "release": "3.13"}

    assert verdict(known["rabbitmq"], change=older).verdict == "differs"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "expected an object with system, scenario and events"),
        ('{"system": "rabbitmq"}', "missing required field `scenario`"),
        ('{"system": "kafka", "scenario": {}, "events": []}', "system: 'kafka'; expected one of rabbitmq"),
        ('{"system": "rabbitmq", "scenario": {"step": 1}, "events": []}', "scenario.step: unknown"),
    ],
)
def test_a_line_that_cannot_be_read_is_said_why(line: str, problem: str) -> None:
    found = replay_history(line)
    assert found.verdict == "unreadable"
    assert found.problem is not None
    assert problem in found.problem


@pytest.mark.spark
def test_a_log_of_all_systems_goes_through_spark(
    known: dict[str, dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "histories.jsonl"
    wrong = copy.deepcopy(known["ironmq"])
    wrong["history"], wrong["events"][1]["queue"] = "altered", "another"
    log.write_text("".join(json.dumps(each) + "\n" for each in (*known.values(), *known.values(), wrong)))
    assert main(["replay", str(log), "--form", "histories", "--json", "--master", "local[2]"]) == 1
    report = json.loads(capsys.readouterr().out)
    counted = {(row["system"], row["verdict"]): row["histories"] for row in report["counts"]}
    assert counted == {**{(system, "agree"): 2 for system in SYSTEMS}, ("ironmq", "differs"): 1}
    (found,) = report["differs"]
    assert (found["history"], found["at"], json.loads(found["seen"])["queue"]) == ("altered", 1, "another")
