"""Histories: what publishers, consumers, operators and time do to a topology."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from hypothesis import strategies as st

from dlx.releases import DEFAULT, Release
from dlx.settings import DEAD_LETTER_EXCHANGE, MAX_LENGTH, MESSAGE_TTL, effective_settings
from dlx.topology import STREAM, Policy, Queue, Topology
from simulator.json_values import NoFieldValueError, field_value, plain
from simulator.scenario import steps
from simulator.scenario.steps import AnyStep, History
from simulator.testing.strategies.building_blocks import (
    NOWHERE,
    built,
    check_count,
    check_flags,
    check_topology,
    checked_choice,
    checked_names,
    checked_release,
)
from simulator.testing.strategies.message import x_deaths
from simulator.testing.strategies.policy import exact_pattern

KINDS = ("publish", "ack", "reject", "requeue", "modify", "crash", "hold", "get", "leave", "wait", "policy", "repeat")
"""The kinds of steps that a history may have."""

LADDER = Topology.of(
    queues=[
        Queue(name="orders", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders.wait"}),
        Queue(
            name="orders.wait",
            arguments={
                "x-message-ttl": 60_000,
                "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": "orders",
            },
        ),
    ]
)
"""The usual retry: what is rejected waits a minute and comes back."""

_WEIGHTS = {"publish": 6, "reject": 3, "wait": 2, "policy": 2}
_TIMES_MAX = 3
_REPEATED_MAX = 5
_WAITS_MS = (1_000, 1, 60_000, 3_600_000)
_CHANGES = ({MESSAGE_TTL: 1_000}, {MAX_LENGTH: 1}, {DEAD_LETTER_EXCHANGE: NOWHERE})
_OPERATORS_CHANGES = _CHANGES[:2]
_CHANGED = "changed"
"""The name of all policies that a history sets: one replaces another."""


def histories(
    *,
    topology: Topology = LADDER,
    kinds: Collection[str] = KINDS,
    steps_max: int = 12,
    hostile: bool = False,
    release: Release | str = DEFAULT,
) -> st.SearchStrategy[History]:
    """Draw histories (``simulator.scenario.steps``) that fit the topology; ``simulator.testing.Trial`` plays them.

    Publishes go to its queues and exchanges, consumers take from its queues, and time passes by what its TTLs are.
    Every history survives a round trip through JSON. It shrinks to few steps, publishes first.

    Args:
        topology: where they happen, as virtual host ``/``; by default a queue, and one in which messages wait.
        kinds: the steps to draw from, some of ``publish``, ``ack``, ``reject``, ``requeue``, ``modify``, ``crash``,
            ``hold``, ``get``, ``leave``, ``wait``, ``policy``, ``repeat``. ``modify`` is an outcome of AMQP 1.0, and
            drawn from 4.0 on.
        steps_max: steps, at most; those in a ``Repeat`` are counted once, with it.
        hostile: publish with made-up ``x-death`` headers, too.
        release: a release or its name, for the TTLs that are in force.
    """
    rules = checked_release(release)
    check_count("steps_max", steps_max)
    check_flags(hostile=hostile)
    chosen = checked_names("kinds", checked_choice("kinds", kinds, KINDS))
    if not rules.speaks_amqp_1_0:
        chosen = tuple(kind for kind in chosen if kind != "modify")
        if not chosen:
            raise ValueError(f"kinds: 'modify' is an outcome of AMQP 1.0, which RabbitMQ {rules.name} does not speak")
    check_topology(topology)
    return built(_possible, st.lists(_steps(topology, chosen, hostile, rules), max_size=steps_max))


def _steps(topology: Topology, kinds: tuple[str, ...], hostile: bool, release: Release) -> st.SearchStrategy[AnyStep]:
    queues = tuple(topology.queues)
    mortal = tuple(name for name, queue in topology.queues.items() if queue.type != STREAM) or queues
    times = st.integers(1, _TIMES_MAX)
    any_queue, mortal_queue = st.sampled_from(queues), st.sampled_from(mortal)
    by_kind: dict[str, st.SearchStrategy[AnyStep]] = {
        "publish": _publishes(topology, hostile),
        "reject": st.builds(steps.Reject, mortal_queue, times),
        "wait": st.sampled_from(_waits(topology, release)).map(steps.Wait),
        "requeue": st.builds(steps.Requeue, mortal_queue, times, method=st.sampled_from(("reject", "nack"))),
        "modify": st.builds(
            steps.Modify,
            mortal_queue,
            times,
            delivery_failed=st.booleans(),
            undeliverable_here=st.booleans(),
            annotations=st.sampled_from(({}, {"x-opt-why": "because"})),
        ),
        "crash": st.builds(steps.Crash, mortal_queue, times),
        "ack": st.builds(steps.Ack, any_queue, times),
        "hold": st.builds(steps.Hold, any_queue, times),
        "get": st.builds(steps.Get, mortal_queue, times),
        "leave": any_queue.map(steps.Leave),
    }
    chosen = {kind: strategy for kind, strategy in by_kind.items() if kind in kinds}
    if "repeat" in kinds:
        several = st.lists(_weighted(chosen or by_kind), min_size=1, max_size=_TIMES_MAX).map(tuple)
        chosen["repeat"] = st.builds(steps.Repeat, steps=several, times=st.integers(2, _REPEATED_MAX))
    if "policy" in kinds:
        chosen["policy"] = _policy_changes(queues)
    return _weighted(chosen)


def _weighted(by_kind: Mapping[str, st.SearchStrategy[AnyStep]]) -> st.SearchStrategy[AnyStep]:
    """Draw steps of one of the kinds, some kinds more often than others."""
    kinds = [kind for kind in by_kind for _ in range(_WEIGHTS.get(kind, 1))]
    return st.sampled_from(kinds).flatmap(by_kind.__getitem__)


def _publishes(topology: Topology, hostile: bool) -> st.SearchStrategy[AnyStep]:
    """Draw the plainest message, or any. A step that takes few choices is easily dropped when an example shrinks."""
    addresses = [(exchange, key) for exchange in ("", *topology.bindings) for key in _keys(topology, exchange)]
    keys = st.sampled_from(tuple(dict.fromkeys(key for _, key in addresses)))
    any_message = built(
        lambda address, **message: steps.Publish(*address, **message),
        st.sampled_from(addresses),
        headers=_headers(keys, hostile),
        expiration_ms=st.sampled_from((None, 1_000, 0)),
        body_bytes=st.sampled_from((0, 10, 100)),
        times=st.integers(1, _TIMES_MAX),
    )
    return st.one_of(st.sampled_from([steps.Publish(*address) for address in addresses]), any_message)


def _keys(topology: Topology, exchange: str) -> tuple[str, ...]:
    """Return routing keys that mean something to the exchange, the names of queues, and one that means nothing."""
    bound = (binding.routing_key for binding in topology.bindings.get(exchange, ()))
    return tuple(dict.fromkeys((*topology.queues, *bound, NOWHERE)))


def _headers(keys: st.SearchStrategy[str], hostile: bool) -> st.SearchStrategy[dict[str, Any]]:
    """Draw headers that JSON can hold."""
    some = st.lists(keys, min_size=1, max_size=2)
    honest: st.SearchStrategy[dict[str, Any]] = st.one_of(
        st.just({}),
        some.map(lambda found: {"CC": found}),
        some.map(lambda found: {"BCC": found}),
        st.sampled_from(("a", "b", 1)).map(lambda value: {"kind": value}),
    )
    if not hostile:
        return honest
    return st.one_of(honest, x_deaths(hostile=True).filter(_fits_json).map(lambda found: {"x-death": plain(found)}))


def _fits_json(value: Any) -> bool:
    """Return whether it is still an AMQP value after JSON has made plain integers of its integers."""
    try:
        field_value(plain(value))
    except NoFieldValueError:
        return False
    return True


def _waits(topology: Topology, release: Release) -> tuple[int, ...]:
    """Return the times that matter in the topology, in ms: just before a TTL is over, and when it is."""
    ttls = (effective_settings(queue, topology, release).message_ttl_ms for queue in topology.queues.values())
    near = [ms for ttl in ttls if ttl for ms in (ttl, ttl - 1)]
    return tuple(dict.fromkeys((*near, *_WAITS_MS)))


def _policy_changes(queues: tuple[str, ...]) -> st.SearchStrategy[AnyStep]:
    found: list[AnyStep] = []
    for operator, definitions in ((False, _CHANGES), (True, _OPERATORS_CHANGES)):
        found += [
            steps.SetPolicy(
                Policy(name=_CHANGED, pattern=pattern, definition=definition, apply_to="queues", priority=9), operator
            )
            for pattern in (".*", *map(exact_pattern, queues))
            for definition in definitions
        ]
    removals = [steps.ClearPolicy(_CHANGED, operator) for operator in (False, True)]
    return st.one_of(st.sampled_from(found), st.sampled_from(removals))


def _possible(drawn: list[AnyStep]) -> History:
    """Return the history without the removal of policies that are not there, which RabbitMQ refuses."""
    there: set[bool] = set()
    kept: list[AnyStep] = []
    for step in drawn:
        if isinstance(step, steps.SetPolicy):
            there.add(step.operator)
        elif isinstance(step, steps.ClearPolicy):
            if step.operator not in there:
                continue
            there.remove(step.operator)
        kept.append(step)
    return tuple(kept)
