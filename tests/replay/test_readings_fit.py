"""Counters are of the time and the release of the log, or are not taken for its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dlx.global_counters import Account
from simulator.capture.counters import CounterReadings, NodeReadings, reading, write_counters
from simulator.cli.main import main
from simulator.definitions import Definitions
from tests.replay.logs import START, Log, death, definitions_of, died, write_log

START_US = int(START.timestamp()) * 1_000_000
DAY_S = 86_400
ONE_SENT = {Account("expired", "classic", "at_most_once"): 1}


def loop() -> Definitions:
    """Messages expire in ``a``, then in ``b``, and would come back to ``a``; those of ``wait`` come to ``late``."""

    def to(key: str) -> dict[str, Any]:
        return {"x-message-ttl": 300, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": key}

    return definitions_of({"a": to("b"), "b": to("a"), "wait": to("late"), "late": {}})


def log() -> Log:
    """Two rows: at 0 and 1 s."""
    expired = died(death("wait", "expired", keys=["wait"]))
    return Log().publish("", "wait").deliver("late", "", ["late"], headers=expired)


def looping() -> Log:
    """The same, and behind them a message that goes round."""
    return log().publish("", "a", message_id="round")


def run(
    folder: Path,
    found: Log,
    *,
    read_s: tuple[float, float] = (-1, 9),
    counted: dict[Account, int] = ONE_SENT,
    version: str = "4.3.6",
    cut: tuple[str, ...] = (),
) -> list[str]:
    """The command, with counters that were read at these times."""
    (folder / "definitions.json").write_bytes(loop().to_json())
    series = {account.series: count for account, count in counted.items()}
    before_us, after_us = (START_US + round(at * 1_000_000) for at in read_s)
    node = NodeReadings(
        node="rabbit@a",
        release=version,
        before=reading(before_us, dict.fromkeys(series, 0)),
        after=reading(after_us, series),
    )
    write_counters(folder / "counters.json", CounterReadings(nodes=(node,), vhost="/", cut=cut))
    trace = write_log(folder / "trace.log", found.records)
    files = ["--definitions", str(folder / "definitions.json"), "--counters", str(folder / "counters.json")]
    return ["replay", str(trace), *files]


@pytest.mark.parametrize("read_s", [(-DAY_S - 1, -DAY_S + 9), (2, 2), (2, 9), (-9, -1)])
def test_counters_of_another_time_are_not_of_this_log(tmp_path: Path, capsys: Any, read_s: tuple[float, float]) -> None:
    command = run(tmp_path, log(), read_s=read_s)
    assert main(command) == 1
    out = capsys.readouterr().out
    assert out.startswith("The counters of rabbit@a were read from 2026-11-2")
    assert "the log is from 2026-11-21 10:00:00.000 UTC to 2026-11-21 10:00:01.000 UTC: they are not of this log" in out
    assert main([*command, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["counters"]["other_time"]


@pytest.mark.parametrize(
    ("read_s", "told"),
    [
        ((0.5, 9), "were first read at 2026-11-21 10:00:00.500 UTC, after the log began"),
        ((-1, 0.5), "were last read at 2026-11-21 10:00:00.500 UTC, before the log ended"),
    ],
)
def test_counters_of_a_part_of_the_log_are_told(
    tmp_path: Path, capsys: Any, read_s: tuple[float, float], told: str
) -> None:
    assert main(run(tmp_path, log(), read_s=read_s)) == 0
    out = capsys.readouterr().out
    assert out.startswith("RabbitMQ delivered everything as the rules of 4.3 predict, as far as it was checked.")
    assert told in out


def test_counters_of_another_release_are_told(tmp_path: Path, capsys: Any) -> None:
    assert main(run(tmp_path, log(), version="3.10.8")) == 0
    out = capsys.readouterr().out
    assert out.startswith("RabbitMQ delivered everything as the rules of 4.3 predict, as far as it was checked.")
    assert "The counters are of RabbitMQ 3.10.8 (rabbit@a), and the rules are those of 4.3" in out


def test_counters_of_the_log_are_taken(tmp_path: Path, capsys: Any) -> None:
    assert main(run(tmp_path, log())) == 0
    assert capsys.readouterr().out.startswith("RabbitMQ delivered everything as the rules of 4.3 predict.\n")
    assert main([*run(tmp_path, log(), read_s=(2, 9)), "--tolerance-ms", "5000", "--json"]) == 0
    assert not json.loads(capsys.readouterr().out)["counters"]["other_time"]


def test_what_waits_where_it_would_be_lost_may_be_lost(tmp_path: Path, capsys: Any) -> None:
    """The log ends before the message can have gone round; nothing tells what came then."""
    command = run(tmp_path, looping())
    assert main(command[:4]) == 0
    out = capsys.readouterr().out
    first, second = out.splitlines()[:2]
    assert first == "RabbitMQ delivered everything as the rules of 4.3 predict, as far as it was checked."
    assert second == "  1 message not seen again: lost if it died in 'b'"
    assert "1 may be  in queue b: it would return to 'a'" in out


GONE = {Account("expired", "classic", "at_most_once"): 3}


def test_the_last_reading_tells_that_the_trace_went_on(tmp_path: Path, capsys: Any) -> None:
    assert main(run(tmp_path, looping(), counted=GONE)) == 0
    out = capsys.readouterr().out
    assert out.startswith("1 message was lost: its dead letter reached no queue.")
    assert "No delivery shows what happened to 2 dead letters that the broker counted" in out


@pytest.mark.parametrize("changes", [{"read_s": (-1, 2.4)}, {"cut": ("it took too long",)}], ids=["soon after", "cut"])
def test_a_trace_that_ended_soon_does_not_tell(tmp_path: Path, capsys: Any, changes: dict[str, Any]) -> None:
    assert main([*run(tmp_path, looping(), counted=GONE, **changes), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["lost"], summary["may_be_lost"]) == (0, 1)


def test_dead_letters_that_no_delivery_shows_are_open(tmp_path: Path, capsys: Any) -> None:
    """The last one may still be in ``late``: nobody has said so."""
    found = log().publish("", "wait", message_id="second").publish("", "late", message_id="third", routed=["late"])
    assert main(run(tmp_path, found, counted={Account("expired", "classic", "at_most_once"): 2})) == 0
    out = capsys.readouterr().out
    assert out.startswith("RabbitMQ delivered everything as the rules of 4.3 predict, as far as it was checked.")
    assert "No delivery shows what happened to 1 dead letter that the broker counted" in out
