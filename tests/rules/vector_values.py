"""The definitions, messages and headers of a recorded vector, as values of the rules."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any

from dlx.field_values import Long
from dlx.message import Message, published
from dlx.releases import Release
from dlx.topology import Binding, Exchange, Policy, Queue, Topology


def plain(field: dict[str, Any]) -> Any:
    """Return the Python value of a typed field: ``{"S": "x"}`` -> ``"x"``."""
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
    """Return the Python values of a table of typed fields."""
    return {name: plain(field) for name, field in table.items()}


def topology_of(definitions: dict[str, list[dict[str, Any]]]) -> Topology:
    """Return the topology of a vector's definitions."""
    return Topology.of(
        exchanges=[Exchange(**exchange) for exchange in definitions.get("exchanges", ())],
        queues=[Queue(**queue) for queue in definitions.get("queues", ())],
        bindings=[binding_of(binding) for binding in definitions.get("bindings", ())],
        policies=[policy_of(policy) for policy in definitions.get("policies", ())],
        operator_policies=[policy_of(policy) for policy in definitions.get("operator_policies", ())],
    )


def binding_of(binding: dict[str, Any]) -> Binding:
    """Return a binding; its arguments are typed fields."""
    return Binding(**{**binding, "arguments": plain_table(binding["arguments"])})


def policy_of(policy: dict[str, Any]) -> Policy:
    """Return a policy; ``apply-to`` is written as in definitions.json."""
    return Policy(**{key.replace("-", "_"): value for key, value in policy.items()})


def message_of(publish: dict[str, Any], release: Release) -> Message:
    """Return the message of a publish; raises ``PublishRefusedError``."""
    properties = dict(publish.get("properties", {}))
    return published(
        publish["exchange"],
        publish["routing_key"],
        headers=plain_table(publish["headers"]) if "headers" in publish else None,
        expiration=properties.pop("expiration", None),
        properties=properties,
        release=release,
    )
