"""The simulator answers every scenario as real servers were recorded to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.differential import recordings
from tests.differential.differences import difference, same
from tests.differential.operations import RELEASES, Scenario
from tests.differential.player import Target, play
from tests.differential.scenarios import load
from tests.differential.simulated import simulated

SCENARIOS = load()
RECORDED = recordings.read()
PLAYED = [
    pytest.param(release, scenario, id=f"{release}-{scenario.name}")
    for release in RELEASES
    for scenario in SCENARIOS
    if release in scenario.releases
]


@pytest.fixture(scope="module")
def simulator(request: pytest.FixtureRequest) -> Iterator[Target]:
    """A server of the release, for all its scenarios."""
    with simulated(request.param) as target:
        yield target


@pytest.mark.parametrize(("simulator", "scenario"), PLAYED, indirect=["simulator"], scope="module")
def test_the_simulator_answers_as_recorded(
    simulator: Target, scenario: Scenario, request: pytest.FixtureRequest
) -> None:
    release = request.node.callspec.params["simulator"]
    script, recorded = RECORDED.get(scenario.name, ([], {}))
    assert script == recordings.script_of(scenario), "the scenario changed: record it again"
    assert release in recorded, f"nothing is recorded for {release}"
    found = play(scenario.operations, simulator)
    if not same(found, recorded[release]):
        pytest.fail(difference(scenario, release, {"rabbitmq": recorded[release], "simulator": found}), pytrace=False)


def test_nothing_is_recorded_that_is_no_scenario() -> None:
    assert not RECORDED.keys() - {scenario.name for scenario in SCENARIOS}
