"""The management API answers as real servers were recorded to do, call by call.

``recorded/RELEASE.json`` is what ``python -m tests.management.compare --record URL`` wrote.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from dlx.releases import RELEASES
from tests import real_servers
from tests.management.client import Simulated
from tests.management.compare import RECORDED, differences
from tests.management.comparison import run
from tests.management.scenarios import SCENARIOS


@cache
def recorded(release: str) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = json.loads((RECORDED / f"{release}.json").read_bytes())
    return found


@pytest.mark.parametrize(
    ("release", "scenario"), [(release, scenario) for release in RELEASES for scenario in recorded(release)]
)
def test_answers_are_those_of_real_servers(release: str, scenario: str) -> None:
    calls = SCENARIOS[scenario]
    found = run(calls, Simulated(release))
    assert not differences(calls, found, recorded(release)[scenario])


def test_scenarios_are_recorded_whole() -> None:
    for release in RELEASES:
        found = {name: len(answers) for name, answers in recorded(release).items()}
        assert found == {name: len(SCENARIOS[name]) for name in found}
        assert release not in real_servers.LIVE or found.keys() == SCENARIOS.keys()
