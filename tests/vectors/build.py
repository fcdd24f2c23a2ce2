"""The form of a case, and short words to write one.

A case is written as its name, its rule, where RabbitMQ says so, and then its
parts in order: what is declared (``queue``, ``exchange``, ``bind``,
``policy``) and what happens (``publish``, ``rejected``, ``expired``, ...).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tests.vectors import amqp

DEFINED = ("exchanges", "queues", "bindings", "policies", "operator_policies")


class Case(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One case. ``kind`` says which of the last fields it has; see README.md for every form."""

    name: str
    rule: str
    source: str
    kind: str
    releases: list[str] = []  # where it applies only to some
    definitions: dict[str, list[dict[str, Any]]] = {}
    policies_last: bool = False  # settings: set policies when the queues are there already
    steps: list[dict[str, Any]] = []  # letters
    publishes: list[dict[str, Any]] = []  # routing, publish
    probes: list[dict[str, Any]] = []  # effective
    attempts: list[dict[str, Any]] = []  # validation


class Part(msgspec.Struct):
    """A piece of a case: a definition of some ``kind``, or a ``step`` or ``probe``."""

    kind: str
    content: dict[str, Any]


def queue(
    name: str,
    *,
    type: Any = "classic",
    dlx: Any = None,
    dlrk: Any = None,
    ttl: Any = None,
    length: Any = None,
    overflow: Any = None,
    limit: Any = None,
    durable: Any = True,
    auto_delete: Any = False,
    **arguments: Any,
) -> Part:
    """A queue; other arguments by their name without ``x-`` and with ``_`` for ``-``."""
    given = {
        "x-queue-type": None if type == "classic" else type,
        "x-dead-letter-exchange": dlx,
        "x-dead-letter-routing-key": dlrk,
        "x-message-ttl": ttl,
        "x-max-length": length,
        "x-overflow": overflow,
        "x-delivery-limit": limit,
    } | {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    arguments = {name: value for name, value in given.items() if value is not None}
    return Part(
        "queues",
        {"name": name, "type": type, "durable": durable, "auto_delete": auto_delete, "arguments": arguments},
    )


def quorum(name: str, **given: Any) -> Part:
    """A quorum queue."""
    return queue(name, type="quorum", **given)


def exchange(name: str, type: str = "fanout", *, internal: bool = False, ae: str | None = None) -> Part:
    """An exchange; ``ae`` is its alternate exchange."""
    arguments = {} if ae is None else {"alternate-exchange": ae}
    return Part(
        "exchanges",
        {"name": name, "type": type, "durable": True, "internal": internal, "arguments": arguments},
    )


def bind(source: str, destination: str, key: str = "", arguments: dict[str, Any] | None = None) -> Part:
    """A binding to a queue."""
    return _binding(source, destination, "queue", key, arguments)


def bind_exchange(source: str, destination: str, key: str = "", arguments: dict[str, Any] | None = None) -> Part:
    """A binding to an exchange."""
    return _binding(source, destination, "exchange", key, arguments)


def _binding(source: str, destination: str, to: str, key: str, arguments: dict[str, Any] | None) -> Part:
    typed = amqp.table_to_json(amqp.table(arguments or {}))
    content = {"source": source, "destination": destination, "destination_type": to, "routing_key": key}
    return Part("bindings", content | {"arguments": typed})


def policy(name: str, pattern: str, definition: dict[str, Any], priority: int = 0, apply_to: str = "all") -> Part:
    """A user policy."""
    content = {"name": name, "pattern": pattern, "definition": definition}
    return Part("policies", content | {"priority": priority, "apply-to": apply_to})


def operator_policy(name: str, pattern: str, definition: dict[str, Any], priority: int = 0) -> Part:
    """An operator policy; those apply to queues."""
    content = {"name": name, "pattern": pattern, "definition": definition}
    return Part("operator_policies", content | {"priority": priority, "apply-to": "queues"})


def fan(name: str, *queues: str) -> list[Part]:
    """A fanout exchange and its bindings."""
    return [exchange(name), *(bind(name, q) for q in queues)]


def publish(exchange: str, key: str, headers: dict[str, Any] | None = None, **properties: Any) -> Part:
    """Publish the message that the case follows."""
    content: dict[str, Any] = {"do": "publish", "exchange": exchange, "routing_key": key}
    if properties:
        content["properties"] = properties
    if headers is not None:
        content["headers"] = amqp.table_to_json(amqp.table(headers))
    return Part("step", content)


def _step(do: str, queue: str, **more: Any) -> Part:
    return Part("step", {"do": do, "queue": queue, **more})


def rejected(queue: str) -> Part:
    """basic.reject without requeue."""
    return _step("die", queue, reason="rejected", by="reject")


def nacked(queue: str, after_ms: int = 0) -> Part:
    """basic.nack without requeue, ``after_ms`` after the get."""
    return _step("die", queue, reason="rejected", by="nack", **({"after_ms": after_ms} if after_ms else {}))


def expired(queue: str) -> Part:
    """Wait until the message has expired in the queue."""
    return _step("die", queue, reason="expired")


def maxlen(queue: str) -> Part:
    """Push the message out of a length-limited queue with a filler."""
    return _step("die", queue, reason="maxlen", by="filler")


def refused(queue: str) -> Part:
    """The message itself was refused for length when it was published (reject-publish-dlx)."""
    return _step("die", queue, reason="maxlen", by="publish")


def delivery_limit(queue: str) -> Part:
    """Get and basic.reject with requeue until the message is gone."""
    return _step("die", queue, reason="delivery_limit")


def returned(queue: str, times: int = 1, by: str = "reject", after_ms: int = 0) -> Part:
    """Get and give back: by ``reject`` or ``nack`` with requeue, or by closing the channel (``close``)."""
    return _step("return", queue, times=times, by=by, **({"after_ms": after_ms} if after_ms else {}))


def fill(queue: str, count: int = 1) -> Part:
    """Put fillers into the queue, which are no part of the outcome."""
    return _step("fill", queue, count=count)


def republish(queue: str, exchange: str, key: str, without: list[str] | None = None) -> Part:
    """Consume from the queue and publish again with the received properties and headers."""
    return _step("republish", queue, exchange=exchange, routing_key=key, without=without or [])


def delete_exchange(name: str) -> Part:
    """Delete an exchange in the middle of a case."""
    return Part("step", {"do": "delete_exchange", "exchange": name})


def then(part: Part) -> Part:
    """Declare something in the middle of a case."""
    return Part("step", {"do": "declare", "what": part.kind, "definition": part.content})


def probe(queue: str, key: str, *candidates: int) -> Part:
    """Find out by behaviour which value of a policy key is in force; times come from the candidates (ms)."""
    content: dict[str, Any] = {"queue": queue, "key": key}
    return Part("probe", content | ({"candidates": list(candidates)} if candidates else {}))


def _case(kind: str, name: str, rule: str, source: str, parts: tuple[Part | list[Part], ...]) -> Case:
    flat = [p for part in parts for p in (part if isinstance(part, list) else [part])]
    definitions: dict[str, list[dict[str, Any]]] = {}
    if kind != "validation":
        for which in DEFINED:
            if found := [p.content for p in flat if p.kind == which]:
                definitions[which] = found
    steps = [p.content for p in flat if p.kind == "step"]
    return Case(
        name=name,
        rule=rule,
        source=source,
        kind=kind,
        definitions=definitions,
        steps=steps if kind == "letters" else [],
        publishes=[{k: v for k, v in s.items() if k != "do"} for s in steps] if kind in ("routing", "publish") else [],
        probes=[p.content for p in flat if p.kind == "probe"],
        attempts=[{"what": p.kind, "definition": p.content} for p in flat] if kind == "validation" else [],
    )


def letters(name: str, rule: str, source: str, *parts: Part | list[Part]) -> Case:
    """One message, its deaths, and the copies finally there."""
    return _case("letters", name, rule, source, parts)


def settings(
    name: str,
    rule: str,
    source: str,
    *parts: Part | list[Part],
    policies_last: bool = False,
    releases: Sequence[str] = (),
) -> Case:
    """Which policies apply to each queue, as the management API says; ``releases``: only there."""
    case = _case("settings", name, rule, source, parts)
    return msgspec.structs.replace(case, policies_last=policies_last, releases=list(releases))


def effective(name: str, rule: str, source: str, *parts: Part | list[Part]) -> Case:
    """Which value is in force, argument or policy, as the queue behaves."""
    return _case("effective", name, rule, source, parts)


def routing(name: str, rule: str, source: str, *parts: Part | list[Part]) -> Case:
    """Which queues get each message."""
    return _case("routing", name, rule, source, parts)


def publishing(name: str, rule: str, source: str, *parts: Part | list[Part]) -> Case:
    """Which messages a server refuses from a publisher."""
    return _case("publish", name, rule, source, parts)


def validation(name: str, rule: str, source: str, *parts: Part | list[Part]) -> Case:
    """Which declarations and policies a server refuses, one after another."""
    return _case("validation", name, rule, source, parts)
