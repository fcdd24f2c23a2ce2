"""Random traffic over a declared topology.

What is published and done to connections comes from the seed alone; what a consumer
does with a delivery from the seed, the queue, the message and how often it came there.
So a seed repeats its operations, whatever the broker's timing.
"""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from random import Random
from typing import Any, NamedTuple

import pika
from pika.exceptions import AMQPError

from tests.live.fuzzing.topology import HEADER_NAMES, HEADER_VALUES, QUEUE_NAMES, Plan, key
from tests.live.fuzzing.wire import Number

DELIVERIES_MAX = 14
"""After so many deliveries of one message its consumers only acknowledge."""
REPUBLISHED_MAX = 2
ALL_DELIVERIES_MAX = 2_500
DRAIN_SECONDS = 5.0

# No decimal: on its way into a stream it crashes the channel, and from an at-least-once queue the supervisor of
# all such queues of the server, which then is gone until a restart (3.10 to 4.3).
VALUES: list[Any] = [
    *HEADER_VALUES, -1, 0.1, 1e300, "", "ü", b"\xff\x00", [], {}, [None, [1]], {"a": {"b": [1.5, None]}},
    Number("b", -3), Number("B", 200), Number("s", 1), Number("u", 9),
    Number("i", 2**32 - 1), Number("f", 0.1), Number("T", 2**40), -(2**63), "x" * 200,
    datetime(1970, 1, 1, tzinfo=UTC), False,
]  # fmt: skip
FORGED_REASONS = ["expired", "maxlen", "delivery_limit", "bogus"]
EXPIRATIONS = ["0", "1", "20", "60", "0060", "+80", "150", "60000"]
ACTIONS = {
    "ack": 26, "reject": 28, "nack": 14, "requeue": 7, "nack requeue": 5, "hold": 7, "republish": 8,
    "nack all": 3, "requeue all": 2, "ack all": 2,
}  # fmt: skip


class Held(NamedTuple):
    """A delivery, as long as it is not settled."""

    queue: str
    tag: int
    properties: Any
    body: bytes


class Line:
    """A connection with what pika leaves open when the broker or an abort ends it: socket and event loop."""

    def __init__(self, connection: pika.BlockingConnection) -> None:
        self._connection: Any = connection
        self._socket: socket.socket = self._connection._impl._transport._sock

    def end(self) -> None:
        """Close all of it, whatever is closed already."""
        with suppress(AMQPError, OSError):
            self._connection.close()
        self._socket.close()
        with suppress(AMQPError, OSError, AssertionError):
            self._connection._impl.ioloop.close()


class Worker:
    """A connection with a channel that consumes some queues."""

    def __init__(self, url: str, queues: list[str], kinds: dict[str, str], prefetch: int) -> None:
        self._url = url
        self._prefetch = prefetch
        self.queues = queues
        self._kinds = kinds
        self.arrived: list[Held] = []
        self._lines: list[Line] = []
        self._connect()

    def _connect(self) -> None:
        self.connection = pika.BlockingConnection(pika.URLParameters(self._url))
        self._lines.append(Line(self.connection))
        self._subscribe()

    def end(self) -> None:
        """Close the connection and what is left of those before it."""
        for line in self._lines:
            line.end()

    def _subscribe(self) -> None:
        self.arrived = []
        self.tags: list[str] = []
        self.channel = self.connection.channel()
        self.channel.basic_qos(prefetch_count=self._prefetch)
        for queue in self.queues:
            self.consume(queue)

    def consume(self, queue: str) -> None:
        """Subscribe to one more queue, a stream from its start."""
        arguments = {"x-stream-offset": "first"} if self._kinds[queue] == "stream" else None
        self.tags.append(self.channel.basic_consume(queue, partial(self._on_message, queue), arguments=arguments))

    def _on_message(self, queue: str, _: Any, method: Any, properties: Any, body: bytes) -> None:
        self.arrived.append(Held(queue, method.delivery_tag, properties, body))

    def pump(self, seconds: float, handle: Callable[[Worker, Held], None]) -> int:
        """Handle what arrives within that time; reconnect after whatever the broker closed."""
        try:
            self.connection.process_data_events(time_limit=seconds)
            taken, self.arrived = self.arrived, []
            for held in taken:
                handle(self, held)
            if not self.channel.is_open:
                self._subscribe()
            return len(taken)
        except (AMQPError, OSError):
            self._connect()
            return 1

    def close(self, how: str) -> None:
        """Lose the channel or the connection, with all that it holds, and come back."""
        if how == "channel":
            with suppress(AMQPError, OSError):
                self.channel.close()
                self._subscribe()
                return
        if how == "abort":
            self.connection._impl._transport._sock.shutdown(socket.SHUT_RDWR)
        with suppress(AMQPError, OSError):
            self.connection.close()
        self._connect()

    def recover(self) -> None:
        self.channel.basic_recover(requeue=True)
        self.arrived = []

    def cancel(self) -> None:
        """Cancel one consumer and subscribe again; what is unsettled stays so."""
        if self.tags:
            self.channel.basic_cancel(self.tags.pop())
        for queue in self.queues[:1]:
            self.consume(queue)


