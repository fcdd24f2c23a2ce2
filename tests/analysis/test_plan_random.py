"""Random pairs of topologies: the steps lead to the new one, and no message is gone that no loss names."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlx.releases import RELEASES, Release, release
from dlx.topology import Topology
from simulator.analysis.plan.changes import objects_of, topology_of
from simulator.analysis.plan.planning import planned
from simulator.analysis.plan.steps import Known
from simulator.analysis.snapshot import Snapshot
from simulator.definitions import Definitions
from simulator.testing.strategies import definitions_document, topologies
from tests.random_examples import random_examples

EXAMPLES = int(os.environ.get("DLX_PLAN_EXAMPLES", "25"))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any], Release]:
    rules = release(draw(st.sampled_from(RELEASES)))
    old, new = (definitions_document(draw(topologies(release=rules, queues_max=3)), rules) for _ in range(2))
    return old, new, rules


@pytest.mark.slow
@random_examples(EXAMPLES)
@given(pairs())
def test_the_steps_lead_to_the_new_topology(case: tuple[dict[str, Any], dict[str, Any], Release]) -> None:
    before, after, rules = (*(Definitions(each, name) for each, name in zip(case[:2], "on", strict=True)), case[2])
    plan = planned(before, after, rules, Known())
    wanted = objects_of(Snapshot(after, rules))
    for vhost in after.vhosts:
        end, new = parts(plan.played.end[vhost]), parts(topology_of(wanted, vhost))
        left = {
            name
            for name in end["queues"]
            if any(each.what.endswith(f" in '{name}'") for each in plan.played.lost if each.kind == "staying")
        }
        for side in (end, new):
            side["queues"] = {name: queue for name, queue in side["queues"].items() if name not in left}
        if left:  # and so do the exchanges through which they move
            ways = end["exchanges"].keys() - new["exchanges"].keys()
            end["exchanges"] = {name: each for name, each in end["exchanges"].items() if name not in ways}
            end["bindings"] = {each for each in end["bindings"] if each.source not in ways}
        assert end == new, plan.steps


def parts(topology: Topology) -> dict[str, Any]:
    """A topology without what has no place in it by its order."""
    return {
        "queues": dict(topology.queues),
        "exchanges": dict(topology.exchanges),
        "bindings": {each for bound in topology.bindings.values() for each in bound if each.source},
        "policies": {each.name: each for each in topology.policies},
        "operator policies": {each.name: each for each in topology.operator_policies},
    }
