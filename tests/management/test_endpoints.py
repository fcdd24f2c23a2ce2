"""The endpoints that docs/reference/rabbitmq-coverage.md calls done: the simulated broker has each in each release."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.management.client import Simulated

DOCS = Path(__file__).parents[2] / "docs"


def _coverage() -> ModuleType:
    spec = importlib.util.spec_from_file_location("rabbitmq_coverage", DOCS / "rabbitmq_coverage.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


COVERAGE = _coverage()
RECORDED = COVERAGE.recorded()
HEADERS = {"content-type": "application/json"}
# What stands in a path for each name; `:name` means what the segments before it are about.
NAMES = {
    "vhost": "v",
    "user": "u",
    "username": "guest",
    "exchange": "e",
    "source": "e",
    "destination": "e2",
    "queue": "q",
    "props": "k",
    "component": "vhost-limits",
    "port": "15672",
    "protocol": "amqp",
    "protocols": "amqp",
    "within": "1",
    "unit": "days",
    "plaintext-password": "secret",
    "channel": "none",
}
OF = {
    "nodes": "{node}",
    "vhosts": "v",
    "users": "u",
    "exchanges": "e",
    "queues": "q",
    "policies": "p",
    "operator-policies": "p",
    "parameters": "limits",
    "global-parameters": "g",
    "vhost-limits": "max-queues",
    "user-limits": "max-channels",
    "connections": "none",
}
MADE: tuple[tuple[str, str, Any], ...] = (
    ("PUT", "/vhosts/v", {}),
    ("PUT", "/users/u", {"password": "p", "tags": ""}),
    ("PUT", "/permissions/v/guest", {"configure": ".*", "write": ".*", "read": ".*"}),
    ("PUT", "/permissions/v/u", {"configure": ".*", "write": ".*", "read": ".*"}),
    ("PUT", "/topic-permissions/v/u", {"exchange": "amq.topic", "write": ".*", "read": ".*"}),
    ("PUT", "/exchanges/v/e", {"type": "direct"}),
    ("PUT", "/exchanges/v/e2", {"type": "direct"}),
    ("PUT", "/queues/v/q", {}),
    ("POST", "/bindings/v/e/e/q/q", {"routing_key": "k", "arguments": {}}),
    ("POST", "/bindings/v/e/e/e/e2", {"routing_key": "k", "arguments": {}}),
    ("PUT", "/policies/v/p", {"pattern": "x", "definition": {"max-length": 1}}),
    ("PUT", "/operator-policies/v/p", {"pattern": "x", "definition": {"max-length": 1}}),
    ("PUT", "/vhost-limits/v/max-queues", {"value": 100}),
    ("PUT", "/global-parameters/g", {"value": "x"}),
)
# There is no client here: `dlx serve` answers 404 for a connection and a channel that are not there, as a server does.
NEEDS_A_CLIENT = (":channel", "/connections/:name")


def fresh(release: str) -> Simulated:
    server = Simulated(release)
    for method, path, body in MADE:
        assert server(method, f"/api{path}", body).status in (201, 204), path
    return server


def filled(path: str, node: str) -> str:
    segments: list[str] = []
    for segment in path.split("/"):
        name = segment.removeprefix(":")
        if name == segment:
            segments.append(segment)
        elif name == "node":
            segments.append(node)
        else:
            segments.append(NAMES[name] if name in NAMES else OF.get(segments[1], name).format(node=node))
    return "/".join(segments)


@pytest.mark.parametrize("release", RECORDED)
def test_what_is_said_to_be_done_answers(release: str) -> None:
    said = {line.name: line.marks[release] for line in COVERAGE.endpoints() if line.marks[release]}
    assert set(said) == set(RECORDED[release])
    wrong = []
    read = fresh(release)
    for endpoint, mark in said.items():
        method, _, path = endpoint.partition(" ")
        if any(part in path for part in NEEDS_A_CLIENT):
            continue
        server = read if method == "GET" else fresh(release)
        node = server("GET", "/api/overview").json["node"]
        body = None if method in ("GET", "DELETE") else {}
        status = server(method, f"/api{filled(path, node)}", body, headers=HEADERS).status
        if (status in (404, 405)) is not (mark == COVERAGE.MISSING):
            wrong.append((endpoint, mark, status))
    assert wrong == []


def test_a_page_of_a_server_is_read() -> None:
    page = (
        "<h2>Reference</h2><table><tr><td>X</td><td></td><td>X</td><td></td>"
        '<td class="path">/api/queues/<i>vhost</i>/<i>name</i></td></tr></table>'
    )
    assert COVERAGE.named_in(page) == ["GET /queues/:vhost/:name", "DELETE /queues/:vhost/:name"]
