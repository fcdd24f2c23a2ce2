"""Redrives that are killed at any step and go on with their journal lose nothing, and name what may be there twice."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.redrive.dead_letters import DEAD, WORK, Place, declare, let_die

MESSAGES = 3
STEPS_MAX = 200


@pytest.mark.slow
@pytest.mark.parametrize("place", ["3.8", "4.3"], indirect=True)
@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_no_kill_loses_a_message(place: Place, queue_type: str, tmp_path: Path) -> None:
    kill_at_every_step(place, queue_type, tmp_path)


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_no_kill_loses_a_message_on_a_real_server(live_place: Place, queue_type: str, tmp_path: Path) -> None:
    kill_at_every_step(live_place, queue_type, tmp_path)


def kill_at_every_step(place: Place, queue_type: str, folder: Path) -> None:
    """Kill at the first step, at the second, ..., until a run comes to its end."""
    declare(place, queue_type)
    wanted = Counter(f"m{number}" for number in range(MESSAGES))
    for step in range(STEPS_MAX):
        let_die(place, MESSAGES, expire=False)
        arguments = command(place, folder / f"{step}.jsonl")
        first = run("tests.redrive.killed", str(step), *arguments)
        again = run("simulator.cli.main", *arguments)
        assert again.returncode == 0, again.stderr.decode()
        report = json.loads(again.stdout)
        assert taken(place, DEAD) == Counter(), f"left behind after a kill at step {step}"
        found = taken(place, WORK)
        assert not wanted - found, f"lost after a kill at step {step}"
        assert not found - wanted - Counter(report["possible_duplicates"]), f"not named after a kill at step {step}"
        assert (report["planned"], report["moved"], report["left"]) == (MESSAGES, MESSAGES, 0)
        if first.returncode != -signal.SIGKILL:
            assert first.returncode == 0, first.stderr.decode()
            assert step > MESSAGES
            return
    raise AssertionError(f"it still did not end after {STEPS_MAX} steps")


def run(module: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run a module as a process of its own."""
    return subprocess.run([sys.executable, "-m", module, *arguments], check=False, capture_output=True, timeout=60)


def taken(place: Place, queue: str) -> Counter[str]:
    """Take everything out of a queue, and return how often each message was there."""
    return Counter(str(properties.message_id) for _, properties, _ in place.waiting(queue))


def command(place: Place, journal: Path) -> list[str]:
    """The redrive of the dead-letter queue."""
    server = place.server
    return [
        "redrive", place.amqp_url, DEAD, "--management-url", server.management_url, "--vhost", server.vhost,
        "--execute", "--json", "--journal", str(journal),
    ]  # fmt: skip
