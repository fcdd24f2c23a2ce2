"""``dlx simulate``: scenarios of RabbitMQ, and what is wrong with one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from dlx.releases import RELEASES
from simulator.cli.main import main

ACTIVEMQ = Path(__file__).parents[2] / "docs" / "reference" / "activemq.md"
QUEUES = [
    {
        "name": "orders",
        "arguments": {"x-message-ttl": 1_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"},
    },
    {"name": "dead", "arguments": {}},
]
SCENARIO: dict[str, Any] = {
    "definitions": {"queues": [{"vhost": "/", "durable": True, "auto_delete": False, **each} for each in QUEUES]},
    "release": "4.3",
    "steps": [{"do": "publish", "exchange": "", "routing_key": "orders"}, {"do": "wait", "ms": 1_000}],
}


def run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, system: str, scenario: Any, *options: str
) -> tuple[int, str, str]:
    file = tmp_path / "scenario.json"
    file.write_text(scenario if isinstance(scenario, str) else json.dumps(scenario))
    status = main(["simulate", system, str(file), *options])
    return status, *capsys.readouterr()


def test_a_scenario_prints_what_happened_and_what_is_left(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, out, _ = run(capsys, tmp_path, "rabbitmq", SCENARIO, "--json")
    trace = json.loads(out)
    assert status == 0
    assert [(each["event"], each["time_ms"]) for each in trace["events"]] == [
        ("published", 0),
        ("routed", 0),
        ("expired", 1_000),
        ("dead-lettered", 1_000),
        ("routed", 1_000),
    ]
    (dead,) = trace["queues"]["dead"]
    assert dead["headers"]["x-death"][0]["reason"] == "expired"
    assert trace["queues"]["orders"] == []


@pytest.mark.parametrize(
    ("version", "release", "remark"),
    [
        ("3.13.7", "3.13", ""),
        ("4.3.6", "4.3", ""),
        ("4.0.9", "4.0", "note: the rules of RabbitMQ 4.0.5 stand in for those of 4.0.9\n"),
    ],
)
def test_a_version_is_taken_and_a_note_tells_which_stands_in_for_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, version: str, release: str, remark: str
) -> None:
    status, out, err = run(capsys, tmp_path, "rabbitmq", {**SCENARIO, "release": version}, "--json")
    assert (status, json.loads(out)["release"], err) == (0, release, remark)


@pytest.mark.parametrize(
    ("scenario", "said"),
    [
        ("{", "scenario.json: "),
        ("[]", "expected an object, got an array"),
        ({"step": []}, "step: unknown; did you mean steps? expected definitions, steps, release"),
        (
            {**SCENARIO, "release": "5"},
            f"release: no release '5': known are {', '.join(RELEASES)}; the nearest is 4.3\n",
        ),
        ({**SCENARIO, "release": 4.3}, "release: 4.3; expected a name or a version, such as '4.3'\n"),
        ({**SCENARIO, "definitions": 1}, "definitions: expected an export"),
        ({**SCENARIO, "definitions": {"queues": [{"name": 1}]}}, "definitions.queues[0]"),
        (
            {**SCENARIO, "steps": [{"do": "jump"}]},
            "steps[0].do: 'jump' is not one of the values allowed here; expected one of publish, ack",
        ),
        ({**SCENARIO, "steps": [{"do": "clear-policy", "name": "p"}]}, "steps: "),
        ({**SCENARIO, "steps": 1}, "steps: expected a list, got a whole number"),
        (
            {**SCENARIO, "steps": [*SCENARIO["steps"], {"do": "reject", "queue": "oders"}]},
            "steps[2].queue: no queue 'oders'; did you mean 'orders'?",
        ),
        (
            {**SCENARIO, "steps": [{"do": "repeat", "times": 2, "steps": [{"do": "ack", "queue": "daed"}]}]},
            "steps[0].steps[0].queue: no queue 'daed'; did you mean 'dead'?",
        ),
        (
            {**SCENARIO, "steps": [{"do": "publish", "exchange": "", "routing_key": "order"}]},
            "steps[0].routing_key: no queue 'order'; did you mean 'orders'?",
        ),
        (
            {**SCENARIO, "steps": [{"do": "publish", "exchange": "amq.topics", "routing_key": "x"}]},
            "steps[0].exchange: no exchange 'amq.topics'; did you mean 'amq.topic'",
        ),
        (
            {**SCENARIO, "steps": [{"do": "leave", "queue": "orders", "vhost": "shop"}]},
            "steps[0].vhost: no virtual host 'shop'; there are '/'",
        ),
    ],
)
def test_a_wrong_scenario_is_65_and_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, scenario: Any, said: str
) -> None:
    status, out, err = run(capsys, tmp_path, "rabbitmq", scenario)
    assert (status, out) == (65, "")
    assert said in err


TABLE = """
time  message  event          queue   why
0 s   1        published
      1        routed         orders
