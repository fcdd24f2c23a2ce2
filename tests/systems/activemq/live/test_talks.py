"""A real ActiveMQ still talks STOMP as it was recorded to, and the simulator does the same."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from tests.systems.activemq.live.player import Player
from tests.systems.activemq.live.record_stomp import asked
from tests.systems.activemq.live.stomp_cases import TALKS
from tests.systems.activemq.live.stomp_player import QUIET_S
from tests.systems.activemq.test_stomp import compared, simulated

QUIETS_S = (0.15, QUIET_S, 2 * QUIET_S)
"""How long nothing comes where a broker has no more to say: less than when it was recorded, more on a busy machine."""

pytestmark = pytest.mark.live


def check(player: Player, name: str) -> None:
    """Have a broker and the simulator talk. What differs is asked again, more slowly: a real difference stays."""
    *hasty, last = QUIETS_S
    for quiet_s in hasty:
        with suppress(AssertionError):
            return assert_alike(player, name, quiet_s)
    return assert_alike(player, name, last)


def assert_alike(player: Player, name: str, quiet_s: float) -> None:
    """Raise ``AssertionError`` where a broker answers something else than the simulator."""
    assert list(compared(asked(player, name, quiet_s))) == list(compared(simulated(name)))


@pytest.mark.parametrize("name", TALKS)
def test_the_simulator_talks_as_the_broker_does(checked: Callable[[], None], name: str) -> None:
    checked()
