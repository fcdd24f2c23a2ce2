"""What ``docs/evidence/systems.md`` names as evidence exists: recorded cases, and tests."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

import pytest

from tests.systems.activemq.live.configurations import CONFIGURATIONS
from tests.systems.activemq.live.record import ALL
from tests.systems.activemq.live.selectors import SELECTORS
from tests.systems.activemq.live.stomp_cases import TALKS
from tests.systems.zaqar import wire_cases
from tests.systems.zaqar.scenarios import SCENARIOS, SLOW

ROOT = Path(__file__).parents[2]
NAMED: dict[str, Collection[str]] = {
    "case": ALL,
    "configuration": CONFIGURATIONS,
    "selector": SELECTORS,
    "talk": TALKS,
    "wire case": wire_cases.CASES,
    "scenario": {**SCENARIOS, **SLOW},
}
ROWS = re.findall(
    r"^\| (.+?) \| (.+) \|$", (ROOT / "docs" / "evidence" / "systems.md").read_text(encoding="utf-8"), re.MULTILINE
)
EVIDENCE = [
    found
    for behaviour, evidence in ROWS
    if behaviour != "Behaviour"
    for found in re.findall(r"((?:wire )?[a-z]+) `([^`]+)`", evidence) or [("nothing", behaviour)]
]


@pytest.mark.parametrize(("kind", "name"), EVIDENCE)
def test_the_evidence_exists(kind: str, name: str) -> None:
    if kind == "test":
        file, _, test = name.partition("::")
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8")
    else:
        assert name in NAMED[kind]


def test_every_behaviour_has_evidence() -> None:
    assert len(EVIDENCE) > len(ROWS) > 40
