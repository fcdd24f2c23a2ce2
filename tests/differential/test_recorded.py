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


def _subjects() -> list[Any]:
    """A parameter for each release and subject; the releases that cannot be asked any more are for the slow tests."""
    subjects = sorted({subject_of(scenario) for scenario in SCENARIOS})
    return [
        pytest.param(release, subject, marks=[] if release in real_servers.LIVE else [pytest.mark.slow])
        for release in real_servers.RECORDED
        for subject in subjects
        if any(played_on(release, scenario) for scenario in SCENARIOS if subject_of(scenario) == subject)
    ]


def subject_of(scenario: Scenario) -> str:
    return scenario.name.partition("/")[0]


def played_on(release: str, scenario: Scenario) -> bool:
    """Return whether a scenario and a release belong together.

    A scenario of today is recorded on the releases that can be asked; those before it were recorded on the others too.
    """
    asked = release in real_servers.LIVE
    return release in scenario.releases and (asked or release in TRANSCRIPTS.get(scenario.name, ([], {}))[1])


@pytest.fixture(scope="module")
def simulator(request: pytest.FixtureRequest) -> Iterator[Target]:
    """A server of the release, for all its scenarios."""
    with simulated(request.param) as target:
        yield target


@pytest.mark.parametrize(("simulator", "subject"), _subjects(), indirect=["simulator"], scope="module")
def test_the_simulator_answers_as_recorded(simulator: Target, subject: str, request: pytest.FixtureRequest) -> None:
    release = request.node.callspec.params["simulator"]
    problems = [
        problem
        for scenario in SCENARIOS
        if subject_of(scenario) == subject and played_on(release, scenario)
        for problem in [why_not_as_recorded(scenario, release, simulator)]
        if problem
    ]
    if problems:
        pytest.fail("\n\n".join(problems), pytrace=False)


def why_not_as_recorded(scenario: Scenario, release: str, simulator: Target) -> str | None:
    script, recorded = TRANSCRIPTS.get(scenario.name, ([], {}))
    if script != recordings.script_of(scenario):
        return f"{scenario.name}: the scenario changed: record it again"
    if release not in recorded:
        return f"{scenario.name}: nothing is recorded for {release}"
    found = play(scenario.operations, simulator)
    if same(found, recorded[release]):
        return None
    return difference(scenario, release, {"rabbitmq": recorded[release], "simulator": found})


def test_nothing_is_recorded_that_is_no_scenario() -> None:
    assert not TRANSCRIPTS.keys() - {scenario.name for scenario in SCENARIOS}


def test_each_release_is_recorded_and_played() -> None:
    """A lost recording must not turn the tests of its release into none."""
    recorded = [release for _, by_release in TRANSCRIPTS.values() for release in by_release]
    assert min(recorded.count(release) for release in real_servers.RECORDED) >= 512
    for release in real_servers.RECORDED:
        assert sum(played_on(release, scenario) for scenario in SCENARIOS) >= 512
