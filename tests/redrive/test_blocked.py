"""A broker that is short of memory takes no publishes: a redrive does not wait for ever, and loses nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simulator.cli.main import main
from simulator.redrive import execute
from simulator.redrive.server import server_at
from simulator.server import serve
from tests.redrive.dead_letters import DEAD, WORK, Place, declare, let_die

MESSAGES = 3


def test_a_blocked_redrive_ends_and_goes_on_later(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execute, "BLOCKED_S", 0.3)
    with serve("4.3", management_port=0) as server:
        place = Place(server_at(server.amqp_url, server.management_url), "4.3")
        declare(place, "quorum")
        let_die(place, MESSAGES, expire=False)
        command = [
            "redrive", place.amqp_url, DEAD, "--management-url", place.server.management_url, "--execute", "--json",
            "--rate", "2",
            "--journal", str(tmp_path / "journal"),
        ]  # fmt: skip
        server.faults.add("alarm", resource="memory")
        assert main(command) == 69
        assert "the broker takes no publishes: it ran short of memory or disk" in capsys.readouterr().err
        server.faults.clear()
        assert main(command) == 0
        found = json.loads(capsys.readouterr().out)
        moved = [f"m{number}" for number in range(MESSAGES)]
        taken = [properties.message_id for _, properties, _ in place.waiting(WORK)]
        assert set(taken) == set(moved)
        assert sorted(taken) == sorted([*moved, *found["possible_duplicates"]][: len(taken)])
        assert len(found["possible_duplicates"]) == 1  # what was sent before the broker said that it takes no more
        assert place.waiting(DEAD) == []
