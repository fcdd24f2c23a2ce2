"""``dlx watch``: what it prints for people, for machines and for Prometheus, its exit codes, and how it fails."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from simulator.cli.main import main
from simulator.definitions import read_definitions
from simulator.replay.rows.assumptions import TOLERANCE_MS
from simulator.replay.watch.state import WatchState, asked
from simulator.replay.watch.watcher import Watcher, WatchOptions
from tests.otlp import traces
from tests.watch.logs import CAPTURED, ROOT, log_of, replayed, said, wish_for

NAME = "what-if 4.3"
DEFINITIONS = os.fspath(CAPTURED[NAME] / "definitions.json")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "trace.log"
    path.write_bytes(log_of(NAME))
    return path


def test_once_prints_a_summary_with_the_ways_of_dead_letters(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", os.fspath(log), "--definitions", DEFINITIONS, "--once"]) == 0
    said = capsys.readouterr().out.splitlines()
    summary = "0 lost, 0 unexplained, 0 differ, 0 stuck, 162 dead letters, 389 agree; 629 rows, 240 messages open"
    ways = said[said.index(summary) + 1 :]  # a slow machine shows lines of status before
    assert ways
    assert all(re.match(r" +\d+  \S+ \w+ -> \S+ -> \S+$", line) for line in ways)


@pytest.mark.parametrize("forget_after", ["3600", "0"])
def test_traces_are_those_of_a_replay(log: Path, tmp_path: Path, forget_after: str) -> None:
    watched, replayed = tmp_path / "watched.jsonl", tmp_path / "replayed.jsonl"
    command = [os.fspath(log), "--definitions", DEFINITIONS, "--otlp"]
    main(["watch", *command, os.fspath(watched), "--once", "--forget-after", forget_after])
    main(["replay", *command, os.fspath(replayed)])
    assert len(traces(watched)) == 240
    assert sorted(watched.read_bytes().splitlines()) == sorted(replayed.read_bytes().splitlines())


@pytest.mark.parametrize("command", [["replay"], ["watch", "--once"]])
def test_traces_do_not_overwrite_the_log(command: list[str], log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = log.read_bytes()
    given = [os.fspath(log), "--definitions", DEFINITIONS, "--otlp", os.fspath(log)]
    assert main([*command, *given]) == 64
    assert f"{log} is there and holds no traces" in " ".join(capsys.readouterr().err.split())
    assert log.read_bytes() == before


def test_traces_and_a_state_do_not_go_together(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--state", os.fspath(tmp_path / "state"), "--otlp", os.fspath(tmp_path / "traces.jsonl")]
    assert main(["watch", os.fspath(log), "--definitions", DEFINITIONS, *given]) == 64
    assert "--otlp: not with --state" in capsys.readouterr().err


def test_json_has_the_verdicts_and_a_summary(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", os.fspath(log), "--definitions", DEFINITIONS, "--until-idle", "0", "--json"]) == 0
    *lines, summary = capsys.readouterr().out.encode().splitlines(keepends=True)
    assert sorted(lines) == replayed(log, wish_for(NAME))
    assert main(["replay", os.fspath(log), "--definitions", DEFINITIONS, "--json"]) == 0
    replay = json.loads(capsys.readouterr().out)
    shared = ("deliveries", "dead_letters", "agree", "ambiguous", "differ", "unexplained", "lost")
    found = json.loads(summary)["summary"]
    assert {name: found[name] for name in shared} == {name: replay[name] for name in shared}


def test_what_is_not_as_predicted_exits_with_1(log: Path) -> None:
    assert main(["watch", os.fspath(log), "--definitions", DEFINITIONS, "--once", "--release", "3.8"]) == 1


@pytest.fixture
def others(tmp_path: Path) -> str:
    """Definitions with none of the queues of the log."""
    path, vhost = tmp_path / "others.json", "dlx-what-if"
    queue = {"name": "other", "vhost": vhost, "durable": True, "auto_delete": False, "arguments": {}}
    path.write_text(json.dumps({"vhosts": [{"name": vhost}], "queues": [queue]}))
    return os.fspath(path)


def test_definitions_of_other_queues_are_refused_as_a_replay_refuses_them(
    log: Path, others: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", os.fspath(log), "--definitions", others]) == 65
    (told,) = (line for line in capsys.readouterr().err.splitlines() if "has none of the queues" in line)
    for ends in (["--once"], ["--until-idle", "9"], []):  # at the first idle moment, however long it would watch
        assert main(["watch", os.fspath(log), "--definitions", others, *ends]) == 65
        captured = capsys.readouterr()
        assert told in captured.err
        assert captured.out == ""


def test_a_refused_start_leaves_no_state(log: Path, others: str, tmp_path: Path) -> None:
    made, given = tmp_path / "made", tmp_path / "given"
    given.mkdir()
    (given / "notes.txt").write_text("kept")
    packed = tmp_path / "packed.log"
    packed.write_bytes(gzip.compress(log.read_bytes()))
    for state in (made, given):
        command = ["watch", "--once", "--state", os.fspath(state)]
        assert main([*command, os.fspath(packed), "--definitions", DEFINITIONS, "--release", "3.8"]) == 65
        assert main([*command, os.fspath(log), "--definitions", others]) == 65
        assert not made.exists() if state == made else os.listdir(given) == ["notes.txt"]
        assert main([*command, os.fspath(log), "--definitions", DEFINITIONS]) == 0
        lines = (state / "verdicts.jsonl").read_bytes().splitlines(keepends=True)
        assert sorted(lines) == replayed(log, wish_for(NAME))


def test_a_watch_killed_before_it_knew_that_its_definitions_do_not_fit_binds_its_state_to_nothing(
    log: Path, others: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    command = ["watch", os.fspath(log), "--state", os.fspath(state), "--definitions"]
    wish = WatchOptions(definitions=read_definitions(others), rules="4.3", settle_s=0)
    with WatchState(state, asked(Path(others).read_bytes(), "4.3", TOLERANCE_MS)) as begun:
        assert Watcher([log], wish, begun).step(0).lines  # and killed before it asked whether they fit
    assert (state / "verdicts.jsonl").stat().st_size
    assert main([*command, DEFINITIONS, "--once"]) == 0
    assert f"note: {state} starts again: " in capsys.readouterr().err
    assert said(state) == replayed(log, wish_for(NAME))
    assert main([*command, others, "--once"]) == 65
    assert "made with other definitions" in capsys.readouterr().err


def test_what_a_watch_did_survives_a_later_refusal(log: Path, others: str, tmp_path: Path) -> None:
    state = tmp_path / "state"
    command = ["watch", os.fspath(log), "--once", "--state", os.fspath(state), "--definitions"]
    assert main([*command, DEFINITIONS]) == 0
    said = (state / "verdicts.jsonl").read_bytes()
    assert main([*command, others]) == 65
    log.unlink()
    log.write_bytes(b"")  # it has shrunk
    assert main([*command, DEFINITIONS]) == 65
    assert (state / "verdicts.jsonl").read_bytes() == said


def test_a_watch_that_goes_on_remembers_that_its_definitions_fit(log: Path, tmp_path: Path) -> None:
    command = ["watch", os.fspath(log), "--definitions", DEFINITIONS, "--once", "--state", os.fspath(tmp_path / "kept")]
    assert main(command) == 0
    last = next(line for line in reversed(log_of(NAME).splitlines(keepends=True)) if b'"deliver' in line)
    queue = json.loads(last)["queue"]
    with log.open("ab") as stream:
        stream.write(last.replace(queue.encode(), b"made.later"))
    assert main(command) in (0, 1)  # not 65: only what was added is of a queue that the definitions do not have


def test_prometheus_gets_the_same_and_sigterm_ends_with_a_summary(log: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "simulator.cli.main", "watch", os.fspath(log), "--definitions", DEFINITIONS,
               "--settle", "0", "--prometheus", "0"]  # fmt: skip
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        url = process.stderr.readline().removeprefix("metrics: ").strip()
        assert process.stdout.readline().startswith("0 lost, ")
        with urllib.request.urlopen(url, timeout=10) as answer:
            text = answer.read().decode()
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()
    assert process.returncode == 0
    assert 'dlx_verdicts{verdict="agree"} 389.0' in text
    assert "dlx_dead_letters_total 162.0" in text
    assert "162 dead letters" in rest


@pytest.mark.parametrize(
    ("args", "status", "told"),
    [
        (["missing.log", "--once"], 65, "missing.log: no such file"),
        (["{log}", "--definitions", "other.json"], 64, "--definitions other.json: dlx watch takes one file"),
        (["{log}", "--settle", "-1"], 64, "--settle"),
        ([], 64, "SOURCE..."),
        (["{log}", "--once", "--prometheus", "99999"], 64, "--prometheus"),
    ],
)
def test_bad_input_is_told(
    args: list[str], status: int, told: str, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [arg.format(log=log) for arg in args]
    assert main(["watch", "--definitions", DEFINITIONS, *given]) == status
    assert told in capsys.readouterr().err
    assert main(["watch", os.fspath(log), "--definitions", "missing.json"]) == 65
    assert "missing.json" in capsys.readouterr().err


def test_a_state_that_cannot_be_written_is_named(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    state = tmp_path / "file" / "state"
    assert main(["watch", str(log), "--definitions", DEFINITIONS, "--once", "--state", str(state)]) == 65
    assert f"{state}: cannot be written: Not a directory" in capsys.readouterr().err


def test_rows_that_stand_twice_are_told(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = log.read_bytes()
    log.write_bytes(rows + rows)
    assert main(["watch", str(log), "--definitions", DEFINITIONS, "--once", "--release", "4.3"]) == 0
    assert f"note: {len(rows.splitlines())} rows stand twice in the log: each counts once" in capsys.readouterr().err


def test_ways_of_several_virtual_hosts_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    definitions = Path(DEFINITIONS).read_bytes()
    document = json.loads(definitions)
    for kind in ("vhosts", "original_vhost_name"):
        document.pop(kind, None)
    for kind in ("queues", "exchanges", "bindings", "policies"):
        document[kind] = [{k: v for k, v in each.items() if k != "vhost"} for each in document[kind]]
    (tmp_path / "definitions.json").write_text(json.dumps(document), encoding="utf-8")
    with gzip.open(CAPTURED[NAME] / "trace.log.gz", "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    with (tmp_path / "trace.log").open("w", encoding="utf-8") as file:
        for vhost in ("a", "b"):
            file.writelines(json.dumps({**each, "vhost": vhost}) + "\n" for each in records)
    main(["watch", str(tmp_path / "trace.log"), "--definitions", str(tmp_path / "definitions.json"), "--once"])
    ways = [line for line in capsys.readouterr().out.splitlines() if " -> " in line]
    assert len(ways) == len(set(ways)) > 1
    assert ways[0].endswith((" (virtual host a)", " (virtual host b)"))
