"""A real ActiveMQ does with the file that a move builds what the move says of it."""

from __future__ import annotations

import json

import pytest

from simulator.systems.activemq import simulate
from tests.systems.activemq.live.agreement import LATE_MS, SCHEDULER_LATE_MS, assert_agreement
from tests.systems.activemq.live.moves import ASKED, RECORDED, MoveAsked, file_of, kept, scenario_of


@pytest.mark.parametrize("asked", ASKED, ids=" ".join)
def test_the_simulator_does_what_the_broker_did(asked: MoveAsked) -> None:
    recorded, scenario = kept(asked), scenario_of(asked)
    assert recorded["xml"] == scenario["broker"]["activemq_xml"]
    assert recorded["steps"] == json.loads(json.dumps(scenario["steps"]))
    late_ms = SCHEDULER_LATE_MS if "schedulerSupport" in recorded["xml"] else LATE_MS
    assert_agreement(recorded["lines"], simulate(scenario), late_ms)


def test_each_recording_belongs_to_a_move() -> None:
    assert {path.name for path in RECORDED.iterdir()} == {file_of(asked).name for asked in ASKED}
