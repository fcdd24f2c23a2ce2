"""Drawn histories fit their topology, go to JSON and back, and are played without a refusal."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st

import dlx
from dlx.releases import RELEASES
from simulator.events import Event
from simulator.scenario import steps
from simulator.scenario.steps import AnyStep, History
from simulator.testing import Trial
from simulator.testing.strategies import definitions_document, histories, topologies
from simulator.testing.strategies.history import LADDER
from tests.testing.reaching import reached

Case = tuple[str, dlx.Topology, History]


def cases(**how: Any) -> st.SearchStrategy[Case]:
    """A release, a topology without endless loops, and a history of it."""
    return st.sampled_from(RELEASES).flatmap(
        lambda name: topologies(release=name, cyclic=False).flatmap(
            lambda topology: st.tuples(
                st.just(name), st.just(topology), histories(topology=topology, release=name, **how)
            )
        )
    )


def flat(history: History) -> list[AnyStep]:
    return [single for step in history for single in (flat(step.steps) if isinstance(step, steps.Repeat) else [step])]


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(cases(hostile=True))
def test_a_history_is_played_and_goes_to_json_and_back(case: Case) -> None:
    name, topology, history = case
    assert steps.from_builtins(msgspec.json.decode(msgspec.json.encode(steps.to_builtins(history)))) == history
    for step in flat(history):
        assert getattr(step, "queue", None) in (None, *topology.queues)
    trial = Trial(definitions_document(topology, name), release=name)
    trial.play(history)
    assert tuple(trial.history) == history


@given(histories(topology=LADDER, kinds=["publish", "policy"], steps_max=5))
def test_a_history_has_only_what_was_allowed(history: History) -> None:
    assert len(history) <= 5
    assert {type(step) for step in history} <= {steps.Publish, steps.SetPolicy, steps.ClearPolicy}


@pytest.mark.parametrize("kind", steps.AnyStep.__args__)
def test_every_kind_of_step_is_reached(kind: type) -> None:
    history = reached(histories(topology=LADDER), lambda history: any(isinstance(step, kind) for step in history))
    assert len(history) <= 12


def happened(history: History, event: Event) -> bool:
    trial = Trial(definitions_document(LADDER))
    seen = []
    for step in history:
        trial.do(step)
        seen += [each.event for each, _ in trial.events]
    return event in seen


@pytest.mark.parametrize(
    "event", [Event.DEAD_LETTERED, Event.EXPIRED, Event.REJECTED, Event.REQUEUED, Event.UNROUTABLE]
)
def test_what_matters_happens(event: Event) -> None:
    history = reached(histories(topology=LADDER), lambda history: happened(history, event))
    assert steps.length(history) >= 1


def test_a_rejection_shrinks_to_two_steps() -> None:
    smallest = find(histories(topology=LADDER), lambda history: happened(history, Event.REJECTED))
    assert smallest == (steps.Publish("", "orders"), steps.Reject("orders"))
