"""Planted faults: the true cause is always named, and nearly always first (``python -m tests.repair``: 1,000)."""

from __future__ import annotations

from functools import cache

import pytest

from tests.repair.judged import STANDINGS, Judged, all_judged
from tests.repair.planted import FAULTS

RELEASES = ("4.3", "4.0", "3.13", "3.10")
EACH = 6


@cache
def planted() -> dict[str, list[Judged]]:
    found: dict[str, list[Judged]] = {fault: [] for fault in FAULTS}
    for judged in all_judged(EACH * len(FAULTS), seed=4, releases=RELEASES):
        found[judged.planted.fault].append(judged)
    return found


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("number", range(EACH))
def test_the_true_cause_is_named(fault: str, number: int) -> None:
    judged = planted()[fault][number]
    assert judged.standing != "not named", (judged.planted.seed, judged.planted.truth, judged.repairs)


def test_the_true_cause_is_first() -> None:
    standings = [judged.standing for found in planted().values() for judged in found]
    assert sum(standing in STANDINGS[:2] for standing in standings) >= 0.95 * len(standings)


def test_everything_that_is_tied_costs_about_the_same() -> None:
    for judged in (judged for found in planted().values() for judged in found):
        for repair in judged.repairs.found:
            costs = [likely.cost for likely in repair.likely]
            assert costs == sorted(costs)
            assert costs[-1] - costs[0] <= 1
