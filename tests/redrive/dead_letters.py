"""A virtual host with a dead-letter queue, on a simulated server or a real one, and the messages that died into it."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from simulator.capture.management_api import call
from simulator.cli.main import main
from simulator.redrive.server import ServerAddress, server_at
from simulator.server import serve
from tests.live.servers import LiveServer

DEAD, WORK, TIMED = "dead", "work", "timed"
PATIENCE_S = 10.0


class Place(NamedTuple):
    """A server, and the virtual host of a test."""

    server: ServerAddress
    release: str

    @property
    def amqp_url(self) -> str:
        """The AMQP URL without its virtual host."""
        assert self.server.amqp_url is not None
        return self.server.amqp_url

    @contextmanager
    def channel(self) -> Iterator[BlockingChannel]:
        """Open a channel of a connection of its own."""
        parameters = pika.URLParameters(self.amqp_url)
        parameters.virtual_host = self.server.vhost
        with pika.BlockingConnection(parameters) as connection:
            yield connection.channel()

    def api(self, method: str, path: str, body: object = None) -> Any:
        """Call the management API."""
        return call(self.server.management_url, path, method=method, body=body)

    def waiting(self, queue: str = DEAD) -> list[tuple[Any, Any, bytes]]:
        """Take everything out of a queue, each as ``basic.get`` gives it."""
        with self.channel() as channel:
            found = []
            while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
                found.append(got)
            return found


@contextmanager
def vhost_on(live: LiveServer, prefix: str) -> Iterator[Place]:
    """Make a virtual host on a real server, whose name begins so, and delete it in the end."""
    name = f"{prefix}-{uuid.uuid4().hex[:8]}"
    place = Place(server_at(live.amqp_url, live.management_url, name), live.release)
    place.api("PUT", f"vhosts/{name}", {})
    try:
        yield place
    finally:
        place.api("DELETE", f"vhosts/{name}")


def seen_by(place: Place, *tags: str, **permissions: str) -> Place:
    """Return the place as another user sees it, who has these tags and permissions, and all that are not named."""
    name = f"{vhost_of(place)}-night".removeprefix("%2F-")
    every = dict.fromkeys(("configure", "write", "read"), ".*")
    place.api("PUT", f"users/{name}", {"password": "secret", "tags": ",".join(tags)})
    place.api("PUT", f"permissions/{vhost_of(place)}/{name}", {**every, **permissions})
    urls = [
        urlsplit(url)._replace(netloc=f"{name}:secret@{urlsplit(url).netloc.rpartition('@')[2]}").geturl()
        for url in (place.amqp_url, place.server.management_url)
    ]
    return Place(server_at(*urls, place.server.vhost), place.release)


@contextmanager
def simulated(release: str) -> Iterator[Place]:
    """Run a simulated server."""
    with serve(release, management_port=0) as server:
        yield Place(server_at(server.amqp_url, server.management_url), release)


@contextmanager
def with_six_dead(queue_type: str) -> Iterator[Place]:
    """Run a simulated 4.3 with six messages in a dead-letter queue: two expired in a queue with a TTL of 0."""
    with simulated("4.3") as found:
        declare(found, queue_type)
        let_die(found, 6)
        yield found


def about_dead(name: str, place: Place, *options: str) -> list[str]:
    """Return a command about the dead-letter queue."""
    return [name, place.amqp_url, DEAD, "--management-url", place.server.management_url, *options]


def answer(capsys: pytest.CaptureFixture[str], arguments: list[str], code: int = 0) -> dict[str, Any]:
    """Run a command with --json, check its exit code, and return what it prints."""
    assert main([*arguments, "--json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def declare(place: Place, queue_type: str, **arguments: Any) -> None:
    """Declare the dead-letter queue of that type, with these arguments, and the queues before it."""
    to_dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD}
    with place.channel() as channel:
        named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
        channel.queue_declare(DEAD, durable=True, arguments={"x-queue-type": queue_type, **named})
        channel.queue_declare(WORK, durable=True, arguments=to_dead)
        channel.queue_declare(TIMED, durable=True, arguments={**to_dead, "x-message-ttl": 0})


def let_die(place: Place, count: int, *, expire: bool = True) -> None:
    """Publish so many messages, one after the other; every third may expire, a consumer rejects the others."""
    with place.channel() as channel:
        channel.confirm_delivery()
        for number in range(count):
            properties = pika.BasicProperties(message_id=f"m{number}", headers={"tenant": f"t{number % 2}"})
            if expire and number % 3 == 0:
                channel.basic_publish("", TIMED, b"body", properties)
            else:
                channel.basic_publish("", WORK, b"body", properties)
                method, _, _ = channel.basic_get(WORK)
                assert method is not None
                channel.basic_reject(method.delivery_tag, requeue=False)
            until(lambda number=number: ready(channel, DEAD) == number + 1)  # type: ignore[misc]  # or they overtake


def ready(channel: BlockingChannel, queue: str) -> int:
    """Return how many messages are ready in a queue."""
    count: int = channel.queue_declare(queue, passive=True).method.message_count
    return count


def until(come: Any) -> None:
    """Wait until something has come."""
    end = time.monotonic() + PATIENCE_S
    while not come():
        assert time.monotonic() < end
        time.sleep(0.005)


def vhost_of(place: Place) -> str:
    """Return its virtual host as paths of the API name it."""
    return quote(place.server.vhost, safe="")
