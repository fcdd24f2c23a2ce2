"""The simulator does what a real ActiveMQ 5.17 does, with the same configuration and the same steps."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from simulator.activemq import simulate
from tests.systems.activemq.live.scenarios import DLQ, SCENARIOS, Steps, drain

LATE_MS = 250
"""How late a delivery may be on a machine that does other things; delays here are 300 ms apart or more."""
SCHEDULER_LATE_MS = 1500
CONFIGURATION = Path(__file__).with_name("activemq.xml").read_text()

pytestmark = pytest.mark.live


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_simulator_does_what_the_broker_does(activemq: Path, name: str) -> None:
    steps = [*drain(DLQ), *SCENARIOS[name]]  # first away with what another scenario left
    queues = [queue for queue in simulated(steps)["queues"] if queue.startswith("queue://")]
    steps += [{"do": "browse", "queue": queue} for queue in queues]
    expected = simulated(steps)
    lines = play(activemq, steps)

    made = [line for line in lines if "delivered" in line]
    ours = [event for event in expected["events"] if event["event"] == "delivered" and event["consumer"] != "drain"]
    if any("listener" in step for step in steps):  # it runs beside the steps, whichever is on
        made, ours = ([{**each, "step": None} for each in either] for either in (made, ours))
    assert [(line["step"], *seen(line["delivered"])) for line in made] == [
        (event["step"], event["consumer"], event["body"], event["redelivered"], event["delivery_count"])
        for event in ours
    ]
    late_ms = SCHEDULER_LATE_MS if "plugin" in name else LATE_MS
    for real, event in zip(gaps(made), gaps(ours), strict=True):
        assert -10 <= real - event <= late_ms, f"delay: the broker {real} ms, the simulator {event} ms"

    looked = [line for line in lines if "delivered" not in line and line["step"] > 0]
    assert [outcome(line) for line in looked] == [outcome(each) for each in expected["outcomes"][1:]]


def simulated(steps: Steps) -> dict[str, Any]:
    """What the simulator makes of the steps."""
    scenario = {"start_ms": 1_600_000_000_000, "broker": {"activemq_xml": CONFIGURATION}, "steps": steps}
    return simulate(scenario)


def play(activemq: Path, steps: Steps) -> list[dict[str, Any]]:
    """What the real broker and client made of the steps."""
    text = "".join("\t".join(fields(step)) + "\n" for step in steps)
    played = subprocess.run([activemq, "play"], input=text, capture_output=True, text=True, timeout=120)
    assert played.returncode == 0, played.stderr
    return [json.loads(line) for line in played.stdout.splitlines()]


def fields(value: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """A step as the player reads it."""
    for name, each in value.items():
        if isinstance(each, Mapping):
            yield from fields(each, f"{prefix}{name}.")
        else:
            text = str(each).lower() if isinstance(each, bool) else str(each)
            yield f"{quote(prefix + name)}={quote(text)}"


def seen(message: Mapping[str, Any]) -> tuple[Any, ...]:
    """A delivery, as a listener or a receive sees it."""
    return message["consumer"], message["body"], message["JMSRedelivered"], message["JMSXDeliveryCount"]


def gaps(deliveries: list[dict[str, Any]]) -> list[int]:
    """Milliseconds from each delivery to the next, where both are of one step, and the listener's."""
    pairs = itertools.pairwise(deliveries)
    return [after["time_ms"] - before["time_ms"] for before, after in pairs if before["step"] == after["step"]]


def outcome(line: Mapping[str, Any]) -> dict[str, Any]:
    """What a step showed, without what differs from run to run."""
    kept = {name: value for name, value in line.items() if name in ("step", "received", "processed", "messages")}
    if "messages" not in line and "count" in line:
        kept["count"] = line["count"]
    return plain(kept)


def plain(value: Any) -> Any:
    """A value without identifiers, without times and without what only one side tells."""
    if isinstance(value, Mapping):
        told = {name: each for name, each in value.items() if name not in ("message", "lives_for_ms", "consumer")}
        return {name: plain(each) for name, each in told.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, int) and value > 1_000_000_000:
        return "time"
    return re.sub(r"ID:\S+", "ID", re.sub(r"\d{13}", "time", value)) if isinstance(value, str) else value
