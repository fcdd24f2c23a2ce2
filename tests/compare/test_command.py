"""``dlx compare``: its table, its JSON, and how it fails."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from simulator.cli.main import EXIT_DATA, EXIT_USAGE, main

Capture = pytest.CaptureFixture[str]
POISON = {"dead_letter_queue": "dead", "messages": [{"name": "poison", "fails": "always"}], "until_ms": 60_000}


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal on which a message has one line."""
    monkeypatch.setenv("COLUMNS", "110")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return written(tmp_path, POISON)


def written(folder: Path, document: Any) -> Path:
    path = folder / "scenario.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_only_the_systems_that_are_asked_for(path: Path, capsys: Capture) -> None:
    assert main(["compare", str(path), "--systems", "ironmq, rabbitmq:3.10"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:7] == ["poison", "ironmq", "v3", "0", "s", "3", "2"]
    assert lines[2].split()[:5] == ["rabbitmq", "3.10", "0", "s", "3"]


def test_json_has_the_scenario_that_was_run(path: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["compare", str(path), "--systems", "ironmq", "--json"]) == 0
    [outcome] = json.loads(capsys.readouterr().out)
    [message] = outcome["messages"]
    assert (message["end"], message["delays_ms"], outcome["lost"]) == ("dead-lettered", [0, 0], [])
    scenario = tmp_path / "scenario.json"
    scenario.write_text(json.dumps(outcome["scenario"]), encoding="utf-8")
    assert main(["simulate", "ironmq", str(scenario), "--json"]) == 0
    events = json.loads(capsys.readouterr().out)["events"]
    assert [event["time_ms"] for event in events if event["event"] == "delivered"] == message["attempts_ms"]


def test_what_is_lost_is_in_the_table(tmp_path: Path, capsys: Capture) -> None:
    path = written(tmp_path, POISON | {"dead_letter_queue": None})
    assert main(["compare", str(path), "--systems", "rabbitmq"]) == 0
    row = "poison rabbitmq 4.3 0 s 3 2 × 0 s lost orders, 0 s: delivery_limit"
    assert capsys.readouterr().out.splitlines()[1].split() == row.split()


def test_long_times_are_told_in_large_units(tmp_path: Path, capsys: Capture) -> None:
    message = {"name": "flaky", "fails": 2}
    document = {"messages": [message], "until_ms": 9_000_000, "retry_delay_ms": 5_400_000, "poll_ms": 60_000}
    assert main(["compare", str(written(tmp_path, document)), "--systems", "rabbitmq"]) == 0
    assert "90 min" in capsys.readouterr().out


def test_a_column_of_times_has_one_unit(tmp_path: Path, capsys: Capture) -> None:
    late = {**POISON["messages"][0], "name": "late", "at_ms": 60_000}
    document = {**POISON, "messages": [*POISON["messages"], late], "retry_delay_ms": 1_500, "until_ms": 100_000}
    assert main(["compare", str(written(tmp_path, document)), "--systems", "rabbitmq"]) == 0
    assert re.findall(r"orders, (.*):", capsys.readouterr().out) == ["3 s", "63 s"]


def test_at_80_columns_no_word_is_broken(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    systems = ",".join(("rabbitmq", "activemq", "zaqar", "ironmq", "ibm_mq", "ibm_mq:runmqdlq"))
    path = written(tmp_path, {**POISON, "queue": "orders-of-the-shop"})
    assert main(["compare", str(path), "--systems", systems]) == 0
    out = capsys.readouterr().out
    words = set(out.split())
    assert {"SYSTEM.DEAD.LETTER.QUEUE,", "dead-lettered", "delivery_limit", "MQRC_Q_FULL", "activemq"} <= words
    assert max(map(len, out.splitlines())) <= 81


def test_a_table_of_words_too_long_for_80_columns_is_wider(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    queue = "orders." + "x" * 33
    scenario = {"messages": [{"name": "poison", "fails": "always"}], "queue": queue, "until_ms": 300_000}
    assert main(["compare", str(written(tmp_path, scenario | {"dead_letter_queue": "dead"}))]) == 0
    table = capsys.readouterr().out.split("\n\n")[0]
    assert "…" not in table
    assert {"message", "rabbitmq", "dead-lettered", f"{queue},"} <= set(table.split())


def test_at_80_columns_a_number_stays_with_its_unit(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    document = {**POISON, "queue": "orders-of-the-shop", "retry_delay_ms": 1_500}
    assert main(["compare", str(written(tmp_path, document))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum("2 × 1.5 s" in line for line in lines) >= 2
    assert not any(re.search(r"^ +s\b", line) for line in lines)


def test_names_with_dashes_are_as_each_system_allows(tmp_path: Path, capsys: Capture) -> None:
    path = written(tmp_path, {**POISON, "queue": "a-b", "dead_letter_queue": "a_b"})
    assert main(["compare", str(path), "--json"]) == 0
    outcomes = json.loads(capsys.readouterr().out)
    assert [outcome["messages"][0]["end"] for outcome in outcomes] == ["dead-lettered"] * 5
    assert [outcome["messages"][0]["queue"] for outcome in outcomes] == ["a_b"] * 5
    assert "queue: IBM MQ allows no dash in a name; a%b for a-b" in outcomes[-1]["notes"]


def test_where_dlx_itself_stopped_the_consumer_a_sentence_says_so(path: Path, capsys: Capture) -> None:
    assert main(["compare", str(path), "--systems", "zaqar:mongodb"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "dlx itself stopped the consumer after it got poison 30 times" in out


def test_json_has_the_path_of_the_messages(path: Path, capsys: Capture) -> None:
    assert main(["compare", str(path), "--systems", "rabbitmq,ibm_mq,ibm_mq:runmqdlq", "--json"]) == 0
    rabbitmq, ibm_mq, handler = json.loads(capsys.readouterr().out)
    legs = [(leg["source"], leg["target"], leg["kind"], leg["why"], leg["times"]) for leg in rabbitmq["path"]]
    assert legs == [
        ("published", "orders", "way", "", 1),
        ("orders", "orders", "again", "", 3),
        ("orders", "dead", "dead letter", "delivery_limit", 1),
    ]
    assert [leg["target"] for leg in ibm_mq["path"]] == ["orders", "orders", "dead"]
    assert [leg["target"] for leg in handler["path"]] == ["SYSTEM.DEAD.LETTER.QUEUE"] * 2 + ["dead"]


@pytest.mark.parametrize(("suffix", "begin"), [(".svg", "<svg"), (".mmd", "flowchart"), (".dot", "digraph")])
def test_a_picture_has_the_path_under_each_system(
    path: Path, tmp_path: Path, suffix: str, begin: str, capsys: Capture
) -> None:
    picture = tmp_path / f"path{suffix}"
    assert main(["compare", str(path), "--picture", str(picture)]) == 0
    text = picture.read_text(encoding="utf-8")
    assert begin in text
    assert all(name in text for name in ("rabbitmq 4.3", "ibm_mq jms", "orders", "backout_threshold", "again"))
    assert "poison" in capsys.readouterr().out


def test_a_picture_in_a_folder_that_is_not_there_is_said_with_the_folder(
    path: Path, tmp_path: Path, capsys: Capture
) -> None:
    assert main(["compare", str(path), "--picture", str(tmp_path / "none" / "path.svg")]) == EXIT_DATA
    assert f"path.svg: cannot be written: there is no folder {tmp_path / 'none'}" in capsys.readouterr().err


def test_a_picture_of_another_kind_is_wrong_usage(path: Path, capsys: Capture) -> None:
    assert main(["compare", str(path), "--picture", "path.png"]) == EXIT_USAGE
    assert "expected a name that ends with .svg, .mmd or .dot" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("systems", "said"),
    [
        ("kafka", "expected some of"),
        ("zaqar:2.8", "expected one of"),
        ("rabbitmq:2.8", "the nearest is 3.8"),
        ("", "expected some of"),
    ],
)
def test_a_system_that_there_is_not_is_wrong_usage(path: Path, systems: str, said: str, capsys: Capture) -> None:
    assert main(["compare", str(path), "--systems", systems]) == EXIT_USAGE
    assert said in capsys.readouterr().err


def test_a_version_of_rabbitmq_is_compared_and_noted_if_another_stands_in_for_it(path: Path, capsys: Capture) -> None:
    assert main(["compare", str(path), "--systems", "rabbitmq:4.3.6,rabbitmq:4.0.9", "--json"]) == 0
    captured = capsys.readouterr()
    exact, other = json.loads(captured.out)
    assert (exact["version"], exact["scenario"]["release"], exact["notes"]) == ("4.3.6", "4.3", [])
    assert (other["version"], other["scenario"]["release"]) == ("4.0.9", "4.0")
    assert other["notes"] == ["the rules of RabbitMQ 4.0.5 stand in for those of 4.0.9"]
    assert captured.err == ""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "truncated"),
        ("[]", "expected an object, got an array"),
        ('{"until_ms": 9,\n"messages": [{"name": "a"}],\n"until_ms": 1}', "line 3: until_ms: the key is there twice"),
        (
            '{"until_ms": 9,\n"messages": [{"name": "a",\n"name": "b"}]}',
            "line 3: messages[0].name: the key is there twice",
        ),
        ('{"messages": [{"name": "a", "fails": "never"}], "until_ms": 1}', "messages[0].fails: "),
    ],
)
def test_a_wrong_scenario_is_bad_data(tmp_path: Path, text: str, problem: str, capsys: Capture) -> None:
    path = tmp_path / "scenario.json"
    path.write_text(text, encoding="utf-8")
    assert main(["compare", str(path)]) == EXIT_DATA
    err = capsys.readouterr().err
    assert str(path) in err
    assert problem in err


def test_a_file_that_is_not_there_is_bad_data(tmp_path: Path, capsys: Capture) -> None:
    assert main(["compare", str(tmp_path / "none.json")]) == EXIT_DATA
    assert "No such file" in capsys.readouterr().err
