"""Describes policies as the management API does, and merges a policy with an operator policy.

Source: rabbit_policy.erl format, merge_operator_definitions; rabbit_policies.erl merge_policy_value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dlx.releases import Release
from dlx.settings import DELIVERY_LIMIT, OVERFLOW
from dlx.topology import Policy
from simulator.json_values import plain


def policy_json(policy: Policy, vhost: str) -> dict[str, Any]:
    """Describe a policy or operator policy."""
    return {
        "vhost": vhost,
        "name": policy.name,
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": plain(policy.definition),
        "priority": policy.priority,
    }


def policy_parameter(policy: Policy, vhost: str, component: str) -> dict[str, Any]:
    """Describe the runtime parameter in which a policy is kept."""
    facts = policy_json(policy, vhost)
    value = {name: facts[name] for name in ("pattern", "definition", "priority", "apply-to")}
    return {"value": value, "vhost": vhost, "component": component, "name": policy.name}


def effective_definition(policy: Policy | None, operator: Policy | None, release: Release) -> dict[str, Any]:
    """Merge a queue's policy and operator policy; of two numbers the lower one applies."""
    own: Mapping[str, Any] = {} if policy is None else policy.definition
    merged = dict(own)
    for key, value in ({} if operator is None else operator.definition).items():
        merged[key] = _merged(key, own[key], value, release) if key in own else value
    definition: dict[str, Any] = plain(merged)
    return definition


def _merged(key: str, own: Any, operators: Any, release: Release) -> Any:
    if key == OVERFLOW or not isinstance(own, int) or not isinstance(operators, int):
        return operators
    negative = key == DELIVERY_LIMIT and min(own, operators) < 0
    if negative and release.quorum_negative_delivery_limit == "unlimited":
        return max(own, operators)
    return min(own, operators)
