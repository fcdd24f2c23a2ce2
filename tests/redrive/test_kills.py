"""Redrives that are killed on real servers and go on with their journal lose nothing, and name what is doubled.

``test_every_step.py`` does the same in memory, frame by frame, with more messages.
"""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from simulator.cli.main import main
from tests.long import some_in_ci
from tests.redrive.dead_letters import DEAD, WORK, Place, declare, let_die
from tests.redrive.killed import in_a_process_of_its_own, kill_this_process_at

MESSAGES = 3
STEPS_MAX = 400


@pytest.mark.parametrize("queue_type", some_in_ci(["classic", "quorum"], ["quorum"]))
def test_no_kill_loses_a_message_on_a_real_server(live_place: Place, queue_type: str, tmp_path: Path) -> None:
    """Kill at the first step, at the second, ..., until a run comes to its end."""
    declare(live_place, queue_type)
    wanted = Counter(f"m{number}" for number in range(MESSAGES))
    for step in range(STEPS_MAX):
        let_die(live_place, MESSAGES, expire=False)
        arguments = command(live_place, tmp_path / f"{step}.jsonl")

        def killed(step: int = step, arguments: list[str] = arguments) -> int:
            kill_this_process_at(step)
            return main(arguments)

        first, _ = run(killed, tmp_path)
        again, shown = run(lambda arguments=arguments: main(arguments), tmp_path)  # type: ignore[misc]
        assert again == 0, shown
        report = json.loads(shown[shown.index("{") :])
        assert taken(live_place, DEAD) == Counter(), f"left behind after a kill at step {step}"
        found = taken(live_place, WORK)
        assert not wanted - found, f"lost after a kill at step {step}"
        assert not found - wanted - Counter(report["possible_duplicates"]), f"not named after a kill at step {step}"
        assert (report["planned"], report["moved"], report["left"]) == (MESSAGES, MESSAGES, 0)
        if first != -signal.SIGKILL:
            assert (first, step > 8 * MESSAGES) == (0, True)
            return
    raise AssertionError(f"it still did not end after {STEPS_MAX} steps")


def run(act: Callable[[], int], folder: Path) -> tuple[int, str]:
    """Do something in a process of its own; return its exit code and what it printed."""
    shown = folder / "shown"
    with shown.open("wb") as out:
        code = in_a_process_of_its_own(act, out.fileno())
    return code, shown.read_text()


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
