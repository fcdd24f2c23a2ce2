"""A broker of the player begins with nothing, whatever was played before."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.systems.activemq.live.cases import SCHEDULER, configuration, drain, scheduled, wait
from tests.systems.activemq.live.player import Player

pytestmark = pytest.mark.live


def check(player: Player) -> None:
    """End a broker that is to send a message in a second, and see what the next one sends."""
    xml = configuration("", SCHEDULER)
    player.play(xml, scheduled(DELAY=1000))
    *_, drained = player.play(xml, [wait(1500), *drain("Q")])
    assert drained["messages"] == []


def test_a_broker_does_not_send_what_another_was_to_send(checked: Callable[[], None]) -> None:
    checked()
