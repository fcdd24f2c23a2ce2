"""Queues that are deleted, and connections closed, in the midst of a redrive: it ends with an error, or goes on."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from simulator.cli.main import main
from simulator.redrive.plan import RedrivePlanner
from tests.redrive.dead_letters import DEAD, WORK, Place, declare, let_die

MESSAGES = 6


def test_the_dead_letter_queue_is_deleted(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert redrive_while_deleting(place, DEAD, tmp_path, monkeypatch) == 69
    assert f"no queue '{DEAD}'" in capsys.readouterr().err


def test_the_queue_that_they_go_to_is_deleted(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert redrive_while_deleting(place, WORK, tmp_path, monkeypatch) == 1
    assert f"{MESSAGES} left: routed nowhere" in capsys.readouterr().out
    assert [properties.message_id for _, properties, _ in place.waiting(DEAD)] == [f"m{n}" for n in range(MESSAGES)]


def test_a_connection_that_an_operator_closes_is_an_error_and_the_next_run_goes_on(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(place, "quorum")
    let_die(place, MESSAGES, expire=False)
    server = place.server
    command = ["redrive", place.amqp_url, DEAD, "--management-url", server.management_url, "--execute", "--json"]
    command += ["--journal", str(tmp_path / "journal")]
    planned = RedrivePlanner.planned
    looked_at: list[Any] = []

    def closing(self: RedrivePlanner, *arguments: Any, **named: Any) -> Any:
        looked_at.append(arguments)
        if len(looked_at) == MESSAGES // 2:
            for connection in place.api("GET", "connections"):
                place.api("DELETE", f"connections/{quote(connection['name'], safe='')}")
        return planned(self, *arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(RedrivePlanner, "planned", closing)
        assert main([*command, "--rate", "100"]) == 69
    assert "the broker closed it" in capsys.readouterr().err
    assert main(command) == 0
    said = capsys.readouterr()
    doubled = json.loads(said.out)["possible_duplicates"]
    assert [line.split()[2] for line in said.err.splitlines() if line.startswith("possible duplicate")] == doubled
    found = Counter(properties.message_id for _, properties, _ in place.waiting(WORK))
    moved = Counter(f"m{number}" for number in range(MESSAGES))
    assert (moved - found, found - moved - Counter(doubled)) == (Counter(), Counter())
    assert place.waiting(DEAD) == []


def redrive_while_deleting(place: Place, queue: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Redrive; the queue is deleted when the first message has been planned for."""
    declare(place, "quorum")
    let_die(place, MESSAGES, expire=False)
    planned = RedrivePlanner.planned

    def deleting(self: RedrivePlanner, *arguments: Any, **named: Any) -> Any:
        with place.channel() as channel:
            channel.queue_delete(queue)
        return planned(self, *arguments, **named)

    monkeypatch.setattr(RedrivePlanner, "planned", deleting)
    server = place.server
    on = [place.amqp_url, DEAD, "--management-url", server.management_url]
    return main(["redrive", *on, "--execute", "--journal", str(folder / "journal"), "--rate", "100"])
