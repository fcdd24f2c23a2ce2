"""A queue in which more messages waited than it may hold is not the queue of these definitions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dlx.releases import release
from simulator.capture import convert
from simulator.cli.main import main
from simulator.definitions import Definitions
from simulator.replay import Assumptions
from simulator.replay.engines.local import replay_files
from simulator.replay.results.full_queues import overfull_queues
from simulator.replay.rows.tables import Database
from simulator.replay.rows.topologies import topologies
from tests.replay.logs import Log, death, definitions_of, died, write_log

NAMES = ("a", "b", "c")
EXPIRED = died(death("wait", "expired", keys=["wait"]))


def shop(**arguments: Any) -> Definitions:
    """Orders wait in ``wait``, expire, and come to ``late``; the arguments are those of both."""
    limits = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    to_late = {"x-message-ttl": 20_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "late"}
    return definitions_of({"wait": {**to_late, **limits}, "late": limits})


def three_published() -> Log:
    log = Log()
    for name in NAMES:
        log.publish("", "late", message_id=name)
    return log


def delivered(log: Log, **properties: Any) -> Log:
    for name in NAMES:
        log.deliver("late", "", ["late"], message_id=name, **properties)
    return log


def overfull(folder: Path, log: Log, definitions: Definitions, tolerance_ms: float = 100) -> dict[str, int]:
    """How many messages were found in the queues that held too many."""
    convert([str(write_log(folder / "trace.log", log.records))], str(folder / "log.parquet"))
    assumptions = Assumptions(tolerance_ms=tolerance_ms)
    with Database(folder) as database:
        captured = database.parquet([folder / "log.parquet"])
        replayed = replay_files(captured, definitions, "4.3", assumptions, verdicts=folder / "verdicts.parquet")
        found = overfull_queues(replayed, topologies(definitions), release("4.3"), assumptions)
    return {each.queue: each.messages for each in found}


@pytest.mark.parametrize("length", [0, 1, 2, 3])
@pytest.mark.parametrize("arguments", [{}, {"queue_type": "quorum"}, {"overflow": "reject-publish"}])
def test_no_more_messages_wait_than_the_limit(tmp_path: Path, length: int, arguments: dict[str, Any]) -> None:
    found = overfull(tmp_path, delivered(three_published()), shop(max_length=length, **arguments))
    assert found == ({"late": 3} if length < 3 else {})


def test_what_expires_waited_as_well(tmp_path: Path) -> None:
    log = Log()
    for name in NAMES:
        log.publish("", "wait", message_id=name)
    for _ in range(20):
        log.publish("", "late", message_id="other", routed=["late"])
    assert overfull(tmp_path, delivered(log, headers=EXPIRED), shop(max_length=2)) == {"wait": 3}


def test_one_after_the_other_fills_nothing(tmp_path: Path) -> None:
    log = Log()
    for name in NAMES:
        log.publish("", "late", message_id=name).deliver("late", "", ["late"], message_id=name)
    assert overfull(tmp_path, log, shop(max_length=1)) == {}


def test_what_consumers_hold_is_not_in_the_queue(tmp_path: Path) -> None:
    log = Log()
    for name in NAMES:
        log.publish("", "late", message_id=name).deliver("late", "", ["late"], message_id=name)
    assert overfull(tmp_path, delivered(log), shop(max_length=1)) == {}


def test_of_messages_that_cannot_be_told_apart_nothing_is_certain(tmp_path: Path) -> None:
    log = three_published()
    for name in NAMES:
        log.publish("", "late", message_id=name)
    assert overfull(tmp_path, delivered(delivered(log)), shop(max_length=1)) == {}


def test_within_the_tolerance_nothing_is_certain(tmp_path: Path) -> None:
    log = delivered(three_published())
    assert overfull(tmp_path, log, shop(max_length=2), tolerance_ms=400) == {"late": 3}
    assert overfull(tmp_path, log, shop(max_length=2), tolerance_ms=600) == {}


def test_a_quorum_queue_that_refuses_may_take_more(tmp_path: Path) -> None:
    definitions = shop(max_length=1, queue_type="quorum", overflow="reject-publish")
    assert overfull(tmp_path, delivered(three_published()), definitions) == {}


def test_the_command_says_so(tmp_path: Path, capsys: Any) -> None:
    definitions = tmp_path / "definitions.json"
    definitions.write_bytes(shop(max_length=2).to_json())
    trace = write_log(tmp_path / "trace.log", delivered(three_published()).records)
    command = ["replay", str(trace), "--definitions", str(definitions), "--out", str(tmp_path / "out")]
    assert main(command) == 1
    told = (
        "Queue 'late' held 3 messages or more at 2026-11-21 10:00:02.100 UTC, which max-length 2 by argument rules out"
    )
    assert capsys.readouterr().out.startswith(f"{told}.")
    assert told.replace("'", "&#x27;") in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert main([*command, "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)["overfull"]
    assert (found["queue"], found["messages"], found["limit"]) == ("late", 3, "max-length 2 by argument")
