"""A real ActiveMQ still does what it was recorded to do, and the simulator does the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.systems.activemq.live.agreement import assert_agreement
from tests.systems.activemq.live.cases import CASES
from tests.systems.activemq.live.player import Player, again_if_late
from tests.systems.activemq.test_recorded import late_ms, simulated

pytestmark = pytest.mark.live


@again_if_late
def check(player: Player, name: str) -> None:
    """Play a case to a broker and to the simulator."""
    case = CASES[name]
    assert_agreement(player.play(case.xml, case.steps), simulated(case), late_ms(case))


@pytest.mark.parametrize("name", CASES)
def test_the_simulator_does_what_the_broker_does(checked: Callable[[], None], name: str) -> None:
    checked()
