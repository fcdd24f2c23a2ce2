"""``dlx test``: what it prints of cases that hold and of others, for people, CI servers and machines."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest

from simulator.cli.main import EXIT_DATA, EXIT_UNAVAILABLE, EXIT_USAGE, main

CASES = """
definitions:
  queues:
    - {name: orders, arguments: {x-dead-letter-exchange: '', x-dead-letter-routing-key: dead}}
    - {name: dead}
cases:
  - name: a rejected order
    steps:
      - {do: publish, exchange: '', routing_key: orders, properties: {message_id: order-17}}
      - {do: reject, queue: orders}
      - {do: expect, queues: {dead: [{deaths: [{queue: orders, reason: $reason, count: 1}]}]}}
"""
HOLDS, FAILS = CASES.replace("$reason", "rejected"), CASES.replace("$reason", "expired")


def written(folder: Path, text: str) -> str:
    path = folder / "orders.yml"
    path.write_text(text)
    return str(path)


def test_cases_that_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", written(tmp_path, HOLDS), "--release", "3.8", "--release", "4.3"]) == 0
    assert capsys.readouterr().out.splitlines() == ["simulator 3.8: 1 passed", "simulator 4.3: 1 passed"]


def test_notes_name_what_definitions_leave_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A queue that only bindings name is there on the simulator, and the exchange that they name."""
    named = "{source: dying, destination: dead, destination_type: queue, routing_key: orders}"
    cases = HOLDS.replace("    - {name: dead}\n", f"  bindings: [{named}]\n")
    cases = cases.replace("'', x-dead-letter-routing-key: dead", "dying").split("      - {do: expect")[0]
    cases += "      - {do: expect, queues: {dead: 1}, lost: []}\n"
    assert main(["test", written(tmp_path, cases), "--release", "3.8", "--release", "4.3", "--json"]) == 0
    why = "it is named here and not declared, as exports leave out"
    assert capsys.readouterr().err.splitlines() == [
        f"note: queue 'dead': {why} exclusive queues (the broker has a classic queue in its place)",
        f"note: exchange 'dying': {why} internal exchanges (the broker has a direct exchange in its place)",
    ]


def test_a_case_that_fails_tells_what_was_found_and_what_became_of_the_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, FAILS)
    assert main(["test", path]) == 1
    told = capsys.readouterr().out.splitlines()
    assert told[:3] == [
        "failed a rejected order (simulator 4.3)",
        f"  {path}:11",
        "  queue dead, message 1: deaths: expected queue orders, reason expired, count 1, "
        "found queue orders, reason rejected, count 1",
    ]
    assert "    message 1 (order-17):" in told
    assert "      At once it was dead-lettered from the queue 'orders' (rejected) to dead." in told
    assert told[-1] == "simulator 4.3: 1 failed"


