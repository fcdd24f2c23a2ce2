"""Drive a real RabbitMQ through every way a message can die, and keep what its tracing plugin recorded.

    python examples/workload.py --url amqp://guest:guest@localhost:5672/ \\
        --management-url http://localhost:15672 --out captured

writes ``captured/trace.log`` (the JSON log of the rabbitmq_tracing plugin) and
``captured/definitions.json`` (the virtual host's export, policies included).
Works with RabbitMQ 3.8 and later. What is published depends on ``--seed`` and
``--messages`` alone; the interleaving of deliveries is the broker's.

The top of the file is the stage that scenarios play on; then one function per
scenario; ``SCENARIOS`` lists them with the deaths each must leave in the log.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import json
import random
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

import pika
import pika.exceptions

EXIT_FINDINGS, EXIT_USAGE, EXIT_UNAVAILABLE = 1, 64, 69
SCENARIO_TIMEOUT_S = 60
MESSAGES_MIN = 20
LOG_TIMEOUT_S = 30
EPOCH_S = 1_700_000_000  # message timestamps count from here, so that two runs publish the same

# What a release must be to take part in a scenario's variant.
SINCE = {"quorum-ttl": (3, 10), "x-headers-match": (3, 10)}

ARGUMENT_NAMES = {
    "type": "x-queue-type",
    "dlx": "x-dead-letter-exchange",
    "dlrk": "x-dead-letter-routing-key",
    "ttl_ms": "x-message-ttl",
}


class Unavailable(Exception):
    """The broker or its management API cannot do what is asked."""


class Misused(Exception):
    """The command line asks for what this script does not do."""


class Management:
    """The few calls of the management API that a capture needs."""

    def __init__(self, url: str, user: str, password: str) -> None:
        self.url = url.rstrip("/") + "/api"
        self.authorization = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()

    def call(self, method: str, *path: str, body: Any = None) -> bytes:
        """Send one request; raises Unavailable, naming the call, unless the answer is 2xx."""
        target = "/".join([self.url, *(quote(part, safe="") for part in path)])
        headers = {"Authorization": self.authorization, "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(target, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            raise Unavailable(f"{method} {target}: {error.code} {error.read().decode()[:200]}") from error
        except OSError as error:
            raise Unavailable(f"{method} {target}: {error}") from error

    def get(self, *path: str) -> Any:
        return json.loads(self.call("GET", *path))


class Verdict(Enum):
    """What a consumer does with a delivery."""

    ACK = auto()
    REJECT = auto()  # basic.reject, requeue=false
    NACK = auto()  # basic.nack, requeue=false
    REQUEUE = auto()  # basic.reject, requeue=true
    NACK_REQUEUE = auto()  # basic.nack, requeue=true
    CLOSE_CHANNEL = auto()  # leave it unacknowledged, with all else the channel holds
    CLOSE_CONNECTION = auto()


ACK, REJECT, NACK = Verdict.ACK, Verdict.REJECT, Verdict.NACK
REQUEUE, NACK_REQUEUE = Verdict.REQUEUE, Verdict.NACK_REQUEUE
CLOSE_CHANNEL, CLOSE_CONNECTION = Verdict.CLOSE_CHANNEL, Verdict.CLOSE_CONNECTION


@dataclass(frozen=True)
class Delivery:
    """One delivery, as a handler sees it."""

    queue: str
    routing_key: str
    properties: pika.BasicProperties
    body: bytes

    def header(self, name: str, default: Any = 0) -> Any:
        return (self.properties.headers or {}).get(name, default)

    def rejections(self) -> int:
        """How often this queue's consumer has rejected the message, by its x-death."""
        deaths = self.header("x-death", [])
        return sum(d["count"] for d in deaths if d["queue"] == self.queue and d["reason"] == "rejected")


Handler = Callable[[Delivery], Verdict]


def accept(_: Delivery) -> Verdict:
    return ACK


def refuse(_: Delivery) -> Verdict:
    return REJECT


def obey(delivery: Delivery) -> Verdict:
    """Accept unless the message says that its consumer refuses it, by basic.reject or basic.nack."""
    return {"reject": REJECT, "nack": NACK}.get(delivery.header("refused"), ACK)


