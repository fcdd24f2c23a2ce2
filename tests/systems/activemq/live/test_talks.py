"""A real ActiveMQ still talks STOMP as it was recorded to, and the simulator does the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.systems.activemq.live.player import Player, again_if_late
from tests.systems.activemq.live.record_stomp import asked
from tests.systems.activemq.live.stomp_cases import TALKS
from tests.systems.activemq.test_stomp import compared, simulated

pytestmark = pytest.mark.live


@again_if_late
def check(player: Player, name: str) -> None:
    """Have a broker and the simulator talk."""
    assert list(compared(asked(player, name))) == list(compared(simulated(name)))


@pytest.mark.parametrize("name", TALKS)
def test_the_simulator_talks_as_the_broker_does(checked: Callable[[], None], name: str) -> None:
    checked()
