"""Trace logs: what the simulator writes is read and replayed as RabbitMQ's own logs are."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dlx.releases import RELEASES
from simulator.capture import open_log
from simulator.definitions import parse_definitions
from simulator.replay import replay_table
from simulator.server.management.running_traces import TraceLog
from tests.management.client import Simulated

MESSAGES = 5


def retry_ladder(server: Simulated) -> None:
    """``work`` and ``wait`` pass messages to each other; each goes round twice and is then taken."""
    for queue, other, more in (("work", "wait", {}), ("wait", "work", {"x-message-ttl": 60_000})):
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": other, **more}
        server("PUT", f"/api/queues/%2F/{queue}", {"durable": True, "arguments": arguments})
    for number in range(MESSAGES):
        body = {"properties": {"message_id": f"m-{number}", "headers": {"n": number}}, "routing_key": "work"}
        server(
            "POST",
            "/api/exchanges/%2F/amq.default/publish",
            {**body, "payload": "é", "payload_encoding": "string"},
        )
    for ackmode in ("reject_requeue_false", "reject_requeue_false", "ack_requeue_false"):
        server("POST", "/api/queues/%2F/work/get", {"count": MESSAGES, "ackmode": ackmode, "encoding": "auto"})
        server("POST", "/api/clock/advance", {"minutes": 1})


def traced(release: str, form: str, **settings: Any) -> tuple[Simulated, bytes]:
    """The log of a retry ladder."""
    server = Simulated(release)
    assert server("PUT", "/api/traces/%2F/t", {"format": form, "pattern": "#", **settings}).status == 201
    retry_ladder(server)
    return server, server("GET", "/api/trace-files/t.log").body


def read(tmp_path: Path, log: bytes) -> list[dict[str, Any]]:
    path = tmp_path / "t.log"
    path.write_bytes(log)
    return [row for batch in open_log(path) for row in batch.to_pylist()]


@pytest.mark.parametrize("release", RELEASES)
def test_a_log_replays_without_differences(release: str, tmp_path: Path) -> None:
    server, log = traced(release, "json")
    (tmp_path / "t.log").write_bytes(log)
    definitions = parse_definitions(server("GET", "/api/definitions").body, "definitions")
    replayed = replay_table(open_log(tmp_path / "t.log"), definitions, release)
    verdicts = Counter(replayed.column("verdict").to_pylist())
    assert verdicts == {None: MESSAGES, "agree": 3 * MESSAGES}  # publishes have no verdict


@pytest.mark.parametrize("release", RELEASES)
def test_both_formats_say_the_same(release: str, tmp_path: Path) -> None:
    rows = [read(tmp_path, traced(release, form)[1]) for form in ("json", "text")]
    assert len(rows[0]) == 4 * MESSAGES
    ignored = {"file", "line"}
    one, other = ([{k: v for k, v in row.items() if k not in ignored} for row in log] for log in rows)
    assert one == other


def test_the_pattern_chooses(tmp_path: Path) -> None:
    server = Simulated()
    server("PUT", "/api/traces/%2F/t", {"format": "json", "pattern": "deliver.work"})
    retry_ladder(server)
    rows = read(tmp_path, server("GET", "/api/trace-files/t.log").body)
    assert {(row["event"], row["queue"]) for row in rows} == {("delivered", "work")}


def test_payloads_are_cut_off(tmp_path: Path) -> None:
    log = traced("4.3", "json", max_payload_bytes=1)[1]
    assert {len(row["payload"]) for row in read(tmp_path, log)} == {1}


def test_a_stopped_trace_writes_no_more_and_keeps_its_log() -> None:
    server, before = traced("4.3", "json")
    assert server("DELETE", "/api/traces/%2F/t").status == 204
    retry_ladder(server)
    assert server("GET", "/api/trace-files/t.log").body == before
    assert not server.node.connections
    assert server("GET", "/api/vhosts/%2F").json["tracing"] is False


def test_traces_show_their_queue_and_hide_from_connections() -> None:
    server, _ = traced("4.3", "json")
    assert server("GET", "/api/traces/%2F/t").json["queue"]["exclusive"] is True
    assert server("GET", "/api/traces/node/rabbit@localhost").json[0]["name"] == "t"
    assert server("GET", "/api/connections").json == []


def test_a_deleted_virtual_host_takes_its_traces_along() -> None:
    server = Simulated()
    server("PUT", "/api/vhosts/v", {})
    server("PUT", "/api/traces/v/t", {"format": "json", "pattern": "#"})
    server("DELETE", "/api/vhosts/v")
    assert server("GET", "/api/traces").json == []
    assert not server.node.connections


def test_a_log_drops_its_oldest_records() -> None:
    log = TraceLog("t.log", limit=11)
    for record in (b"11111\n", b"222\n", b"333333\n"):
        log.append(record)
    assert log.content() == b"222\n333333\n"
    assert log.size == 11
