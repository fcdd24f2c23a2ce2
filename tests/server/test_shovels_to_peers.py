"""Shovels between ``dlx serve --peer`` and another server."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

import simulator
from simulator.capture.connected import exact_values
from simulator.server.in_process import Server
from tests.plugins.client import http
from tests.server.test_command import READY, serving

WAIT_S = 30


class Node:
    """A served node with a channel, and its management API."""

    def __init__(self, line: str, channel: BlockingChannel, peer: str) -> None:
        found = READY.fullmatch(line)
        assert found, line
        self.port = int(found[1])
        self.api = f"http://127.0.0.1:{found[2]}/"
        self.peer = peer
        self.channel = channel

    def shovel(self, **value: Any) -> None:
        """Set the shovel 'over'."""
        status, body = http(self.api, "PUT", "/api/parameters/shovel/%2F/over", {"value": value})
        assert status == 201, body

    def state(self) -> dict[str, Any] | None:
        """What the API says of the shovel; ``None`` once it is gone."""
        found: list[dict[str, Any]] = http(self.api, "GET", "/api/shovels")[1]
        return found[0] if found else None


@contextlib.contextmanager
def channel_at(url: str) -> Iterator[BlockingChannel]:
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        yield connection.channel()


def until(held: Callable[[], Any], channel: BlockingChannel) -> Any:
    """Return what is true in the end, of servers in other threads and processes."""
    ends = time.monotonic() + WAIT_S
    while not (found := held()):
        assert time.monotonic() < ends, "it did not come about"
        channel.connection.process_data_events(0.05)
    return found


def ready(channel: BlockingChannel, queue: str) -> int:
    count: int = channel.queue_declare(queue, passive=True).method.message_count
    return count


@pytest.fixture
def other() -> Iterator[Server]:
    """The peer."""
    with simulator.serve("3.13") as server:
        yield server


@pytest.fixture
def node(other: Server) -> Iterator[Node]:
    """A node that the peer may be reached from."""
    peer = urlsplit(other.amqp_url).netloc
    with serving("--plugins", "shovel", "--peer", peer) as (_, line), channel_at(line.split()[0]) as channel:
        yield Node(line, channel, peer)


@pytest.fixture
def there(other: Server) -> Iterator[BlockingChannel]:
    """A channel at the peer."""
    with channel_at(other.amqp_url) as channel:
        yield channel


def test_messages_go_to_the_peer_as_they_are(node: Node, there: BlockingChannel) -> None:
    node.channel.queue_declare("parked", durable=True)
    there.queue_declare("work")
    headers = {"tries": [{"at": "night", "count": 2}], "late": True, "share": 0.25}
    properties = pika.BasicProperties(headers=headers, message_id="m1", priority=4, expiration="60000")
    with exact_values(to_publish=True):  # pika alone cannot publish a float
        node.channel.basic_publish("", "parked", b"job", properties)
        node.shovel(
            **{"src-uri": "amqp://", "src-queue": "parked", "dest-queue": "work"},
            **{"dest-uri": f"amqp://{node.peer}".replace("127.0.0.1", "localhost")},
            **{"add-forward-headers": True, "publish-properties": {"delivery_mode": 2}},
        )
        until(lambda: ready(there, "work"), node.channel)
        method, got, body = there.basic_get("work", auto_ack=True)
    assert (body, method.routing_key) == (b"job", "work")
    assert (got.message_id, got.priority, got.expiration, got.delivery_mode) == ("m1", 4, "60000", 2)
    (hop,) = got.headers.pop("x-shovelled")
    assert (hop["shovel-name"], hop["src-queue"], hop["dest-queue"]) == ("over", "parked", "work")
    assert got.headers == headers
    assert until(lambda: (node.state() or {}).get("state") == "running", node.channel)
    assert ready(node.channel, "parked") == 0


def test_messages_come_from_the_peer_until_its_queue_was_empty(node: Node, there: BlockingChannel) -> None:
    there.queue_declare("parked", durable=True)
    for number in range(3):
        there.basic_publish("", "parked", str(number).encode())
    node.channel.queue_declare("work")
    node.channel.queue_bind("work", "amq.direct", "retry")
    address = {"src-uri": f"amqp://{node.peer}", "dest-uri": f"amqp://guest:guest@localhost:{node.port}"}
    ends = {"src-queue": "parked", "dest-exchange": "amq.direct", "dest-exchange-key": "retry"}
    node.shovel(**address, **ends, **{"src-delete-after": "queue-length", "ack-mode": "on-publish"})
    until(lambda: node.state() is None, node.channel)
    assert [node.channel.basic_get("work")[2] for _ in range(3)] == [b"0", b"1", b"2"]
    assert ready(there, "parked") == 0


def test_a_message_that_the_peer_refuses_stays(node: Node, there: BlockingChannel) -> None:
    full = {"x-max-length": 1, "x-overflow": "reject-publish"}
    there.queue_declare("work", durable=True, arguments=full)
    node.channel.queue_declare("parked", durable=True)
    for _ in range(3):
        node.channel.basic_publish("", "parked", b"job")
    address = {"src-uri": "amqp://", "src-queue": "parked", "dest-uri": f"amqp://{node.peer}", "dest-queue": "work"}
    node.shovel(**address, **{"src-delete-after": 3})
    until(lambda: node.state() is None, node.channel)
    assert (ready(there, "work"), until(lambda: ready(node.channel, "parked"), node.channel)) == (1, 2)


def test_it_connects_again(node: Node, there: BlockingChannel) -> None:
    address = {"src-uri": "amqp://", "src-queue": "parked", "dest-uri": f"amqp://{node.peer}", "dest-queue": "work"}
    node.shovel(**address, **{"reconnect-delay": 0.1, "dest-predeclared": True})
    shown = until(lambda: (node.state() or {}).get("reason"), node.channel)
    assert "no queue 'work'" in shown
    there.queue_declare("work")
    until(lambda: (node.state() or {}).get("state") == "running", node.channel)
    node.channel.basic_publish("", "parked", b"job")
    until(lambda: ready(there, "work"), node.channel)
    there.queue_delete("work")
    http(node.api, "DELETE", "/api/parameters/shovel/%2F/over")
    assert node.state() is None


def test_a_server_that_is_no_peer_is_not_touched(node: Node) -> None:
    with simulator.serve("4.0") as stranger:
        netloc = urlsplit(stranger.amqp_url).netloc.replace("127.0.0.1", "127.0.0.2")
        address = {"src-uri": f"amqp://{netloc}", "src-queue": "parked", "dest-uri": "amqp://", "dest-queue": "work"}
        node.shovel(**address)
        reason = until(lambda: (node.state() or {}).get("reason"), node.channel)
        assert f"dlx serve --peer {netloc} lets shovels reach it" in reason
        stranger_queues = stranger.run(lambda each: list(each.broker.vhosts["/"].queues))
        assert stranger_queues == []
