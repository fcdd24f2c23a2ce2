"""The simulator does what a real ActiveMQ 5.17 does, with the same configuration and the same steps."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from simulator.activemq import simulate
from tests.systems.activemq.live.agreement import LATE_MS, SCHEDULER_LATE_MS, assert_agreement
from tests.systems.activemq.live.player import as_text
from tests.systems.activemq.live.scenarios import DLQ, SCENARIOS, Steps, drain

CONFIGURATION = Path(__file__).with_name("activemq.xml").read_text()

pytestmark = pytest.mark.live


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_simulator_does_what_the_broker_does(activemq: Path, name: str) -> None:
    steps = [*drain(DLQ), *SCENARIOS[name]]  # first away with what another scenario left
    queues = [queue for queue in simulated(steps)["queues"] if queue.startswith("queue://")]
    steps += [{"do": "browse", "queue": queue} for queue in queues]
    expected = simulated(steps)
    lines = play(activemq, steps)

    if any("listener" in step for step in steps):  # it runs beside the steps, whichever is on
        lines = [{**line, "step": None} if "delivered" in line else line for line in lines]
        beside = [{**event, "step": None} if event["event"] == "delivered" else event for event in expected["events"]]
        expected = {**expected, "events": beside}
    lines = [line for line in lines if line["step"] != 0]
    expected = {**expected, "outcomes": [each for each in expected["outcomes"] if each["step"] != 0]}
    assert_agreement(lines, expected, SCHEDULER_LATE_MS if "plugin" in name else LATE_MS)


def simulated(steps: Steps) -> dict[str, Any]:
    """What the simulator makes of the steps."""
    scenario = {"start_ms": 1_600_000_000_000, "broker": {"activemq_xml": CONFIGURATION}, "steps": steps}
    return simulate(scenario)


def play(activemq: Path, steps: Steps) -> list[dict[str, Any]]:
    """What the real broker and client made of the steps."""
    played = subprocess.run([activemq, "play"], input=as_text(steps), capture_output=True, text=True, timeout=120)
    assert played.returncode == 0, played.stderr
    return [json.loads(line) for line in played.stdout.splitlines()]
