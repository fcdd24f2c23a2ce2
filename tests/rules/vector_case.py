"""The steps of a recorded vector, done by the pure rules.

What the rules do not have, and a broker will, is here as little as the vectors
need: which copies are in which queue, and whether a full queue takes one more.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

import msgspec

from dlx.dead_lettering import dead_letter
from dlx.death_headers import QueueCrashError
from dlx.delivery_counts import (
    Counts,
    Return,
    carried,
    count_headers,
    entering,
    limit_exceeded,
    returned,
)
from dlx.delivery_headers import delivered_headers
from dlx.field_values import Long
from dlx.message import Message, published
from dlx.possible_deaths import why_impossible
from dlx.releases import Release
from dlx.routing import route
from dlx.settings import REJECT_PUBLISH, Settings, effective_settings
from dlx.topology import CLASSIC, QUORUM, STREAM, Binding, Exchange, Policy, Queue, Topology

LIMIT_TRIES = 30
RETURNS: dict[str, Return] = {"reject": "reject", "nack": "nack", "close": "lost channel"}

FINAL: dict[str, Return] = {"reject": "final reject", "nack": "final nack"}


def plain(field: dict[str, Any]) -> Any:
    """The Python value of a typed field: ``{"S": "x"}`` -> ``"x"``."""
    ((tag, value),) = field.items()
    match tag:
        case "l":
            return Long(value)
        case "T":
            return datetime.fromtimestamp(value, UTC)
        case "A":
            return [plain(item) for item in value]
        case "F":
            return plain_table(value)
        case "x":
            return base64.b64decode(value)
    return value


def plain_table(table: dict[str, Any]) -> dict[str, Any]:
    """The Python values of a table of typed fields."""
    return {name: plain(field) for name, field in table.items()}


def topology_of(definitions: dict[str, list[dict[str, Any]]]) -> Topology:
    """The topology of a vector's definitions."""
    return Topology.of(
        exchanges=[Exchange(**exchange) for exchange in definitions.get("exchanges", ())],
        queues=[Queue(**queue) for queue in definitions.get("queues", ())],
        bindings=[binding_of(binding) for binding in definitions.get("bindings", ())],
        policies=[policy_of(policy) for policy in definitions.get("policies", ())],
        operator_policies=[policy_of(policy) for policy in definitions.get("operator_policies", ())],
    )


def binding_of(binding: dict[str, Any]) -> Binding:
    """A binding; its arguments are typed fields."""
    return Binding(**{**binding, "arguments": plain_table(binding["arguments"])})


def policy_of(policy: dict[str, Any]) -> Policy:
    """A policy; ``apply-to`` is written as in definitions.json."""
    return Policy(**{key.replace("-", "_"): value for key, value in policy.items()})


def message_of(publish: dict[str, Any], release: Release) -> Message:
    """The message of a publish; raises ``PublishRefusedError``."""
    properties = dict(publish.get("properties", {}))
    return published(
        publish["exchange"],
        publish["routing_key"],
        headers=plain_table(publish["headers"]) if "headers" in publish else None,
        expiration=properties.pop("expiration", None),
        properties=properties,
        release=release,
    )


class Copy(msgspec.Struct):
    """A copy in a queue, with how often it was returned there."""

    message: Message
    counts: Counts
    delivered: bool = False