class Traffic:
    """One round's publisher and consumers."""

    def __init__(
        self, seed: str, plan: Plan, url: str, kinds: dict[str, str], *, crashing_deaths: bool, rejects: bool
    ) -> None:
        """Draw what does not depend on what arrives, and connect.

        Args:
            crashing_deaths: a malformed ``x-death`` may be published, as it crashes no queue.
            rejects: consumers reject, and publish histories with rejections.
        """
        self._rejects = rejects
        self._seed = seed
        self._rng = Random(f"{seed}/traffic")
        self._plan = plan
        self._url = url
        self._kinds = kinds
        self._crashing_deaths = crashing_deaths
        self._queues = [queue.name for queue in plan.queues]
        self._exchanges = ["", "", "", *(each.name for each in plan.exchanges if not each.internal)]
        self._delivered: Counter[bytes] = Counter()
        self._came: Counter[tuple[str, bytes]] = Counter()
        self._republished: Counter[bytes] = Counter()
        self.published = 0
        self._connection: Any = pika.BlockingConnection(pika.URLParameters(url))
        self._lines = [Line(self._connection)]
        self._channel = self._connection.channel()
        self._workers = [self._worker() for _ in range(self._rng.randint(1, 3))]

    def _worker(self) -> Worker:
        queues = [queue for queue in self._queues if self._rng.random() < 0.45]
        return Worker(self._url, queues, self._kinds, self._rng.choice([1, 2, 10, 100]))

    def run(self, messages: int) -> None:
        """Publish and consume, then let consumers of all queues work until nothing comes any more."""
        for number in range(messages):
            self._publish_new(number)
            if self._rng.random() < 0.4:
                self._disturb()
            if self._rng.random() < 0.5:
                self._pump(0.005)
        self._drain()

    def close(self) -> None:
        for worker in self._workers:
            worker.end()
        for line in self._lines:
            line.end()

    # -- publishing ------------------------------------------------------------------

    def _publish_new(self, number: int) -> None:
        rng = self._rng
        body = f"m{number}".encode() if rng.random() < 0.9 else b"same"
        properties = self._properties(number)
        exchange, routing_key = rng.choice(self._exchanges), key(rng, self._queues)
        for _ in range(rng.choice([1] * 9 + [2])):  # now and then exactly the same again
            self._publish(exchange, routing_key, body, properties)

    def _properties(self, number: int) -> pika.BasicProperties:
        rng = self._rng
        named: dict[str, Any] = {
            "content_type": rng.choice(["text/plain", "ü"]),
            "content_encoding": "gzip",
            "priority": rng.choice([0, 1, 5, 255]),
            "correlation_id": f"c{number}",
            "reply_to": "back",
            "timestamp": rng.choice([0, 1_700_000_000, 2**33]),
            "type": "",
            "user_id": "guest",
            "app_id": "fuzz",
            "cluster_id": "c",
        }
        kept = {name: value for name, value in named.items() if rng.random() < 0.15}
        if rng.random() < 0.7:
            kept["message_id"] = rng.choice([f"id-{number}"] * 8 + ["id-0", "id-1"])
        if rng.random() < 0.35:
            kept["expiration"] = rng.choice(EXPIRATIONS)
        headers = self._headers()
        if headers or rng.random() < 0.1:
            kept["headers"] = headers
        return pika.BasicProperties(delivery_mode=rng.choice([None, 1, 2]), **kept)

    def _headers(self) -> dict[str, Any]:
        rng = self._rng
        names = [*HEADER_NAMES, "other", "x-other", "ü"]
        found = {name: rng.choice(VALUES) for name in rng.sample(names, rng.choice([0, 0, 1, 2, 4]))}
        for name in ("CC", "BCC"):
            if rng.random() < 0.15:
                found[name] = [key(rng, self._queues) for _ in range(rng.randint(0, 3))]
        if rng.random() < 0.12:
            found["x-death"] = self._forged()
        for name in ("x-first-death-reason", "x-last-death-queue", "x-delivery-count", "x-stream-offset"):
            if rng.random() < 0.03:
                found[name] = rng.choice(["rejected", "a", 3])
        return found

    def _forged(self) -> Any:
        """An ``x-death`` of a client's making."""
        rng = self._rng
        entries = [self._forged_entry() for _ in range(rng.randint(0, 3))]
        if self._crashing_deaths and rng.random() < 0.3:
            return rng.choice(["forged", 5, None, {"queue": "a"}, ["not a table"], [5, *entries]])
        return entries

    def _forged_entry(self) -> dict[str, Any]:
        rng = self._rng
        entry: dict[str, Any] = {
            "count": rng.choice([1, 2, 7, 0]),
            "reason": rng.choice(["rejected" if self._rejects else "bogus", *FORGED_REASONS]),
            "queue": rng.choice([*self._queues, "elsewhere"]),
            "time": datetime(2024, 1, 1, tzinfo=UTC),
            "exchange": rng.choice(self._exchanges),
            "routing-keys": [rng.choice(QUEUE_NAMES)],
        }
        if rng.random() < 0.2:
            entry["original-expiration"] = "77"
        if rng.random() < 0.15:
            del entry[rng.choice(["time", "exchange", "routing-keys"])]
        if rng.random() < 0.1:
            entry["added"] = 1
        return entry

    def _publish(self, exchange: str, routing_key: str, body: bytes, properties: pika.BasicProperties) -> None:
        self.published += 1
        try:
            self._channel.basic_publish(exchange, routing_key, body, properties)
            self._connection.process_data_events(time_limit=0)
        except (AMQPError, OSError):
            pass
        if not self._connection.is_open:
            self._connection = pika.BlockingConnection(pika.URLParameters(self._url))
            self._lines.append(Line(self._connection))
        if not self._channel.is_open:
            self._channel = self._connection.channel()

    # -- consuming -------------------------------------------------------------------

    def _disturb(self) -> None:
        rng = self._rng
        what = rng.choices(
            ["get", "sleep", "channel", "connection", "abort", "recover", "cancel"], [10, 6, 3, 2, 2, 3, 2]
        )[0]
        worker, queue, seconds = rng.choice(self._workers), rng.choice(self._queues), rng.uniform(0.01, 0.12)
        try:
            if what == "get":
                self._get(worker, queue)
            elif what == "sleep":
                time.sleep(seconds)
            elif what == "recover":
                worker.recover()
            elif what == "cancel":
                worker.cancel()
            else:
                worker.close(what)
        except (AMQPError, OSError):
            worker.close("connection")

    def _get(self, worker: Worker, queue: str) -> None:
        if self._kinds[queue] == "stream":
            return
        method, properties, body = worker.channel.basic_get(queue)
        if method is not None:
            self._handle(worker, Held(queue, method.delivery_tag, properties, body or b""))

    def _pump(self, seconds: float) -> int:
        return sum(worker.pump(seconds, self._handle) for worker in self._workers)

    def _handle(self, worker: Worker, held: Held) -> None:
        """Do what the seed says with the n-th delivery of this message in this queue."""
        self._delivered[held.body] += 1
        self._came[held.queue, held.body] += 1
        rng = Random(f"{self._seed}/{held.queue}/{held.body!r}/{self._came[held.queue, held.body]}")
        action = rng.choices(list(ACTIONS), list(ACTIONS.values()))[0]
        if self._delivered[held.body] > DELIVERIES_MAX:
            action = "ack"
        if self._kinds[held.queue] == "stream" and action != "republish":
            action = "ack"  # until 3.12 a stream takes nothing else
        if not self._rejects and action in ("reject", "nack", "nack all"):
            action = "ack"
        channel, tag = worker.channel, held.tag
        if action == "hold":
            return
        if action in ("reject", "requeue"):
            channel.basic_reject(tag, requeue=action == "requeue")
        elif action in ("nack", "nack requeue"):
            channel.basic_nack(tag, requeue=action == "nack requeue")
        elif action in ("nack all", "requeue all"):
            channel.basic_nack(tag, multiple=True, requeue=action == "requeue all")
            worker.arrived = []
        elif action == "ack all":
            channel.basic_ack(tag, multiple=True)
            worker.arrived = []
        else:
            if action == "republish" and self._republished[held.body] < REPUBLISHED_MAX:
                self._republish(rng, held)
            channel.basic_ack(tag)

    def _republish(self, rng: Random, held: Held) -> None:
        """Publish a delivery again with the headers it came with, or with a history tampered with."""
        self._republished[held.body] += 1
        properties = held.properties
        headers = dict(properties.headers or {})
        deaths = headers.get("x-death")
        if isinstance(deaths, list) and deaths and rng.random() < 0.4:
            entry = deaths[0]
            if rng.random() < 0.5 and isinstance(entry, dict) and isinstance(entry.get("count"), int):
                headers["x-death"] = [{**entry, "count": entry["count"] + 5}, *deaths[1:]]
            else:
                headers["x-death"] = rng.choice([deaths[1:], deaths[::-1], deaths[:1]])
        elif rng.random() < 0.2:
            headers.pop("x-death", None)
        if headers:
            properties.headers = headers
        if rng.random() < 0.2:
            properties.expiration = rng.choice(EXPIRATIONS)
        self._publish(rng.choice(self._exchanges), key(rng, self._queues), held.body, properties)

    def _drain(self) -> None:
        for worker in self._workers:
            worker.close("connection")
        self._workers.append(Worker(self._url, self._queues, self._kinds, 50))
        deadline = time.monotonic() + DRAIN_SECONDS
        quiet = 0
        while quiet < 4 and time.monotonic() < deadline and self._delivered.total() < ALL_DELIVERIES_MAX:
            quiet = 0 if self._pump(0.05) else quiet + 1
