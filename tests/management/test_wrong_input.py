"""No request makes the API or the page fail in a way of its own: wrong input of every kind, for every resource."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from simulator.server.management.application import RESOURCES
from simulator.server.management.page.pages import PAGE
from tests.management.client import GUEST, Answer, Simulated

REQUESTS = 10_000
NAMES = [
    "q", "x", "%2F", "nope", "guest", "amq.default", "", "~", "a~b~c", "1", "-1", "1_0", "9" * 40, "%D9%A1", "%00",
    "%ff", "%ED%A0%80", "%25", "a" * 300, "(", "max-queues",
]  # fmt: skip
QUERIES = [
    "page", "page_size", "name", "use_regex", "sort", "sort_reverse", "columns", "lengths_age", "lengths_incr",
    "disable_stats", "if-unused", "download", "find", "message", "queue", "vhost", "message_id", "ended",
]  # fmt: skip
IN_QUERY = [*NAMES, "true", "9" * 5_000, "%", "1e5", "%0D%0Ax", "%F0%9F%98%80", "a.b.c", "%C3%A9"]
VALUES: list[Any] = [
    None, True, 0, -1, 1.5, 1e308, 10**30, 2**63, "", "a", "/", "\0", "é", "a" * 300, "(", [], [[]], [None], ["a"],
    {}, {"a": 1}, {"a": {"b": [1, None]}}, [{"a": 1}], [{"name": 5}],
]  # fmt: skip
BODIES: list[dict[str, Any]] = [
    {"routing_key": "q", "properties": {"headers": {}}, "payload": "a", "payload_encoding": "string"},
    {"ackmode": "ack_requeue_true", "count": 1, "encoding": "auto", "truncate": 5},
    {"pattern": ".*", "definition": {"message-ttl": 5}, "priority": 0, "apply-to": "queues", "format": "json"},
    {"configure": ".*", "exchange": "x", "write": ".*", "read": ".*"},
    {"password": "a", "tags": "administrator", "description": "", "default_queue_type": "quorum", "users": ["u"]},
    {"value": 5, "component": "federation", "name": "n", "vhost": "/", "action": "sync"},
    {"fault": "close_channel", "queue": "q", "nth": 1, "seconds": 1},
    {"type": "topic", "durable": True, "auto_delete": False, "arguments": {"x-message-ttl": 5}, "node": "n"},
    {"queues": [{"name": "a", "vhost": "/"}], "policies": [{"name": "a", "vhost": "/", "definition": {}}], "users": []},
]  # fmt: skip


def altered(value: Any, dice: random.Random) -> Any:
    if dice.random() < 0.15:
        return dice.choice(VALUES)
    if isinstance(value, dict):
        return {name: altered(each, dice) for name, each in value.items() if dice.random() > 0.05}
    return [altered(each, dice) for each in value] if isinstance(value, list) else value


def asked(server: Simulated, dice: random.Random) -> tuple[tuple[str, str, Any], Answer]:
    resource = dice.choice([(f"/api{each.path}", each) for each in RESOURCES] + [("/", PAGE)] * 10)
    path = re.sub(":[a-z]+", lambda _: dice.choice(NAMES), resource[0])
    query = "&".join(f"{dice.choice(QUERIES)}={dice.choice(IN_QUERY)}" for _ in range(dice.randrange(4)))
    method = dice.choice([*resource[1].methods, "PATCH"])
    body = altered(dice.choice(BODIES), dice) if method in ("PUT", "POST") else None
    request = method, f"{path}?{query}", body
    return request, server(*request, auth=dice.choice([GUEST] * 9 + ["é:x"]))


@pytest.mark.parametrize("release", ["3.8", "4.3"])
def test_every_request_has_an_answer(release: str) -> None:
    """An error that nobody foresaw would be raised here; over a socket it is a bare 500."""
    dice = random.Random(release)
    for number in range(REQUESTS):
        if number % 100 == 0:  # some requests delete what others need
            server = Simulated(release)
            server("PUT", "/api/queues/%2F/q", {"durable": True})
            server("PUT", "/api/exchanges/%2F/x", {"type": "topic"})
        request, answer = asked(server, dice)
        assert all(value.isprintable() or not value.isascii() for value in answer.headers.values()), request


@pytest.mark.parametrize("users", [5, None, "nope", {"a": 1}, [["a"]], [5], [[]]])
def test_users_to_delete_that_are_no_names(users: object) -> None:
    """As 3.8.9, 3.10.8, 4.0.5 and 4.3.6 answer."""
    assert Simulated("4.3")("POST", "/api/users/bulk-delete", {"users": users}).status == 500
    old = Simulated("3.10")("POST", "/api/users/bulk-delete", {"users": users})
    assert old.status == (400 if isinstance(users, list) else 500)


@pytest.mark.parametrize("name", ["%C3%A9.json", "a%0D%0AX-Other: z", "%F0%9F%98%80", "", "a;b"])
def test_names_of_downloads_that_are_no_tokens(name: str) -> None:
    """As the same servers answer."""
    path = f"/api/definitions?download={name.replace(' ', '%20')}"
    assert (Simulated("4.3")("GET", path).status, Simulated("4.0")("GET", path).status) == (400, 200)


def test_the_name_of_a_download_is_one_header() -> None:
    named = Simulated("4.0")("GET", "/api/definitions?download=a%0D%0Ab%C3%A9").headers
    assert named["content-disposition"] == "attachment; filename=abé"
