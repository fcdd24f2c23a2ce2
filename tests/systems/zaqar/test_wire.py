"""What Zaqar makes of the HTTP around its calls: the answers of a running server, which the simulator gives as well."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simulator.systems.zaqar.http import app
from tests.systems.zaqar.client import HEADERS, Client
from tests.systems.zaqar.live import Server
from tests.systems.zaqar.wire_cases import CASES, record

RECORDED: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parent / "wire.json").read_text(encoding="utf-8")
)


def test_every_case_is_recorded() -> None:
    assert list(RECORDED) == list(CASES)


@pytest.mark.parametrize("name", CASES)
def test_the_answers_are_those_of_the_server(name: str) -> None:
    assert record(Client(app()).ask, CASES[name]) == RECORDED[name]


@pytest.mark.live
@pytest.mark.parametrize("name", CASES)
def test_the_server_answers_as_recorded(name: str, zaqar_server: Server) -> None:
    assert record(zaqar_server.ask, CASES[name]) == RECORDED[name]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v2/queues/jobs/share"),
        ("GET", "/v2/queues/jobs/subscriptions"),
        ("PATCH", "/v2/queues/jobs/subscriptions/x"),
        ("PUT", "/v2/queues/jobs/subscriptions/x/confirm"),
        ("GET", "/v2/topics"),
        ("PUT", "/v2/topics/news"),
        ("POST", "/v2/topics/news/messages"),
        ("GET", "/v2/"),
    ],
)
def test_what_is_not_simulated_says_so(method: str, path: str) -> None:
    status, document = Client(app()).call(method, path)
    assert (status, document["title"]) == (501, "Not simulated")
    assert "dlx does not simulate" in document["description"]


def test_it_says_so_to_those_who_may_ask() -> None:
    assert Client(app()).call("GET", "/v2/topics", headers={"X-PROJECT-ID": "p"})[0] == 400
    assert Client(app()).call("GET", "/v2/topics/a b", headers=HEADERS)[0] == 400
