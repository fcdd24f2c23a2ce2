"""The simulator does what a real ActiveMQ 5.17 does, with one configuration for many scenarios."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simulator.systems.activemq import simulate
from tests.systems.activemq.live.agreement import LATE_MS, SCHEDULER_LATE_MS, assert_agreement
from tests.systems.activemq.live.player import Player, again_if_late
from tests.systems.activemq.live.scenarios import SCENARIOS, Steps

CONFIGURATION = Path(__file__).with_name("activemq.xml").read_text()

pytestmark = pytest.mark.live


@again_if_late
def check(player: Player, name: str) -> None:
    """Play a scenario to a broker and to the simulator, and count what is left in each queue."""
    steps = SCENARIOS[name]
    queues = [queue for queue in simulated(steps)["queues"] if queue.startswith("queue://")]
    steps = [*steps, *({"do": "browse", "queue": queue} for queue in queues)]
    expected = simulated(steps)
    lines = player.play(CONFIGURATION, steps)
    if any("listener" in step for step in steps):  # it runs beside the steps, whichever is on
        lines = [{**line, "step": None} if "delivered" in line else line for line in lines]
        beside = [{**event, "step": None} if event["event"] == "delivered" else event for event in expected["events"]]
        expected = {**expected, "events": beside}
    assert_agreement(lines, expected, SCHEDULER_LATE_MS if "plugin" in name else LATE_MS)


def simulated(steps: Steps) -> dict[str, Any]:
    """What the simulator makes of the steps."""
    scenario = {"start_ms": 1_600_000_000_000, "broker": {"activemq_xml": CONFIGURATION}, "steps": steps}
    return simulate(scenario)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_simulator_does_what_the_broker_does(checked: Callable[[], None], name: str) -> None:
    checked()
