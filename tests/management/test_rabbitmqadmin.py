"""RabbitMQ's own command line tool does the same to the server that hands it out and to the simulator."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import simulator
from tests.live.servers import LiveServer
from tests.management.client import Real

COUNTED_SECONDS = 20
DEAD_LETTER = '{"x-dead-letter-exchange":"","x-dead-letter-routing-key":"dead"}'


class Tool:
    """rabbitmqadmin, run against one server, in the virtual host ``vhost``."""

    def __init__(self, script: Path, url: str, vhost: str) -> None:
        self.vhost = vhost
        port = str(urlsplit(url).port)
        self._command = [sys.executable, str(script), "-P", port, "-V", vhost, "-f", "raw_json"]

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run([*self._command, *arguments], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def rows(self, *arguments: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self(*arguments))
        return found

    def await_counts(self, wanted: dict[str, int]) -> None:
        """Wait until so many messages are listed in each queue: a server's counters are some seconds old."""
        deadline = time.monotonic() + COUNTED_SECONDS
        while True:
            listed = {row["name"]: row.get("messages") for row in self.rows("list", "queues", "name", "messages")}
            if listed == wanted or time.monotonic() > deadline:
                break
            time.sleep(0.2)
        assert listed == wanted


@pytest.fixture(params=["simulator", "server"])
def tool(request: pytest.FixtureRequest, live_server: LiveServer, tmp_path: Path) -> Iterator[Tool]:
    """The tool that a server hands out, against the simulator of that release and against the server itself."""
    answer = Real(live_server.management_url)("GET", "/cli/rabbitmqadmin", auth=None)
    if answer.status == 404:
        pytest.skip(f"RabbitMQ {live_server.release} no longer hands out rabbitmqadmin")
    script = tmp_path / "rabbitmqadmin"
    script.write_bytes(answer.body)
    with ExitStack() as ended:
        url = live_server.management_url
        if request.param == "simulator":
            server = ended.enter_context(simulator.server.serve(live_server.release, management_port=0))
            url = server.management_url or ""
        tool = Tool(script, url, f"rabbitmqadmin-{uuid.uuid4().hex[:8]}")
        tool("declare", "vhost", f"name={tool.vhost}")
        ended.callback(tool, "delete", "vhost", f"name={tool.vhost}")
        tool("declare", "permission", f"vhost={tool.vhost}", "user=guest", "configure=.*", "write=.*", "read=.*")
        yield tool


def test_a_topology_is_declared_used_exported_deleted_and_imported(tool: Tool, tmp_path: Path) -> None:
    assert tool("declare", "queue", "name=work", "durable=true", f"arguments={DEAD_LETTER}") == "queue declared"
    tool("declare", "queue", "name=dead", "durable=true")
    tool("declare", "exchange", "name=x", "type=topic")
    tool("declare", "binding", "source=x", "destination=work", "routing_key=a.#")
    tool("declare", "policy", "name=p", "pattern=^w", 'definition={"max-length":10}', "apply-to=queues")

    assert tool("publish", "exchange=x", "routing_key=a.b", "payload=hello") == "Message published"
    assert tool("publish", "exchange=x", "routing_key=z", "payload=hello") == "Message published but NOT routed"
    assert tool.rows("get", "queue=work")[0]["payload"] == "hello"
    tool("get", "queue=work", "ackmode=reject_requeue_false")
    (dead,) = tool.rows("get", "queue=dead")
    assert dead["properties"]["headers"]["x-death"][0]["reason"] == "rejected"
    tool.await_counts({"work": 0, "dead": 1})

    file = tmp_path / "definitions.json"
    tool("export", str(file))
    before = json.loads(file.read_text())
    tool("purge", "queue", "name=dead")
    for kind, name in (("queue", "work"), ("queue", "dead"), ("exchange", "x"), ("policy", "p")):
        assert tool("delete", kind, f"name={name}") == f"{kind} deleted"
    assert tool.rows("list", "queues") == []
    tool("import", str(file))
    tool("export", str(file))
    after = json.loads(file.read_text())
    kinds = ("queues", "exchanges", "bindings", "policies")
    assert [len(before[kind]) for kind in kinds] == [2, 1, 1, 1]
    assert {kind: in_one_order(after[kind]) for kind in kinds} == {kind: in_one_order(before[kind]) for kind in kinds}


def in_one_order(exported: list[dict[str, object]]) -> list[str]:
    """A server exports in the order of its tables, which an import may change."""
    return sorted(json.dumps(row, sort_keys=True) for row in exported)


def test_users_and_permissions_come_and_go(tool: Tool) -> None:
    user = f"user-of-{tool.vhost}"
    tool("declare", "user", f"name={user}", "password=u", "tags=management")
    try:
        tool("declare", "permission", f"vhost={tool.vhost}", f"user={user}", "configure=^c", "write=^w", "read=^r")
        allowed = [row for row in tool.rows("list", "permissions") if row["user"] == user]
        assert allowed == [{"user": user, "vhost": tool.vhost, "configure": "^c", "write": "^w", "read": "^r"}]
    finally:
        assert tool("delete", "user", f"name={user}") == "user deleted"
    assert user not in [row["name"] for row in tool.rows("list", "users")]


KINDS = (
    "users", "vhosts", "connections", "exchanges", "bindings", "permissions", "channels", "consumers", "queues",
    "policies", "operator_policies", "parameters", "nodes",
)  # fmt: skip


def test_everything_is_listed(tool: Tool) -> None:
    for kind in KINDS:
        assert isinstance(tool.rows("list", kind), list)
