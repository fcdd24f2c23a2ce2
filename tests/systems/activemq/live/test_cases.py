"""A real ActiveMQ still does what it was recorded to do, and the simulator does the same."""

from __future__ import annotations

import pytest

from tests.systems.activemq.live.agreement import assert_agreement
from tests.systems.activemq.live.cases import CASES, configuration
from tests.systems.activemq.live.configurations import CONFIGURATIONS, NOT_SIMULATED
from tests.systems.activemq.live.player import Player
from tests.systems.activemq.live.record import verdicts
from tests.systems.activemq.test_recorded import VERDICTS, late_ms, simulated, takes

pytestmark = pytest.mark.live


@pytest.mark.parametrize("name", CASES)
def test_the_simulator_does_what_the_broker_does(player: Player, name: str) -> None:
    case = CASES[name]
    assert_agreement(player.play(case.xml, case.steps), simulated(case), late_ms(case))


@pytest.mark.parametrize("name", [name for name in CONFIGURATIONS if name not in NOT_SIMULATED])
def test_the_simulator_takes_what_the_broker_takes(player: Player, name: str) -> None:
    inner, attributes = CONFIGURATIONS[name]
    (started,) = player.play(configuration(inner, attributes), [])
    assert takes(name) == ("started" in started), started


def test_the_broker_makes_of_selectors_what_was_recorded(player: Player) -> None:
    assert verdicts(player) == VERDICTS
