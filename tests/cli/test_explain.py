"""``dlx explain``: what it prints, its exit codes, and what it says to input that is wrong."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from simulator.cli.main import EXIT_DATA, EXIT_USAGE, main
from tests.analysis.test_life import LADDER

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "topologies"


@pytest.fixture
def ladder(tmp_path: Path) -> str:
    path = tmp_path / "definitions.json"
    path.write_text(json.dumps(LADDER))
    return str(path)


def explained(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str]:
    status = main(["explain", *args])
    captured = capsys.readouterr()
    return status, captured.out + captured.err


def test_the_life_is_told_with_times_reasons_and_what_is_missing(
    ladder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, told = explained(capsys, ladder, "--publish", "shop", "order.eu", "--outcome", "orders=reject")
    assert status == 0
    lines = [line.strip() for line in told.splitlines()]
    assert lines[0] == "0 s  it was published to the exchange 'shop' with the routing key 'order.eu'"
    assert "because topic exchange 'shop': binding 'order.*' to 'orders'" in lines
    assert "1 min  its time to live ran out in the queue 'wait'" in lines
    assert "because message-ttl 60000 by argument" in lines
    assert "Assumed: no consumer reads from 'wait'." in lines
    assert "Not stated: what a consumer of 'orders' does with delivery 2." in lines


def test_a_loss_exits_with_1_and_repetitions_are_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    broken = str(EXAMPLES / "broken" / "default-delivery-limit.json")
    status, told = explained(capsys, broken, "--publish", "", "orders", "--outcome", "orders=crash*21")
    assert status == 1
    assert told.count("(lost channel)") == 1
    assert "(these 2, 21 times)" in told
    assert "Fate under RabbitMQ 4.3: lost." in told


def test_json_has_steps_fate_missing_and_assumed(ladder: str, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = ["--header", "CC=none", "--release", "3.13"]
    status, told = explained(capsys, ladder, "--publish", "shop", "order.eu", *wrong, "--format", "json")
    life = json.loads(told)
    assert (status, life["fate"], life["release"]) == (1, "refused", "3.13")
    given = ["--header", "retries=3", "--header", "region=eu", "--expiration", "500"]
    status, told = explained(capsys, ladder, "--publish", "shop", "order.eu", *given, "--json")
    life = json.loads(told)
    assert status == 0
    assert life["publish"]["headers"] == {"retries": 3, "region": "eu"}
    assert life["steps"][1] == {
        "at_ms": 0,
        "event": "routed",
        "queue": "orders",
        "text": "it entered the queue 'orders'",
        "because": "topic exchange 'shop': binding 'order.*' to 'orders'",
        "source": life["steps"][1]["source"],
    }
    assert life["steps"][2]["because"] == "its expiration is 500"
    assert life["missing"][0]["queue"] == "wait"
    assert life["assumed"] == ["no consumer reads from 'orders'"]


def test_mermaid_is_a_sequence_diagram(ladder: str, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = ["--outcome", "orders=reject*3,ack"]
    status, told = explained(capsys, ladder, "--publish", "shop", "order.eu", *outcome, "--format", "mermaid")
    assert status == 0
    assert told.startswith("sequenceDiagram\n    participant publisher\n    participant q1 as orders\n")
    assert "    loop 3 times\n" in told


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["--publish", "shopp", "k"], "no exchange 'shopp'; did you mean 'shop'?"),
        (["--publish", "nonexistent", "k"], "no exchange 'nonexistent'; `dlx settings SOURCE` lists queues"),
        (["--publish", "amq.rabbitmq.trace", "k"], "is internal: clients cannot publish to it"),
        (["--publish", "shop", "k", "--outcome", "order=ack"], "no queue 'order'; did you mean 'orders'?"),
        (["--publish", "shop", "k", "--outcome", "orders=akc"], "no outcome 'akc'; did you mean 'ack'?"),
        (["--publish", "shop", "k", "--outcome", "orders=held"], "no outcome 'held'; there are ack, reject, requeue, "),
        (["--publish", "shop", "k", "--outcome", "orders=ack*x"], "expected a number of times from 1 to 1,000"),
        (["--publish", "shop", "k", "--outcome", "orders"], "expected QUEUE=OUTCOME"),
        (["--publish", "shop", "k", "--header", "region"], "expected NAME=VALUE"),
        (["--publish", "shop", "k", "--header", "a=1", "--header", "a=2"], "'a' is given twice"),
        (["--publish", "shop", "k", "--vhost", "//"], "no virtual host '//'"),
    ],
)
def test_wrong_arguments_name_what_is_right(
    args: list[str], problem: str, ladder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, told = explained(capsys, ladder, *args)
    assert status == EXIT_USAGE
    assert problem in " ".join(told.split())


def test_the_virtual_host_that_has_the_exchange_is_meant_or_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hosts = {"vhosts": [{"name": name} for name in ("/", "eu", "us")], "queues": []}
    hosts["exchanges"] = [{"name": "shop", "vhost": "eu", "type": "fanout"}]
    path = tmp_path / "definitions.json"
    path.write_text(json.dumps(hosts))
    assert explained(capsys, str(path), "--publish", "shop", "")[0] == 1
    hosts["exchanges"].append({"name": "shop", "vhost": "us", "type": "fanout"})
    path.write_text(json.dumps(hosts))
    status, told = explained(capsys, str(path), "--publish", "shop", "")
    assert (status, "name the virtual host with --vhost: 'eu', 'us'" in told) == (EXIT_USAGE, True)
    assert explained(capsys, str(path), "--publish", "shop", "", "--vhost", "us")[0] == 1


def test_what_a_plugin_decides_is_a_guess_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    delayed = {"name": "later", "vhost": "/", "type": "x-jms-topic"}
    path = tmp_path / "definitions.json"
    path.write_text(json.dumps({**LADDER, "exchanges": [*LADDER["exchanges"], delayed]}))
    status, told = explained(capsys, str(path), "--publish", "shop", "order.eu")
    assert status == 0
    assert "not known: how exchange 'later' routes, which the plugin of x-jms-topic decides" in told


def test_a_delay_and_a_choice_at_random_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    later = {"name": "later", "vhost": "/", "type": "x-delayed-message", "arguments": {"x-delayed-type": "fanout"}}
    some = {"name": "some", "vhost": "/", "type": "x-random"}
    ends = [("later", "some", "exchange"), ("some", "a", "queue"), ("some", "b", "queue")]
    bindings = [
        {"vhost": "/", "source": source, "destination": to, "destination_type": kind, "routing_key": ""}
        for source, to, kind in ends
    ]
    queues = [{"name": name, "vhost": "/"} for name in ("a", "b")]
    document = {"vhosts": [{"name": "/"}], "queues": queues, "exchanges": [later, some], "bindings": bindings}
    path = tmp_path / "definitions.json"
    path.write_text(json.dumps(document))
    words = ["--publish", "later", "", "--header", "x-delay=3000", "--release", "4.0"]
    status, told = explained(capsys, str(path), *words, "--outcome", "a=ack", "--outcome", "b=ack")
    assert status == 0
    assert "the exchange 'later' delays it for 3,000 ms" in told
    assert re.search(r"3 s  its delay in the exchange 'later' was over\n +it entered the queue '([ab])'\n", told)
    assert re.search(r"x-random exchange 'some' chose, at random, the binding '' to '[ab]'", told)
    assert "Fate under RabbitMQ 4.0: acknowledged." in told


def test_definitions_that_cannot_be_used_are_bad_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert explained(capsys, str(tmp_path / "none.json"), "--publish", "", "q")[0] == EXIT_DATA


def test_the_document_shows_what_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    shown = re.findall(
        r"^```console\n\$ dlx ([^\n]*)\n(.*?)^```", (ROOT / "docs/how-to/explain.md").read_text(), re.S | re.M
    )
    assert len(shown) == 3
    for command, printed in shown:
        main(shlex.split(command.replace(" --out docs/pictures/ladder-cycle.svg", "")))
        picture = (ROOT / "docs" / "pictures" / "ladder-cycle.svg").read_text() if " --out " in command else ""
        assert capsys.readouterr().out == printed + picture


def test_svg_draws_the_way(ladder: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, told = explained(capsys, ladder, "--publish", "shop", "order.eu", "--format", "svg")
    assert status == 0
    assert told.startswith("<svg ")
    assert "A message under RabbitMQ 4.3: waiting" in told
