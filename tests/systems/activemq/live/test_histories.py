"""Random histories with several consumers come out on a real ActiveMQ as in the simulator.

``DLX_ACTIVEMQ_HISTORIES`` says how many, and ``DLX_ACTIVEMQ_SEED`` from which on. Of the forty by default 17 have small
pages and two a scheduler that sends. Other seeds may come upon what ``docs/reference/activemq.md`` says is not
simulated.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.systems.activemq.live.agreement import assert_agreement
from tests.systems.activemq.live.histories import LATE_MAX, history, late_ms, slots_ms
from tests.systems.activemq.live.player import Player
from tests.systems.activemq.test_recorded import simulated

COUNT = int(os.environ.get("DLX_ACTIVEMQ_HISTORIES", "40"))
SEED = int(os.environ.get("DLX_ACTIVEMQ_SEED", "22200"))

pytestmark = pytest.mark.live


def check(player: Player, seed: int) -> None:
    """Play the history of a seed to a broker and to the simulator, in slots that are long enough for this machine.

    A history that differs is played again, too: timers of the broker may have been late, or its threads have come in
    another order, which ``docs/reference/activemq.md`` tells of; a real difference stays.
    """
    problem: Exception | None = None
    for slot_ms in slots_ms(seed):
        case, late_max_ms = history(seed, slot_ms), int(LATE_MAX * slot_ms)
        lines = player.play(case.xml, case.steps, late_max_ms=late_max_ms)
        late = late_ms(case, lines)
        if late > late_max_ms:
            problem = TimeoutError(f"this machine is busy: in slots of {slot_ms} ms something was {late} ms late")
            continue
        try:
            return assert_agreement(lines, simulated(case), late_ms=-1)
        except AssertionError as error:
            problem = error
    assert problem is not None
    raise problem


@pytest.mark.parametrize("seed", range(SEED, SEED + COUNT))
def test_the_simulator_does_what_the_broker_does(checked: Callable[[], None], seed: int) -> None:
    checked()
