"""``dlx settings``: what it shows of each queue, for people and for machines, and how it fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simulator.cli.main import main

Capture = pytest.CaptureFixture[str]

VHOST = "shop"


def policy(name: str, pattern: str, priority: int = 0, apply_to: str = "queues", **definition: Any) -> dict:
    keys = {key.replace("_", "-"): value for key, value in definition.items()}
    common = {"vhost": VHOST, "name": name, "pattern": pattern, "priority": priority}
    return {**common, "apply-to": apply_to, "definition": keys}


def operator_policy(name: str, pattern: str, **definition: Any) -> dict[str, Any]:
    value = {key: part for key, part in policy(name, pattern, **definition).items() if key != "vhost"}
    return {"vhost": VHOST, "component": "operator_policy", "name": name, "value": value}


def queue(name: str, kind: str = "classic", vhost: str = VHOST, **arguments: Any) -> dict[str, Any]:
    table = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    return {"vhost": vhost, "name": name, "durable": True, "arguments": {"x-queue-type": kind, **table}}


DEFINITIONS = {
    "rabbitmq_version": "4.3.6",
    "vhosts": [{"name": VHOST}, {"name": "quiet"}],
    "queues": [
        queue("orders", message_ttl=500, dead_letter_exchange=""),
        queue("mail", "quorum", delivery_limit=-1, overflow="reject-publish-dlx"),
        queue("safe", "quorum", dead_letter_strategy="at-least-once", dead_letter_exchange="x"),
        queue("plain"),
        queue("[red]odd", delivery_limit=3),
        queue("far", vhost="quiet"),
    ],
    "policies": [
        policy("late", "^orders$", 2, message_ttl=900, dead_letter_exchange="dlx"),
        policy("later", "^orders$", 2, message_ttl=100),
        policy("low", "^orders$", 1, message_ttl=1),
        policy("limits", "^orders$", 9, delivery_limit=5),
        policy("exchanges", "^orders$", 9, "exchanges", alternate_exchange="a"),
    ],
    "parameters": [operator_policy("cap", "^orders$", message_ttl=300)],
}


@pytest.fixture
def definitions(tmp_path: Path) -> str:
    path = tmp_path / "definitions.json"
    path.write_text(json.dumps(DEFINITIONS), encoding="utf-8")
    return str(path)


def shown(capsys: Capture, *args: str) -> str:
    assert main(["settings", *args]) == 0
    return capsys.readouterr().out


def report(capsys: Capture, *args: str) -> dict[str, Any]:
    """The queues of the JSON report, by name."""
    found = json.loads(shown(capsys, *args, "--json"))
    return {each["queue"]: each for each in found["queues"]}


def test_every_value_has_its_origin_and_what_it_hides(definitions: str, capsys: Capture) -> None:
    orders = report(capsys, definitions)["orders"]
    ttl = orders["settings"]["message-ttl"]
    assert ttl["value"] == 300
    assert ttl["origin"] == {"kind": "operator policy", "name": "cap"}
    assert ttl["hidden"] == [
        {"value": 900, "origin": {"kind": "policy", "name": "late"}},
        {"value": 500, "origin": {"kind": "argument"}},
    ]
    assert orders["settings"]["dead-letter-exchange"] == {
        "value": "",
        "origin": {"kind": "argument"},
        "hidden": [{"value": "dlx", "origin": {"kind": "policy", "name": "late"}}],
    }
    assert orders["settings"]["overflow"]["origin"] == {"kind": "server default"}
    assert orders["dead_letters"] is True


def test_which_policy_applies_which_are_tied_and_which_skipped(definitions: str, capsys: Capture) -> None:
    choice = report(capsys, definitions)["orders"]["policy"]
    assert choice["applies"] == {"name": "late", "priority": 2}
    assert choice["tied"] == [{"name": "later", "priority": 2}]
    assert {each["name"]: each["why"] for each in choice["skipped"]} == {
        "limits": "classic queues do not support delivery-limit",
        "exchanges": "apply-to is 'exchanges'",
        "low": "late has the higher priority 2",
    }


def test_the_release_decides(definitions: str, capsys: Capture) -> None:
    """Until 3.8 a classic queue takes a policy with a key it does not support."""
    orders = report(capsys, definitions, "--release", "3.8")["orders"]
    assert orders["policy"]["applies"] == {"name": "limits", "priority": 9}
    assert json.loads(shown(capsys, definitions, "--release", "3.8", "--json"))["release"] == "3.8"


def test_what_is_ignored_has_a_reason(definitions: str, capsys: Capture) -> None:
    (ignored,) = report(capsys, definitions)["[red]odd"]["ignored"]
    assert (ignored["key"], ignored["value"]) == ("delivery-limit", 3)
    assert ignored["why"] == "classic queues have none"


def test_what_comes_out_otherwise_than_written(definitions: str, capsys: Capture) -> None:
    queues = report(capsys, definitions)
    assert queues["mail"]["in_force"] == {"overflow": "drop-head", "delivery-limit": None}
    assert queues["safe"]["in_force"] == {"dead-letter-strategy": "at-most-once"}
    assert queues["orders"]["in_force"] == {}
    assert report(capsys, definitions, "--release", "3.13")["mail"]["in_force"]["delivery-limit"] == 0


def test_people_read_the_same(definitions: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    lines = shown(capsys, definitions, "--queue", "orders").splitlines()
    assert lines[0] == "orders (classic queue of virtual host shop)"
    by_setting = {line.split()[0]: line for line in lines if line.strip()}
    assert "900 (policy late), 500 (argument)" in by_setting["message-ttl"]
    assert "operator policy cap" in by_setting["message-ttl"]
    assert '""' in by_setting["dead-letter-exchange"]
    assert "  policy: late (priority 2)" in lines
    assert "  tied policy: later: of equal priorities RabbitMQ may take any" in lines
    assert "  skipped policy: low: late has the higher priority 2" in lines
    assert "  operator policy: cap (priority 0)" in lines


def test_people_read_remarks(definitions: str, capsys: Capture) -> None:
    out = shown(capsys, definitions)
    assert "[red]odd (classic queue" in out
    assert "ignored: delivery-limit 3 (argument): classic queues have none" in out
    assert "in force: delivery-limit unlimited: what a negative limit means in this release" in out
    assert "in force: dead-letter-strategy at-most-once: at-least-once needs" in out
    assert "dead messages are dropped: there is no dead-letter exchange" in out
    assert "far (classic queue of virtual host quiet)" in out


def test_policies_for_other_names_are_counted_unless_one_queue_is_asked_for(definitions: str, capsys: Capture) -> None:
    overview = shown(capsys, definitions)
    assert "skipped policy: 5 for queues of other names" in overview
    assert "is not found in the name" not in overview
    assert "skipped policy: late: pattern '^orders$' is not found" in shown(capsys, definitions, "--queue", "plain")


def test_a_narrow_terminal_folds_and_loses_nothing(
    definitions: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    out = shown(capsys, definitions, "--queue", "orders")
    assert "…" not in out
    assert "dead-letter-exchange" in out
    monkeypatch.setenv("COLUMNS", "40")
    assert " reject-publish-dlx " in shown(capsys, definitions, "--queue", "mail")


def test_one_virtual_host(definitions: str, capsys: Capture) -> None:
    assert list(report(capsys, definitions, "--vhost", "quiet")) == ["far"]


def test_an_export_that_does_not_name_its_virtual_host(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "vhost.json"
    unnamed = [{key: value for key, value in queue("q").items() if key != "vhost"}]
    path.write_text(json.dumps({"queues": unnamed, "policies": []}), encoding="utf-8")
    assert report(capsys, str(path))["q"]["vhost"] is None
    assert report(capsys, str(path), "--vhost", "any")["q"]["vhost"] == "any"
    assert shown(capsys, str(path)).startswith("q (classic queue)")


def test_no_queues(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "empty.json"
    path.write_text(json.dumps({"vhosts": [{"name": "/"}], "queues": []}), encoding="utf-8")
    assert shown(capsys, str(path)) == "There are no queues.\n"
    assert report(capsys, str(path)) == {}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--queue", "nope"], "no queue 'nope'; without --queue, all are shown"),
        (["--queue", "order"], "no queue 'order'; did you mean 'orders'?"),
        (["--queue", "far", "--vhost", VHOST], "no queue 'far'; there are '[red]odd', 'mail'"),
        (["--vhost", "nope"], "no virtual host 'nope'; there are 'quiet', 'shop'"),
        (["--vhost", "shopp"], "no virtual host 'shopp'; did you mean 'shop'?"),
    ],
)
def test_an_unknown_name_is_65_and_says_what_there_is(
    args: list[str], said: str, definitions: str, capsys: Capture
) -> None:
    assert main(["settings", definitions, *args]) == 65
    assert f"{definitions}: {said}" in capsys.readouterr().err


@pytest.mark.parametrize("text", [None, "not json", "{}", '{"queues": [{"name": 7, "vhost": "/"}]}'])
def test_definitions_that_cannot_be_used_are_65(text: str | None, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "broken.json"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    assert main(["settings", str(path)]) == 65
    captured = capsys.readouterr()
    assert (captured.out, str(path) in captured.err) == ("", True)


@pytest.mark.parametrize("args", [[], ["x.json", "--release", "2.0"], ["x.json", "y.json"]])
def test_wrong_usage_is_64(args: list[str], capsys: Capture) -> None:
    assert main(["settings", *args]) == 64
    assert capsys.readouterr().out == ""


# What lint finds about a queue

LINT_EXAMPLES = sorted(Path("tests/analysis/lint_examples").glob("*.json"))


def of_lint(capsys: Capture, *args: str) -> dict[tuple[str, str], list[Any]]:
    """What ``dlx lint`` finds about queues, by virtual host and name."""
    main(["lint", *args, "--format", "json"])
    found: dict[tuple[str, str], list[Any]] = {}
    for each in json.loads(capsys.readouterr().out)["findings"]:
        if each["kind"] == "queue":
            found.setdefault((each["vhost"], each["object"]), []).append(each)
    return found


@pytest.mark.parametrize("path", LINT_EXAMPLES, ids=lambda path: path.stem)
def test_the_findings_are_those_of_lint_for_all_queues_and_for_one(path: Path, capsys: Capture) -> None:
    linted = of_lint(capsys, str(path))
    queues = json.loads(shown(capsys, str(path), "--json"))["queues"]
    assert queues
    for each in queues:
        expected = linted.get((each["vhost"], each["queue"]), [])
        assert each["findings"] == expected
        one = report(capsys, str(path), "--vhost", each["vhost"], "--queue", each["queue"])[each["queue"]]
        assert one["findings"] == expected


def test_people_read_code_name_and_message_of_a_finding(capsys: Capture) -> None:
    path = "tests/analysis/lint_examples/missing-dlx.json"
    (finding,) = report(capsys, path)["orders"]["findings"]
    said = f"  error DLX001 missing-dlx: {finding['message']}"
    lines = shown(capsys, path).splitlines()
    assert [line for line in lines if "DLX" in line] == [said]
    assert "DLX" not in shown(capsys, path, "--queue", "orders.dead")


def test_findings_depend_on_the_release(capsys: Capture) -> None:
    path = "tests/analysis/lint_examples/default-delivery-limit.json"
    codes = [
        {each["code"] for queue in report(capsys, path, "--release", rules).values() for each in queue["findings"]}
        for rules in ("3.13", "4.3")
    ]
    assert codes[1] - codes[0] == {"DLX010"}


@pytest.mark.parametrize("named", [{}, {"original_vhost_name": "shop"}], ids=["unnamed", "named"])
def test_findings_of_an_export_of_one_virtual_host(named: dict[str, str], tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "vhost.json"
    lossy = queue("q", dead_letter_exchange="nonsuch")
    del lossy["vhost"]
    path.write_text(json.dumps({**named, "queues": [lossy], "policies": []}), encoding="utf-8")
    for args in ([], ["--vhost", "shop"]):
        assert [each["code"] for each in report(capsys, str(path), *args)["q"]["findings"]] == ["DLX001"]


def test_what_a_broker_refuses_has_settings_and_findings(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "refused.json"
    bad = policy("bad", "^q$", max_length=-5)
    path.write_text(json.dumps({"vhosts": [{"name": VHOST}], "queues": [queue("q")], "policies": [bad]}))
    assert main(["settings", str(path), "--json"]) == 0
    out, _ = capsys.readouterr()
    (found,) = json.loads(out)["queues"]
    assert found["queue"] == "q"
    assert main(["lint", str(path), "--json"]) == 1
    assert "-5 is not a valid maximum length" in capsys.readouterr().out
