"""The management API answers as real servers were recorded to do, call by call.

``recorded/RELEASE.json`` is what ``python -m tests.management.compare --record URL`` wrote.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from tests.management.calls import SCENARIOS
from tests.management.client import Simulated
from tests.management.compare import RECORDED, differences
from tests.management.comparison import run

RELEASES = ("3.8", "3.10", "4.0", "4.3")


@cache
def recorded(release: str) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = json.loads((RECORDED / f"{release}.json").read_bytes())
    return found


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_answers_are_those_of_real_servers(release: str, scenario: str) -> None:
    calls = SCENARIOS[scenario]
    found = run(calls, Simulated(release))
    assert not differences(calls, found, recorded(release)[scenario])


def test_every_scenario_is_recorded_whole() -> None:
    for release in RELEASES:
        assert {name: len(answers) for name, answers in recorded(release).items()} == {
            name: len(calls) for name, calls in SCENARIOS.items()
        }
