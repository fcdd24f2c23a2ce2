"""A real ActiveMQ starts with the configurations that the simulator takes, and with no other."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.systems.activemq.live.cases import configuration
from tests.systems.activemq.live.configurations import CONFIGURATIONS, NOT_SIMULATED
from tests.systems.activemq.live.player import Player
from tests.systems.activemq.test_recorded import takes

pytestmark = pytest.mark.live


def check(player: Player, name: str) -> None:
    """Start a broker with a configuration, and let the simulator read it."""
    inner, attributes = CONFIGURATIONS[name]
    (started,) = player.play(configuration(inner, attributes), [])
    assert takes(name) == ("started" in started), started


@pytest.mark.parametrize("name", [name for name in CONFIGURATIONS if name not in NOT_SIMULATED])
def test_the_simulator_takes_what_the_broker_takes(checked: Callable[[], None], name: str) -> None:
    checked()
