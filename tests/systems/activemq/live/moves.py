"""Moves of a topology to ActiveMQ, as a real broker is asked: the file that was built, and the histories played on it.

``python -m tests.systems.activemq.live.moves`` asks it, and keeps the answers.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from dlx.releases import release
from simulator.analysis.snapshot import Snapshot
from simulator.sources import definitions_from_file
from simulator.systems.activemq import nearest, simulate
from simulator.systems.move.moving import Moving
from simulator.systems.move.playing import HISTORIES
from simulator.systems.move.reading import read
from tests.systems.activemq.live.player import Line, Player

ROOT = Path(__file__).parents[4]
RECORDED = Path(__file__).parents[1] / "recorded_moves"
BROKER = Path(__file__).with_name("broker")
PATIENCE_MS = 3_000
"""So long is waited for a message that does not come, beyond the longest pause."""


class MoveAsked(NamedTuple):
    """One history on one topology: a name of ``examples/topologies``, and one of ``HISTORIES``."""

    topology: str
    history: str


ASKED = (
    MoveAsked("sound/plain-dead-letter-queue", "rejected"),
    MoveAsked("sound/plain-dead-letter-queue", "consumer dies"),
    MoveAsked("sound/quorum-with-parking", "rejected"),
    MoveAsked("sound/quorum-with-parking", "returned every time"),
    MoveAsked("sound/quorum-with-parking", "consumer dies"),
    MoveAsked("sound/quorum-with-parking", "expires"),
    MoveAsked("sound/delayed-retry", "rejected"),
    MoveAsked("sound/delayed-retry", "returned every time"),
    MoveAsked("sound/delayed-retry", "consumer dies"),
    MoveAsked("sound/three-delays-and-parking", "rejected"),
    MoveAsked("sound/three-delays-and-parking", "rejected every time"),
    MoveAsked("sound/length-limit-keeps-everything", "full"),
    MoveAsked("sound/length-limit-keeps-everything", "returned every time"),
    MoveAsked("frameworks/spring-cloud-stream", "rejected"),
    MoveAsked("broken/argument-hides-policy", "rejected"),
)


@cache
def scenario_of(asked: MoveAsked) -> dict[str, Any]:
    """Return what is played: the whole file that was built, and the steps without the wait for what does not come."""
    definitions = definitions_from_file(ROOT / "examples" / "topologies" / f"{asked.topology}.json")
    moving = Moving(read(Snapshot(definitions, release("4.3"))), nearest, "activemq", "5.17.2", "4.3")
    history = next(each for each in HISTORIES if each.name == asked.history)
    to_play = moving.shapes[0][0]
    _, ran = moving.plays(to_play, history).ran("activemq", "5.17.2")
    [xml] = nearest.files(moving.moved).values()
    queues = [moving.moved.names[to_play.queue.at], moving.moved.named(to_play.queue.dead_at), "ActiveMQ.DLQ"]
    longest_ms = max((0, *to_play.queue.delays_ms)) + PATIENCE_MS
    steps = _shortened(ran.scenario, longest_ms)
    drains = [{"do": "drain", "queue": queue} for queue in dict.fromkeys(queues) if queue]
    return {"broker": {"activemq_xml": xml}, "steps": [*steps, *drains], "start_ms": 1_600_000_000_000}


def _shortened(scenario: dict[str, Any], longest_ms: int) -> list[dict[str, Any]]:
    """Return the steps up to the first message that does not come, with less patience for it; then the client goes."""
    steps: list[dict[str, Any]] = []
    outcomes = {each["step"]: each for each in simulate(scenario)["outcomes"]}
    for number, step in enumerate(scenario["steps"]):
        if step["do"] == "receive":
            step = {**step, "timeout_ms": min(step["timeout_ms"], longest_ms)}
        steps.append(step)
        if step["do"] == "receive" and outcomes[number]["received"] is None:
            break
    connections = [step["connection"] for step in steps if step["do"] == "connect"]
    broken = [step["connection"] for step in steps if step["do"] == "disconnect"]
    ends = [{"do": "close", "connection": each} for each in connections if each not in broken]
    return [*(step for step in steps if step["do"] != "wait" or not connections), *ends]


def file_of(asked: MoveAsked) -> Path:
    """Return where the answer is kept."""
    return RECORDED / (re.sub(r"[^a-z0-9]+", "-", "-".join(asked)) + ".json")


def kept(asked: MoveAsked) -> dict[str, Any]:
    """Return a move as it was recorded."""
    document: dict[str, Any] = json.loads(file_of(asked).read_text())
    return document


def keep(asked: MoveAsked, lines: list[Line]) -> None:
    """Write what the broker told."""
    scenario = scenario_of(asked)
    rows = {
        "topology": json.dumps(asked.topology),
        "history": json.dumps(asked.history),
        "broker": json.dumps("ActiveMQ Classic 5.17.2"),
        "xml": json.dumps(scenario["broker"]["activemq_xml"]),
        "steps": _listed(scenario["steps"]),
        "lines": _listed(lines),
    }
    text = ",\n".join(f"  {json.dumps(field)}: {row}" for field, row in rows.items())
    file_of(asked).write_text(f"{{\n{text}\n}}\n")


def _listed(values: list[Any]) -> str:
    return "[\n    " + ",\n    ".join(json.dumps(each) for each in values) + "\n  ]"


def main(names: list[str]) -> None:
    """Record the moves, or those of some topologies."""
    RECORDED.mkdir(exist_ok=True)
    subprocess.run([BROKER, "prepare"], check=True)
    player = Player(BROKER)
    for asked in ASKED:
        if not names or asked.topology in names:
            scenario = scenario_of(asked)
            keep(asked, player.play(scenario["broker"]["activemq_xml"], scenario["steps"]))
            print(*asked)
    player.close()


if __name__ == "__main__":
    main(sys.argv[1:])
