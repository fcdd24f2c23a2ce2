"""``dlx convert`` and ``dlx capture`` as a user meets them."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from simulator.capture import open_log
from simulator.cli.main import main
from tests.capture.sample_logs import trace_log
from tests.replay.logs import Log, death, definitions_of, died, write_log


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


SECRETS = ("cus-4711", "corr-77", "gold", "carol", "10.9.8.7", "pay me", "acct-9")


def shop_log(folder: Path) -> tuple[Path, Path]:
    """A log with what others must not read, of a topology with a headers exchange; and its definitions."""
    wait = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "late", "x-message-ttl": 900}
    definitions = definitions_of({"wait": wait, "late": {}}, {"by.tier": "headers"}, [])
    document = json.loads(definitions.to_json())
    match = {"x-match": "all", "tier": "gold"}
    document["bindings"].append({
        "source": "by.tier", "destination": "wait", "destination_type": "queue", "routing_key": "", "arguments": match,
        "vhost": "/",
    })  # fmt: skip
    own = {"message_id": "cus-4711", "correlation_id": "corr-77", "reply_to": "acct-9", "priority": 3}
    log = Log().publish("by.tier", "k", routed=["wait"], headers={"tier": "gold", "n": 5, "l": ["gold"]}, **own)
    headers = {**died(death("wait", "expired", exchange="by.tier", keys=["k"])), "tier": "gold", "n": 5, "l": ["gold"]}
    log.deliver("late", "", ["late"], headers=headers, **own)
    for each in log.records:
        each |= {"user": "carol", "connection": "10.9.8.7:1 -> 10.0.0.1:5672"}
        each["payload"] = base64.b64encode(b"pay me").decode()
    (folder / "definitions.json").write_text(json.dumps(document))
    return write_log(folder / "trace.log", log.records), folder / "definitions.json"


def test_a_redacted_log_has_no_secrets_and_gets_the_same_verdicts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, definitions = shop_log(tmp_path)
    out = tmp_path / "shared.parquet"
    assert main(["convert", "--redact", str(log), "--out", str(out)]) == 0
    rows = [row for batch in open_log(out) for row in batch.to_pylist()]
    assert not [each for each in SECRETS if each in repr(rows)]
    published, delivered = rows
    for same in ("message", "message_id", "user", "connection", "properties", "headers"):
        assert published[same] == delivered[same]
    assert (published["exchange"], published["routing_keys"], delivered["queue"]) == ("by.tier", ["k"], "late")
    assert set(json.loads(published["headers"])) == {"tier", "n", "l"}
    assert json.loads(published["properties"])["priority"] == 3
    assert json.loads(delivered["x_death"])[0]["exchange"] == "by.tier"
    capsys.readouterr()
    assert main(["replay", str(log), "--definitions", str(definitions)]) == 0
    assert "redacted" not in capsys.readouterr().out
    assert main(["replay", str(out), "--definitions", str(definitions)]) == 0
    told = capsys.readouterr().out
    assert "Values of headers are redacted in the log: routes of headers exchanges are not checked" in told


def test_each_run_redacts_with_a_key_of_its_own(tmp_path: Path) -> None:
    log, _ = shop_log(tmp_path)
    found = []
    for name in ("one.parquet", "two.parquet"):
        assert main(["convert", "--redact", str(log), "--out", str(tmp_path / name)]) == 0
        found.append({row["message"] for batch in open_log(tmp_path / name) for row in batch.to_pylist()})
    assert len(found[0]) == len(found[1]) == 1
    assert found[0] != found[1]


def test_a_broken_line_of_a_redacted_log_shows_only_its_place(tmp_path: Path) -> None:
    log, _ = shop_log(tmp_path)
    with log.open("a") as stream:
        stream.write('{"user": "carol", "type": "gold"}\n')
    assert main(["convert", "--redact", str(log), "--out", str(tmp_path / "out.parquet")]) == 0
    (rejected,) = (tmp_path / "out.parquet.rejected.jsonl").read_text().splitlines()
    assert json.loads(rejected)["line"] == 3
    assert not [each for each in SECRETS if each in rejected]


WHOLE = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("release", "folder"),
    [
        ("4.3", WHOLE / "whatif" / "recorded" / "4.3" / "own"),
        ("3.10", WHOLE / "whatif" / "recorded" / "3.10" / "own"),
        ("4.3", WHOLE / "replay" / "captures" / "4.3"),  # headers exchanges, some with alternate exchanges
    ],
)
def test_a_redacted_capture_gets_the_verdicts_of_the_whole_one(release: str, folder: Path, tmp_path: Path) -> None:
    out, totals = tmp_path / "log.parquet", []
    assert main(["convert", "--redact", str(folder / "trace.log.gz"), "--out", str(out)]) == 0
    for log in (folder / "trace.log.gz", out):
        kept = tmp_path / log.name
        command = ["replay", str(log), "--definitions", str(folder / "definitions.json"), "--release", release]
        main([*command, "--out", f"{kept}.out"])
        totals.append(json.loads(Path(f"{kept}.out", "summary.json").read_bytes()))
    redacted = totals[1].pop("redacted", None)
    assert redacted in (None, True)
    for name in ("messages", "deliveries", "dead_letters", "agree", "ambiguous", "differ", "unexplained", "lost"):
        assert totals[0][name] == totals[1][name]
