"""Random declarations, bindings and policies, right and wrong, from a seed."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from random import Random
from typing import Any

from dlx.field_values import (
    Binary,
    Float32,
    Long,
    Short,
    SignedByte,
    Timestamp,
    UnsignedByte,
    UnsignedInt,
    UnsignedShort,
)
from dlx.topology import Exchange, Queue

# Values of every AMQP type; decimals and floats are few, as a queue keeps them for long.
ANYTHING: tuple[Any, ...] = (
    True, False, None, "", "5", "x", "drop-head", "nonsense", 0, 1, -1, 5, 255, 256, 2**31, 2**40,
    315_360_000_000, 315_360_000_001, SignedByte(-5), SignedByte(7), UnsignedByte(200), Short(-3), UnsignedShort(9),
    UnsignedInt(3_000_000_000), Long(5), Long(-1), Timestamp(17), datetime(2024, 1, 2, tzinfo=UTC), Decimal("1.5"),
    1.5, 1.0, -2.0, 1e10, Float32(0.5), Binary(b"x"), Binary(b"classic"), [], [1, "x"], {}, {"a": 1}, {"k": [True]},
)  # fmt: skip
FITTING: dict[str, tuple[Any, ...]] = {
    "x-expires": (60_000, Long(60_000), 3_600_000),
    "x-message-ttl": (0, 5, Long(5), Short(5)),
    "x-dead-letter-exchange": ("", "dlx", "ä", "amq.direct"),
    "x-dead-letter-routing-key": ("", "k", "€"),
    "x-dead-letter-strategy": ("at-most-once", "at-least-once", "never"),
    "x-max-length": (0, 5, UnsignedByte(5)),
    "x-max-length-bytes": (0, 5000, 2**40),
    "x-max-in-memory-length": (1,),
    "x-max-in-memory-bytes": (1,),
    "x-max-priority": (1, 5, 10),
    "x-overflow": ("drop-head", "reject-publish", "reject-publish-dlx", "drop"),
    "x-queue-mode": ("default", "lazy", "busy"),
    "x-queue-version": (1, 2, 3),
    "x-single-active-consumer": (True, False),
    "x-consumer-timeout": (60_000,),
    "x-consumer-disconnected-timeout": (60_000,),
    "x-quorum-initial-group-size": (1,),
    "x-max-age": ("1h", "5D", "120h", "0s", "1", "1w", "12M"),
    "x-stream-max-segment-size-bytes": (500_000, 3_000_000_000, Long(3_000_000_001)),
    "x-stream-filter-size-bytes": (16, 255, 15, 256),
    "x-initial-cluster-size": (1,),
    "x-queue-leader-locator": ("client-local", "balanced", "random", "least-leaders", "min-masters", "here"),
    "x-queue-master-locator": ("min-masters", "client-local", "random", "balanced", "nope"),
    "x-delivery-limit": (5, 0, -1),
    "x-delayed-retry-type": ("all", "failed"),
    "x-delayed-retry-min": (100,),
    "x-delayed-retry-max": (1000,),
    "x-unheard-of": (1, "x"),
}
# A server is not asked what it does not check, and what then crashes the queue's process.
UNCHECKED = {"x-delivery-limit", "x-delayed-retry-type", "x-delayed-retry-min", "x-delayed-retry-max"}
SHORT_LIVES = (1, 5, 7, 9, 200, 255, 256)  # a queue must not be gone when it is looked at again
QUEUE_TYPES = ("classic", "quorum", "stream")
ODD_QUEUE_TYPES = ("", "undefined", "Quorum", "mqtt", "direct", 5, True, None, Binary(b"quorum"))
CONSUMER_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "x-priority": (0, 5, -5, Short(1)),
    "x-cancel-on-ha-failover": (True, False),
    "x-consumer-timeout": (60_000, 0),
    "x-stream-offset": ("first", "last", "next", "1h", "5", "soon", "", 0, 100, Timestamp(17), Binary(b"first")),
    "x-unheard-of": (1,),
}
EXCHANGE_TYPES = ("direct", "fanout", "topic", "headers", "x-local-random", "x-modulus-hash", "x-unheard-of", "", "x")
POLICY_VALUES: tuple[Any, ...] = (
    0, 1, 5, -1, 16, 1000, 3_000_000_001, 1.5, 1e10, True, False, None, "", "x", "all", "lazy", "default",
    "drop-head", "reject-publish", "at-least-once", "1h", "0s", "1w", "exactly", "nodes", "always", "automatic",
    "min-masters", "client-local", "balanced", "failed", [], [1, 2], ["a"], [104, 105], {}, {"a": 1, "b": [None]},
)  # fmt: skip
POLICY_KEYS = (
    "alternate-exchange", "consumer-timeout", "consumer-disconnected-timeout", "dead-letter-exchange",
    "dead-letter-routing-key", "dead-letter-strategy", "message-ttl", "expires", "max-length", "max-length-bytes",
    "max-in-memory-length", "max-in-memory-bytes", "queue-mode", "queue-version", "overflow", "delivery-limit",
    "max-age", "queue-leader-locator", "initial-cluster-size", "stream-max-segment-size-bytes",
    "stream-filter-size-bytes", "target-group-size", "delayed-retry-type", "delayed-retry-min", "delayed-retry-max",
    "queue-master-locator", "ha-mode", "ha-params", "ha-sync-mode", "ha-sync-batch-size", "ha-promote-on-shutdown",
    "ha-promote-on-failure", "federation-upstream-set", "max-priority", "foo", "a-key-that-nobody-has-heard-of",
)  # fmt: skip
PATTERNS = (".*", "", "^q", "(", "a)", "[", "x[z-a]", "*", "a**", "\\", "ä(", "(?", "(?z)", "\\1", "x" * 1025)
APPLY_TO = ("all", "queues", "exchanges", "classic_queues", "quorum_queues", "streams", "nothing", "")


def queue(random: Random) -> dict[str, Any]:
    """The fields of a queue.declare, but for its name."""
    kind = random.choice(QUEUE_TYPES)
    plain = random.random() < 0.6
    arguments = {} if kind == "classic" and random.random() < 0.6 else {"x-queue-type": kind}
    if random.random() < 0.08:
        arguments = {"x-queue-type": random.choice(ODD_QUEUE_TYPES)}
    for key in random.sample(sorted(FITTING), k=random.choice((0, 1, 1, 1, 2, 3))):
        wrong = random.random() < 0.35 and key not in UNCHECKED
        arguments[key] = random.choice(ANYTHING if wrong else FITTING[key])
    if arguments.get("x-expires") in SHORT_LIVES:
        arguments["x-expires"] = 60_000
    keys = list(arguments)
    random.shuffle(keys)
    return {
        "durable": plain or random.random() < 0.5,
        "auto_delete": not plain and random.random() < 0.3,
        "exclusive": not plain and random.random() < 0.3,
        "arguments": {key: arguments[key] for key in keys},
    }


def queue_again(random: Random, existing: Queue) -> dict[str, Any]:
    """Much the same declaration as that of a queue that exists."""
    arguments = dict(existing.arguments)
    change = random.random()
    if change < 0.3 and arguments:
        del arguments[random.choice(sorted(arguments))]
    elif change < 0.6:
        key = random.choice(sorted(FITTING))
        arguments[key] = random.choice(FITTING[key])
    elif change < 0.8 and arguments:
        key = random.choice(sorted(arguments))
        arguments[key] = random.choice((*ANYTHING, *FITTING.get(key, ())))
    return {
        "durable": existing.durable != (random.random() < 0.15),
        "auto_delete": existing.auto_delete != (random.random() < 0.15),
        "exclusive": existing.exclusive != (random.random() < 0.1),
        "arguments": arguments,
    }


def exchange(random: Random) -> dict[str, Any]:
    """The fields of an exchange.declare, but for its name."""
    arguments: dict[str, Any] = {}
    if random.random() < 0.5:
        arguments["alternate-exchange"] = random.choice(("", "ae", "ä", *ANYTHING))
    if random.random() < 0.2:
        arguments["x-unheard-of"] = random.choice(ANYTHING)
    return {
        "type": random.choice(EXCHANGE_TYPES),
        "durable": random.random() < 0.5,
        "auto_delete": random.random() < 0.3,
        "internal": random.random() < 0.2,
        "arguments": arguments,
    }


def exchange_again(random: Random, existing: Exchange) -> dict[str, Any]:
    """Much the same declaration as that of an exchange that exists."""
    fields = exchange(random)
    return {
        "type": fields["type"] if random.random() < 0.3 else existing.type,
        "durable": existing.durable != (random.random() < 0.2),
        "auto_delete": existing.auto_delete != (random.random() < 0.2),
        "internal": existing.internal != (random.random() < 0.2),
        "arguments": fields["arguments"] if random.random() < 0.4 else existing.arguments,
    }


def binding(random: Random) -> dict[str, Any]:
    """A routing key and arguments."""
    match = ("all", "any", "all-with-x", "any-with-x", "some", "", *ANYTHING)
    arguments = {"x-match": random.choice(match)} if random.random() < 0.6 else {}
    words = random.choices(("#", "*", "a", "", "ä", "##"), k=random.choice((0, 1, 3, 5)))
    return {"routing_key": ".".join(words), "arguments": arguments}


def consumer(random: Random) -> dict[str, Any]:
    """The arguments of a consumer."""
    keys = random.sample(sorted(CONSUMER_ARGUMENTS), k=random.choice((1, 1, 2)))
    return {key: random.choice((*CONSUMER_ARGUMENTS[key], *ANYTHING)) for key in keys}


def policy(random: Random) -> dict[str, Any]:
    """The fields of a policy, but for its name."""
    keys = random.sample(POLICY_KEYS, k=random.choice((0, 1, 1, 1, 1, 2, 2, 3, 5)))
    definition = {key: _policy_value(random, key) for key in keys}
    if isinstance(definition.get("queue-master-locator"), float | list | dict):
        del definition["queue-master-locator"]  # 3.8 and 3.10 never answer
    return {
        "pattern": random.choice(PATTERNS) if random.random() < 0.3 else "^never$",
        "definition": definition,
        "apply-to": random.choice(APPLY_TO) if random.random() < 0.3 else "queues",
        "priority": random.choice((0, 5, -1, 1.5)),
    }


def _policy_value(random: Random, key: str) -> Any:
    """A management API prints ASCII; from 4.0 it fails to print more."""
    fitting = [value for value in FITTING.get(f"x-{key}", ()) if type(value) in (int, str) and str(value).isascii()]
    return random.choice(fitting if fitting and random.random() < 0.6 else POLICY_VALUES)
