"""``dlx replay`` from the shell: totals, exit codes, files, and every kind of bad input."""

from __future__ import annotations

import gzip
import json

import pytest

from simulator.capture import convert
from simulator.capture.parquet import write_capture
from simulator.cli.main import main
from tests.replay.logs import EXAMPLES, Log, example_records, write_log

LOG = EXAMPLES / "captured-4.3" / "trace.log.gz"
DEFINITIONS = EXAMPLES / "captured-4.3" / "definitions.json"


def run(capsys, *args):
    """Exit code, standard output, standard error."""
    code = main(["replay", *map(str, args)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_example_agrees(capsys, tmp_path):
    code, out, _ = run(capsys, LOG, "--definitions", DEFINITIONS, "--json", "--out", tmp_path / "out")
    assert code == 0
    summary = json.loads(out)
    assert list(summary) == [
        "messages",
        "deliveries",
        "dead_letters",
        "agree",
        "differ",
        "ambiguous",
        "unexplained",
        "broken_lines",
        "unchecked",
        "lost",
        "may_be_lost",
        "held",
        "may_be_held",
        "misrouted",
        "overfull",
        "unfilled",
        "untested",
        "untested_more",
        "dead_ends",
        "coverage",
    ]
    assert summary["coverage"]["exercised"] == sum(summary["coverage"]["by_rule"].values()) > 60
    assert summary["agree"] == summary["deliveries"] > 2000
    assert summary["dead_letters"] > 1000
    made = {path.name for path in (tmp_path / "out").iterdir()}
    assert made == {"verdicts.parquet", "hops.parquet", "summary.json", "report.html"}


def test_what_the_log_did_not_exercise_is_listed(capsys, tmp_path):
    code, out, _ = run(capsys, LOG, "--definitions", DEFINITIONS, "--coverage", "--out", tmp_path / "out")
    assert code == 0
    lines = [line.strip() for line in out.splitlines()]
    (counted,) = [line for line in lines if line.startswith("This log exercised ")]
    missing = [line for line in lines if line.startswith("not exercised: ")]
    exercised, of = (int(counted.split()[place]) for place in (3, 5))
    assert len(missing) == of - exercised > 0
    assert "not exercised: into_stream: It enters a stream." in missing
    assert "not seen in queue orders.wait: rejected" in lines
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert counted.removesuffix(".") in page
    assert "into_stream" in page


def test_another_release_differs_and_says_why(capsys):
    code, out, err = run(capsys, LOG, "--definitions", DEFINITIONS, "--release", "3.10")
    assert code == 1
    assert "note: RabbitMQ 4.3.6 exported the definitions; the rules are those of 3.10" in err
    assert "last_death_headers: Every death writes x-last-death-reason" in out
    assert "[death_order]" in out


def test_one_of_two_logs_is_broken(capsys, tmp_path):
    records = example_records("4.3")
    good = write_log(tmp_path / "good.log", records[:2000])
    bad = write_log(tmp_path / "bad.log", records[2000:])
    lines = bad.read_text(encoding="utf-8").splitlines()
    lines[4] = lines[4][: len(lines[4]) // 2]
    lines[6] = lines[6].replace('"received"', '"lost"').replace('"published"', '"lost"')
    lines.append("not JSON")
    bad.write_text("\n".join(lines) + "\n", encoding="utf-8")
    out = tmp_path / "out"
    _, stdout, stderr = run(capsys, good, bad, "--definitions", DEFINITIONS, "--json", "--out", out)
    assert json.loads(stdout)["broken_lines"] == 3
    kept = [json.loads(line) for line in (out / "rejected.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(each["file"], each["line"]) for each in kept] == [
        ("bad.log", 5),
        ("bad.log", 7),
        ("bad.log", len(lines)),
    ]
    assert "bad.log:5" in stderr
    assert "lost" in stderr


def test_a_capture_in_parquet_is_read_as_it_is(capsys, tmp_path):
    convert([LOG], tmp_path / "captured.parquet")
    code, out, _ = run(capsys, tmp_path / "captured.parquet", "--definitions", DEFINITIONS, "--json")
    assert code == 0
    assert json.loads(out)["differ"] == 0


def test_definitions_of_another_virtual_host(capsys, tmp_path):
    document = json.loads(DEFINITIONS.read_text(encoding="utf-8"))
    other = tmp_path / "other.json"
    other.write_text(json.dumps({**document, "original_vhost_name": "elsewhere"}), encoding="utf-8")
    code, out, err = run(capsys, LOG, "--definitions", other)
    assert (code, out) == (65, "")
    assert "other.json: has virtual host 'elsewhere', the log has 'dlx-workload'" in err


def test_definitions_that_match_nothing(capsys, tmp_path):
    document = {"original_vhost_name": "dlx-workload", "queues": [{"name": "other", "arguments": {}}]}
    unrelated = tmp_path / "unrelated.json"
    unrelated.write_text(json.dumps(document), encoding="utf-8")
    code, _, err = run(capsys, LOG, "--definitions", unrelated)
    assert code == 65
    assert "unrelated.json: has none of the queues that the log delivers from" in err


def _log(tmp_path, content):
    path = tmp_path / "trace.log"
    path.write_bytes(content)
    return path


GOOD_LINE = json.dumps(Log().publish("", "q").records[0]).encode()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "trace.log"),
        (b"not JSON\n", "trace.log"),
        (GOOD_LINE[:40] + b"\n", "trace.log"),
        (GOOD_LINE.replace(b'"published"', b'"vanished"') + b"\n", "vanished"),
        (gzip.compress(b""), "trace.log"),
    ],
    ids=["empty", "not JSON", "half a line", "unknown type", "empty gzip"],
)
def test_a_log_without_one_good_record_is_bad_data(capsys, tmp_path, content, says):
    code, out, err = run(capsys, _log(tmp_path, content), "--definitions", DEFINITIONS, "--json")
    assert (code, out) == (65, "")
    assert says in err


def test_a_good_log_does_not_hide_a_useless_one(capsys, tmp_path):
    code, out, err = run(capsys, LOG, _log(tmp_path, b"not JSON\n"), "--definitions", DEFINITIONS, "--json")
    assert (code, out) == (65, "")
    assert "trace.log: not a trace log" in err


def test_no_such_log(capsys, tmp_path):
    code, _, err = run(capsys, tmp_path / "missing.log", "--definitions", DEFINITIONS)
    assert code == 65
    assert "missing.log: no such file" in err


def test_no_such_definitions(capsys, tmp_path):
    code, _, err = run(capsys, LOG, "--definitions", tmp_path / "missing.json")
    assert code == 65
    assert "missing.json" in err


def test_definitions_that_are_no_json(capsys, tmp_path):
    broken = tmp_path / "definitions.json"
    broken.write_text('{"queues": [', encoding="utf-8")
    code, _, err = run(capsys, LOG, "--definitions", broken)
    assert code == 65
    assert "definitions.json" in err
    assert "not JSON" in err


def test_a_log_and_definitions_that_are_swapped(capsys):
    code, _, err = run(capsys, DEFINITIONS, "--definitions", LOG)
    assert code == 65
    assert "compressed with gzip; expected JSON" in err
    assert f"{DEFINITIONS} holds definitions: the log comes first, and --definitions names the export" in err


def test_a_truncated_parquet(capsys, tmp_path):
    convert([LOG], tmp_path / "whole.parquet")
    whole = (tmp_path / "whole.parquet").read_bytes()
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(whole[: len(whole) // 2])
    code, out, err = run(capsys, cut, "--definitions", DEFINITIONS)
    assert (code, out) == (65, "")
    assert "cut.parquet" in err


@pytest.mark.parametrize("args", [[], ["x.log"], ["x.log", "--definitions", "d.json", "--release", "2.0"]])
def test_wrong_usage(capsys, args):
    code, out, err = run(capsys, *args)
    assert (code, out) == (64, "")
    assert "Usage" in err


def test_nothing_is_left_behind_by_bad_data(capsys, tmp_path):
    out = tmp_path / "out"
    run(capsys, _log(tmp_path, b"not JSON\n"), "--definitions", DEFINITIONS, "--out", out)
    assert not out.exists()


def test_a_capture_without_rows_is_refused(capsys, tmp_path):
    with write_capture(tmp_path / "empty.parquet"):
        pass
    code, _, err = run(capsys, tmp_path / "empty.parquet", "--definitions", DEFINITIONS)
    assert code == 65
    assert "empty.parquet: no row in it" in err


@pytest.mark.parametrize("second", ["log.parquet", "copy.parquet", "copy.log"])
def test_a_log_that_is_there_twice_is_refused(capsys, tmp_path, second):
    """Twice by the same name, as a copy, or as a capture and the log that it was made of."""
    log = write_log(tmp_path / "copy.log", example_records("4.3")[:50])
    convert([log], tmp_path / "log.parquet")
    (tmp_path / "copy.parquet").write_bytes((tmp_path / "log.parquet").read_bytes())
    out = tmp_path / "results" / "out"
    code, _, err = run(
        capsys, tmp_path / "log.parquet", tmp_path / second, "--definitions", DEFINITIONS, "--out", out
    )  # fmt: skip
    assert code == 65
    assert "the same log as" in err
    assert "log.parquet" in err
    assert not out.parent.exists()


@pytest.mark.parametrize(
    ("first", "second", "problem"),
    [
        (slice(0, 50), slice(0, 30), "second.log: part of first.log"),
        (slice(20, 50), slice(0, 50), "first.log: part of second.log"),
        (slice(0, 40), slice(20, 70), "first.log: 20 of its 40 rows are in second.log as well"),
        (slice(0, 40), slice(40, 80), None),
    ],
)
def test_a_log_that_overlaps_another_one_is_refused(capsys, tmp_path, first, second, problem):
    """Its head or its tail, whose lines have other numbers, or the end of one and the beginning of the other."""
    records = example_records("4.3")
    logs = [write_log(tmp_path / "first.log", records[first]), write_log(tmp_path / "second.log", records[second])]
    code, _, err = run(capsys, *logs, "--definitions", DEFINITIONS)
    assert (code, "would count twice" in err) == ((0, False) if problem is None else (65, True)), err
    assert problem is None or problem in err


def test_rows_of_one_moment_that_two_logs_have_alike_are_counted(capsys, tmp_path):
    """They may be the same row or another: it is used, and said."""
    records = example_records("4.3")
    logs = [write_log(tmp_path / "first.log", records[:40]), write_log(tmp_path / "second.log", records[39:80])]
    code, out, err = run(capsys, *logs, "--definitions", DEFINITIONS, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["unchecked"]["shared-rows"] == 1
    _, out, _ = run(capsys, *logs, "--definitions", DEFINITIONS)
    assert "1 row of one moment may be in two of the logs" in " ".join(out.split())


def test_the_results_of_an_earlier_run_outlive_one_that_fails(capsys, tmp_path):
    (tmp_path / "kept").write_text("")
    code, _, _ = run(capsys, tmp_path / "none.log", "--definitions", DEFINITIONS, "--out", tmp_path)
    assert code == 65
    assert (tmp_path / "kept").exists()


@pytest.mark.parametrize("tolerance", ["nan", "inf", "-inf"])
def test_a_tolerance_is_a_number(capsys, tolerance):
    code, _, err = run(capsys, LOG, "--definitions", DEFINITIONS, "--tolerance-ms", tolerance)
    assert code == 64
    assert "--tolerance-ms" in err


def test_the_mark_of_an_editor_costs_no_record(tmp_path):
    log = write_log(tmp_path / "trace.log", example_records("4.3")[:5])
    log.write_bytes(b"\xef\xbb\xbf" + log.read_bytes())
    assert convert([log], tmp_path / "log.parquet").rows == 5


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (lambda text: text.encode("utf-16"), "UTF-16; expected UTF-8"),
        (lambda text: b"[" + b",\n".join(text.encode().splitlines()) + b"]", "a JSON list; expected one object a line"),
    ],
)
def test_logs_of_another_form_are_named(capsys, tmp_path, written, said):
    log = write_log(tmp_path / "trace.log", example_records("4.3")[:5])
    log.write_bytes(written(log.read_text(encoding="utf-8")))
    code, _, err = run(capsys, log, "--definitions", DEFINITIONS)
    assert code == 65
    assert said in err


@pytest.mark.parametrize(
    ("packed", "said"), [(gzip.compress, "gunzip"), (lambda data: data.decode().encode("utf-16"), "UTF-16")]
)
def test_definitions_of_another_form_are_named(capsys, tmp_path, packed, said):
    path = tmp_path / "definitions.json"
    path.write_bytes(packed(DEFINITIONS.read_bytes()))
    code, _, err = run(capsys, LOG, "--definitions", path)
    assert code == 65
    assert said in err
