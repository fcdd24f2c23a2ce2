"""What a log shows of one message: the same as the replay of the whole log says of it."""

from __future__ import annotations

import gzip
import json
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from simulator.cli.main import EXIT_DATA, EXIT_USAGE, main
from simulator.replay.engines.local import local_engine
from simulator.replay.one_message import NoSuchMessageError, SeenLife, seen_life
from simulator.replay.run import prepare
from tests.replay.logs import EXAMPLES, Log, death, example_definitions, replayed, write_log

LOG = EXAMPLES / "captured-4.3" / "trace.log.gz"
DEFINITIONS = {
    "vhosts": [{"name": "/"}],
    "queues": [
        {
            "vhost": "/",
            "name": "orders",
            "arguments": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait"},
        },
        {
            "vhost": "/",
            "name": "wait",
            "arguments": {
                "x-message-ttl": 1_000,
                "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": "orders",
            },
        },
        {"vhost": "/", "name": "brief", "arguments": {"x-message-ttl": 500, "x-dead-letter-exchange": "gone"}},
    ],
}
ROUND = [death("wait", "expired", keys=["wait"]), death("orders", "rejected", keys=["orders"])]
HEADERS = {
    "x-death": ROUND,
    **{f"x-first-death-{name}": value for name, value in
       {"queue": "orders", "reason": "rejected", "exchange": ""}.items()},
    **{f"x-last-death-{name}": value for name, value in {"queue": "wait", "reason": "expired", "exchange": ""}.items()},
}  # fmt: skip


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A log in which a message is rejected, waits, and comes back, and its definitions."""
    log = (
        Log().publish("", "orders").deliver("orders", "", ["orders"]).deliver("orders", "", ["orders"], headers=HEADERS)
    )
    log.publish("", "brief", message_id="m2").publish("", "brief", message_id="m3").publish(
        "", "brief", message_id="m4"
    )
    definitions = tmp_path / "definitions.json"
    definitions.write_text(json.dumps(DEFINITIONS))
    return write_log(tmp_path / "trace.log", log.records), definitions


def explained(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str], message: str, *args: str
) -> tuple[int, str]:
    log, definitions = files
    status = main(["explain", str(log), "--definitions", str(definitions), "--message", message, *args])
    captured = capsys.readouterr()
    return status, captured.out + captured.err


def test_the_deaths_that_no_row_shows_are_told_with_their_settings(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    status, told = explained(files, capsys, "m1", "--format", "json")
    life = json.loads(told)
    assert (status, life["verdict"], life["fate"]) == (0, "agree", "delivered")
    assert [(step["event"], step["queue"]) for step in life["steps"]] == [
        ("published", None),
        ("delivered", "orders"),
        ("dead-lettered", "orders"),
        ("dead-lettered", "wait"),
        ("delivered", "orders"),
    ]
    _, delivered, rejected, expired, again = life["steps"]
    assert (delivered["because"], delivered["source"]) == ("as predicted", "trace.log:2")
    assert rejected["because"] == "dead-letter-exchange '' by argument; dead-letter-routing-key wait by argument"
    assert expired["because"].startswith("message-ttl 1000 by argument; ")
    assert "rabbit_dead_letter.erl" in expired["source"]
    assert again["at_ms"] == 2_000
    assert life["missing"] == ["what happened to it in 'orders' after the last row"]


def test_a_message_that_is_not_seen_again_is_lost(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    status, told = explained(files, capsys, "m2")
    assert status == 1
    assert "Last known: lost." in told
    assert "Not in the log: it was lost in 'brief', 500 ms later:" in told


def test_the_way_is_drawn(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    status, told = explained(files, capsys, "m1", "--format", "mermaid")
    assert (status, told.count("->>")) == (0, 5)
    status, told = explained(files, capsys, "m1", "--format", "svg")
    assert (status, told.startswith("<svg")) == (0, True)


@pytest.mark.parametrize(
    ("args", "status", "problem"),
    [
        (["--message", "m9"], EXIT_USAGE, "needs both: --definitions FILE and --message ID"),
        (["--definitions", "FILE"], EXIT_USAGE, "needs both: --definitions FILE and --message ID"),
        ([], EXIT_USAGE, "say which message: --publish"),
        (["--definitions", "FILE", "--message", "m11"], EXIT_DATA, "no message 'm11' in the log; the nearest are 'm1'"),
    ],
)
def test_what_is_missing_is_named(
    args: list[str], status: int, problem: str, files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    log, definitions = files
    given = [str(definitions) if each == "FILE" else each for each in args]
    assert main(["explain", str(log), *given]) == status
    assert problem in " ".join(capsys.readouterr().err.split())


def test_it_says_of_each_message_what_the_whole_replay_says(tmp_path: Path) -> None:
    whole: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    definitions = example_definitions("4.3")
    with gzip.open(LOG, "rt") as lines:
        messages = [json.loads(line)["properties"].get("message_id") for line in lines]
    for row in replayed(LOG, definitions):
        whole[messages[row["line"] - 1]].append(row)
    prepared = prepare([LOG], tmp_path)
    with local_engine(tmp_path) as engine:
        captured = engine.read(prepared.captures)
        for message in random.Random(7).sample(sorted(filter(None, whole)), 25):
            _same(seen_life(captured, definitions, message), whole[message])
        with pytest.raises(NoSuchMessageError, match="the nearest are"):
            seen_life(captured, definitions, "it's")


def _same(life: SeenLife, rows: list[dict[str, Any]]) -> None:
    seen = [step for step in life.steps if step.source.startswith("trace.log.gz:")]
    assert [step.source for step in seen] == [f"trace.log.gz:{row['line']}" for row in rows]
    assert [step.event for step in seen] == [row["event"] for row in rows]
    assert len(life.steps) - len(seen) == sum(row["new_hops"] or 0 for row in rows)
    verdicts = {row["verdict"] for row in rows} - {None}
    assert life.verdict in (verdicts or {None})
