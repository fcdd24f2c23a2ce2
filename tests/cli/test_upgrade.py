"""``dlx upgrade``: what it prints for people and for machines, with a log and without, and how it fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simulator.cli.main import main

Capture = pytest.CaptureFixture[str]

EXAMPLES = Path(__file__).parents[2] / "examples"
CAPTURED = EXAMPLES / "captured-3.10"
FIELDS = {"behaviour", "severity", "kind", "vhost", "object", "message", "fix", "evidence"}

DEFINITIONS = {
    "vhosts": [{"name": "/"}],
    "queues": [
        {"name": "orders", "vhost": "/", "arguments": {"x-queue-type": "quorum"}},
        {
            "name": "safe",
            "vhost": "/",
            "arguments": {
                "x-queue-type": "quorum",
                "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": "parking",
            },
        },
        {"name": "parking", "vhost": "/"},
    ],
}


@pytest.fixture
def definitions(tmp_path: Path) -> str:
    path = tmp_path / "definitions.json"
    path.write_text(json.dumps(DEFINITIONS), encoding="utf-8")
    return str(path)


def answer(capsys: Capture, *args: str, status: int = 1) -> dict[str, Any]:
    assert main(["upgrade", *args, "--json"]) == status
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_machines_get_each_change_with_its_object_fix_and_evidence(definitions: str, capsys: Capture) -> None:
    found = answer(capsys, definitions, "--from", "3.13", "--to", "4.0")
    assert set(found) == {"from", "to", "changes", "assumed", "unchecked"}
    assert (found["from"], found["to"]) == ("3.13", "4.0")
    first = found["changes"][0]
    assert set(first) == FIELDS
    assert (first["behaviour"], first["severity"]) == ("quorum_default_delivery_limit", "error")
    assert (first["kind"], first["vhost"], first["object"]) == ("queue", "/", "orders")
    assert first["fix"]["safe"] is True
    assert "rabbit_quorum_queue.erl" in first["evidence"]
    assert any("--log" in each for each in found["unchecked"])
    assert found["assumed"]


def test_people_read_errors_first_by_object_each_with_its_fix(
    definitions: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["upgrade", definitions, "--from", "3.13", "--to", "4.0"]) == 1
    out = capsys.readouterr().out
    heads = [line.strip() for line in out.splitlines() if line.startswith(("error", "warning", "note"))]
    assert heads[:2] == ["error: queue 'orders'", "warning: queue 'safe'"]
    text = " ".join(out.split())
    assert "the 21st return drops the message" in text
    assert "fix: before the upgrade, set delivery-limit (such as 50)" in text
    assert "from 3.13 to 4.0: 1 error, 2 warnings" in text
    assert "Not checked: " in text
    assert max(map(len, out.splitlines())) <= 80


def test_without_from_it_is_the_release_that_exported_the_definitions(definitions: str, capsys: Capture) -> None:
    assert main(["upgrade", definitions, "--to", "4.0"]) == 64
    assert "name its release by --from" in capsys.readouterr().err
    Path(definitions).write_text(json.dumps(DEFINITIONS | {"rabbit_version": "3.13.7"}), encoding="utf-8")
    found = answer(capsys, definitions, "--to", "4.0")
    assert (found["from"], found["to"]) == ("3.13", "4.0")


def test_where_nothing_changes_it_is_0(definitions: str, capsys: Capture) -> None:
    assert answer(capsys, definitions, "--from", "4.0", "--to", "4.0", status=0)["changes"] == []
    assert main(["upgrade", definitions, "--from", "4.0", "--to", "4.0"]) == 0
    assert "from 4.0 to 4.0: nothing changes that dlx knows of." in " ".join(capsys.readouterr().out.split())


def test_notes_alone_are_0(tmp_path: Path, capsys: Capture) -> None:
    """That another part of the server enforces the timeout of consumers changes no outcome of a classic queue."""
    path = tmp_path / "plain.json"
    path.write_text(json.dumps({"queues": [{"name": "plain", "vhost": "/"}], "vhosts": [{"name": "/"}]}))
    found = answer(capsys, str(path), "--from", "4.0", "--to", "4.3", status=0)
    assert [(each["behaviour"], each["severity"]) for each in found["changes"]] == [
        ("consumer_timeout_enforced_by", "note")
    ]
    assert main(["upgrade", str(path), "--from", "4.0", "--to", "4.3"]) == 0
    assert "from 4.0 to 4.3: 1 note." in " ".join(capsys.readouterr().out.split())


def test_a_fix_that_is_not_safe_says_so(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "old.json"
    path.write_text(json.dumps({"queues": [{"name": "old", "vhost": "/", "arguments": {"x-queue-version": 1}}],
                                "vhosts": [{"name": "/"}]}), encoding="utf-8")  # fmt: skip
    assert main(["upgrade", str(path), "--from", "4.2", "--to", "4.3"]) == 1
    assert "fix (not safe on the live server): drain queue 'old'" in " ".join(capsys.readouterr().out.split())


def test_a_log_leaves_out_what_its_messages_cannot_meet_and_counts_the_others(capsys: Capture) -> None:
    source, way = str(CAPTURED / "definitions.json"), ("--from", "3.10", "--to", "4.3")
    without = answer(capsys, source, *way)
    found = answer(capsys, source, *way, "--log", str(CAPTURED / "trace.log.gz"))
    assert all(set(each) == FIELDS | {"messages"} and each["messages"] > 0 for each in found["changes"])
    left_out = found["log"]["left_out"]
    assert len(left_out) + len(found["changes"]) == len(without["changes"])
    assert len(left_out) > 0
    kept = {(each["behaviour"], each["object"]): each["messages"] for each in found["changes"]}
    assert 0 < kept["death_order", "cycles.a"] < found["log"]["messages"]
    assert main(["upgrade", source, *way, "--log", str(CAPTURED / "trace.log.gz")]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert f"Left out, since no message of the log can meet them: {len(left_out)} changes" in out
    assert f"in the log: {kept['death_order', 'cycles.a']} messages" in out


def test_a_queue_that_no_message_came_back_to_does_not_meet_the_default_limit(
    tmp_path: Path, definitions: str, capsys: Capture
) -> None:
    """Two deliveries of one message from 'orders' meet it; one delivery from 'safe' does not."""
    log = tmp_path / "trace.log"
    log.write_text("".join(json.dumps(each) + "\n" for each in _trace("orders", "orders", "safe")), encoding="utf-8")
    found = answer(capsys, definitions, "--from", "3.13", "--to", "4.0", "--log", str(log))
    told = {each["object"]: each["messages"] for each in found["changes"]}
    limits = [each["object"] for each in found["log"]["left_out"] if "delivery_limit" in each["behaviour"]]
    assert told["orders"] == 1
    assert set(limits) == {"safe"}


def _trace(*queues: str) -> list[dict[str, Any]]:
    """Records of the tracing plugin: a message for each queue, and its deliveries."""
    common = {
        "timestamp": "2026-01-01 0:00:00:000",
        "node": "rabbit@host",
        "connection": "c",
        "vhost": "/",
        "user": "guest",
        "channel": 1,
        "payload": "",
        "exchange": "",
    }
    found = []
    for name in dict.fromkeys(queues):
        properties = {"message_id": name}
        publish = {"type": "published", "routed_queues": [name], "queue": "none"}
        found.append({**common, **publish, "routing_keys": [name], "properties": properties})
    for name in queues:
        delivery = {"type": "received", "queue": name, "routed_queues": "none"}
        found.append({**common, **delivery, "routing_keys": [name], "properties": {"message_id": name}})
    return found


@pytest.mark.parametrize(
    ("args", "status", "said"),
    [
        (["--from", "3.13"], 64, "Missing option '--to'"),
        (["--from", "3.13", "--to", "9.9"], 64, "known are 3.8"),
        (["--from", "3.13", "--to", "4.0", "--log", "none.log"], 65, "none.log"),
        (["--from", "3.13", "--to", "4.0", "--over", "http://u:secret@127.0.0.1:1/"], 69, "no answer"),
    ],
)
def test_failing(args: list[str], status: int, said: str, definitions: str, capsys: Capture) -> None:
    assert main(["upgrade", definitions, *args]) == status
    out, err = capsys.readouterr()
    assert (out, said in err, "secret" in err) == ("", True, False)


def test_a_wrong_field_is_named(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "wrong.json"
    path.write_text('{"vhosts": [{"name": "/"}], "queues": [{"vhost": "/"}]}', encoding="utf-8")
    assert main(["upgrade", str(path), "--from", "3.13", "--to", "4.0"]) == 65
    assert f"{path}: queues[0].name: missing" in capsys.readouterr().err
