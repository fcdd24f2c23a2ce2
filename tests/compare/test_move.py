"""``dlx compare --to``: what a move of a topology loses, changes and keeps, and the files of the other system."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from simulator.cli.main import EXIT_DATA, EXIT_USAGE, main
from simulator.systems.activemq.lint import lint as lint_activemq_xml
from simulator.systems.ibm_mq.lint import lint as lint_rules_table
from simulator.systems.ibm_mq.parser import parse as parse_rules_table
from simulator.systems.ironmq import simulate as simulate_ironmq
from simulator.systems.zaqar import simulate as simulate_zaqar
from tests.compare.moves import ANSWERS, MOVES, ROOT, file_of, services

Capture = pytest.CaptureFixture[str]
PARKING = "examples/topologies/sound/quorum-with-parking.json"


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources are named from the root of the project, and the terminal is as wide as the answers."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "110")
    piped = json.dumps(services()).encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(piped)))


def queue(name: str, vhost: str = "/", **arguments: Any) -> dict[str, Any]:
    given = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    return {"name": name, "vhost": vhost, "durable": True, "auto_delete": False, "arguments": given}


def written(folder: Path, *queues: dict[str, Any], **more: Any) -> str:
    path = folder / "definitions.json"
    vhosts = [{"name": each} for each in dict.fromkeys(each["vhost"] for each in queues)]
    path.write_text(json.dumps({"vhosts": vhosts, "queues": queues, **more}), encoding="utf-8")
    return str(path)


def moved(source: str, to: str, capsys: Capture) -> dict[str, Any]:
    """Return the answer in JSON."""
    assert main(["compare", source, "--to", to, "--json"]) in (0, 1)
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def found(answer: dict[str, Any], words: str) -> list[tuple[str, str, str]]:
    """Return the effect and both sides of the findings about something."""
    return [(each["effect"], each["before"], each["after"]) for each in answer["findings"] if words in each["what"]]


@pytest.mark.parametrize("name", MOVES)
def test_the_answer_is_what_was_read_and_kept(name: str, capsys: Capture) -> None:
    assert main(MOVES[name].arguments) == 1
    assert capsys.readouterr().out == file_of(name).read_text(encoding="utf-8")


def test_every_answer_that_is_kept_is_of_a_move() -> None:
    assert {path.name for path in ANSWERS.iterdir()} == {file_of(name).name for name in MOVES}


@pytest.mark.parametrize("name", MOVES)
def test_the_systems_take_the_files_without_a_complaint(name: str, tmp_path: Path, capsys: Capture) -> None:
    case = MOVES[name]
    assert main([*case.arguments, "--write", str(tmp_path / "moved")]) == 1
    out = capsys.readouterr().out
    files = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "moved").iterdir()}
    assert all(str(tmp_path / "moved" / each) in out.replace("\n", "") for each in files)
    assert "---" not in out
    if case.to == "activemq":
        linted = lint_activemq_xml(files["activemq.xml"])
        # With the default policy clients redeliver beside the plugin: comments in the file say that they must not.
        assert [each for each in linted.findings if "default policy" not in each.text] == []
        assert linted.not_simulated == ()
    elif case.to == "zaqar":
        simulate_zaqar({"queues": json.loads(files["zaqar-queues.json"]), "steps": []})
    elif case.to == "ironmq":
        queues = {each: body["queue"] for each, body in json.loads(files["ironmq-queues.json"]).items()}
        simulate_ironmq({"queues": queues})
    else:
        parsed = parse_rules_table(files["rules.tab"])
        assert parsed.warnings == ()
        assert list(lint_rules_table(parsed.table, parsed.rule_lines)) == []
        assert all(line.startswith("DEFINE QLOCAL('") for line in files["queues.mqsc"].splitlines())


def test_nothing_differs_where_there_is_no_queue(tmp_path: Path, capsys: Capture) -> None:
    assert main(["compare", written(tmp_path), "--to", "activemq"]) == 0
    assert "there is no queue to move" in capsys.readouterr().out


def test_json_has_both_sides_the_limits_and_the_files(capsys: Capture) -> None:
    answer = moved(PARKING, "activemq:5.18", capsys)
    assert (answer["from"], answer["to"]) == ("rabbitmq 4.3", "activemq 5.18")
    assert found(answer, "(requeued)") == [
        ("kept", "delivered 6 times, then in its dead-letter queue", "the same"),
    ]
    assert found(answer, "rejected once") == [
        ("changes", "delivered once, then in its dead-letter queue", "delivered twice, then processed"),
    ]
    assert answer["limits"]["activemq"].startswith("each client")
    assert 'maximumRedeliveries="5"' in answer["files"]["activemq.xml"]
    assert {each["played"] for each in answer["findings"]} == {True, False}
    assert answer["counts"] == {"changes": 4, "kept": 2}


def test_the_release_of_the_topology_decides(capsys: Capture) -> None:
    """Until 3.13 a quorum queue has no limit of its own."""
    source = "examples/topologies/broken/default-delivery-limit.json"
    for release, before in (("rabbitmq", "delivered 21 times, then gone"), ("rabbitmq:3.13", "again and again")):
        assert main(["compare", "--from", release, source, "--to", "activemq", "--json"]) == 1
        [(_, said, _)] = found(json.loads(capsys.readouterr().out), "(requeued)")
        assert before in said


def test_equal_queues_are_one_finding(tmp_path: Path, capsys: Capture) -> None:
    pairs = [
        (queue(f"{name}.in", dead_letter_exchange="", dead_letter_routing_key=f"{name}.dead"), queue(f"{name}.dead"))
        for name in ("one", "two", "three")
    ]
    answer = moved(written(tmp_path, *(each for pair in pairs for each in pair)), "zaqar", capsys)
    [lost] = [each for each in answer["findings"] if "until it expires" in each["what"]]
    assert lost["effect"] == "lost"
    assert [about["name"] for about in lost["about"]] == ["one.in", "two.in", "three.in"]
    assert {each["name"]: each["there"] for each in answer["names"]}["one.in"] == "one-in"


def test_names_stay_apart_where_the_other_system_allows_fewer(tmp_path: Path, capsys: Capture) -> None:
    queues = [queue("a.b"), queue("a-b"), queue("a.b", vhost="eu"), queue("x" * 60), queue("x" * 59)]
    zaqar = moved(written(tmp_path, *queues), "zaqar", capsys)
    assert set(json.loads(zaqar["files"]["zaqar-queues.json"])) == {"a-b", "a-b2", "eu-a-b", "x" * 60, "x" * 59}
    ibm_mq = moved(written(tmp_path, *queues), "ibm_mq", capsys)
    assert {"'" + "x" * 48 + "'", "'" + "x" * 47 + "2'"} <= set(
        ibm_mq["files"]["queues.mqsc"].replace("(", " ").replace(")", " ").split()
    )


def test_a_fanout_exchange_becomes_a_composite_queue(tmp_path: Path, capsys: Capture) -> None:
    exchange = {
        "name": "news", "vhost": "/", "type": "fanout", "durable": True, "auto_delete": False, "internal": False,
        "arguments": {},
    }  # fmt: skip
    bindings = [
        {
            "source": "news", "vhost": "/", "destination": name, "destination_type": "queue", "routing_key": "",
            "arguments": {},
        }
        for name in ("mail", "push")
    ]  # fmt: skip
    source = written(tmp_path, queue("mail"), queue("push"), exchanges=[exchange], bindings=bindings)
    answer = moved(source, "activemq", capsys)
    forwarded = '<queue physicalName="mail"/><queue physicalName="push"/>'
    composite = f'<compositeQueue name="news"><forwardTo>{forwarded}</forwardTo></compositeQueue>'
    assert composite in answer["files"]["activemq.xml"]
    assert lint_activemq_xml(answer["files"]["activemq.xml"]).findings == ()
    assert found(moved(source, "zaqar", capsys), "copies")[0][0] == "cannot be had"


def test_a_message_that_comes_back_at_once_is_not_taken_for_a_dead_letter(tmp_path: Path, capsys: Capture) -> None:
    source = written(tmp_path, queue("own", dead_letter_exchange="", dead_letter_routing_key="own"))
    for to in ("activemq", "zaqar", "ironmq", "ibm_mq"):
        assert not [
            each for each in moved(source, to, capsys)["findings"] if each["effect"] == "lost" and each["played"]
        ]


def test_what_cannot_be_had_is_said(tmp_path: Path, capsys: Capture) -> None:
    queues = [
        queue("log", queue_type="stream"),
        queue("urgent", max_priority=10),
        queue("one", single_active_consumer=True),
        queue("brief", expires=1_000),
        queue("small", max_length_bytes=100),
    ]
    effects = {to: moved(written(tmp_path, *queues), to, capsys) for to in ("activemq", "ironmq")}
    assert [found(each, "stream")[0][0] for each in effects.values()] == ["cannot be had"] * 2
    assert [found(each, "priorities")[0][0] for each in effects.values()] == ["changes", "cannot be had"]
    assert [found(each, "one consumer")[0][0] for each in effects.values()] == ["kept", "cannot be had"]
    assert [found(each, "deleted when")[0][0] for each in effects.values()] == ["cannot be had"] * 2
    assert [found(each, "bytes")[0][0] for each in effects.values()] == ["cannot be had"] * 2
    assert 'allConsumersExclusiveByDefault="true"' in effects["activemq"]["files"]["activemq.xml"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--to", "kafka"], "expected one of activemq, zaqar, ironmq, ibm_mq"),
        (["--to", "rabbitmq"], "expected one of activemq"),
        (["--to", "zaqar:2.8"], "expected one of redis"),
        (["--to", "zaqar", "--from", "activemq"], "of rabbitmq alone"),
        (["--to", "zaqar", "--from", "rabbitmq:2.8"], "the nearest is 3.8"),
        (["--to", "zaqar", "--systems", "ironmq"], "are for a scenario"),
        (["--write", "moved"], "name the system by --to"),
    ],
)
def test_wrong_usage(arguments: list[str], said: str, capsys: Capture) -> None:
    assert main(["compare", PARKING, *arguments]) == EXIT_USAGE
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_topology_that_cannot_be_read_is_bad_data(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "definitions.json"
    path.write_text('{"queues": [{"name": 1}]}', encoding="utf-8")
    assert main(["compare", str(path), "--to", "activemq"]) == EXIT_DATA
    assert "definitions.json" in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_is_bad_data(tmp_path: Path, capsys: Capture) -> None:
    assert main(["compare", PARKING, "--to", "activemq", "--write", str(tmp_path / "none" / "moved")]) == EXIT_DATA
    assert f"there is no folder {tmp_path / 'none'}" in capsys.readouterr().err


def test_a_dead_letter_that_its_queue_holds_is_not_taken_for_a_message_in_the_queue(capsys: Capture) -> None:
    answer = moved("examples/topologies/broken/held-for-ever.json", "activemq", capsys)
    [(_, before, _)] = found(answer, "rejected once")
    assert before == "delivered once, then held by its queue as a dead letter"
