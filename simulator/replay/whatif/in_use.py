"""Definitions whose queues are taken to be in use: a run takes messages one by one, and no queue leaves meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simulator.replay.whatif.settings_given import OPERATOR_POLICY

_OF_CONSUMERS = ("x-single-active-consumer", "x-expires")


def in_use(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return an export in which one consumer is enough for a queue, and no queue deletes itself."""
    of_section = {"queues": _queue, "policies": _policy, "parameters": _parameter}
    changed = {name: list(map(of_one, document[name])) for name, of_one in of_section.items() if name in document}
    return {**document, **changed}


def _queue(queue: Mapping[str, Any]) -> dict[str, Any]:
    arguments = queue.get("arguments") or {}
    kept = {key: value for key, value in arguments.items() if key not in _OF_CONSUMERS}
    return {**queue, "arguments": kept, "auto_delete": False}


def _policy(policy: Mapping[str, Any]) -> dict[str, Any]:
    definition = policy.get("definition") or {}
    kept = {key: value for key, value in definition.items() if key != "expires"}
    return {**policy, "definition": kept}


def _parameter(parameter: Mapping[str, Any]) -> Mapping[str, Any]:
    if parameter.get("component") != OPERATOR_POLICY:
        return parameter
    return {**parameter, "value": _policy(parameter["value"])}
