"""pyrabbit2, a client of the management API: a topology is declared, used, listed, exported and deleted.

`tests/clients/run pyrabbit2` runs it with a pyrabbit2 of its own and names the broker.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

pytestmark = pytest.mark.clients

COUNTED_SECONDS = 20  # a server's counters are some seconds old
DEAD_LETTER = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


@pytest.fixture(scope="module")
def client() -> Any:
    """A client of the broker's management API."""
    if "DLX_MANAGEMENT_URL" not in os.environ:
        pytest.fail("no broker: run `tests/clients/run pyrabbit2`, which has pyrabbit2 and names one")
    from pyrabbit2.api import Client

    parts = urlsplit(os.environ["DLX_MANAGEMENT_URL"])
    return Client(f"{parts.hostname}:{parts.port}", parts.username, parts.password, timeout=30)


@pytest.fixture
def vhost(client: Any) -> Iterator[str]:
    """A virtual host of the test's own, with ``x`` bound to ``work``, which dead-letters to ``dead``."""
    name = f"pyrabbit2/{uuid.uuid4().hex[:8]}"
    client.create_vhost(name)
    try:
        client.set_vhost_permissions(name, client.user, ".*", ".*", ".*")
        client.create_queue(name, "work", durable=True, arguments=DEAD_LETTER)
        client.create_queue(name, "dead", durable=True)
        client.create_exchange(name, "x", "topic")
        client.create_binding(name, "x", "work", "a.#")
        yield name
    finally:
        client.delete_vhost(name)


def given(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments that a queue was declared with: newer releases add its type."""
    return {name: value for name, value in arguments.items() if name != "x-queue-type"}


def await_equal(ask: Callable[[], object], wanted: object) -> None:
    deadline = time.monotonic() + COUNTED_SECONDS
    while (found := ask()) != wanted and time.monotonic() < deadline:
        time.sleep(0.1)
    assert found == wanted


def test_what_is_declared_is_shown(client: Any, vhost: str) -> None:
    queue = client.get_queue(vhost, "work")
    assert (queue["durable"], queue["auto_delete"], given(queue["arguments"])) == (True, False, DEAD_LETTER)
    exchange = client.get_exchange(vhost, "x")
    assert (exchange["type"], exchange["durable"], exchange["internal"]) == ("topic", True, False)
    bindings = {(row["source"], row["routing_key"]) for row in client.get_queue_bindings(vhost, "work")}
    assert bindings == {("", "work"), ("x", "a.#")}
    assert sorted(row["name"] for row in client.get_queues(vhost)) == ["dead", "work"]
    assert [row["name"] for row in client.get_queues(vhost, pattern="^w", regex=True)] == ["work"]
    assert {row["name"] for row in client.get_exchanges(vhost)} >= {"", "amq.direct", "x"}
    (permission,) = client.get_vhost_permissions(vhost)
    assert (permission["user"], permission["configure"]) == (client.user, ".*")


def test_messages_are_published_got_and_purged(client: Any, vhost: str) -> None:
    properties = {"message_id": "m", "headers": {"n": 1}}
    assert client.publish(vhost, "x", "a.b", "hello", properties=properties) is True
    assert client.publish(vhost, "x", "z", "hello") is False
    assert client.publish(vhost, "x", "a", "aGk=", payload_enc="base64") is True
    await_equal(lambda: client.get_queue(vhost, "work").get("messages"), 2)
    (kept,) = client.get_messages(vhost, "work", requeue=True)
    assert (kept["payload"], kept["properties"], kept["redelivered"]) == ("hello", properties, False)
    got = client.get_messages(vhost, "work", count=5)
    assert [(row["payload"], row["routing_key"], row["redelivered"]) for row in got] == [
        ("hello", "a.b", True),
        ("hi", "a", False),
    ]
    assert client.publish(vhost, "amq.default", "dead", "gone") is True
    client.purge_queue(vhost, "dead")
    assert client.get_messages(vhost, "dead") == []


def test_a_policy_lets_messages_die(client: Any, vhost: str) -> None:
    definition = {"max-length": 1}
    client.create_policy(vhost, "p", pattern="^work$", definition=definition, priority=3, **{"apply-to": "queues"})
    policy = client.get_policy(vhost, "p")
    assert (policy["pattern"], policy["definition"], policy["priority"]) == ("^work$", definition, 3)
    assert [row["name"] for row in client.get_all_policies() if row["vhost"] == vhost] == ["p"]
    await_equal(lambda: client.get_queue(vhost, "work").get("policy"), "p")
    for payload in ("first", "second"):
        client.publish(vhost, "x", "a", payload)
    (dead,) = client.get_messages(vhost, "dead")
    (death,) = dead["properties"]["headers"]["x-death"]
    assert (dead["payload"], death["reason"], death["queue"], death["exchange"]) == ("first", "maxlen", "work", "x")
    client.delete_policy(vhost, "p")
    await_equal(lambda: client.get_queue(vhost, "work").get("policy"), None)


def test_definitions_hold_what_was_declared(client: Any, vhost: str) -> None:
    exported = client.get_definitions()
    assert vhost in {row["name"] for row in exported["vhosts"]}
    queues = {row["name"]: given(row["arguments"]) for row in exported["queues"] if row["vhost"] == vhost}
    assert queues == {"work": DEAD_LETTER, "dead": {}}
    bindings = [row for row in exported["bindings"] if row["vhost"] == vhost]
    assert [(row["source"], row["destination"], row["routing_key"]) for row in bindings] == [("x", "work", "a.#")]


def test_what_is_deleted_is_gone(client: Any, vhost: str) -> None:
    from pyrabbit2.http import HTTPError

    client.delete_binding(vhost, "x", "work", "a.%23")
    assert [row["source"] for row in client.get_queue_bindings(vhost, "work")] == [""]
    client.delete_exchange(vhost, "x")
    client.delete_queue(vhost, "work")
    for ask in (lambda: client.get_queue(vhost, "work"), lambda: client.get_exchange(vhost, "x")):
        with pytest.raises(HTTPError) as refused:
            ask()
        assert (refused.value.status, refused.value.detail) == (404, "Not Found")


def test_users_come_and_go(client: Any, vhost: str) -> None:
    name = f"pyrabbit2-{uuid.uuid4().hex[:8]}"
    client.create_user(name, "secret", tags="monitoring")
    try:
        client.set_vhost_permissions(vhost, name, "^c", "^r", "^w")
        permission = client.get_permission(vhost, name)
        assert (permission["configure"], permission["read"], permission["write"]) == ("^c", "^r", "^w")
        assert name in {row["name"] for row in client.get_users()}
        assert client.get_whoami()["name"] == client.user
    finally:
        client.delete_user(name)
    assert name not in {row["name"] for row in client.get_users()}


def test_the_broker_is_alive_and_lists_what_it_has(client: Any, vhost: str) -> None:
    assert client.is_alive(quote(vhost, safe=""))
    assert client.get_overview()["rabbitmq_version"]
    assert vhost in client.get_vhost_names()
    for kind in ("nodes", "users", "permissions", "bindings", "extensions", "cluster_name", "channels", "connections"):
        assert isinstance(getattr(client, f"get_{kind}")(), (list, dict))
