"""A real ActiveMQ still makes of selectors what it was recorded to make of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.systems.activemq.live.player import Player
from tests.systems.activemq.live.record import verdicts
from tests.systems.activemq.test_recorded import VERDICTS

pytestmark = pytest.mark.live


def check(player: Player) -> None:
    """Ask a broker."""
    assert verdicts(player) == VERDICTS


def test_the_broker_makes_of_selectors_what_was_recorded(checked: Callable[[], None]) -> None:
    checked()
