"""Generated logs: of the size that was asked for, the same for the same seed, and wrong in the altered rows alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from simulator.cli.main import main
from simulator.definitions import parse_definitions
from simulator.generate import AlteredRow, Wish, generate
from simulator.generate import log as log_module
from simulator.replay import Database, replay_files
from tests.replay.logs import EXAMPLES

EXPORT = EXAMPLES / "captured-4.3" / "definitions.json"
CYCLE = EXAMPLES / "topologies" / "broken" / "ladder-cycle.json"


def wish(**more: Any) -> Wish:
    return Wish(**{"definitions": EXPORT.read_bytes(), "events": 2_000, **more})


def rows(folder: Path) -> list[dict[str, Any]]:
    return [row for file in sorted(folder.glob("log-*.parquet")) for row in pq.read_table(file).to_pylist()]


def found(folder: Path, wish: Wish) -> set[tuple[str, int]]:
    """The rows that a replay does not agree with."""
    with Database(folder) as database:
        captured = database.parquet(sorted(folder.glob("log-*.parquet")))
        verdicts = folder / "verdicts.parquet"
        replayed = replay_files(
            captured, parse_definitions(wish.definitions, "wish"), wish.rules, verdicts=verdicts
        ).to_list()
    return {(row["file"], row["line"]) for row in replayed if row["verdict"] not in (None, "agree")}


@pytest.mark.parametrize("diversity", ["low", "high"])
@pytest.mark.parametrize("rules", ["3.10", "3.13", "4.0", "4.3"])
def test_a_replay_finds_the_altered_rows_and_no_other(tmp_path: Path, rules: str, diversity: Any) -> None:
    wanted = wish(rules=rules, diversity=diversity, faults=40)
    faults = generate(wanted, tmp_path)
    assert len(faults) == 40
    assert len({fault.what for fault in faults}) == 4
    assert found(tmp_path, wanted) == {(fault.file, fault.line) for fault in faults}


def test_publishers_ask_a_delayed_exchange_for_delays_and_a_replay_agrees(tmp_path: Path) -> None:
    later = {"name": "later", "vhost": "/", "type": "x-delayed-message", "arguments": {"x-delayed-type": "topic"}}
    wanted = wish(
        definitions=json.dumps(
            {
                "exchanges": [{**later, "durable": True, "auto_delete": False, "internal": False}],
                "queues": [{"name": "q", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}],
                "bindings": [
                    {
                        "source": "later",
                        "vhost": "/",
                        "destination": "q",
                        "destination_type": "queue",
                        "routing_key": "a.*",
                        "arguments": {},
                    }
                ],
            }
        ).encode(),
        rules="4.0",
    )
    generate(wanted, tmp_path)
    made = [row for row in rows(tmp_path) if row["event"] == "delivered"]
    delayed = [row for row in made if "x-delay" in str(row["broker_headers"])]
    assert len(made) / 3 < len(delayed) < len(made)
    assert all(len(row["routing_keys"][0].split(".")) == 2 for row in made)
    assert found(tmp_path, wanted) == set()


def test_the_log_has_as_many_rows_as_asked_for_in_several_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "PART_ROWS", 1_000)
    monkeypatch.setattr(log_module, "SCENE_ROWS", 300)
    told: list[int] = []
    assert generate(wish(events=2_345), tmp_path, told.append, processes=1) == []
    made = rows(tmp_path)
    assert [sum(row["file"] == f"log-0000{part}.parquet" for row in made) for part in range(3)] == [1_000, 1_000, 345]
    assert told == [1_000, 2_000, 2_345]
    deaths = sum(row["x_death"] is not None for row in made)
    assert deaths > len(made) / 10
    assert found(tmp_path, wish()) == set()


def test_the_same_seed_gives_the_same_log(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "same", "other")]
    for folder, seed in zip(folders, (7, 7, 8), strict=True):
        folder.mkdir()
        generate(wish(seed=seed, faults=3), folder)
    one, same, other = map(rows, folders)
    assert one == same
    assert one != other


def test_diverse_messages_hardly_repeat_themselves(tmp_path: Path) -> None:
    counts = {}
    for diversity in ("low", "high"):
        folder = tmp_path / diversity
        folder.mkdir()
        generate(wish(diversity=diversity), folder)
        published = [row for row in rows(folder) if row["event"] == "published"]
        counts[diversity] = len({(*row["routing_keys"], row["headers"], row["expiration"]) for row in published})
        counts[diversity] /= len(published)
    assert counts["low"] < 0.3
    assert counts["high"] > 0.9


@pytest.mark.parametrize("rules", ["3.12", "4.3"])
def test_a_topology_that_goes_round_without_end_gives_a_log(tmp_path: Path, rules: str) -> None:
    generate(wish(definitions=CYCLE.read_bytes(), rules=rules, events=500), tmp_path)
    assert len(rows(tmp_path)) == 500


# From the shell


def run(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str, str]:
    code = main(["generate", *map(str, args)])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_the_faults_are_listed_beside_the_log(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "big"
    code, said, _ = run(capsys, "--definitions", EXPORT, "--events", 500, "--faults", 5, "--out", out)
    assert (code, said) == (0, f"500 rows in 1 file: {out}/log-*.parquet\n")
    listed = json.loads((out / "faults.json").read_text())
    assert len(listed) == 5
    assert [*listed[0]] == [*AlteredRow.__struct_fields__]
    assert sorted(path.name for path in out.iterdir()) == ["faults.json", "log-00000.parquet"]
    replay = ["replay", str(out / "log-00000.parquet"), "--definitions", str(EXPORT), "--json"]
    assert main(replay) == 1
    assert json.loads(capsys.readouterr().out)["differ"] == 5


def test_a_folder_with_files_is_left_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("1")
    code, _, said = run(capsys, "--definitions", EXPORT, "--out", tmp_path)
    assert code == 65
    assert "is not empty" in said
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_folder_that_cannot_be_made_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    out = tmp_path / "file" / "log"
    code, _, said = run(capsys, "--definitions", EXPORT, "--events", 10, "--out", out)
    assert code == 65
    assert f"{out}: cannot be written: File exists" in said


def test_definitions_through_which_nothing_goes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "empty.json").write_text('{"vhosts": [{"name": "/"}]}')
    code, _, said = run(capsys, "--definitions", tmp_path / "empty.json", "--out", tmp_path / "out")
    assert code == 65
    assert "no message gets anywhere in virtual host '/'" in said
    assert not (tmp_path / "out").exists()


def kill_itself(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_is_killed_is_told_with_what_to_do(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "PART_ROWS", 100)
    monkeypatch.setattr(log_module, "write_part", kill_itself)
    wanted = ("--definitions", EXPORT, "--events", 200, "--processes", 2, "--out", tmp_path / "out")
    code, _, said = run(capsys, *wanted)
    assert code == 69
    assert "one of 2 processes ended before it had written its part of the log: it was killed, most likely" in said
    assert said.endswith("--processes 1\n")
    assert "bug" not in said
    assert not (tmp_path / "out").exists()


def test_a_script_on_standard_input_writes_a_log_in_one_process(tmp_path: Path) -> None:
    wanted = ["--definitions", str(EXPORT), "--events", "200", "--processes", "1", "--out", str(tmp_path / "out")]
    script = (
        "import sys\nfrom simulator.cli.main import main\nfrom simulator.generate import log\nlog.PART_ROWS = 100\n"
        f"sys.exit(main(['generate', *{wanted}]))"
    )
    done = subprocess.run([sys.executable, "-"], input=script, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(rows(tmp_path / "out")) == 200


@pytest.mark.spark
def test_spark_writes_the_same_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name, more in (("here", ()), ("spark", ("--master", "local[2]"))):
        wanted = ("--definitions", EXPORT, "--events", 600, "--faults", 4, "--out", tmp_path / name)
        assert run(capsys, *wanted, *more)[0] == 0
    assert rows(tmp_path / "here") == rows(tmp_path / "spark")
    one, other = ((tmp_path / name / "faults.json").read_bytes() for name in ("here", "spark"))
    assert one == other