@pytest.mark.parametrize(
    ("expected", "problem"),
    [
        ("queues: {orders: 2, dead: 0}", "queue orders: expected 2 messages, found no message"),
        ("queues: {}", "queue dead: expected no message, found 1 message"),
        ("queues: {dead: [{routing_key: x}]}", "message 1: routing_key: expected x, found dead"),
        ("queues: {dead: [{exchange: x}]}", "message 1: exchange: expected x, found ''"),
        ("queues: {dead: [{headers: {shop: x}}]}", "message 1: headers.shop: expected x, found none"),
        ("queues: {dead: [{headers: {x-first-death-queue: null}}]}", "expected none, found orders"),
        ("queues: {dead: [{properties: {message_id: x}}]}", "properties.message_id: expected x, found order-17"),
        ("queues: {dead: [{deaths: []}]}", "deaths: expected none, found queue orders, reason rejected, count 1"),
        ("queues: {dead: [{deaths: [{original-expiration: '5'}]}]}", "deaths: expected original-expiration 5, found"),
        ("queues: {dead: [{times: 2}]}", "queue dead: expected 2 messages, found 1 message"),
        ("queues: {dead: 1}, lost: [{queue: orders}]", "lost: expected 1 more (orders), found nothing else"),
        ("queues: {dead: 1}, unroutable: 1", "unroutable publishes: expected 1, found 0"),
        ("queues: {dead: 1}, refused: 2", "refused publishes: expected 2, found 0"),
    ],
)
def test_what_differs_is_told(expected: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = HOLDS[: HOLDS.rindex("      - {do: expect")] + f"      - {{do: expect, {expected}}}\n"
    assert main(["test", written(tmp_path, text)]) == 1
    assert problem in capsys.readouterr().out


def test_a_loss_that_nobody_expects_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = HOLDS.replace("x-dead-letter-routing-key: dead", "x-dead-letter-routing-key: daed")
    text = text[: text.rindex("      - {do: expect")] + "      - {do: expect, queues: {}}\n"
    assert main(["test", written(tmp_path, text)]) == 1
    assert "lost: expected nothing else, found 1 × orders rejected unroutable" in capsys.readouterr().out


def test_a_step_that_the_broker_refuses_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    step = "      - {do: set-policy, policy: {name: p, pattern: x, definition: {message-ttl: soon}}}\n"
    text = HOLDS.replace("      - {do: reject", f"{step}      - {{do: reject")
    assert main(["test", written(tmp_path, text)]) == 1
    assert "the broker refused the step: " in capsys.readouterr().out


def test_definitions_that_the_broker_refuses_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = HOLDS.replace("{x-dead-letter-exchange", "{x-message-ttl: -1, x-dead-letter-exchange")
    assert main(["test", written(tmp_path, text)]) == 1
    assert "definitions: " in capsys.readouterr().out


def test_a_case_that_is_not_run_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, HOLDS + "    releases: '>=4.0'\n")
    assert main(["test", path, "--release", "3.13"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told == ["not run 1 at simulator 3.13: the case is for releases >=4.0", "simulator 3.13: 1 not run"]


def test_junit(tmp_path: Path) -> None:
    path, out = written(tmp_path, FAILS), tmp_path / "out.xml"
    assert main(["test", path, "--release", "4.0", "--release", "4.3", "--junit", str(out)]) == 1
    root = ElementTree.parse(out).getroot()
    assert [(suite.get("name"), suite.get("failures")) for suite in root] == [
        ("simulator 4.0", "1"),
        ("simulator 4.3", "1"),
    ]
    (failure,) = root[0].iter("failure")
    assert "reason expired" in str(failure.get("message"))
    assert f"{path}:11" in str(failure.text)


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", written(tmp_path, FAILS), "--json"]) == 1
    (result,) = json.loads(capsys.readouterr().out)
    assert (result["status"], result["line"], result["failed_line"]) == ("failed", 7, 11)
    assert result["stories"][0] == "message 1 (order-17):"


def test_the_example_of_the_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (Path(__file__).parents[2] / "docs/how-to/test.md").read_text(encoding="utf-8")
    example = text.partition("```yaml\n")[2].partition("```")[0]
    monkeypatch.chdir(tmp_path)
    Path("orders.yml").write_text(example)
    command, *answer = text.partition("```console\n$ dlx ")[2].partition("\n```")[0].splitlines()
    assert main(shlex.split(command)) == 0
    assert capsys.readouterr().out.splitlines() == answer
    Path("orders.yml").write_text(example.replace("reason: rejected, count: 1", "reason: rejected, count: 2", 1))
    assert main(["test", "orders.yml"]) == 1
    failure = text.partition("```text\n")[2].partition("\n      ...\n")[0]
    assert capsys.readouterr().out.startswith(failure)


def test_the_schema_takes_what_is_read_and_no_unknown_field(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", "--schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    import yaml

    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    assert list(validator.iter_errors(yaml.safe_load(HOLDS))) == []
    assert list(validator.iter_errors(yaml.safe_load(HOLDS.replace("queues: {dead", "queue: {dead")))) != []


@pytest.mark.parametrize(
    ("args", "status", "problem"),
    [
        ([], EXIT_USAGE, "Missing argument 'FILE...'"),
        (["FILE", "--only", "parcels"], EXIT_USAGE, "no case's name contains 'parcels'"),
        (["FILE", "--broker", "localhost"], EXIT_USAGE, "expected the URL of a server, got 'localhost'"),
        (["FILE", "--broker", "simulator"], EXIT_USAGE, "expected the URL of a server, got 'simulator'"),
        (["FILE", "--broker", "amqp://127.0.0.1:1"], EXIT_UNAVAILABLE, "no RabbitMQ management API answers"),
        (["FILE", "--release", "5.0"], EXIT_USAGE, "5.0"),
        (["nowhere.yml"], EXIT_DATA, "nowhere.yml: No such file or directory"),
    ],
)
def test_wrong_use(
    args: list[str], status: int, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, HOLDS)
    assert main(["test", *(path if each == "FILE" else each for each in args)]) == status
    assert problem in capsys.readouterr().err


def test_bad_data_names_file_line_and_the_nearest_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, HOLDS.replace("reason: rejected", "reson: rejected"))
    assert main(["test", path]) == EXIT_DATA
    assert f"{path}:11: unknown field 'reson'; did you mean 'reason'?" in capsys.readouterr().err
