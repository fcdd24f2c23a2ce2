"""The HTTP API: the wire, the clock, and that it answers as the scenarios say."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request

import pytest

from simulator.clock import VirtualClock
from simulator.events import Happened
from simulator.systems.zaqar.http import app
from tests.systems.zaqar import vectors
from tests.systems.zaqar.client import HEADERS, Client
from tests.systems.zaqar.live import Recorder
from tests.systems.zaqar.scenarios import SCENARIOS

OVER_HTTP = [name for name, one in SCENARIOS.items() if all(step["do"] != "end_claims" for step in one["steps"])]


@pytest.fixture
def zaqar() -> Client:
    """A Zaqar on redis whose time stands still."""
    return Client(app(clock=VirtualClock(start_us=0)))


@pytest.mark.parametrize("name", OVER_HTTP)
def test_over_http_the_answers_are_those_of_the_scenario(name: str) -> None:
    steps = [step for step in SCENARIOS[name]["steps"] if step["do"] != "look"]
    vectors.check(Recorder(Client(app(seed=5)).send).record({**SCENARIOS[name], "steps": steps}), name)


@pytest.mark.parametrize(
    ("headers", "title"),
    [
        ({"X-PROJECT-ID": "p"}, "Missing header value"),
        ({**HEADERS, "Client-ID": "me"}, "Wrong UUID value"),
        ({"Client-ID": HEADERS["Client-ID"]}, "Project-Id Missing"),
        ({**HEADERS, "X-PROJECT-ID": ""}, "Empty project header not allowed"),
        ({**HEADERS, "X-PROJECT-ID": "p" * 257}, "Invalid queue identification"),
    ],
)
def test_the_headers_that_a_request_needs(zaqar: Client, headers: dict[str, str], title: str) -> None:
    status, document = zaqar.call("GET", "/v2/queues/jobs", headers=headers)
    assert (status, document["title"]) == (400, title)


def test_forms_are_refused(zaqar: Client) -> None:
    form = {**HEADERS, "Content-Type": "application/x-www-form-urlencoded"}
    status, document = zaqar.call("PUT", "/v2/queues/jobs", {}, form)
    assert (status, document["title"]) == (400, "Invalid Content-Type")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v2/ping", 204),
        ("GET", "/v1/queues", 404),
        ("GET", "/v2/queues/", 400),
        ("POST", "/v2/queues/jobs", 405),
        ("GET", "/v2/queues/a b", 400),
        ("GET", f"/v2/queues/{'x' * 65}", 400),
    ],
)
def test_what_is_served(zaqar: Client, method: str, path: str, status: int) -> None:
    assert zaqar.call(method, path)[0] == status


def test_projects_do_not_see_each_others_queues(zaqar: Client) -> None:
    zaqar.call("PUT", "/v2/queues/jobs", {})
    zaqar.call("PUT", "/v2/queues/others", {}, {**HEADERS, "X-PROJECT-ID": "q"})
    assert [queue["name"] for queue in zaqar.call("GET", "/v2/queues")[1]["queues"]] == ["jobs"]


def test_a_post_that_is_too_large_is_refused(zaqar: Client) -> None:
    zaqar.call("PUT", "/v2/queues/jobs", {"_max_messages_post_size": 100})
    large = {"messages": [{"body": "x" * 100}]}
    assert zaqar.call("POST", "/v2/queues/jobs/messages", large)[0] == 400
    assert zaqar.call("POST", "/v2/queues/other/messages", large)[0] == 201
    assert zaqar.call("POST", "/v2/queues/other/messages", {"messages": [{"body": "x" * 262_144}]})[0] == 400
    status, document = zaqar.call("PUT", "/v2/queues/other", {"note": "x" * 65_536})
    assert (status, document["description"]) == (400, "Queue metadata is too large. Max size: 65536")


@pytest.mark.parametrize("kinds", [["all"], "messages", [1]])
def test_what_cannot_be_purged(zaqar: Client, kinds: object) -> None:
    status, document = zaqar.call("POST", "/v2/queues/jobs/purge", {"resource_types": kinds})
    assert (status, document["title"]) == (400, "Invalid API request")


def test_a_test_moves_the_time() -> None:
    told: list[Happened] = []
    zaqar = Client(app(clock=VirtualClock(start_us=0), tell=told.append))
    zaqar.call("PUT", "/v2/queues/jobs", {"_max_claim_count": 1, "_dead_letter_queue": "dead"})
    zaqar.call("POST", "/v2/queues/jobs/messages", {"messages": [{"ttl": 600, "body": "a"}]})
    assert zaqar.call("POST", "/v2/queues/jobs/claims", {"ttl": 60, "grace": 60})[0] == 201
    assert zaqar.call("POST", "/v2/queues/jobs/claims")[0] == 204
    assert zaqar.call("POST", "/clock/advance", {"minutes": 1, "seconds": 1})[1]["now_us"] == 61_000_000
    assert zaqar.call("GET", "/clock")[1] == {"now_us": 61_000_000, "virtual": True}
    assert zaqar.call("POST", "/v2/queues/jobs/claims")[0] == 204
    assert [(str(entry.event), entry.queue, entry.time_us // 1_000_000) for entry in told] == [
        ("published", "jobs", 0),
        ("delivered", "jobs", 0),
        ("requeued", "jobs", 60),
        ("dead-lettered", "jobs", 61),
        ("routed", "dead", 61),
    ]


@pytest.mark.parametrize("span", [None, [], {"weeks": 1}, {"hours": "1"}, {"hours": -1}, {"hours": True}])
def test_a_span_of_time_that_is_none(zaqar: Client, span: object) -> None:
    assert zaqar.call("POST", "/clock/advance", span)[0] == 400
    assert zaqar.call("GET", "/clock")[1]["now_us"] == 0


def test_real_time_is_not_moved() -> None:
    assert Client(app()).call("POST", "/clock/advance", {"hours": 1})[0] == 409


def test_an_unknown_profile() -> None:
    with pytest.raises(ValueError, match="choose one of spec, redis, mongodb, swift"):
        app(profile="mysql")


def test_it_serves_on_a_port_until_it_is_told_to_stop() -> None:
    program = "from simulator.server import http_server; from simulator.systems.zaqar.http import app; "
    program += "http_server.run(app(profile='swift'), host='127.0.0.1', port=0, "
    program += "ready=lambda url: print(url, flush=True))"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            request = urllib.request.Request(f"{url}v2/queues/jobs", headers=HEADERS)
            with urllib.request.urlopen(request, timeout=10) as answer:
                assert json.loads(answer.read())["_default_message_ttl"] == 3600
        finally:
            os.kill(process.pid, signal.SIGTERM)
        assert process.wait(10) == 0
