"""A random topology: drawn from a seed, then declared on a server.

Drawing knows nothing of what a release refuses. Declaring leaves out what the server
refuses (an argument, a policy, a binding), so that the same seed serves every release.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any
from urllib.parse import quote

import pika
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

from simulator.testing.brokers.servers import ManagementError
from tests.live.servers import LiveServer

QUEUE_NAMES = [
    "a", "a.b", "b.c", "wait", "wait.1", "orders", "orders.dead", "q ü", "x/y", "s", "parking",
    "A", "#", "a.b.c",
]  # fmt: skip
EXCHANGE_NAMES = ["dlx", "dlx.1", "e", "e.topic", "ex ö", "h", "alt", "inner", "amq.fanout", "amq.match"]
MISSING = "missing"
WORDS = ["a", "b", "c", "wait", "1", "orders", "dead", ""]
PATTERN_WORDS = [*WORDS, "*", "#", "*", "#"]
NAMED_TYPES = {"amq.fanout": "fanout", "amq.match": "headers"}
HEADER_VALUES: list[Any] = [
    "red", "1", 1, 1.0, 2.5, True, None, b"red", ["red", 1], {"in": "red"},
    datetime(2024, 5, 1, tzinfo=UTC), 2**40,
]  # fmt: skip
HEADER_NAMES = ["color", "n", "x-kind", "flag"]
DEATH_HEADERS: dict[str, list[Any]] = {
    "x-first-death-reason": ["rejected", "expired", "maxlen", "delivery_limit"],
    "x-first-death-queue": QUEUE_NAMES,
    "x-last-death-reason": ["rejected", "expired", "maxlen"],
    "x-death": [None],
    "x-delivery-count": [1, None],
}
LIMITS: dict[str, list[Any]] = {
    "message-ttl": [0, 20, 40, 80, 150],
    "max-length": [0, 1, 2, 5],
    "max-length-bytes": [20, 100, 400],
    "overflow": ["drop-head", "reject-publish", "reject-publish-dlx"],
    "delivery-limit": [-1, 0, 1, 2, 5],
}
MATCHES: list[str | None] = [None, "all", "any", "all-with-x", "any-with-x"]


@dataclass
class Declared:
    """One queue, exchange or binding as it is to be declared."""

    name: str
    kind: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    internal: bool = False


@dataclass
class Bound:
    source: str
    destination: str
    to_exchange: bool
    key: str
    arguments: dict[str, Any]


@dataclass
class Plan:
    """What a seed drew. ``policies``: (operator policy?, name, body of the request)."""

    exchanges: list[Declared]
    queues: list[Declared]
    bindings: list[Bound]
    policies: list[tuple[bool, str, dict[str, Any]]]


def draw(rng: Random) -> Plan:
    """A topology of 3 to 12 queues."""
    queues = rng.sample(QUEUE_NAMES, rng.randint(3, 12))
    names = rng.sample(EXCHANGE_NAMES, rng.randint(2, 7))
    exchanges = [_exchange(rng, name, names) for name in names]
    internal = {each.name for each in exchanges if each.internal}
    targets = [*names, "", "", MISSING]
    return Plan(
        exchanges,
        [_queue(rng, name, queues, targets) for name in queues],
        _bindings(rng, exchanges, queues, internal),
        _policies(rng, queues, targets, bool(internal)),
    )


def without_automatic_deaths(plan: Plan) -> None:
    """Take TTLs and length limits out of a plan, so that messages die only where a consumer rejects them."""
    automatic = ("message-ttl", "max-length", "max-length-bytes")
    for queue in plan.queues:
        for name in automatic:
            queue.arguments.pop(f"x-{name}", None)
    for _, _, body in plan.policies:
        for name in automatic:
            body["definition"].pop(name, None)
    plan.policies[:] = [policy for policy in plan.policies if policy[2]["definition"]]


def key(rng: Random, queues: list[str]) -> str:
    """A routing key: often a queue's name, else words."""
    if rng.random() < 0.7:
        return rng.choice(queues)
    return ".".join(rng.choices(WORDS, k=rng.randint(1, 3)))


