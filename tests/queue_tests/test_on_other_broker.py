"""Brokers held to a release: what differs and what is not run is told. The simulator serves, in real time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from simulator import serve
from simulator.cli.main import EXIT_UNAVAILABLE, EXIT_USAGE, main
from simulator.server.in_process import Server

CASES = """
definitions:
  exchanges: [{name: dlx, type: fanout}]
  queues:
    - {name: orders, arguments: {x-dead-letter-exchange: dlx}}
    - {name: dead}
  bindings: [{source: dlx, destination: dead, destination_type: queue, routing_key: ''}]
cases:
  - name: a rejected order
    steps:
      - {do: publish, exchange: '', routing_key: orders}
      - {do: reject, queue: orders}
      - {do: expect, queues: {dead: [{deaths: [{queue: orders, reason: rejected, count: 1}]}]}}
  - name: a claimed x-death
    releases: ">=4.0"
    steps:
      - do: publish
        exchange: ''
        routing_key: orders
        headers: {x-death: [{queue: orders, reason: rejected, count: 5}]}
      - {do: reject, queue: orders}
      - {do: expect, queues: {dead: [{deaths: [{queue: orders, reason: rejected, count: 1}]}]}}
  - name: a policy
    steps:
      - {do: set-policy, policy: {name: p, pattern: x, apply_to: queues, definition: {max-length: 1}}}
      - {do: expect, queues: {}}
  - name: a lost channel
    steps:
      - {do: faults, set: [{fault: close_channel, queue: orders}]}
      - {do: expect, queues: {}}
  - name: a day
    steps:
      - {do: expect, at: 24h, queues: {}}
"""
HOLD, DIFFERS = "passed", "failed"


@pytest.fixture(scope="module")
def old() -> Iterator[Server]:
    """A broker that does what RabbitMQ 3.8 does."""
    with serve("3.8", clock="wall", management_port=0) as server:
        yield server


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = tmp_path / "cases.yml"
    path.write_text(CASES)
    return str(path)


def amqp_url(server: Server) -> str:
    return server.amqp_url.replace("amqp://", "amqp://guest:guest@")


def answered(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, dict[str, tuple[str, str]]]:
    """Return the status and the reason of each case, by target."""
    main(["test", *arguments, "--json"])
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for each in json.loads(capsys.readouterr().out):
        found.setdefault(each["target"], {})[each["name"]] = each["status"], each["why_not"]
    return found


def test_a_broker_is_held_to_another_release(old: Server, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    broker = f"{amqp_url(old)}|{old.management_url}"
    found = answered(capsys, path, "--broker", broker, "--as-release", "4.3")
    simulated, other = found.values()
    assert {status for status, _ in simulated.values()} == {HOLD}
    assert list(found)[1].startswith("RabbitMQ 3.8")
    assert {name: status for name, (status, _) in other.items()} == {
        "a rejected order": HOLD,
        "a claimed x-death": DIFFERS,
        "a policy": HOLD,
        "a lost channel": HOLD,
        "a day": "not run",
    }


def test_the_report_tells_what_differs_and_what_was_not_run(old: Server, path: str, tmp_path: Path) -> None:
    report, broker = tmp_path / "report.md", f"{amqp_url(old)}|{old.management_url}"
    assert main(["test", path, "--broker", broker, "--as-release", "4.3", "--report", str(report)]) == 1
    text = report.read_text()
    told = text[text.index("## RabbitMQ 3.8") :]
    assert "| cases | 3 | 1 | 1 |" in told
    differs, _, rest = told.partition("### Not run")
    assert "* a claimed x-death (" in differs
    assert "count 5" in differs or "count 6" in differs
    assert "* 1 d pass in it; on a server at most 10 s:\n    * a day\n" in rest
    assert "### Not checked\n\n* which copies were lost, and why (4 cases)\n" in rest


def test_a_broker_without_a_management_api_lends_one_virtual_host(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with serve("4.3", clock="wall") as server:
        found = answered(capsys, path, "--broker", amqp_url(server), "--as-release", "4.3")
        name, other = list(found.items())[1]
        assert name.endswith("(AMQP alone)")
        assert (other["a rejected order"][0], other["a claimed x-death"][0]) == (HOLD, HOLD)
        assert other["a lost channel"] == ("not run", "it asks for the fault close_channel; faults need dlx serve")
        assert other["a policy"] == ("not run", "it has policies, which need a management API; none answers")
        with pika.BlockingConnection(pika.URLParameters(amqp_url(server))) as connection:
            connection.channel().queue_declare("dead")  # the case's own had other properties, and is gone
            channel = connection.channel()
            channel.basic_publish("", "dead", b"of somebody else")
        assert main(["test", path, "--broker", amqp_url(server), "--as-release", "4.3", "--only", "rejected"]) == 1
        assert "has a queue 'dead' already; give an empty virtual host" in capsys.readouterr().out
        with pika.BlockingConnection(pika.URLParameters(amqp_url(server))) as connection:
            assert connection.channel().basic_get("dead")[2] == b"of somebody else"


def test_what_cannot_be_asked_for_is_told(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    nobody = "amqp://guest:guest@127.0.0.1:1/"
    assert main(["test", path, "--broker", nobody, "--as-release", "4.3"]) == EXIT_UNAVAILABLE
    assert "no broker answers at amqp://guest:...@127.0.0.1:1/" in capsys.readouterr().err
    assert main(["test", path, "--as-release", "4.3"]) == EXIT_USAGE
    assert main(["test", path, "--report", "x.md"]) == EXIT_USAGE
