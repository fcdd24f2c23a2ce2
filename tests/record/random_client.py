"""A client at random: it declares, publishes, consumes and deletes, the same for the same seed on every server."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import msgspec
import pika
from pika.adapters.blocking_connection import BlockingChannel

from simulator.record.live import record_server
from simulator.record.recording import Declaration, Recording
from simulator.record.server_objects import Poll, ServerObjects

POLL_SECONDS = 0.25
QUIET_TIMES = 3
# Of these a server tells nothing, or less.
_TOLD_LESS = {
    "vhost", "connections", "mandatory", "returned", "declared_before", "rejected", "requeued", "abandoned",
    "timed_out", "dead_letters", "waiting", "failed",
}  # fmt: skip
MESSAGES = 40
CHANNELS = 3  # of each client


def recorded(
    management_url: str, amqp_url: str, vhost: str, folder: Path, seeds: Sequence[int], *, counts_empty: bool = True
) -> Recording:
    """Record the clients of these seeds on a server, side by side; ``counts_empty``: it counts empty basic.get."""
    folder.mkdir()
    clients = [Client(amqp_url, seed, counts_empty) for seed in seeds]
    take = ServerObjects.polled

    def polled(objects: ServerObjects, poll: Poll) -> None:
        take(objects, poll)
        for client in clients:
            client.seen = poll

    def on_poll() -> None:
        for client in clients:
            client.polled.release()

    with patch.object(ServerObjects, "polled", polled), ThreadPoolExecutor(len(clients)) as pool:
        runs = [pool.submit(client.run) for client in clients]
        found = record_server(
            management_url,
            folder,
            seconds=120,
            vhost=vhost,
            enable=True,
            poll_seconds=POLL_SECONDS,
            stop=lambda: all(run.done() for run in runs),
            on_poll=on_poll,
        )
        for run in runs:
            run.result(timeout=0)
    return found


class Client:
    """What one seed does. ``polled`` is released by each poll of the recording; ``seen`` is what it found."""

    def __init__(self, amqp_url: str, seed: int, counts_empty: bool) -> None:
        self.polled = threading.Semaphore(0)
        self.seen: Poll | None = None
        self._url, self._seed, self._counts_empty = amqp_url, seed, counts_empty
        self._acts: Counter[tuple[str, str]] = Counter()  # by the queue and the name of the server's counter
        self._returned = self._confirming = 0
        self._draw = Random(seed)
        self._queues: list[str] = []
        self._keys: list[tuple[str, str]] = []

    def _polls(self, number: int = 2) -> None:
        """Wait until the recording has polled so often again."""
        while self.polled.acquire(blocking=False):
            pass
        for _ in range(number):
            assert self.polled.acquire(timeout=30), "the recording does not poll"

    def _until_counted(self) -> None:
        """Wait until the recording has seen that the server counted all that this client did."""
        while missing := self._uncounted():
            assert self.polled.acquire(timeout=30), f"the recording ended, or does not poll, without {missing}"

    def _uncounted(self) -> list[str]:
        assert self.seen is not None
        stats = {each["name"]: each.get("message_stats") or {} for each in self.seen.queues}
        missing = [
            f"{name} {times} of {queue}"
            for (queue, name), times in self._acts.items()
            if stats.get(queue, {}).get(name, 0) != times
        ]
        own = [
            each["name"]
            for each in self.seen.connections
            if (each.get("client_properties") or {}).get("connection_name") == self._named("client")
        ]
        counted = [each for each in self.seen.channels if each["name"].rpartition(" (")[0] in own and "confirm" in each]
        returned = sum((each.get("message_stats") or {}).get("return_unroutable", 0) for each in counted)
        confirming = sum(each["confirm"] for each in counted)
        if (len(counted), confirming, returned) != (CHANNELS, self._confirming, self._returned):
            missing.append(f"{CHANNELS} channels, {self._confirming} with confirms, {self._returned} returned messages")
        return missing

    def _get(self, channel: BlockingChannel, queue: str) -> None:
        method, _, _ = channel.basic_get(queue, auto_ack=True)
        if method is not None:
            self._acts[queue, "get_no_ack"] += 1
        elif self._counts_empty:
            self._acts[queue, "get_empty"] += 1

    def _on_return(self, *_: Any) -> None:
        self._returned += 1

    def _named(self, name: str) -> str:
        return f"{self._seed}-{name}"

    def run(self) -> None:
        self._polls()
        parameters = pika.URLParameters(self._url)
        parameters.client_properties = {"connection_name": self._named("client")}
        with pika.BlockingConnection(parameters) as connection:
            channel = connection.channel()
            self._declare(channel)
            self._polls()
            self._publish(connection.channel())
            consumer = connection.channel()
            consumer.basic_qos(prefetch_count=self._draw.choice((0, 1, 5)))
            for queue in self._draw.sample(self._queues, len(self._queues) - 1):
                self._consume(connection, consumer, queue)
            for _ in range(self._draw.randint(0, 3)):
                self._get(channel, self._named("dead"))
            self._until_counted()
            self._delete(channel)
            self._polls()

    def _declare(self, channel: BlockingChannel) -> None:
        draw = self._draw
        channel.exchange_declare(self._named("dlx"), "fanout", durable=True)
        channel.queue_declare(self._named("dead"), durable=True)
        channel.queue_bind(self._named("dead"), self._named("dlx"))
        exchanges = [
            (name, draw.choice(("direct", "topic", "fanout"))) for name in map(self._named, ("orders", "events"))
        ]
        for name, kind in exchanges:
            channel.exchange_declare(name, kind, durable=draw.random() < 0.8, auto_delete=draw.random() < 0.2)
        for number in range(draw.randint(2, 4)):
            name = self._named(f"work-{number}")
            arguments: dict[str, Any] = {"x-dead-letter-exchange": self._named("dlx")} if draw.random() < 0.7 else {}
            arguments |= draw.choice(({}, {"x-message-ttl": 3_600_000}, {"x-max-length": 20}, {"x-max-priority": 3}))
            exclusive = draw.random() < 0.2
            channel.queue_declare(name, durable=not exclusive, exclusive=exclusive, arguments=arguments)
            self._queues.append(name)
            for _ in range(draw.randint(0, 2)):
                channel.queue_bind(name, draw.choice(exchanges)[0], draw.choice(("a", "b", "c")))
        self._keys = [(name, key) for name, _ in exchanges for key in ("a", "b", "nowhere")]
        self._keys += [("", name) for name in (*self._queues, self._named("missing"))]

    def _publish(self, channel: BlockingChannel) -> None:
        draw = self._draw
        if draw.random() < 0.5:
            channel.confirm_delivery()
            self._confirming += 1
        else:
            channel.add_on_return_callback(self._on_return)
        body = self._named("body").encode()
        for number in range(MESSAGES):
            exchange, key = draw.choice(self._keys)
            headers: dict[str, Any] = dict.fromkeys(draw.sample(("tenant", "trace", "kind"), draw.randint(0, 2)), "x")
            properties = pika.BasicProperties(
                message_id=self._named(f"m-{number}"),
                headers=headers or None,
                expiration=draw.choice((None, None, "3600000", "7200000")),
                delivery_mode=draw.choice((None, 1, 2)),
            )
            try:
                channel.basic_publish(exchange, key, body, properties, mandatory=draw.random() < 0.3)
            except pika.exceptions.UnroutableError:
                self._returned += 1
        channel.basic_qos()  # answered after all publishes: none comes after a delivery on another channel

    def _consume(self, connection: pika.BlockingConnection, channel: BlockingChannel, queue: str) -> None:
        """Consume until nothing comes any more; what becomes of a message depends on the seed and on its id."""
        given = 0

        def on_message(_: Any, method: Any, properties: pika.BasicProperties, body: bytes) -> None:
            nonlocal given
            given += 1
            draw = Random(f"{self._seed} {properties.message_id} {queue} {method.redelivered}")
            act = draw.choice(("ack", "ack", "reject", "requeue", "again"))
            if act == "requeue" and not method.redelivered:
                channel.basic_nack(method.delivery_tag, requeue=True)
            elif act == "reject":
                channel.basic_reject(method.delivery_tag, requeue=False)
            else:
                tried = (properties.headers or {}).get("x-tries", 0)
                if act == "again" and tried < 2:
                    properties.headers = {**(properties.headers or {}), "x-tries": tried + 1}
                    channel.basic_publish("", queue, body, properties)
                channel.basic_ack(method.delivery_tag)
                self._acts[queue, "ack"] += 1

        tag = channel.basic_consume(queue, on_message)
        quiet = 0
        while quiet < QUIET_TIMES:  # what was on its way when the queue was first seen empty has come by then
            before = given
            connection.process_data_events(0.05)
            left = channel.queue_declare(queue, passive=True).method.message_count
            quiet = quiet + 1 if (left, given) == (0, before) else 0
        self._polls()
        channel.basic_cancel(tag)

    def _delete(self, channel: BlockingChannel) -> None:
        draw = self._draw
        if draw.random() < 0.5:
            channel.exchange_delete(self._named("orders"))
        if draw.random() < 0.5:
            channel.queue_delete(self._named("dead"))


def told(recording: Recording, *without: str) -> dict[str, Any]:
    """What the broker itself knows, as far as its clients can see it, too, and without the queue of the recording."""
    return {
        "declarations": sorted(
            (each.kind, each.name, each.gone_us is not None, _declared(each))
            for each in recording.declarations
            if "amq.gen" not in each.name
        ),
        "published": {(each.exchange, each.routing_key): _plain(each) for each in recording.published},
        "consumed": {
            each.queue: _plain(each, *without)
            for each in recording.consumed
            if "amq.gen" not in each.queue and (each.entered or each.deliveries or each.gets or each.consumers)
        },
        "clients": sorted(
            (each.name, each.product, each.version) for each in recording.connections if "dlx" not in each.name
        ),
    }


def _declared(declaration: Declaration) -> dict[str, Any]:
    """The object, without where it is and what only exports of some releases have."""
    some = ("vhost", "internal", "type") if declaration.kind == "queue" else ("vhost", "internal")
    return {name: value for name, value in declaration.item.items() if name not in some}


def _plain(given: Any, *without: str) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(given)
    return {key: value for key, value in found.items() if key not in (*_TOLD_LESS, *without)}