class Worker:
    """A consumer of one or more queues, on a connection of its own."""

    def __init__(self, parameters: pika.URLParameters, handlers: dict[str, Handler], prefetch: int) -> None:
        self.parameters, self.handlers, self.prefetch = parameters, handlers, prefetch
        self.received = 0
        self.closing: Verdict | None = None
        self.connection = pika.BlockingConnection(parameters)
        self.subscribe()

    def subscribe(self) -> None:
        self.channel = self.connection.channel()
        self.channel.basic_qos(prefetch_count=self.prefetch)
        for queue, handler in self.handlers.items():
            self.channel.basic_consume(queue, self.callback(queue, handler))

    def callback(self, queue: str, handler: Handler) -> Callable[..., None]:
        def on_message(channel: Any, method: Any, properties: pika.BasicProperties, body: bytes) -> None:
            self.received += 1
            if self.closing:  # what a crashing consumer holds stays unacknowledged
                return
            verdict = handler(Delivery(queue, method.routing_key, properties, body))
            if verdict in (CLOSE_CHANNEL, CLOSE_CONNECTION):
                self.closing = verdict
            else:
                answer(channel, method.delivery_tag, verdict)

        return on_message

    def pump(self, seconds: float) -> None:
        """Handle what arrives within that time, and crash where a handler asked for it."""
        self.connection.process_data_events(time_limit=seconds)
        if self.closing:
            (self.channel if self.closing is CLOSE_CHANNEL else self.connection).close()
            if self.closing is CLOSE_CONNECTION:
                self.connection = pika.BlockingConnection(self.parameters)
            self.closing = None
            self.subscribe()


def answer(channel: Any, tag: int, verdict: Verdict) -> None:
    if verdict is ACK:
        channel.basic_ack(tag)
    elif verdict in (REJECT, REQUEUE):
        channel.basic_reject(tag, requeue=verdict is REQUEUE)
    else:
        channel.basic_nack(tag, requeue=verdict is NACK_REQUEUE)


@dataclass
class Stage:
    """Where one scenario plays: its publisher, its consumers, its share of the virtual host.

    Every message carries the scenario's name as ``app_id``; every queue begins with it.
    """

    name: str
    messages: int
    seed: int
    release: tuple[int, ...]
    management: Management
    vhost: str
    parameters: pika.URLParameters
    created: int = 0
    published: int = 0  # what was created, and what consumers published again
    queues: list[str] = field(default_factory=list)
    workers: list[Worker] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(f"{self.seed}/{self.name}")
        self.connection = pika.BlockingConnection(self.parameters)
        self.channel = self.connection.channel()
        self.confirmed_channel = self.connection.channel()
        self.confirmed_channel.confirm_delivery()

    def close(self) -> None:
        for connection in [self.connection, *(worker.connection for worker in self.workers)]:
            if connection.is_open:
                connection.close()

    def has(self, feature: str) -> bool:
        return self.release >= SINCE[feature]

    # Topology. Policies come before the queues they are for, so that they hold from the first message.

    def policy(self, name: str, pattern: str, operator: bool = False, priority: int = 0, **keys: Any) -> None:
        definition = {key.replace("_", "-"): value for key, value in keys.items()}
        body = {"pattern": pattern, "definition": definition, "priority": priority, "apply-to": "queues"}
        self.management.call(
            "PUT", "operator-policies" if operator else "policies", self.vhost, name, body=body
        )

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
        """Publish a delivery again as it came, x-death and all, but for the headers given."""
        properties = delivery.properties
        properties.headers = {**(properties.headers or {}), **headers}
        self.send(exchange, key, delivery.body, properties, False)

    def send(
        self, exchange: str, key: str, body: bytes, properties: pika.BasicProperties, confirmed: bool
    ) -> None:
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
        self.workers.append(Worker(self.parameters, handlers, prefetch))

    def pump(self) -> None:
        for worker in self.workers:
            worker.pump(0.02)

    def drain(self) -> None:
        """Let the consumers work until all queues are empty, and still are when asked again."""
        deadline = time.monotonic() + SCENARIO_TIMEOUT_S
        quiet = 0
        while quiet < 3:
            before = sum(worker.received for worker in self.workers)
            self.pump()
            idle = before == sum(worker.received for worker in self.workers)
            quiet = quiet + 1 if idle and not any(map(self.ready, self.queues)) else 0
            if time.monotonic() > deadline:
                left = [queue for queue in self.queues if self.ready(queue)]
                raise Unavailable(f"{self.name}: after {SCENARIO_TIMEOUT_S} s still messages in {left}")

    def ready(self, queue: str) -> int:
        return int(self.channel.queue_declare(queue, passive=True).method.message_count)


# The scenarios


