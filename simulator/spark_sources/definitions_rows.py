"""Definitions as rows: one for each object, queues with the settings in force under the rules of a release.

``COLUMNS`` is the reference. What is in force, and from where, is asked of ``dlx.settings``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dlx.policies import choose_policy
from dlx.releases import Release
from dlx.settings import Settings, alternate_exchange, effective_settings
from dlx.topology import Exchange, Policy, Queue, Topology
from simulator.definitions import Definitions
from simulator.json_values import canonical_json
from simulator.replay.rows.topologies import topologies

_SETTINGS = "map<string, struct<value: string, origin: string, hidden: array<struct<value: string, origin: string>>>>"
_IGNORED = "map<string, struct<value: string, origin: string, why: string>>"

COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("file", "string", "The definitions file, by the shortest end of its path that no other shares."),
    ("kind", "string", "queue, exchange, binding, policy or operator policy."),
    ("vhost", "string", "Virtual host; null in an export of one that does not say which."),
    ("name", "string", "Name of the object; null for bindings. The default exchange is the empty name."),
    ("type", "string", "Type of a queue or exchange."),
    ("durable", "boolean", "Whether a queue or exchange is durable."),
    ("auto_delete", "boolean", "Whether a queue or exchange is deleted with its last user."),
    ("internal", "boolean", "Whether an exchange takes messages only from exchanges."),
    ("source", "string", "Exchange of a binding."),
    ("destination", "string", "Queue or exchange to which a binding leads."),
    ("destination_type", "string", "queue or exchange."),
    ("routing_key", "string", "Routing key or pattern of a binding."),
    ("pattern", "string", "Regular expression of a policy."),
    ("apply_to", "string", "What a policy applies to, such as all or queues."),
    ("priority", "long", "Priority of a policy."),
    ("arguments", "string", "Arguments as declared, or the definition of a policy: canonical JSON object."),
    ("policy", "string", "Policy that applies to the queue or exchange."),
    ("operator_policy", "string", "Operator policy that applies to the queue."),
    ("alternate_exchange", "string", "Alternate exchange of the exchange, from its argument or policy."),
    ("dead_letter_exchange", "string", "Where the queue's dead messages go; null: they are dropped."),
    ("dead_letter_routing_key", "string", "The key they get; null: they keep their own."),
    ("dead_letter_strategy", "string", "at-most-once or at-least-once, as in force; null without an exchange."),
    ("message_ttl_ms", "long", "Time to live of messages in the queue, in milliseconds."),
    ("expires_ms", "long", "How long the queue itself lives unused, in milliseconds."),
    ("max_length", "long", "Most ready messages."),
    ("max_length_bytes", "long", "Most bytes of ready messages."),
    ("overflow", "string", "What happens past these limits; null where there are none."),
    ("delivery_limit", "long", "Returns that a message survives; null is any number."),
    ("consumer_timeout_ms", "long", "How long a delivery may stay unacknowledged, in milliseconds."),
    ("settings", _SETTINGS, "Every setting of the queue by its key: value, origin, and the values that it hid."),
    ("ignored", _IGNORED, "Settings that the queue's type or the release does not use, and why."),
    ("release", "string", "The release whose rules say what applies."),
)
"""The columns: name, Spark type, and what each holds. Columns that an object does not have are null."""


def definitions_rows(definitions: Definitions, rules: Release, file: str) -> Iterator[tuple[Any, ...]]:
    """Yield a row of ``COLUMNS`` for each object, by virtual host and kind."""
    for vhost, topology in topologies(definitions).items():
        for row in _objects(topology, rules):
            row |= {"file": file, "vhost": vhost, "release": rules.name}
            yield tuple(row.get(name) for name, *_ in COLUMNS)


def _objects(topology: Topology, rules: Release) -> Iterator[dict[str, Any]]:
    for queue in topology.queues.values():
        yield _declared("queue", queue) | _in_force(effective_settings(queue, topology, rules))
    for exchange in topology.exchanges.values():
        policy = choose_policy(exchange, topology.policies, rules).policy
        yield _declared("exchange", exchange) | {
            "internal": exchange.internal,
            "policy": _name(policy),
            "alternate_exchange": alternate_exchange(exchange, topology, rules),
        }
    for bound in topology.bindings.values():
        for binding in bound:
            yield {
                "kind": "binding",
                "source": binding.source,
                "destination": binding.destination,
                "destination_type": binding.destination_type,
                "routing_key": binding.routing_key,
                "arguments": canonical_json(binding.arguments),
            }
    yield from (_policy("policy", policy) for policy in topology.policies)
    yield from (_policy("operator policy", policy) for policy in topology.operator_policies)


def _declared(kind: str, each: Queue | Exchange) -> dict[str, Any]:
    return {
        "kind": kind,
        "name": each.name,
        "type": each.type,
        "durable": each.durable,
        "auto_delete": each.auto_delete,
        "arguments": canonical_json(each.arguments),
    }


def _policy(kind: str, policy: Policy) -> dict[str, Any]:
    return {
        "kind": kind,
        "name": policy.name,
        "pattern": policy.pattern,
        "apply_to": policy.apply_to,
        "priority": policy.priority,
        "arguments": canonical_json(policy.definition),
    }


def _in_force(found: Settings) -> dict[str, Any]:
    """Return the columns of a queue's settings."""
    policy, operator_policy = found.in_force
    return {
        "policy": _name(policy),
        "operator_policy": _name(operator_policy),
        "dead_letter_exchange": found.dead_letter_exchange,
        "dead_letter_routing_key": found.dead_letter_routing_key,
        "dead_letter_strategy": found.dead_letter_strategy if found.dead_letters else None,
        "message_ttl_ms": found.message_ttl_ms,
        "expires_ms": found.expires_ms,
        "max_length": found.max_length,
        "max_length_bytes": found.max_length_bytes,
        "overflow": found.overflow if found.has_length_limit else None,
        "delivery_limit": found.delivery_limit,
        "consumer_timeout_ms": found.consumer_timeout_ms,
        "settings": {
            setting.key: {
                "value": _text(setting.value),
                "origin": str(setting.origin),
                "hidden": [{"value": _text(value), "origin": str(origin)} for value, origin in setting.hidden],
            }
            for setting in found.values.values()
        },
        "ignored": {
            setting.key: {"value": _text(setting.value), "origin": str(setting.origin), "why": why}
            for setting, why in found.ignored
        },
    }


def _name(policy: Policy | None) -> str | None:
    return None if policy is None else policy.name


def _text(value: Any) -> str:
    return value if isinstance(value, str) else canonical_json(value)
