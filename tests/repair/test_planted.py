"""Planted faults: the true cause is always named, and nearly always first (``python -m tests.repair``: 1,000)."""

from __future__ import annotations

from tests.repair.judged import STANDINGS, Judged, all_judged
from tests.repair.planted import FAULTS

RELEASES = ("4.3", "4.0", "3.13", "3.10")
EACH = 6


def test_the_true_cause_is_named_and_nearly_always_first() -> None:
    judged = list(all_judged(EACH * len(FAULTS), seed=4, releases=RELEASES))
    assert {each.planted.fault for each in judged} == set(FAULTS)
    missed = [each for each in judged if each.standing == "not named"]
    assert [(each.planted.seed, each.planted.truth, each.repairs) for each in missed] == []
    assert sum(each.standing in STANDINGS[:2] for each in judged) >= 0.95 * len(judged)
    for each in judged:
        assert_ties_cost_about_the_same(each)


def assert_ties_cost_about_the_same(judged: Judged) -> None:
    for repair in judged.repairs.found:
        costs = [likely.cost for likely in repair.likely]
        assert costs == sorted(costs)
        assert costs[-1] - costs[0] <= 1