def retry_loop(s: Stage) -> None:
    """A rejected order waits 80 ms and is tried again; after four attempts the worker parks it itself."""
    s.exchange("orders", "topic")
    s.exchange("orders.retry", "fanout")
    s.queue("orders.work", dlx="orders.retry")
    s.queue("orders.wait", ttl_ms=80, dlx="orders")
    s.queue("orders.parking")
    s.bind("orders.work", "orders", "order.#")
    s.bind("orders.wait", "orders.retry")

    def work(delivery: Delivery) -> Verdict:
        if delivery.rejections() >= delivery.header("fails"):
            return ACK
        if delivery.rejections() < 3:
            return REJECT
        s.forward(delivery, "", "orders.parking", parked_by="orders worker")
        return ACK

    s.work({"orders.work": work})
    s.work({"orders.work": work, "orders.parking": accept}, prefetch=3)
    for _ in range(s.messages):
        key = s.random.choice(["order.new", "order.changed.address"])
        s.publish("orders", key, "order", headers={"fails": s.random.randrange(6)})
    s.drain()


def retry_ladder(s: Stage) -> None:
    """Each attempt has its own queue and each wait is longer; the last rejection parks the payment."""
    s.exchange("payments")
    for level, ttl_ms in enumerate((50, 100, 200), start=1):
        s.queue(f"payments.try.{level}", dlx="", dlrk=f"payments.wait.{level}")
        s.queue(f"payments.wait.{level}", ttl_ms=ttl_ms, dlx="payments", dlrk=f"try.{level + 1}")
    s.queue("payments.try.4", dlx="", dlrk="payments.parking")
    s.queue("payments.parking")
    for level in range(1, 5):
        s.bind(f"payments.try.{level}", "payments", f"try.{level}")

    def attempt(delivery: Delivery) -> Verdict:
        return ACK if delivery.header("fails") < int(delivery.queue[-1]) else REJECT

    s.work({"payments.try.1": attempt, "payments.try.2": attempt})
    s.work({"payments.try.3": attempt, "payments.try.4": attempt, "payments.parking": accept})
    for _ in range(s.messages):
        s.publish("payments", "try.1", "payment", headers={"fails": s.random.randrange(5)})
    s.drain()


def poison(s: Stage) -> None:
    """E-mails that fail again and again exceed the delivery limit of a quorum queue."""
    s.exchange("emails.dlx", "fanout")
    s.queue("emails.send", type="quorum", delivery_limit=3, dlx="emails.dlx")
    s.queue("emails.parking", type="quorum")
    s.bind("emails.parking", "emails.dlx")
    tries: Counter[tuple[str, str]] = Counter()

    def first_time(delivery: Delivery) -> bool:
        key = (delivery.queue, delivery.properties.message_id)
        tries[key] += 1
        return tries[key] == 1

    def send(delivery: Delivery) -> Verdict:
        trouble, first = delivery.header("trouble"), first_time(delivery)
        if trouble == "busy":  # 4.3 does not count a nack
            return NACK_REQUEUE if first else ACK
        if trouble == "crash" and delivery.header("x-delivery-count") == 1:
            return CLOSE_CHANNEL
        return REQUEUE if trouble in ("crash", "poison") else obey(delivery)

    def park(delivery: Delivery) -> Verdict:
        return REQUEUE if delivery.header("trouble") == "poison" and first_time(delivery) else ACK

    s.work({"emails.send": send}, prefetch=4)
    s.work({"emails.send": send, "emails.parking": park}, prefetch=2)
    for _ in range(s.messages):
        trouble = s.random.choice(["none", "busy", "crash", "poison", "poison"])
        refused = s.random.choice(["no", "reject", "nack"])
        s.publish("", "emails.send", "email", headers={"trouble": trouble, "refused": refused})
    s.drain()


def overflow(s: Stage) -> None:
    """Queues limited by argument, by policy in bytes, by refusing publishers, and a quorum queue."""
    s.policy("events-bytes", r"^events\.sized$", max_length_bytes=2000, dead_letter_exchange="events.dlx")
    s.exchange("events.dlx", "fanout")
    s.queue("events.recent", max_length=5, dlx="events.dlx")
    s.queue("events.sized")
    s.queue("events.strict", max_length=4, overflow="reject-publish-dlx", dlx="events.dlx")
    s.queue("events.replicated", type="quorum", max_length=5, dlx="events.dlx")
    s.queue("events.archive")
    s.bind("events.archive", "events.dlx")
    for number in range(s.messages):
        queue = ("events.recent", "events.sized", "events.strict", "events.replicated")[number % 4]
        s.publish("", queue, "event", confirmed=queue == "events.strict", size=s.random.randrange(200, 600))
    s.work({"events.recent": accept, "events.sized": accept, "events.strict": accept})
    s.work({"events.replicated": accept, "events.archive": accept})
    s.drain()


