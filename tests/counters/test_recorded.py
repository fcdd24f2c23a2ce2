"""The simulator counts in each small case what servers of its release were seen to count."""

from __future__ import annotations

import pytest

from tests.counters.cases import CASES, counted
from tests.counters.record import RECORDED, recorded
from tests.counters.simulators import simulated

RELEASES = sorted(path.stem for path in RECORDED.glob("*.json"))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("rules", RELEASES)
def test_the_simulator_counts_as_the_server_did(rules: str, name: str) -> None:
    with simulated(rules) as (target, _):
        assert counted(target, name) == recorded(rules)[name]


def test_each_case_is_recorded_of_three_releases() -> None:
    assert RELEASES == ["3.10", "4.0", "4.3"]
    assert all(recorded(rules).keys() == CASES.keys() for rules in RELEASES)
