"""``dlx convert`` and ``dlx capture`` as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simulator.capture import open_log
from simulator.cli.main import main
from tests.capture.sample_logs import trace_log


def test_convert_reports_on_stdout_and_complains_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, out = tmp_path / "some.log", tmp_path / "out.parquet"
    log.write_bytes(trace_log("json", "4.3").read_bytes() + b'{"half')
    assert main(["convert", str(log), "--out", str(out)]) == 0
    output = capsys.readouterr()
    assert output.out.split() == ["30", "rows", "in", str(out)]
    assert "some.log: 1 records are broken, 30 rows" in output.err
    assert "out.parquet.rejected.jsonl" in output.err


def test_convert_reports_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.parquet"
    assert main(["convert", str(trace_log("text", "3.8")), "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "out": str(out),
        "rows": 30,
        "broken": 0,
        "rejected_path": None,
        "files": [{"file": "trace-text-3.8.log", "rows": 30, "broken": 0}],
    }


def test_bad_data_ends_with_65(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "missing.log"
    assert main(["convert", str(missing), "--out", str(tmp_path / "out.parquet")]) == 65
    assert f"{missing}: No such file or directory" in capsys.readouterr().err


def test_a_server_that_is_not_there_ends_with_69(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["capture", "--out", str(tmp_path / "out.parquet"), "--url", "amqp://127.0.0.1:1/"]
    assert main(command) == 69
    assert "127.0.0.1:1/: nothing listens there" in capsys.readouterr().err
    assert main([*command, "--management-url", "http://127.0.0.1:1"]) == 69
    assert "http://127.0.0.1:1: management API: no answer" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_wrong_url_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["capture", "--out", str(tmp_path / "out.parquet"), "--url", "localhost"]) == 64
    assert "amqp://user:password@host:port" in capsys.readouterr().err


def test_a_log_without_bodies_gets_the_same_verdicts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(__file__).parents[1] / "whatif" / "recorded" / "4.3" / "own"
    log, out = str(folder / "trace.log.gz"), tmp_path / "log.parquet"
    assert main(["convert", log, "--no-bodies", "--out", str(out)]) == 0
    capsys.readouterr()
    assert {row["payload"] for batch in open_log(out) for row in batch.to_pylist()} == {b""}
    found = []
    for given in (log, str(out)):
        assert main(["replay", given, "--definitions", str(folder / "definitions.json"), "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0] == found[1]


def test_no_bodies_is_for_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    definitions = tmp_path / "definitions.json"
    definitions.write_text("{}")
    assert main(["convert", "--redact", str(definitions), "--no-bodies", "--out", str(tmp_path / "out.json")]) == 64
    assert "--no-bodies: for logs, not with --redact" in capsys.readouterr().err