1 s   1        expired        orders  expired
      1        dead-lettered  orders  expired, to dead
      1        routed         dead

queue   left  messages
orders  0
dead    1     1
"""


def test_without_json_it_is_a_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, out, _ = run(capsys, tmp_path, "rabbitmq", SCENARIO)
    assert (status, [line.rstrip() for line in out.splitlines()]) == (0, TABLE.strip().splitlines())


def test_the_table_has_what_was_refused_and_warned_of(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    zaqar = {"queues": {"a": {}}, "steps": [{"do": "claim", "queue": "a", "ttl": 5}, {"do": "stats", "queue": "a"}]}
    _, out, _ = run(capsys, tmp_path, "zaqar", zaqar)
    assert out.startswith("nothing happened to any message\n")
    assert "step 0 was refused: 400 Invalid API request: The TTL for a claim may not exceed" in out
    _, out, _ = run(capsys, tmp_path, "zaqar", {"steps": [{"do": "request", "method": "GET", "path": "/v9"}]})
    assert "step 0 was refused: 404 Not Found\n" in out
    ibm_mq = {"rules_table": "DESTQ(A) ACTION(DISCARD)", "messages": [{"DESTQ": "A"}]}
    _, out, _ = run(capsys, tmp_path, "ibm_mq", ibm_mq)
    assert "warning: line 1, column 1: no rule takes every message" in out.replace("\n", " ")


XML = """<broker xmlns="http://activemq.apache.org/schema/core"><destinationPolicy><policyMap><policyEntries>
<policyEntry queue="&gt;"><deadLetterStrategy><individualDeadLetterStrategy queuePrefix="DLQ."/></deadLetterStrategy>
</policyEntry></policyEntries></policyMap></destinationPolicy></broker>"""


def test_a_rules_table_may_be_a_file_beside_the_scenario(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "rules.tab").write_text("* all\nACTION(FWD) FWDQ(DEAD)\n")
    scenario = {"rules_table": {"file": "rules.tab"}, "messages": [{"DESTQ": "A"}]}
    status, out, _ = run(capsys, tmp_path, "ibm_mq", scenario, "--json")
    assert (status, list(json.loads(out)["queues"])) == (0, ["SYSTEM.DEAD.LETTER.QUEUE", "DEAD"])
    status, _, err = run(capsys, tmp_path, "ibm_mq", {**scenario, "rules_table": {"file": "rules"}})
    assert status == 65
    assert f"rules_table.file: {tmp_path / 'rules'}: No such file or directory" in err
    status, _, err = run(capsys, tmp_path, "ibm_mq", {**scenario, "rules_table": {"fil": "rules.tab"}})
    assert (status, 'rules_table: expected a text, or {"file": NAME}' in err) == (65, True)


def test_an_unloaded_queue_may_be_a_file_beside_the_scenario(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "DLQ.msg").write_text("* DMPMQMSG Version:9.4\n\nA FMT MQSTR   \nX 00\n")
    scenario = {"rules_table": "ACTION(DISCARD)", "messages": {"file": "DLQ.msg"}}
    status, out, _ = run(capsys, tmp_path, "ibm_mq", scenario, "--json")
    assert (status, json.loads(out)["queues"]) == (0, {"SYSTEM.DEAD.LETTER.QUEUE": [{"message": "message 1"}]})
    (tmp_path / "DLQ.msg").write_text("* DMPMQMSG Version:9.4\n\nA FRM MQSTR   \nX 00\n")
    status, _, err = run(capsys, tmp_path, "ibm_mq", scenario)
    assert status == 65
    assert "scenario.json: messages.file: DLQ.msg: line 3: no field 'FRM MQSTR'; " in err


def test_an_activemq_xml_may_be_a_file_beside_the_scenario(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    scenario = json.loads(re.search("```json\n(.*?)```", ACTIVEMQ.read_text(encoding="utf-8"), re.DOTALL)[1])  # type: ignore[index]
    (tmp_path / "activemq.xml").write_text(XML)
    named = {**scenario, "broker": {"activemq_xml": {"file": "activemq.xml"}}}
    written = {**scenario, "broker": {"activemq_xml": XML}}
    assert run(capsys, tmp_path, "activemq", named) == run(capsys, tmp_path, "activemq", written)


@pytest.mark.parametrize(
    ("system", "scenario", "said"),
    [
        ("zaqar", {"steps": {}}, "steps: expected a list, got an object"),
        ("zaqar", {}, "the field steps is missing"),
        ("zaqar", {"steps": [{"do": "post", "queue": "", "messages": []}]}, "of at least 1 character"),
        ("ironmq", {"steps": [{"do": "clear", "queue": "a", "at_s": "1"}]}, "expected a number, got a string"),
        (
            "ibm_mq",
            {"rules_table": "ACTION(RETRY)", "messages": 1},
            "messages: expected a string or a list, got a whole number",
        ),
    ],
)
def test_a_value_of_a_wrong_type_is_told_in_our_words(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, system: str, scenario: Any, said: str
) -> None:
    status, _, err = run(capsys, tmp_path, system, scenario)
    assert status == 65
    assert said in err
    assert "`" not in err


def test_an_unknown_system_is_64(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, _, err = run(capsys, tmp_path, "kafka", SCENARIO)
    assert status == 64
    assert "'rabbitmq'" in err
    _, _, err = run(capsys, tmp_path, "iron_mq", SCENARIO)
    assert "there is no system 'iron_mq'; did you mean 'ironmq'" in err


def test_options_of_rabbitmq_are_refused_for_another_system(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "ironmq", "--definitions", "d.json", "--user", "a:b"]) == 64
    err = capsys.readouterr().err
    assert "--definitions, --user: ironmq does not take these; it takes --host, --port, --clock and --strict" in err


@pytest.mark.parametrize(("option", "value"), [("--strict", []), ("--profile", ["spec"])])
def test_options_of_others_are_refused_for_rabbitmq(
    capsys: pytest.CaptureFixture[str], option: str, value: list[str]
) -> None:
    assert main(["serve", option, *value]) == 64
    assert f"{option}: rabbitmq does not take this" in capsys.readouterr().err


def test_what_was_refused_and_what_operators_read_is_printed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    steps = [{"do": "send", "to": "work", "body": "x"}, {"do": "retry", "queue": "work"}]
    _, out, _ = run(capsys, tmp_path, "activemq", {"steps": steps})
    assert "step 1 was refused: Retry of message is only possible on Dead Letter Queues!" in out
    late = {"name": "m", "REASON": 2053, "DESTQ": "ORDERS", "time_s": 5}
    _, out, _ = run(capsys, tmp_path, "ibm_mq", {"rules_table": "WAIT(NO)\nACTION(RETRY)\n", "messages": [late]})
    assert re.search(r"AMQ8709 +the handler ends", out)
