"""Queues that are deleted in the midst of a redrive: it ends with an error, or leaves the rest where it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simulator.cli.main import main
from simulator.redrive.plan import Planner
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
    assert f"{MESSAGES} stay: routed nowhere" in capsys.readouterr().out
    assert [properties.message_id for _, properties, _ in place.waiting(DEAD)] == [f"m{n}" for n in range(MESSAGES)]


def redrive_while_deleting(place: Place, queue: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Redrive; the queue is deleted when the first message has been planned for."""
    declare(place, "quorum")
    let_die(place, MESSAGES, expire=False)
    planned = Planner.planned

    def deleting(self: Planner, *arguments: Any, **named: Any) -> Any:
        with place.channel() as channel:
            channel.queue_delete(queue)
        return planned(self, *arguments, **named)

    monkeypatch.setattr(Planner, "planned", deleting)
    server = place.server
    on = [place.amqp_url, DEAD, "--management-url", server.management_url]
    return main(["redrive", *on, "--execute", "--journal", str(folder / "journal"), "--rate", "100"])
