"""What a scenario has at hand: topology, a publisher, consumers."""

from __future__ import annotations

import json
import random
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pika
import pika.exceptions

from examples.workload.broker import Broker, Unavailable
from examples.workload.consumers import Delivery, Handler, Verdict, Worker, answer

TIMEOUT_S = 60
EPOCH_S = 1_700_000_000  # message timestamps count from here, so that two runs publish the same

# What a release must be to take part in a scenario's variant.
SINCE = {"quorum-ttl": (3, 10), "x-headers-match": (3, 10)}

ARGUMENT_NAMES = {
    "type": "x-queue-type",
    "dlx": "x-dead-letter-exchange",
    "dlrk": "x-dead-letter-routing-key",
    "ttl_ms": "x-message-ttl",
}


@dataclass
class Stage:
    """Where one scenario plays: its publisher, its consumers, its share of the virtual host.

    Every message carries the scenario's name as ``app_id``; every queue begins with it.
    """

    at_once: ClassVar[int] = 4  # scenarios

    name: str
    messages: int
    seed: int
    broker: Broker
    created: int = 0
    published: int = 0  # what was created, and what consumers published again
    queues: list[str] = field(default_factory=list)
    workers: list[Worker] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(f"{self.seed}/{self.name}")
        self.connection = pika.BlockingConnection(self.broker.parameters)
        self.channel = self.connection.channel()
        self.confirmed_channel = self.connection.channel()
        self.confirmed_channel.confirm_delivery()

    def close(self) -> None:
        for connection in [self.connection, *(worker.connection for worker in self.workers)]:
            if connection.is_open:
                connection.close()

    def has(self, feature: str) -> bool:
        return self.broker.release >= SINCE[feature]

    # Topology. Policies come before the queues they are for, so that they hold from the first message.

    def policy(self, name: str, pattern: str, operator: bool = False, priority: int = 0, **keys: Any) -> None:
        definition = {key.replace("_", "-"): value for key, value in keys.items()}
        body = {"pattern": pattern, "definition": definition, "priority": priority, "apply-to": "queues"}
        section = "operator-policies" if operator else "policies"
        self.broker.management.call("PUT", section, self.broker.vhost, name, body=body)

    def exchange(self, name: str, type: str = "direct", **options: Any) -> None:
        self.channel.exchange_declare(name, type, durable=True, **options)

    def queue(self, name: str, **arguments: Any) -> None:
        """Declare a durable queue; ``max_length=10`` becomes x-max-length (see ARGUMENT_NAMES)."""
        named = {ARGUMENT_NAMES.get(k, "x-" + k.replace("_", "-")): v for k, v in arguments.items()}
        self.channel.queue_declare(name, durable=True, arguments=named)
        self.queues.append(name)

    def bind(self, queue: str, exchange: str, *keys: str, **arguments: Any) -> None:
        for key in keys or ("",):
            self.channel.queue_bind(queue, exchange, key, arguments=arguments or None)

    # Traffic.

    def publish(
        self,
        exchange: str,
        key: str,
        kind: str,
        *,
        confirmed: bool = False,
        size: int = 0,
        identified: bool = True,
        headers: Any = None,
        **properties: Any,
    ) -> None:
        """Publish one message of that kind ("order") with the properties that a real one would carry."""
        rng = self.random
        customer = f"customer-{rng.randrange(1, 400)}"
        self.created += 1
        content = {kind: self.created, "customer": customer, "amount": rng.randrange(100, 99_900) / 100}
        if identified:
            properties["message_id"] = f"{kind}-{rng.getrandbits(40):010x}"
        if rng.random() < 0.5:
            properties["correlation_id"] = f"request-{rng.getrandbits(24):06x}"
        basic = pika.BasicProperties(
            app_id=self.name,
            type=f"{kind}.created",
            content_type="application/json",
            timestamp=EPOCH_S + self.created,
            delivery_mode=rng.choice([1, 2]),
            headers={"customer": customer, **(headers or {})},
            **properties,
        )
        body = json.dumps(content).encode()
        self.send(exchange, key, body.ljust(size), basic, confirmed)
        if self.created % 5 == 0:  # consumers work while the publisher goes on
            self.pump()

    def forward(self, delivery: Delivery, exchange: str, key: str, **headers: Any) -> None:
        """Publish a delivery again as it came, x-death included; ``headers`` replace its own."""
        properties = delivery.properties
        properties.headers = {**(properties.headers or {}), **headers}
        self.send(exchange, key, delivery.body, properties, False)

    def send(self, exchange: str, key: str, body: bytes, properties: pika.BasicProperties, confirmed: bool) -> None:
        self.published += 1
        channel = self.confirmed_channel if confirmed else self.channel
        with suppress(pika.exceptions.NackError):  # an overflowing queue says no, as its scenario wants
            channel.basic_publish(exchange, key, body, properties)

    def get(self, queue: str, verdict: Verdict, times: int = 1) -> None:
        """Fetch with basic.get, as a polling consumer does."""
        for _ in range(times):
            method, _, _ = self.channel.basic_get(queue)
            if method:
                answer(self.channel, method.delivery_tag, verdict)

    def work(self, handlers: dict[str, Handler], prefetch: int = 10) -> None:
        """Start one more consumer."""
        self.workers.append(Worker(self.broker.parameters, handlers, prefetch))

    def pump(self) -> None:
        for worker in self.workers:
            worker.pump(0.02)

    def drain(self) -> None:
        """Let the consumers work until all queues are empty, and still are when asked again."""
        deadline = time.monotonic() + TIMEOUT_S
        quiet = 0
        while quiet < 3:
            before = self.received()
            self.pump()
            idle = before == self.received()
            quiet = quiet + 1 if idle and not any(map(self.ready, self.queues)) else 0
            if time.monotonic() > deadline:
                left = [queue for queue in self.queues if self.ready(queue)]
                raise Unavailable(f"{self.name}: after {TIMEOUT_S} s still messages in {left}")

    def received(self) -> int:
        """How many deliveries the consumers have seen."""
        return sum(worker.received for worker in self.workers)

    def ready(self, queue: str) -> int:
        return int(self.channel.queue_declare(queue, passive=True).method.message_count)
