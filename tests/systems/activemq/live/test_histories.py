"""Random histories with several consumers come out on a real ActiveMQ as in the simulator.

``DLX_ACTIVEMQ_HISTORIES`` says how many, and ``DLX_ACTIVEMQ_SEED`` from which on.
"""

from __future__ import annotations

import os

import pytest

from tests.systems.activemq.live.agreement import assert_agreement
from tests.systems.activemq.live.histories import LATE_MAX_MS, TRIES, history, late_ms
from tests.systems.activemq.live.player import Player
from tests.systems.activemq.test_recorded import simulated

COUNT = int(os.environ.get("DLX_ACTIVEMQ_HISTORIES", "10"))
SEED = int(os.environ.get("DLX_ACTIVEMQ_SEED", "0"))

pytestmark = pytest.mark.live


@pytest.mark.parametrize("seed", range(SEED, SEED + COUNT))
def test_the_simulator_does_what_the_broker_does(player: Player, seed: int) -> None:
    case = history(seed)
    for _ in range(TRIES):
        lines = player.play(case.xml, case.steps)
        late = late_ms(case, lines)
        if late <= LATE_MAX_MS:
            assert_agreement(lines, simulated(case), late_ms=-1)
            return
    pytest.skip(f"this machine is busy: something was {late} ms late")
