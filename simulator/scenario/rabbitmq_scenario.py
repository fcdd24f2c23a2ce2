"""Runs RabbitMQ's scenarios: takes definitions and steps, and returns what happened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from dlx.death_headers import delivered_headers
from dlx.field_values import plain
from dlx.nearest_names import nearest
from dlx.releases import DEFAULT, RELEASES, UnknownReleaseError
from dlx.releases import release as release_named
from simulator.broker import OperatorError
from simulator.definitions import DefinitionsError
from simulator.events import Happened
from simulator.scenario import steps
from simulator.scenario.player import START_US, Player
from simulator.scenario.scenario_errors import ScenarioError, convert_part, located_unknown_names


class Scenario(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A whole scenario.

    Attributes:
        definitions: an export of RabbitMQ's definitions, such as `rabbitmqctl export_definitions` writes.
        steps: what publishers, consumers, operators and time do.
        release: the release of RabbitMQ, or one of its versions.
    """

    definitions: dict[str, Any]
    steps: steps.History
    release: Annotated[str, msgspec.Meta(examples=list(RELEASES))] = DEFAULT


_FIELDS = Scenario.__struct_fields__


def simulate(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Run a scenario on virtual time: ``definitions``, ``steps`` as ``simulator.scenario.steps``, and a ``release``.

    Returns what happened to each message, by the time since the start, which publishes the broker refused, and what is
    left in the queues. Raises ``ScenarioError`` with the place that is wrong, also for a step that names a queue, an
    exchange or a virtual host that the definitions do not have. Warns of a ``release`` that another version stands in
    for (``StandInRelease``).
    """
    for field in scenario:
        if field not in _FIELDS:
            near = " or ".join(nearest(str(field), _FIELDS))
            question = f"did you mean {near}? " if near else ""
            raise ScenarioError(str(field), f"unknown; {question}expected {', '.join(_FIELDS)}")
    release = _release(scenario.get("release", DEFAULT))
    player = _player(scenario.get("definitions"), release)
    history = convert_part(scenario.get("steps"), steps.History, "steps")
    for unknown in located_unknown_names(history, player.topologies()):
        raise ScenarioError(unknown.where, unknown.problem)
    events, refused = [], []
    for index, step in enumerate(history):
        try:
            player.do(step)
        except OperatorError as error:
            raise ScenarioError("steps", error.text) from error
        events += [_event(happened) for happened, _ in player.events]
        if player.refusal:
            refused.append({"step": index, "time_ms": _since_start_ms(player.now_us), "why": player.refusal})
    trace = {"system": "rabbitmq", "release": release, "events": events, "refused_publishes": refused}
    return {**trace, "queues": _queues(player)}


def _release(named: Any) -> str:
    """Return the name of the release that is named, or to which the named version belongs."""
    if not isinstance(named, str):
        raise ScenarioError("release", f"{named!r}; expected a name or a version, such as '{DEFAULT}'")
    try:
        return release_named(named).name
    except UnknownReleaseError as error:
        raise ScenarioError("release", str(error)) from error


def _player(definitions: Any, release: str) -> Player:
    if not isinstance(definitions, Mapping):
        raise ScenarioError("definitions", "expected an export of RabbitMQ's definitions, an object")
    try:
        return Player(definitions, release=release)
    except DefinitionsError as error:
        where = f"definitions.{error.where}" if error.where else "definitions"
        raise ScenarioError(where, error.problem) from error


def _event(happened: Happened) -> dict[str, Any]:
    told = {
        "event": happened.event.value,
        "time_ms": _since_start_ms(happened.time_us),
        "message": happened.uid,
        "vhost": happened.vhost,
        "queue": happened.queue,
        "exchange": happened.exchange,
        "routing_keys": list(happened.routing_keys),
        "reason": happened.reason,
        "detail": happened.detail,
    }
    return {name: value for name, value in told.items() if value not in (None, "")}


def _since_start_ms(time_us: int) -> float:
    return (time_us - START_US) / 1_000


def _queues(player: Player) -> dict[str, list[dict[str, Any]]]:
    """Return the messages of each queue; those that consumers hold come last."""
    found: dict[str, list[dict[str, Any]]] = {queue.name: [] for queue in player.queues()}
    for queue, copy in player.copies():
        headers = msgspec.to_builtins(delivered_headers(copy.message, player.broker.release) or {}, enc_hook=plain)
        found[queue.name].append({"message": copy.uid, "routing_key": copy.message.routing_key, "headers": headers})
    return found
