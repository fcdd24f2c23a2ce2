"""The simulator answers every scenario as real servers were recorded to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests import real_servers
from tests.differential import recordings
from tests.differential.differences import difference, same
from tests.differential.operations import Scenario
from tests.differential.player import Target, play
from tests.differential.scenarios import load
from tests.differential.simulated import simulated

SCENARIOS = load()
TRANSCRIPTS = recordings.read()


def _played() -> list[Any]:
    """A parameter for each release and scenario that belong together.

    A scenario of today is recorded on the releases that can be asked; those before
    it were recorded on the others too. Each is quick, but there are thousands of these.
    """
    return [
        pytest.param(release, scenario, id=f"{release}-{scenario.name}", marks=[] if asked else [pytest.mark.slow])
        for release in real_servers.RECORDED
        for scenario in SCENARIOS
        for asked in [release in real_servers.LIVE]
        if release in scenario.releases and (asked or release in TRANSCRIPTS.get(scenario.name, ([], {}))[1])
    ]


@pytest.fixture(scope="module")
def simulator(request: pytest.FixtureRequest) -> Iterator[Target]:
    """A server of the release, for all its scenarios."""
    with simulated(request.param) as target:
        yield target


@pytest.mark.parametrize(("simulator", "scenario"), _played(), indirect=["simulator"], scope="module")
def test_the_simulator_answers_as_recorded(
    simulator: Target, scenario: Scenario, request: pytest.FixtureRequest
) -> None:
    release = request.node.callspec.params["simulator"]
    script, recorded = TRANSCRIPTS.get(scenario.name, ([], {}))
    assert script == recordings.script_of(scenario), "the scenario changed: record it again"
    assert release in recorded, f"nothing is recorded for {release}"
    found = play(scenario.operations, simulator)
    if not same(found, recorded[release]):
        pytest.fail(difference(scenario, release, {"rabbitmq": recorded[release], "simulator": found}), pytrace=False)


def test_nothing_is_recorded_that_is_no_scenario() -> None:
    assert not TRANSCRIPTS.keys() - {scenario.name for scenario in SCENARIOS}


def test_each_release_is_recorded() -> None:
    """A lost recording must not turn the tests of its release into none."""
    recorded = [release for _, by_release in TRANSCRIPTS.values() for release in by_release]
    assert min(recorded.count(release) for release in real_servers.RECORDED) >= 512
