"""RabbitMQ's scenarios: definitions and steps in, what happened out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dlx.delivery_headers import delivered_headers
from dlx.field_values import plain
from dlx.releases import DEFAULT, RELEASES
from simulator.broker.operator_errors import OperatorError
from simulator.definitions import DefinitionsError
from simulator.events import Happened
from simulator.scenario import steps
from simulator.scenario.scenario_errors import ScenarioError
from simulator.scenario.trial import START_US, Trial

_FIELDS = ("definitions", "release", "steps")


def simulate(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Run a scenario on virtual time: ``definitions``, ``steps`` as ``simulator.scenario.steps``, and a ``release``.

    Returns what happened to each message, by the time since the start, and what is left in the queues. Raises
    ``ScenarioError`` with the place that is wrong.
    """
    for field in scenario:
        if field not in _FIELDS:
            raise ScenarioError(str(field), f"unknown; expected {', '.join(_FIELDS)}")
    release = scenario.get("release", DEFAULT)
    if release not in RELEASES:
        raise ScenarioError("release", f"{release!r}; expected one of {', '.join(RELEASES)}")
    trial = _trial(scenario.get("definitions"), release)
    events = []
    for step in _steps(scenario.get("steps")):
        try:
            trial.do(step)
        except OperatorError as error:
            raise ScenarioError("steps", error.text) from error
        events += [_event(happened) for happened, _ in trial.events]
    return {"system": "rabbitmq", "release": release, "events": events, "queues": _queues(trial)}


def _trial(definitions: Any, release: str) -> Trial:
    if not isinstance(definitions, Mapping):
        raise ScenarioError("definitions", "expected an export of RabbitMQ's definitions, an object")
    try:
        return Trial(definitions, release=release)
    except DefinitionsError as error:
        where = f"definitions.{error.where}" if error.where else "definitions"
        raise ScenarioError(where, error.problem) from error


def _steps(values: Any) -> steps.History:
    try:
        return steps.from_builtins(values)
    except msgspec.ValidationError as error:
        raise ScenarioError("steps", str(error)) from error


def _event(happened: Happened) -> dict[str, Any]:
    told = {
        "event": happened.event.value,
        "time_ms": (happened.time_us - START_US) / 1_000,
        "message": happened.uid,
        "vhost": happened.vhost,
        "queue": happened.queue,
        "exchange": happened.exchange,
        "routing_keys": list(happened.routing_keys),
        "reason": happened.reason,
        "detail": happened.detail,
    }
    return {name: value for name, value in told.items() if value not in (None, "")}


def _queues(trial: Trial) -> dict[str, list[dict[str, Any]]]:
    """The messages of each queue, those with consumers last."""
    found: dict[str, list[dict[str, Any]]] = {queue.name: [] for queue in trial.queues()}
    for queue, copy in trial.copies():
        headers = msgspec.to_builtins(delivered_headers(copy.message, trial.broker.release) or {}, enc_hook=plain)
        found[queue.name].append({"message": copy.uid, "routing_key": copy.message.routing_key, "headers": headers})
    return found