def _exchange(rng: Random, name: str, names: list[str]) -> Declared:
    kind = NAMED_TYPES.get(name) or rng.choice(["direct", "fanout", "topic", "headers"])
    arguments: dict[str, Any] = {}
    internal = name not in NAMED_TYPES and rng.random() < 0.15
    # 4.3 exports no internal exchanges, so nothing tells a replay that one has an alternate exchange.
    if not internal and rng.random() < 0.25:
        arguments["alternate-exchange"] = rng.choice([*names, MISSING])
    return Declared(name, kind, arguments, internal)


def _queue(rng: Random, name: str, queues: list[str], targets: list[str]) -> Declared:
    kind = rng.choices(["classic", "quorum", "stream"], [6, 4, 1])[0]
    arguments: dict[str, Any] = {}
    if kind != "classic" or rng.random() < 0.3:
        arguments["x-queue-type"] = kind
    if kind != "stream":
        arguments |= _dead_lettering(rng, "x-", queues, targets, 0.75)
        arguments |= _limits(rng, "x-", 0.35)
    if kind == "classic":
        arguments |= _some(rng, {"x-max-priority": rng.choice([1, 5, 10])}, 0.15)
        arguments |= _some(rng, {"x-single-active-consumer": True}, 0.1)
    if kind == "quorum" and rng.random() < 0.3:
        arguments |= {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
    return Declared(name, kind, arguments)


def _dead_lettering(rng: Random, prefix: str, queues: list[str], targets: list[str], share: float) -> dict[str, Any]:
    if rng.random() > share:
        return {}
    found: dict[str, Any] = {f"{prefix}dead-letter-exchange": rng.choice(targets)}
    return found | _some(rng, {f"{prefix}dead-letter-routing-key": key(rng, queues)}, 0.5)


def _limits(rng: Random, prefix: str, share: float) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, values in LIMITS.items():
        value = rng.choice(values)
        found |= _some(rng, {prefix + name: value}, share * (0.4 if name.startswith("max") else 1))
    return found


def _some(rng: Random, what: dict[str, Any], share: float) -> dict[str, Any]:
    return what if rng.random() < share else {}


def _bindings(rng: Random, exchanges: list[Declared], queues: list[str], internal: set[str]) -> list[Bound]:
    bindings = []
    for exchange in exchanges:
        for _ in range(rng.choice([0, 1, 2, 3, 4, 6])):
            to_exchange = rng.random() < (0.5 if internal else 0.2)
            others = [each.name for each in exchanges if each is not exchange] if to_exchange else queues
            if others:
                bound_key, arguments = _condition(rng, exchange.kind, queues)
                bindings.append(Bound(exchange.name, rng.choice(others), to_exchange, bound_key, arguments))
    return bindings


def _condition(rng: Random, kind: str, queues: list[str]) -> tuple[str, dict[str, Any]]:
    if kind == "topic":
        return ".".join(rng.choices(PATTERN_WORDS, k=rng.randint(1, 4))), {}
    if kind != "headers":
        return key(rng, queues), {}
    arguments: dict[str, Any] = {}
    match = rng.choice(MATCHES)
    if match is not None:
        arguments["x-match"] = match
    for name in rng.sample(HEADER_NAMES, rng.randint(0, 2)):
        arguments[name] = rng.choice(HEADER_VALUES)
    if rng.random() < 0.4:
        name = rng.choice(list(DEATH_HEADERS))
        arguments[name] = rng.choice(DEATH_HEADERS[name])
    return key(rng, queues), arguments


def _policies(
    rng: Random, queues: list[str], targets: list[str], internal: bool
) -> list[tuple[bool, str, dict[str, Any]]]:
    """Policies of different priorities: between equal ones RabbitMQ's choice is not defined."""
    found = []
    priorities = rng.sample(range(-5, 20), 8)
    for number in range(rng.choice([0, 1, 2, 3, 4])):
        operator = rng.random() < 0.3
        definition = _limits(rng, "", 0.3) | ({} if operator else _dead_lettering(rng, "", queues, targets, 0.6))
        if not operator:
            definition |= _some(rng, {"alternate-exchange": rng.choice(targets)}, 0.15 * (not internal))
            definition |= _some(rng, {"dead-letter-strategy": "at-least-once"}, 0.15)
            definition |= _some(rng, {"max-age": "1h"}, 0.08)
        apply_to = ["all", "queues", "queues", "exchanges", "classic_queues", "quorum_queues", "streams"]
        body = {
            "pattern": rng.choice(["", ".*", "^a", "^(wait|orders)", r"\.", "[a-c]$", "^q ", "e", "(?i)^A$"]),
            "definition": definition,
            "apply-to": rng.choice(apply_to[:3] + apply_to[4:] if operator else apply_to),
            "priority": priorities[number],
        }
        if definition:
            found.append((operator, f"p{number}", body))
    return found


class ServerFault(Exception):
    """The server could not make a queue (541, or its leader is missing): the round says nothing."""


def declare(plan: Plan, server: LiveServer, vhost: str) -> dict[str, str]:
    """Declare what the server takes of a plan; gives the type of each queue that there is.

    Raises ``ServerFault``: now and then a quorum queue with at-least-once does not come up.
    """
    for operator, name, body in plan.policies:
        section = "operator-policies" if operator else "policies"
        with suppress(ManagementError):
            server.api("PUT", f"{section}/{quote(vhost, safe='')}/{name}", body)
    declarer = _Declarer(server.vhost_url(vhost))
    for exchange in plan.exchanges:
        if not exchange.name.startswith("amq."):
            declarer.exchange(exchange)
    kinds = {queue.name: declarer.queue(queue) for queue in plan.queues}
    for binding in plan.bindings:
        declarer.bind(binding)
    declarer.close()
    # RabbitMQ 3.8 gives a queue that is being declared any policy, whatever its type supports, and looks
    # at the type once a policy of the virtual host changes. Definitions do not tell; have it look now.
    nobodys = {"pattern": "^$", "definition": {"max-length": 9}}
    server.api("PUT", f"policies/{quote(vhost, safe='')}/settle", nobodys)
    return kinds


class _Declarer:
    """A channel that survives refusals."""

    def __init__(self, url: str) -> None:
        self._connection = pika.BlockingConnection(pika.URLParameters(url))
        self._channel: Any = self._connection.channel()

    def close(self) -> None:
        self._connection.close()

    def _tried(self, method: str, *positional: Any, **named: Any) -> bool:
        try:
            getattr(self._channel, method)(*positional, **named)
        except ChannelClosedByBroker:
            self._channel = self._connection.channel()
            return False
        except ConnectionClosedByBroker as error:
            raise ServerFault(f"{method} {positional}: {error}") from error
        return True

    def exchange(self, exchange: Declared) -> None:
        self._tried(
            "exchange_declare",
            exchange.name,
            exchange.kind,
            durable=True,
            internal=exchange.internal,
            arguments=exchange.arguments,
        )

    def queue(self, queue: Declared) -> str:
        """Declare with all arguments, else with those that the server takes one by one."""
        if self._tried("queue_declare", queue.name, durable=True, arguments=queue.arguments):
            return queue.kind
        kind = {name: value for name, value in queue.arguments.items() if name == "x-queue-type"}
        if not self._tried("queue_declare", "probe", durable=True, arguments=kind):
            kind = {}  # no streams before 3.9
        self._channel.queue_delete("probe")
        kept = dict(kind)
        for name, value in queue.arguments.items():
            tried = {**kept, name: value}
            if name != "x-queue-type" and self._tried("queue_declare", "probe", durable=True, arguments=tried):
                kept = tried
                self._channel.queue_delete("probe")
        self._channel.queue_declare(queue.name, durable=True, arguments=kept)
        return str(kept.get("x-queue-type", "classic"))

    def bind(self, binding: Bound) -> None:
        if binding.to_exchange:
            where: tuple[Any, ...] = (binding.destination, binding.source, binding.key)
            self._tried("exchange_bind", *where, arguments=binding.arguments)
        else:
            where = (binding.destination, binding.source, binding.key)
            self._tried("queue_bind", *where, arguments=binding.arguments)