def carbon_copies(s: Stage) -> None:
    """CC and BCC keys route the dead letter too, unless the queue names a dead-letter-routing-key."""
    regions = ["eu", "us", "asia"]
    for exchange in ("invoices", "invoices.dlx", "invoices.second"):
        s.exchange(exchange)
    for region in regions:
        s.queue(f"invoices.{region}", dlx="invoices.dlx")
        s.bind(f"invoices.{region}", "invoices", region)
        s.queue(f"invoices.parking.{region}", **({"dlx": "invoices.second"} if region == "eu" else {}))
        s.bind(f"invoices.parking.{region}", "invoices.dlx", region)
    s.queue("invoices.fixed", dlx="invoices.dlx", dlrk="asia")
    s.bind("invoices.fixed", "invoices", "fixed")
    s.queue("invoices.final")
    s.bind("invoices.final", "invoices.second", "us")

    s.work({f"invoices.{place}": obey for place in [*regions, "fixed"]})
    s.work(
        {
            "invoices.parking.eu": refuse,
            "invoices.parking.us": accept,
            "invoices.parking.asia": accept,
            "invoices.final": accept,
        }
    )
    for _ in range(s.messages // 2):
        rng = s.random
        headers: dict[str, Any] = {"refused": rng.choice(["no", "reject", "nack"])}
        for copies, chance in (("CC", 0.6), ("BCC", 0.4)):
            if rng.random() < chance:
                headers[copies] = rng.sample(regions, rng.randrange(1, 3))
        s.publish("invoices", rng.choice([*regions, "fixed"]), "invoice", headers=headers)
    s.drain()


def fanout(s: Stage) -> None:
    """One death, three dead letters; one of the three dies again."""
    s.exchange("shipments")
    s.exchange("shipments.dlx", "fanout")
    s.queue("shipments.work", dlx="shipments.dlx")
    s.queue("shipments.slow", ttl_ms=120, dlx="shipments.dlx")
    s.bind("shipments.work", "shipments", "parcel", "letter")
    s.bind("shipments.slow", "shipments", "freight", "letter")
    s.queue("shipments.alert", ttl_ms=60, dlx="", dlrk="shipments.parking")
    for queue in ("shipments.audit", "shipments.parking"):
        s.queue(queue)
    for queue in ("shipments.audit", "shipments.parking", "shipments.alert"):
        s.bind(queue, "shipments.dlx")

    s.work({"shipments.work": obey})
    s.work({"shipments.audit": accept, "shipments.parking": accept})
    for _ in range(s.messages // 2):
        key = s.random.choice(["parcel", "freight", "letter"])
        s.publish("shipments", key, "shipment", headers={"refused": s.random.choice(["reject", "nack"])})
    s.drain()


def headers_exchange(s: Stage) -> None:
    """A headers exchange sorts dead letters by what the user wrote and by why they died."""
    s.exchange("tickets.triage", "headers")
    s.queue("tickets.open", dlx="tickets.triage")
    s.queue("tickets.stale", ttl_ms=100, dlx="tickets.triage")
    bindings: dict[str, dict[str, Any]] = {
        "tickets.database": {"x-match": "all", "team": "database", "severity": "high"},
        "tickets.urgent": {"x-match": "any", "severity": "high", "vip": True},
    }
    if s.has("x-headers-match"):
        bindings["tickets.expired"] = {"x-match": "all-with-x", "x-first-death-reason": "expired"}
    for queue, arguments in bindings.items():
        s.queue(queue)
        s.bind(queue, "tickets.triage", **arguments)

    s.work({"tickets.open": refuse})
    s.work(dict.fromkeys(bindings, accept), prefetch=5)
    for _ in range(s.messages):
        choose = s.random.choice
        headers = {
            "team": choose(["database", "network"]),
            "severity": choose(["high", "low"]),
            "vip": choose([True, False]),
        }
        s.publish("", choose(["tickets.open", "tickets.stale"]), "ticket", headers=headers)
    s.drain()


def priorities(s: Stage) -> None:
    """A priority queue with a TTL: the urgent jobs are fetched, the rest expires."""
    s.exchange("jobs.dlx")
    s.queue("jobs.ready", max_priority=5, ttl_ms=250, dlx="jobs.dlx", dlrk="late")
    s.queue("jobs.crowded", max_priority=5, max_length=5, dlx="jobs.dlx", dlrk="late")
    s.queue("jobs.late", max_priority=3)
    s.bind("jobs.late", "jobs.dlx", "late")
    for number in range(s.messages):
        priority = s.random.choice([None, 0, 1, 3, 5, 9])
        s.publish("", "jobs.crowded" if number % 3 == 0 else "jobs.ready", "job", priority=priority)
    s.get("jobs.ready", ACK, times=s.messages // 5)
    s.get("jobs.ready", REJECT, times=s.messages // 8)
    s.work({"jobs.late": accept, "jobs.crowded": accept})
    s.drain()


def cycles(s: Stage) -> None:
    """Automatic cycles drop the dead letter; a rejection on the way keeps it going for some laps.

    Releases up to 3.12 drop the reject loop's message on its second lap. No loop with a rejection
    turns without its consumer, so none can spin for ever.
    """
    s.exchange("cycles.back", "fanout")
    s.queue("cycles.a", ttl_ms=50, dlx="", dlrk="cycles.b")
    s.queue("cycles.b", ttl_ms=50, dlx="cycles.back")
    s.queue("cycles.observer")
    for queue in ("cycles.a", "cycles.observer"):
        s.bind(queue, "cycles.back")
    s.queue("cycles.silent.a", ttl_ms=50, dlx="", dlrk="cycles.silent.b")
    s.queue("cycles.silent.b", ttl_ms=50, dlx="", dlrk="cycles.silent.a")
    s.queue("cycles.in", dlx="", dlrk="cycles.near")
    s.queue("cycles.near", ttl_ms=50, dlx="", dlrk="cycles.far")
    s.queue("cycles.far", ttl_ms=50, dlx="", dlrk="cycles.in")
    s.queue("cycles.self", dlx="")

    def laps(delivery: Delivery) -> Verdict:
        return REJECT if delivery.rejections() < 3 else ACK

    s.work({"cycles.in": laps, "cycles.self": laps})
    s.work({"cycles.observer": accept})
    for number in range(s.messages):
        queue = ("cycles.a", "cycles.silent.a", "cycles.in", "cycles.self")[number % 4]
        s.publish("", queue, "task")
    s.drain()


def delayed(s: Stage) -> None:
    """Queues without consumers delay reminders: by queue TTL, and by each message's own expiration."""
    s.exchange("reminders")
    s.queue("reminders.delay", ttl_ms=150, dlx="reminders", dlrk="due")
    s.queue("reminders.custom", dlx="reminders", dlrk="due")
    s.queue("reminders.both", ttl_ms=100, dlx="reminders", dlrk="due")
    if s.has("quorum-ttl"):
        s.queue("reminders.replicated", type="quorum", ttl_ms=200, dlx="reminders", dlrk="due")
    s.queue("reminders.due", dlx="", dlrk="reminders.parking")
    s.queue("reminders.parking")
    s.bind("reminders.due", "reminders", "due")
    delays = s.queues[:-2]

    s.work({"reminders.due": obey, "reminders.parking": accept})
    for number in range(s.messages):
        queue = delays[number % len(delays)]
        own = queue != "reminders.delay" and (queue == "reminders.custom" or s.random.random() < 0.5)
        expiration = str(s.random.randrange(50, 300, 10)) if own else None
        refused = s.random.choice(["no", "reject", "nack"])
        s.publish("", queue, "reminder", headers={"refused": refused}, expiration=expiration)
    s.drain()


def topics(s: Stage) -> None:
    """A topic DLX with an alternate exchange and an exchange bound to it; then an internal DLX."""
    s.exchange("logs.unrouted", "fanout")
    s.exchange("logs.pager", "fanout")
    s.exchange("logs.internal", "fanout", internal=True)
    s.exchange("logs.dlx", "topic", arguments={"alternate-exchange": "logs.unrouted"})
    s.channel.exchange_bind("logs.pager", "logs.dlx", "#.critical")
    s.queue("logs.work", dlx="logs.dlx")
    s.queue("logs.errors", dlx="logs.internal")
    for queue, source, key in (
        ("logs.errors", "logs.dlx", "error.#"),
        ("logs.database", "logs.dlx", "*.database.*"),
        ("logs.pager", "logs.pager", ""),
        ("logs.unrouted", "logs.unrouted", ""),
        ("logs.review", "logs.internal", ""),
    ):
        if queue != "logs.errors":
            s.queue(queue)
        s.bind(queue, source, key)
    s.exchange("logs", "topic")
    s.bind("logs.work", "logs", "#")

    s.work({"logs.work": refuse, "logs.errors": refuse})
    s.work(dict.fromkeys(("logs.database", "logs.pager", "logs.unrouted", "logs.review"), accept))
    keys = ["error", "error.database.slow", "info.database.slow", "error.web.critical", "debug.cache.miss"]
    for _ in range(s.messages):
        s.publish("logs", s.random.choice(keys), "entry")
    s.drain()


def policies(s: Stage) -> None:
    """DLX, key and TTL by policy; arguments override or cap them, an operator policy caps both."""
    s.policy(
        "subscriptions-late",
        r"^subscriptions\.(renewals|trials|gifts|family)$",
        priority=1,
        message_ttl=200,
        dead_letter_exchange="subscriptions.dlx",
        dead_letter_routing_key="late",
    )
    s.policy("subscriptions-default", r"^subscriptions\.", message_ttl=60_000)
    s.policy("subscriptions-cap", r"^subscriptions\.gifts$", operator=True, message_ttl=80)
    s.exchange("subscriptions.dlx")
    s.queue("subscriptions.renewals")
    s.queue("subscriptions.trials", ttl_ms=60, dlx="", dlrk="subscriptions.parking")
    s.queue("subscriptions.gifts")
    if s.has("quorum-ttl"):
        s.queue("subscriptions.family", type="quorum")
    sources = list(s.queues)
    s.queue("subscriptions.late")
    s.queue("subscriptions.parking")
    s.bind("subscriptions.late", "subscriptions.dlx", "late")

    for number in range(s.messages):
        s.publish("", sources[number % len(sources)], "subscription")
    s.get("subscriptions.renewals", REJECT, times=s.messages // 10)
    s.work({"subscriptions.late": accept, "subscriptions.parking": accept})
    s.drain()


def republish(s: Stage) -> None:
    """A consumer of dead letters publishes them again with all headers: 3.10 continues their x-death,
    4.0 begins a new one at the next death."""
    s.exchange("refunds")
    s.exchange("refunds.failed", "fanout")
    s.queue("refunds.work", dlx="refunds.failed")
    s.queue("refunds.slow", ttl_ms=70, dlx="refunds", dlrk="work")
    s.queue("refunds.failed")
    s.bind("refunds.work", "refunds", "work")
    s.bind("refunds.slow", "refunds", "slow")
    s.bind("refunds.failed", "refunds.failed")

    def work(delivery: Delivery) -> Verdict:
        return REJECT if delivery.header("republished") < delivery.header("fails") else ACK

    def again(delivery: Delivery) -> Verdict:
        times = delivery.header("republished")
        if times < 3:
            s.forward(delivery, "refunds", "slow" if times % 2 else "work", republished=times + 1)
        return ACK

    s.work({"refunds.work": work})
    s.work({"refunds.failed": again}, prefetch=3)
    for _ in range(s.messages // 2):
        s.publish("refunds", "work", "refund", headers={"republished": 0, "fails": s.random.randrange(5)})
    s.drain()


def requeues(s: Stage) -> None:
    """Deliveries returned in every way, from a classic and from a quorum queue, before they are settled."""
    s.exchange("carts.dlx", "fanout")
    s.queue("carts.work", dlx="carts.dlx")
    s.queue("carts.replicated", type="quorum", dlx="carts.dlx")
    s.queue("carts.parking")
    s.bind("carts.parking", "carts.dlx")
    returned: set[str] = set()
    returns = {
        "reject": REQUEUE,
        "nack": NACK_REQUEUE,
        "channel": CLOSE_CHANNEL,
        "connection": CLOSE_CONNECTION,
    }

    def work(delivery: Delivery) -> Verdict:
        verdict = returns.get(delivery.header("returned"))
        if verdict and delivery.properties.message_id not in returned:
            returned.add(delivery.properties.message_id)
            return verdict
        return obey(delivery)

    for number in range(s.messages):
        headers = {
            "returned": s.random.choice(["no", "reject", "nack", "nack", "channel", "connection"]),
            "refused": s.random.choice(["no", "reject", "nack"]),
        }
        s.publish("", ("carts.work", "carts.replicated")[number % 2], "cart", headers=headers)
    for queue in ("carts.work", "carts.replicated"):
        for verdict in (NACK_REQUEUE, REQUEUE, REJECT, NACK, ACK):
            s.get(queue, verdict)
    s.work({"carts.work": work, "carts.parking": accept}, prefetch=3)
    s.work({"carts.replicated": work}, prefetch=3)
    s.drain()


def stages(s: Stage) -> None:
    """Four rejections in a row: up to 3.12 x-death is not in the order of the deaths."""
    for kind in ("classic", "quorum"):
        for number in range(1, 5):
            following = f"stages.{kind}.{number + 1}" if number < 4 else "stages.parking"
            s.queue(f"stages.{kind}.{number}", type=kind, dlx="", dlrk=following)
    s.queue("stages.parking")

    def step(delivery: Delivery) -> Verdict:
        if delivery.header("passes") < int(delivery.queue[-1]):
            return ACK
        return REJECT if delivery.header("refused") == "reject" else NACK

    s.work(dict.fromkeys(s.queues[:4], step))
    s.work(dict.fromkeys(s.queues[4:8], step) | {"stages.parking": accept})
    for _ in range(s.messages // 2):
        headers = {"passes": s.random.randrange(1, 6), "refused": s.random.choice(["reject", "nack"])}
        s.publish("", s.random.choice(["stages.classic.1", "stages.quorum.1"]), "document", headers=headers)
    s.drain()


def lost(s: Stage) -> None:
    """Dead letters that vanish: a DLX that does not exist, one without bindings, none at all."""
    s.exchange("feeds.unbound")
    s.queue("feeds.missing", dlx="feeds.nowhere")
    s.queue("feeds.unbound", dlx="feeds.unbound")
    s.queue("feeds.plain", ttl_ms=80)
    s.work({"feeds.missing": refuse, "feeds.unbound": refuse})
    for number in range(s.messages):
        s.publish("", s.queues[number % 3], "feed")
    s.drain()


def anonymous(s: Stage) -> None:
    """Messages without message_id: only their content tells one from another."""
    s.queue("clicks.work", ttl_ms=150, dlx="", dlrk="clicks.retry")
    s.queue("clicks.retry", dlx="", dlrk="clicks.parking")
    s.queue("clicks.parking")
    for _ in range(s.messages):
        s.publish("", "clicks.work", "click", identified=False, headers={"refused": "reject"})
    s.get("clicks.work", REJECT, times=s.messages // 4)
    s.work({"clicks.retry": obey, "clicks.parking": accept})
    s.drain()


# Name (app_id of its messages, first word of its queues), function, reasons its deliveries must show.
SCENARIOS: list[tuple[str, Callable[[Stage], None], set[str]]] = [
    ("orders", retry_loop, {"rejected", "expired"}),
    ("payments", retry_ladder, {"rejected", "expired"}),
    ("emails", poison, {"delivery_limit", "rejected"}),
    ("events", overflow, {"maxlen"}),
    ("invoices", carbon_copies, {"rejected"}),
    ("shipments", fanout, {"rejected", "expired"}),
    ("tickets", headers_exchange, {"rejected", "expired"}),
    ("jobs", priorities, {"rejected", "expired", "maxlen"}),
    ("cycles", cycles, {"rejected", "expired"}),
    ("reminders", delayed, {"rejected", "expired"}),
    ("logs", topics, {"rejected"}),
    ("subscriptions", policies, {"rejected", "expired"}),
    ("refunds", republish, {"rejected", "expired"}),
    ("carts", requeues, {"rejected"}),
    ("stages", stages, {"rejected"}),
    ("feeds", lost, set()),
    ("clicks", anonymous, {"rejected", "expired"}),
]


# The capture


def write(path: Path, data: bytes) -> None:
    """Write beside, then rename, so that nobody reads half a file."""
    beside = path.with_name(path.name + ".partial")
    beside.write_bytes(data)
    beside.replace(path)


@contextmanager
def traced_vhost(management: Management, parameters: pika.URLParameters, vhost: str) -> Iterator[str]:
    """A fresh virtual host with tracing on; gives the trace's name and takes all away at the end."""
    trace = "".join(c if c.isalnum() else "-" for c in vhost)
    credentials = parameters.credentials
    settings = {
        "format": "json",
        "pattern": "#",
        "tracer_connection_username": credentials.username,
        "tracer_connection_password": credentials.password,
    }
    if any(entry["name"] == vhost for entry in management.get("vhosts")):
        raise Misused(f"virtual host {vhost!r} exists: delete it, or name another one with --vhost")
    management.call("PUT", "vhosts", vhost)
    try:
        rights = {"configure": ".*", "write": ".*", "read": ".*"}
        management.call("PUT", "permissions", vhost, credentials.username, body=rights)
        with suppress(Unavailable):  # the log of a run that was killed
            management.call("DELETE", "trace-files", f"{trace}.log")
        management.call("PUT", "traces", vhost, trace, body=settings)
        yield trace
    finally:
        for path in (("traces", vhost, trace), ("trace-files", f"{trace}.log"), ("vhosts", vhost)):
            with suppress(Unavailable):  # the first failure says more than its consequences
                management.call("DELETE", *path)


def wait_for_quiet(management: Management, file: str) -> None:
    """Wait until the log has kept its size for a second."""
    sizes = [-1]
    deadline = time.monotonic() + LOG_TIMEOUT_S
    while len(sizes) < 5 or len(set(sizes[-5:])) > 1:
        time.sleep(0.25)
        sizes.append(next((f["size"] for f in management.get("trace-files") if f["name"] == file), 0))
        if time.monotonic() > deadline:
            raise Unavailable(f"{file} still grows after {LOG_TIMEOUT_S} s")


def x_death(row: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Queue and reason of each entry of a row's x-death, newest first."""
    deaths = (row["properties"].get("headers") or {}).get("x-death", [])
    return tuple((death["queue"], death["reason"]) for death in deaths)


def summarize(rows: list[dict[str, Any]], published: dict[str, int]) -> list[str]:
    """Print one line per scenario; returns what the log lacks or has too much."""
    findings = []
    print(f"{'scenario':14} {'published':>9} {'received':>9} {'paths':>6}  deaths")
    for name, _, expected in SCENARIOS:
        mine = [row for row in rows if row["properties"].get("app_id") == name]
        types = Counter(row["type"] for row in mine)
        paths = {x_death(row) for row in mine if row["type"] == "received"} - {()}
        reasons = Counter(
            reason for row in mine if row["type"] == "received" for _, reason in x_death(row)[:1]
        )
        found = {reason for path in paths for _, reason in path}
        deaths = ", ".join(f"{reason} {count}" for reason, count in sorted(reasons.items())) or "-"
        print(f"{name:14} {types['published']:9} {types['received']:9} {len(paths):6}  {deaths}")
        if types["published"] != published[name]:
            findings.append(f"{name}: published {published[name]}, the log has {types['published']}")
        if found != expected:
            findings.append(f"{name}: deaths {sorted(found)}, expected {sorted(expected)}")
    types = Counter(row["type"] for row in rows)
    print(f"{'all':14} {types['published']:9} {types['received']:9}")
    return findings


def capture(arguments: argparse.Namespace) -> list[str]:
    """Run all scenarios, write the two files into ``--out``; returns findings."""
    parameters = pika.URLParameters(arguments.url)
    parameters.virtual_host = vhost = arguments.vhost
    credentials = parameters.credentials
    management = Management(arguments.management_url, credentials.username, credentials.password)
    version = management.get("overview")["rabbitmq_version"]
    release = tuple(int(part) for part in version.split("+")[0].split("-")[0].split("."))
    print(f"RabbitMQ {version}, virtual host {vhost}", file=sys.stderr)

    def play(name: str, scenario: Callable[[Stage], None]) -> tuple[str, int]:
        began = time.monotonic()
        stage = Stage(name, arguments.messages, arguments.seed, release, management, vhost, parameters)
        try:
            scenario(stage)
        finally:
            stage.close()
        print(f"  {name}: {time.monotonic() - began:.1f} s", file=sys.stderr)
        return name, stage.published

    with traced_vhost(management, parameters, vhost) as trace:
        with ThreadPoolExecutor(max_workers=4) as pool:
            published = dict(pool.map(play, *zip(*[row[:2] for row in SCENARIOS], strict=True)))
        wait_for_quiet(management, f"{trace}.log")
        management.call(
            "DELETE", "traces", vhost, trace
        )  # before the export: the trace has a queue of its own
        definitions = management.get("definitions", vhost)
        log = management.call("GET", "trace-files", f"{trace}.log")

    rows = [json.loads(line) for line in log.splitlines()]
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.gzip:
        write(arguments.out / "trace.log.gz", gzip.compress(log, mtime=0))
    else:
        write(arguments.out / "trace.log", log)
    text = json.dumps(definitions, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    write(arguments.out / "definitions.json", text.encode())
    return summarize(rows, published)


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(EXIT_USAGE, f"{self.prog}: {message}\n")


def main() -> int:
    parser = Parser(description="Record a RabbitMQ trace log of every way a message can die.")
    parser.add_argument("--url", required=True, help="amqp://user:password@host:port/")
    parser.add_argument("--management-url", required=True, help="http://host:port of the management plugin")
    parser.add_argument("--vhost", default="dlx-workload", help="created, and deleted at the end")
    parser.add_argument("--messages", type=int, default=75, help="messages per scenario, about (75)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--gzip", action="store_true", help="write trace.log.gz")
    parser.add_argument("--out", type=Path, required=True, help="directory for the two files")
    arguments = parser.parse_args()
    if arguments.messages < MESSAGES_MIN:
        parser.error(
            f"--messages {arguments.messages}: at least {MESSAGES_MIN}, or some scenarios show nothing"
        )
    try:
        findings = capture(arguments)
    except Misused as error:
        parser.error(str(error))
    except (Unavailable, pika.exceptions.AMQPError) as error:
        print(f"workload: {str(error) or repr(error)}", file=sys.stderr)
        return EXIT_UNAVAILABLE
    for finding in findings:
        print(f"workload: {finding}", file=sys.stderr)
    return EXIT_FINDINGS if findings else 0


if __name__ == "__main__":
    sys.exit(main())
