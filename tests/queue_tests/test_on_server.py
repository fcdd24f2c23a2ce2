"""Cases on a server: its virtual hosts, what is not run and not checked there. The simulator serves, in real time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from simulator import serve
from simulator.cli.main import EXIT_UNAVAILABLE, main
from simulator.queue_tests.case_reading import read_cases
from simulator.queue_tests.on_server import OnServer
from simulator.queue_tests.running import CaseResult, run_case
from simulator.testing.brokers.servers import Server, ask

HEAD = """
definitions:
  queues:
    - {name: orders, arguments: {x-dead-letter-exchange: '', x-dead-letter-routing-key: dead}}
    - {name: dead}
cases:
  - name: one
    steps:
      - {do: publish, exchange: '', routing_key: orders, times: 2, headers: {n: 1}}
      - {do: reject, queue: orders}
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve("4.3", clock="wall", management_port=0) as serving:
        yield ask(f"{serving.amqp_url.replace('amqp://', 'amqp://guest:guest@')}|{serving.management_url}")


def ran(server: Server, folder: Path, *steps: str) -> CaseResult:
    path = folder / "cases.yml"
    path.write_text(HEAD + "".join(f"      - {{{step}}}\n" for step in steps))
    (case,) = read_cases(path)
    return run_case(case, OnServer(server))


def test_what_a_server_does_not_say_is_not_silently_right(server: Server, tmp_path: Path) -> None:
    held = "do: expect, queues: {dead: [{headers: {n: 2}}]}"
    at_the_end = "do: expect, queues: {dead: [{deaths: [{queue: orders, count: 1}]}], orders: 1}"
    result = ran(
        server, tmp_path, "do: leave, queue: orders", "do: expect, queues: {orders: [{}], dead: 1}", at_the_end
    )
    assert (result.status, result.failures) == ("passed", [])
    assert result.not_checked == ["which copies were lost, and why", "messages of orders before the end"]
    assert ran(server, tmp_path, held).failures == ["queue dead, message 1: headers.n: expected 2, found 1"]


def test_what_does_not_hold_fails_after_some_patience(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simulator.queue_tests.running.PATIENCE_S", 0.5)
    result = ran(server, tmp_path, "do: expect, queues: {dead: 3}, unroutable: 1")
    assert result.status == "failed"
    assert result.failures == [
        "unroutable publishes: expected 1, found 0",
        "queue dead: expected 3 messages, found 1 message",
    ]
    assert result.stories == ["A server does not say what became of messages; the simulator does (dlx test --release)."]


def test_the_virtual_hosts_are_deleted(server: Server, tmp_path: Path) -> None:
    ran(server, tmp_path, "do: expect, queues: {dead: 1}")
    assert [vhost["name"] for vhost in server.api("GET", "vhosts")] == ["/"]


def test_a_case_of_hours_is_not_run(server: Server, tmp_path: Path) -> None:
    result = ran(server, tmp_path, "do: expect, at: 24h, queues: {dead: 1}")
    assert (result.status, result.why_not) == ("not run", "1 d pass in it; on a server at most 10 s")


def test_a_server_that_does_not_let_clients_in(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cases.yml"
    path.write_text(HEAD + "      - {do: expect, queues: {dead: 1}}\n")
    nobody_there = f"amqp://guest:guest@127.0.0.1:1/|{server.management_url}"
    assert main(["test", str(path), "--broker", nobody_there]) == EXIT_UNAVAILABLE
    assert "the server at amqp://guest:...@127.0.0.1:1/ is gone" in capsys.readouterr().err
    assert [vhost["name"] for vhost in server.api("GET", "vhosts")] == ["/"]
