"""RabbitMQ's own command line tool, as the servers until 4.0 hand it out, works against the simulator."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import simulator
from tests.live.servers import LiveServer
from tests.management.client import Real

DEAD_LETTER = '{"x-dead-letter-exchange":"","x-dead-letter-routing-key":"dead"}'


class Tool:
    """rabbitmqadmin, run against one server."""

    def __init__(self, script: Path, url: str) -> None:
        self._command = [sys.executable, str(script), "-P", str(urlsplit(url).port), "-f", "raw_json"]

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run([*self._command, *arguments], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def rows(self, *arguments: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self(*arguments))
        return found


@pytest.fixture
def tool(live_server: LiveServer, tmp_path: Path) -> Iterator[Tool]:
    answer = Real(live_server.management_url)("GET", "/cli/rabbitmqadmin", auth=None)
    if answer.status == 404:
        pytest.skip(f"RabbitMQ {live_server.release} no longer hands out rabbitmqadmin")
    script = tmp_path / "rabbitmqadmin"
    script.write_bytes(answer.body)
    with simulator.server.serve(live_server.release, management_port=0) as server:
        yield Tool(script, server.management_url or "")


def test_a_topology_is_declared_used_exported_deleted_and_imported(tool: Tool, tmp_path: Path) -> None:
    assert tool("declare", "queue", "name=work", "durable=true", f"arguments={DEAD_LETTER}") == "queue declared"
    tool("declare", "queue", "name=dead", "durable=true")
    tool("declare", "exchange", "name=x", "type=topic")
    tool("declare", "binding", "source=x", "destination=work", "routing_key=a.#")
    tool("declare", "policy", "name=p", "pattern=^w", 'definition={"max-length":10}', "apply-to=queues")
    tool("declare", "user", "name=u", "password=u", "tags=management")
    tool("declare", "permission", "vhost=/", "user=u", "configure=.*", "write=.*", "read=.*")

    assert tool("publish", "exchange=x", "routing_key=a.b", "payload=hello") == "Message published"
    assert tool("publish", "exchange=x", "routing_key=z", "payload=hello") == "Message published but NOT routed"
    assert tool.rows("get", "queue=work")[0]["payload"] == "hello"
    tool("get", "queue=work", "ackmode=reject_requeue_false")
    (dead,) = tool.rows("get", "queue=dead")
    assert dead["properties"]["headers"]["x-death"][0]["reason"] == "rejected"
    counted = {row["name"]: row["messages"] for row in tool.rows("list", "queues", "name", "messages")}
    assert counted == {"work": 0, "dead": 1}

    file = tmp_path / "definitions.json"
    tool("export", str(file))
    before = json.loads(file.read_text())
    tool("purge", "queue", "name=dead")
    for kind, name in (("queue", "work"), ("queue", "dead"), ("exchange", "x"), ("policy", "p"), ("user", "u")):
        assert tool("delete", kind, f"name={name}") == f"{kind} deleted"
    assert tool.rows("list", "queues") == []
    tool("import", str(file))
    tool("export", str(file))
    after = json.loads(file.read_text())
    assert {key: after[key] for key in ("queues", "exchanges", "bindings", "policies", "users", "permissions")} == {
        key: before[key] for key in ("queues", "exchanges", "bindings", "policies", "users", "permissions")
    }


KINDS = (
    "users", "vhosts", "connections", "exchanges", "bindings", "permissions", "channels", "consumers", "queues",
    "policies", "operator_policies", "parameters", "nodes",
)  # fmt: skip


def test_everything_is_listed(tool: Tool) -> None:
    for kind in KINDS:
        assert isinstance(tool.rows("list", kind), list)