class LetterCase:
    """The queues of one vector."""

    def __init__(self, definitions: dict[str, list[dict[str, Any]]], release: Release) -> None:
        self._release = release
        self._definitions = {what: list(parts) for what, parts in definitions.items()}
        self._queues: dict[str, list[Copy]] = defaultdict(list)
        self._fillers: dict[str, int] = defaultdict(int)

    @property
    def _topology(self) -> Topology:
        return topology_of(self._definitions)

    def do(self, step: dict[str, Any]) -> None:
        """One step of the vector."""
        getattr(self, f"_{step['do']}")(step)

    def copies(self) -> dict[str, list[dict[str, Any]]]:
        """What basic.get shows of each queue that holds a copy; a stream is consumed."""
        return {
            name: [self._delivery(name, copy) for copy in copies] for name, copies in self._queues.items() if copies
        }

    def is_stream(self, queue: str) -> bool:
        """Whether the queue is a stream, whose properties are not a rule's matter."""
        return self._topology.queues[queue].type == STREAM

    def _delivery(self, name: str, copy: Copy) -> dict[str, Any]:
        message, kind = copy.message, self._topology.queues[name].type
        added = {"x-stream-offset": Long(0)} if kind == STREAM else {}
        if kind == QUORUM:
            added = count_headers(copy.counts, self._release, first_get=not copy.delivered)
        properties = dict(message.properties)
        if message.expiration is not None:
            properties["expiration"] = message.expiration
        return {
            "exchange": message.exchange,
            "routing_key": message.routing_key,
            "redelivered": self._redelivered(copy, kind),
            "properties": properties,
            "headers": delivered_headers(message, self._release, added),
        }

    def _redelivered(self, copy: Copy, kind: str) -> bool:
        """A classic queue knows of a count that was carried into it only where it carries counts itself."""
        known = kind == QUORUM or self._release.delivery_count_carried == "from all queues"
        return bool(copy.counts.acquired or (known and copy.counts.delivery))

    # -- steps ------------------------------------------------------------

    def _publish(self, step: dict[str, Any]) -> None:
        self._route(message_of(step, self._release))

    def _route(self, message: Message) -> None:
        for queue in route(message, self._topology, self._release):
            self._enqueue(queue, message)

    def _enqueue(self, queue: str, message: Message) -> None:
        settings = self._settings(queue)
        length = len(self._queues[queue]) + self._fillers[queue]
        full = settings.max_length is not None and length >= settings.max_length
        if full and settings.overflow == REJECT_PUBLISH and settings.queue.type == CLASSIC:
            return
        self._queues[queue].append(Copy(message, entering(message, self._release)))

    def _die(self, step: dict[str, Any]) -> None:
        queue, reason = step["queue"], step["reason"]
        if not self._queues[queue]:
            return  # it went another way before, and the server was asked in vain too
        copy = self._queues[queue].pop()
        if reason == "delivery_limit":
            for _ in range(LIMIT_TRIES):
                if self._give_back(queue, copy, "reject"):
                    return
            self._queues[queue].append(copy)
            return
        if reason == "rejected":
            copy.counts = returned(copy.counts, FINAL[step["by"]], self._release)
        self._dead_letter(queue, copy, reason)

    def _dead_letter(self, queue: str, copy: Copy, reason: str) -> None:
        settings, release = self._settings(queue), self._release
        has_expiration = copy.message.expiration is not None
        assert why_impossible(reason, settings, release, has_expiration=has_expiration) is None
        count = carried(copy.counts, settings.queue.type, release)
        message = msgspec.structs.replace(copy.message, delivery_count=count)
        try:
            letter = dead_letter(message, reason, settings, self._topology, release)
        except QueueCrashError:
            if message.properties.get("delivery_mode") == 2:  # it comes back with its queue
                copy.counts = Counts(acquired=1)
                self._queues[queue].append(copy)
            return
        for target in letter.queues:
            assert letter.message is not None
            self._enqueue(target, letter.message)

    def _return(self, step: dict[str, Any]) -> None:
        for _ in range(step["times"]):
            if not self._queues[step["queue"]]:
                return
            copy = self._queues[step["queue"]].pop()
            if not self._give_back(step["queue"], copy, RETURNS[step["by"]]):
                self._queues[step["queue"]].append(copy)

    def _give_back(self, queue: str, copy: Copy, how: Return) -> bool:
        """Count a return; whether it was one too many."""
        settings = self._settings(queue)
        copy.counts, copy.delivered = returned(copy.counts, how, self._release), True
        if settings.queue.type != QUORUM or not limit_exceeded(copy.counts, settings.delivery_limit, self._release):
            return False
        self._dead_letter(queue, copy, "delivery_limit")
        return True

    def _fill(self, step: dict[str, Any]) -> None:
        self._fillers[step["queue"]] += step["count"]

    def _republish(self, step: dict[str, Any]) -> None:
        if not self._queues[step["queue"]]:
            return
        got = self._delivery(step["queue"], self._queues[step["queue"]].pop())
        headers = {k: v for k, v in (got["headers"] or {}).items() if k not in step["without"]}
        expiration = got["properties"].pop("expiration", None)
        message = published(
            step["exchange"],
            step["routing_key"],
            headers=headers or None,
            properties=got["properties"],
            expiration=expiration,
            release=self._release,
        )
        self._route(message)

    def _declare(self, step: dict[str, Any]) -> None:
        self._definitions.setdefault(step["what"], []).append(step["definition"])

    def _delete_exchange(self, step: dict[str, Any]) -> None:
        name = step["exchange"]
        self._definitions["exchanges"] = [e for e in self._definitions["exchanges"] if e["name"] != name]

    def _settings(self, queue: str) -> Settings:
        topology = self._topology
        return effective_settings(topology.queues[queue], topology, self._release)
