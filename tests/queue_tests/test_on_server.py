"""Cases on a server: its virtual hosts, what is not run and not checked there. The simulator serves, in real time."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from simulator import serve
from simulator.cli.main import EXIT_UNAVAILABLE, main
from simulator.testing.brokers.servers import Server, ask
from simulator.testing.cases.case_reading import read_cases
from simulator.testing.cases.on_server import OnServer
from simulator.testing.cases.on_simulator import OnSimulator
from simulator.testing.cases.running import CaseResult, run_case

HEAD = """
definitions:
  queues:
    - {name: orders, arguments: {x-dead-letter-exchange: '', x-dead-letter-routing-key: dead}}
    - {name: dead}
  exchanges: [{name: hidden, type: direct, internal: true}]
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
    monkeypatch.setattr("simulator.testing.cases.running.PATIENCE_S", 0.5)
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


def test_a_virtual_clock_is_moved(tmp_path: Path) -> None:
    """It was an hour on already, and what is due by an hour is not there a second before."""
    with serve("4.3", management_port=0) as serving:
        serving.clock.advance(hours=1)
        server = ask(f"{serving.amqp_url.replace('amqp://', 'amqp://guest:guest@')}|{serving.management_url}")
        published = "do: publish, exchange: '', routing_key: orders, expiration_ms: 3600000"
        early = "do: expect, at: 3604s, queues: {dead: 2, orders: 1}"
        late = "do: expect, at: 3606s, queues: {dead: 3, orders: 0}"
        left = ["do: reject, queue: orders", "do: leave, queue: orders", "do: wait, ms: 5000"]
        result = ran(server, tmp_path, *left, published, early, late)
        assert (result.status, result.failures) == ("passed", [])


def test_a_server_that_does_not_let_clients_in(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cases.yml"
    path.write_text(HEAD + "      - {do: expect, queues: {dead: 1}}\n")
    nobody_there = f"amqp://guest:guest@127.0.0.1:1/|{server.management_url}"
    assert main(["test", str(path), "--broker", nobody_there]) == EXIT_UNAVAILABLE
    assert "the server at amqp://guest:...@127.0.0.1:1/ is gone" in capsys.readouterr().err
    assert [vhost["name"] for vhost in server.api("GET", "vhosts")] == ["/"]


def test_a_publish_that_is_refused_ends_the_case(server: Server, tmp_path: Path) -> None:
    result = ran(server, tmp_path, "do: publish, exchange: hidden, routing_key: x", "do: expect, queues: {}")
    (failure,) = result.failures
    assert failure.startswith("the broker refused the step: (403, ")


FAULTS = """
definitions:
  queues:
    - name: orders
      arguments:
        {x-queue-type: quorum, x-delivery-limit: 2, x-dead-letter-exchange: '', x-dead-letter-routing-key: dead}
    - {name: dead}
cases:
  - name: a channel that is closed while the consumer works
    steps:
      - {do: publish, exchange: '', routing_key: orders}
      - {do: faults, set: [{fault: close_channel, queue: orders, delay_ms: 500}]}
      - {do: hold, queue: orders}
      - {do: expect, queues: {}}
      - {do: expect, at: 2s, queues: {orders: [{redelivered: true}]}}
  - name: a connection that is lost with every delivery
    steps:
      - {do: publish, exchange: '', routing_key: orders}
      - {do: faults, set: [{fault: close_connection, queue: orders, times: null, silent: true}]}
      - {do: ack, queue: orders, times: 3}
      - {do: expect, queues: {dead: [{deaths: [{queue: orders, reason: delivery_limit, count: 1}]}]}}
  - name: a delivery that is late
    steps:
      - {do: publish, exchange: '', routing_key: orders}
      - {do: faults, set: [{fault: delay_delivery, queue: orders, delay_ms: 2000}]}
      - {do: ack, queue: orders}
      - {do: expect, queues: {}}
      - {do: until, at: 4s}
      - {do: reject, queue: orders}
      - {do: expect, queues: {dead: [{deaths: [{queue: orders, reason: rejected}]}]}}
  - name: confirms that are lost and late
    steps:
      - do: faults
        set: [{fault: drop_confirm, exchange: ''}, {fault: delay_confirm, exchange: '', nth: 1, delay_ms: 2000}]
      - {do: publish, exchange: '', routing_key: orders, times: 3}
      - {do: expect, queues: {orders: 3}, unconfirmed: 2}
      - {do: expect, at: 4s, queues: {orders: [{times: 3, redelivered: false}]}, unconfirmed: 1}
  - name: publishers that wait for the end of an alarm
    steps:
      - {do: faults, set: [{fault: alarm, resource: disk}]}
      - {do: publish, exchange: '', routing_key: orders, times: 2, body_bytes: 10}
      - {do: expect, queues: {}, unconfirmed: 2}
      - {do: faults, clear: true}
      - {do: expect, queues: {orders: 2}}
  - name: who looks is not struck
    steps:
      - {do: publish, exchange: '', routing_key: orders, times: 2}
      - {do: faults, set: [{fault: close_connection, times: null}]}
      - {do: expect, queues: {orders: [{times: 2}]}}
  - name: nothing is wrong here
    steps:
      - {do: publish, exchange: '', routing_key: orders, times: 4}
      - {do: ack, queue: orders, times: 2}
      - {do: expect, queues: {orders: 1}}
"""


def test_faults_strike_on_a_simulated_server_as_in_the_simulator(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "cases.yml"
    path.write_text(FAULTS)
    cases = read_cases(path)
    assert [run_case(case, OnSimulator("4.3")).failures for case in cases] == [[]] * len(cases)
    target = OnServer(server)
    with ThreadPoolExecutor(len(cases)) as pool:
        results = list(pool.map(lambda case: run_case(case, target), cases))
    assert {each.name: each.failures for each in results} == {case.name: [] for case in cases}
    assert {each.status for each in results} == {"passed"}
    assert server.api("GET", "faults") == []


def test_a_fault_is_cleared_when_its_case_fails(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simulator.testing.cases.running.PATIENCE_S", 0.2)
    alarm = "do: faults, set: [{fault: alarm, resource: memory}]"
    assert ran(server, tmp_path, alarm, "do: expect, queues: {}").status == "failed"
    assert server.api("GET", "faults") == []
