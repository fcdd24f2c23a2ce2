"""Queues that the definitions lack, such as a consumer's exclusive one: nothing is said of what comes out of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simulator.cli.main import main
from tests.replay.logs import Log, death, definitions_of, died, write_log

LACKING = "queue 'mine' of '/' is not in the definitions (exports omit exclusive queues)"
DEFINITIONS = definitions_of({"work": {}, "dead": {}}, {"in": "topic", "dlx": "fanout"}, [("dlx", "dead", "")])


def log(reason: str) -> Log:
    """Three messages that a consumer got from its exclusive queue, where they died, and their dead letters."""
    found = Log()
    for name in ("a", "b", "c"):
        found.publish("in", "key", message_id=name, routed=["mine"])
        if reason == "rejected":
            found.deliver("mine", "in", ["key"], message_id=name)
        headers = died(death("mine", reason, exchange="in", keys=["key"]))
        found.deliver("dead", "dlx", ["key"], message_id=name, headers=headers)
    return found


@pytest.mark.parametrize("rules", ["3.10", "4.3"])
def test_a_loop_through_a_queue_that_is_not_exported_is_unchecked_in_every_round(tmp_path: Path, rules: str) -> None:
    loop = Log().publish("", "work").deliver("work", "", ["work"])
    for number in (1, 2, 3):
        deaths = [
            death("wait", "expired", count=number, keys=["wait"]),
            death("work", "rejected", count=number, keys=["work"]),
        ]
        loop.deliver("work", "", ["work"], headers=died(*deaths))
    defined = definitions_of({"work": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait"}})
    rows = loop.replay(tmp_path, defined, rules)
    assert [row["verdict"] for row in rows] == ["agree"] * 4
    assert [[each["what"] for each in row["unchecked"]] for row in rows[1:]] == [["queue"]] * 3


@pytest.mark.parametrize("reason", ["rejected", "expired"])
def test_what_died_in_a_queue_that_is_not_exported_is_unchecked(tmp_path: Path, capsys: Any, reason: str) -> None:
    path = tmp_path / "definitions.json"
    path.write_bytes(DEFINITIONS.to_json())
    command = ["replay", str(write_log(tmp_path / "trace.log", log(reason).records)), "--definitions", str(path)]
    assert main([*command, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["unchecked"] == {"queue": summary["deliveries"]}
    assert summary["deliveries"] == len(log(reason).records) - 3
    assert main(command) == 0
    assert LACKING in capsys.readouterr().out
