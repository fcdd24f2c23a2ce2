"""``dlx simulate``: scenarios of RabbitMQ, and what is wrong with one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dlx.releases import RELEASES
from simulator.cli.main import main

QUEUES = [
    {
        "name": "orders",
        "arguments": {"x-message-ttl": 1_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"},
    },
    {"name": "dead", "arguments": {}},
]
SCENARIO: dict[str, Any] = {
    "definitions": {"queues": [{"vhost": "/", "durable": True, "auto_delete": False, **each} for each in QUEUES]},
    "release": "4.3",
    "steps": [{"do": "publish", "exchange": "", "routing_key": "orders"}, {"do": "wait", "ms": 1_000}],
}


def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, system: str, scenario: Any) -> tuple[int, str, str]:
    file = tmp_path / "scenario.json"
    file.write_text(scenario if isinstance(scenario, str) else json.dumps(scenario))
    status = main(["simulate", system, str(file)])
    return status, *capsys.readouterr()


def test_a_scenario_prints_what_happened_and_what_is_left(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, out, _ = run(capsys, tmp_path, "rabbitmq", SCENARIO)
    trace = json.loads(out)
    assert status == 0
    assert [(each["event"], each["time_ms"]) for each in trace["events"]] == [
        ("published", 0),
        ("routed", 0),
        ("expired", 1_000),
        ("dead-lettered", 1_000),
        ("routed", 1_000),
    ]
    (dead,) = trace["queues"]["dead"]
    assert dead["headers"]["x-death"][0]["reason"] == "expired"
    assert trace["queues"]["orders"] == []


@pytest.mark.parametrize(
    ("version", "release", "remark"),
    [
        ("3.13.7", "3.13", ""),
        ("4.3.6", "4.3", ""),
        ("4.0.9", "4.0", "note: the rules of RabbitMQ 4.0.5 stand in for those of 4.0.9\n"),
    ],
)
def test_a_version_is_taken_and_a_note_tells_which_stands_in_for_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, version: str, release: str, remark: str
) -> None:
    status, out, err = run(capsys, tmp_path, "rabbitmq", {**SCENARIO, "release": version})
    assert (status, json.loads(out)["release"], err) == (0, release, remark)


@pytest.mark.parametrize(
    ("scenario", "said"),
    [
        ("{", "scenario.json: "),
        ("[]", "expected an object, got an array"),
        ({"step": []}, "step: unknown; expected definitions, steps, release"),
        (
            {**SCENARIO, "release": "5"},
            f"release: no release '5': known are {', '.join(RELEASES)}; the nearest is 4.3\n",
        ),
        ({**SCENARIO, "release": 4.3}, "release: 4.3; expected a name or a version, such as '4.3'\n"),
        ({**SCENARIO, "definitions": 1}, "definitions: expected an export"),
        ({**SCENARIO, "definitions": {"queues": [{"name": 1}]}}, "definitions.queues[0]"),
        ({**SCENARIO, "steps": [{"do": "jump"}]}, "steps: Invalid value 'jump' - at `$[0].do`"),
        ({**SCENARIO, "steps": [{"do": "clear-policy", "name": "p"}]}, "steps: "),
        (
            {**SCENARIO, "steps": [*SCENARIO["steps"], {"do": "reject", "queue": "oders"}]},
            "steps[2].queue: no queue 'oders'; did you mean 'orders'?",
        ),
        (
            {**SCENARIO, "steps": [{"do": "repeat", "times": 2, "steps": [{"do": "ack", "queue": "daed"}]}]},
            "steps[0].steps[0].queue: no queue 'daed'; did you mean 'dead'?",
        ),
        (
            {**SCENARIO, "steps": [{"do": "publish", "exchange": "", "routing_key": "order"}]},
            "steps[0].routing_key: no queue 'order'; did you mean 'orders'?",
        ),
        (
            {**SCENARIO, "steps": [{"do": "publish", "exchange": "amq.topics", "routing_key": "x"}]},
            "steps[0].exchange: no exchange 'amq.topics'; did you mean 'amq.topic'",
        ),
        (
            {**SCENARIO, "steps": [{"do": "leave", "queue": "orders", "vhost": "shop"}]},
            "steps[0].vhost: no virtual host 'shop'; there are '/'",
        ),
    ],
)
def test_a_wrong_scenario_is_65_and_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, scenario: Any, said: str
) -> None:
    status, out, err = run(capsys, tmp_path, "rabbitmq", scenario)
    assert (status, out) == (65, "")
    assert said in err


def test_an_unknown_system_is_64(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, _, err = run(capsys, tmp_path, "kafka", SCENARIO)
    assert status == 64
    assert "'rabbitmq'" in err


def test_options_of_rabbitmq_are_refused_for_another_system(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "ironmq", "--definitions", "d.json", "--user", "a:b"]) == 64
    err = capsys.readouterr().err
    assert "--definitions, --user: ironmq does not take these; it takes --host, --port and --clock" in err
