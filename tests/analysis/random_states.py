"""Random states that clients and operators bring a server into, with clients that are still there."""

from __future__ import annotations

import contextlib
from random import Random
from typing import Any
from urllib.parse import quote

import pika
from pika.exceptions import ChannelClosedByBroker

Api = Any
"""``api(method, path, body)`` of a broker under test."""

_KEYS = ("a.b", "a.#", "#", "*.b", "a", "", "#.a.#", "#.a.#.b.#")
_TYPES = ("direct", "topic", "fanout", "headers")


class RandomState:
    """Brings one virtual host into a random state, step by step; a server may refuse steps. Close the connection."""

    def __init__(self, seed: int, amqp_url: str, api: Api, vhost: str) -> None:
        self._random, self._api, self._vhost = Random(seed), api, quote(vhost, safe="")
        parameters = pika.URLParameters(amqp_url)
        parameters.heartbeat = 0
        self.connection = pika.BlockingConnection(parameters)
        self._channel = self.connection.channel()
        self._queues, self._exchanges = ["work"], ["amq.topic", "amq.direct", "amq.fanout", "amq.headers"]
        self._declare("work", durable=True, arguments={"x-message-ttl": 60_000, "x-dead-letter-exchange": "e0"})

    def make(self, steps: int = 14) -> None:
        """Take the steps, and then set limits."""
        actions = [self._queue, self._queue, self._exchange, self._bind, self._bind, self._bind, self._policy]
        for _ in range(steps):
            with contextlib.suppress(ChannelClosedByBroker):
                self._random.choice(actions)()
            if self._channel.is_closed:
                self._channel = self.connection.channel()
        for limit, value in (("max-queues", 1), ("max-connections", 0)):
            if self._random.random() < 0.5:
                self._api("PUT", f"vhost-limits/{self._vhost}/{limit}", {"value": value})

    def undo_limits(self) -> None:
        """Take the limits away again, so that others come into the virtual host."""
        for limit in ("max-queues", "max-connections"):
            self._api("DELETE", f"vhost-limits/{self._vhost}/{limit}")

    def _declare(self, name: str, **how: Any) -> None:
        declared: str = self._channel.queue_declare(name, **how).method.queue
        self._queues.append(declared)

    def _arguments(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self._random.random() < 0.6:
            found["x-dead-letter-exchange"] = self._random.choice(["", "e0", "e1", *self._exchanges])
        if self._random.random() < 0.4:
            found["x-dead-letter-routing-key"] = self._random.choice([*_KEYS, *self._queues])
        if self._random.random() < 0.4:
            found["x-message-ttl"] = 1_000
        return found

    def _queue(self) -> None:
        kind = self._random.choice(["named", "generated", "exclusive", "durable exclusive", "auto-delete", "quorum"])
        name = "" if kind == "generated" or self._random.random() < 0.3 else f"q{self._random.randrange(5)}"
        arguments = self._arguments()
        if kind == "quorum":
            name, arguments["x-queue-type"] = name or "q9", "quorum"
        self._declare(
            name,
            durable=kind in ("named", "quorum", "durable exclusive", "auto-delete") or self._random.random() < 0.2,
            exclusive="exclusive" in kind or kind == "generated",
            auto_delete=kind == "auto-delete",
            arguments=arguments,
        )

    def _exchange(self) -> None:
        name = f"e{self._random.randrange(4)}"
        internal = self._random.random() < 0.3
        self._channel.exchange_declare(name, self._random.choice(_TYPES), durable=True, internal=internal)
        self._exchanges.append(name)

    def _bind(self) -> None:
        source, key = self._random.choice(self._exchanges), self._random.choice(_KEYS)
        arguments = {"x-match": "any", "region": "eu"} if self._random.random() < 0.3 else {}
        if self._random.random() < 0.2:
            self._channel.exchange_bind(self._random.choice(self._exchanges), source, key, arguments)
        else:
            self._channel.queue_bind(self._random.choice(self._queues), source, key, arguments)

    def _policy(self) -> None:
        definition = self._random.choice([{"message-ttl": 500}, {"max-length": 5}, {"dead-letter-exchange": "e0"}])
        pattern = self._random.choice(["^q", "^amq\\.gen", ".*", "^work$"])
        policy = {"pattern": pattern, "definition": definition, "apply-to": "queues"}
        self._api("PUT", f"policies/{self._vhost}/p{self._random.randrange(3)}", policy)
