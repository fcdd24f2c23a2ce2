"""One workload on real servers under several settings: asked of the first log, each other outcome is told exactly.

``python -m examples.what_if`` records it again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from examples.what_if.topology import RUNS
from simulator.definitions import read_definitions
from simulator.whatif.both_sides import ComparedMessage
from simulator.whatif.sides import side_of
from tests.whatif.asking import asked_of

RECORDED = Path(__file__).parent / "recorded"
EXAMPLES = Path(__file__).parents[2] / "examples"
PAIRS = [(log, log, run) for log in ("3.10", "4.3") for run in RUNS] + [("3.10", "4.3", "own")]

UNDECIDED = {("3.10", "4.3", "own"): 4}
"""Messages that were rejected, and then returned: nobody knows of 3.10 whether the rejections would count on 4.3."""


def as_recorded(case: ComparedMessage, fates: dict[str, Any]) -> bool:
    seen = fates.get(case.story.message, {"acknowledged": {}, "waiting": {}})
    return (
        dict(case.after.ends.acknowledged) == seen["acknowledged"] and dict(case.after.ends.waiting) == seen["waiting"]
    )


@pytest.mark.parametrize(("log", "other", "run"), PAIRS)
def test_other_settings_do_what_the_real_server_did_under_them(log: str, other: str, run: str) -> None:
    own, there = RECORDED / log / "own", RECORDED / other / run
    fates = json.loads((there / "fates.json").read_text(encoding="utf-8"))
    before = side_of(read_definitions(own / "definitions.json"), log)
    after = side_of(read_definitions(there / "definitions.json"), other)
    asked = asked_of([own / "trace.log.gz"], before, after, left=[own / "left.parquet"])
    assert asked.answer.reproduced == asked.answer.messages == 240
    wrong = [case for case in asked.cases if not as_recorded(case, fates)]
    assert not wrong, wrong[0]
    assert asked.answer.assumed == UNDECIDED.get((log, other, run), 0)


def test_the_recordings_under_other_settings_differ() -> None:
    """Otherwise the test above would say nothing."""
    for log, changed in {
        "3.10": set(RUNS) - {"own", "waiting-time"},
        "4.3": set(RUNS) - {"own", "waiting-time"},
    }.items():
        own = (RECORDED / log / "own" / "fates.json").read_text(encoding="utf-8")
        differ = {run for run in RUNS if (RECORDED / log / run / "fates.json").read_text(encoding="utf-8") != own}
        # 4.3 does not count what consumers requeue towards the delivery limit.
        assert differ == changed - ({"delivery-limit"} if log == "4.3" else set())


@pytest.mark.parametrize("release", ["3.10", "4.3"])
def test_captured_examples_come_out_as_they_are(release: str) -> None:
    folder = EXAMPLES / f"captured-{release}"
    side = side_of(read_definitions(folder / "definitions.json"), release)
    answer = asked_of([folder / "trace.log.gz"], side, side).answer
    assert answer.reproduced == answer.messages == 1123
    assert (answer.changed, answer.assumed) == (0, 0)


def test_an_upgrade_of_a_captured_example_changes_what_the_delivery_limit_counts() -> None:
    folder = EXAMPLES / "captured-3.10"
    definitions = read_definitions(folder / "definitions.json")
    answer = asked_of([folder / "trace.log.gz"], side_of(definitions, "3.10"), side_of(definitions, "4.3")).answer
    assert (answer.changed, answer.assumed) == (43, 43)
    (cause,) = answer.causes
    assert cause.what.startswith("quorum_delivery_limit_counts: ")
    assert cause.messages == 43
    assert answer.before.acknowledged["emails.parking"] - answer.after.acknowledged["emails.parking"] == 43
    assert ("routing key", "emails.send") in {(each.what, each.value) for each in answer.over_represented}
