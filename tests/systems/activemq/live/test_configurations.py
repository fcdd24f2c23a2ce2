"""A real ActiveMQ starts with the configurations that the simulator takes, and with no other."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.systems.activemq.live.cases import configuration
from tests.systems.activemq.live.configurations import CONFIGURATIONS, NOT_SIMULATED
from tests.systems.activemq.live.documents import DOCUMENTS
from tests.systems.activemq.live.player import Player
from tests.systems.activemq.test_recorded import reads, takes

pytestmark = pytest.mark.live


def check(player: Player, name: str) -> None:
    """Start a broker with a configuration, and let the simulator read it."""
    whole = name in DOCUMENTS
    (started,) = player.play(DOCUMENTS[name] if whole else configuration(*CONFIGURATIONS[name]), [])
    assert (reads if whole else takes)(name) == ("started" in started), started


@pytest.mark.parametrize("name", DOCUMENTS)
def test_lint_takes_the_files_that_the_broker_takes(checked: Callable[[], None], name: str) -> None:
    checked()


@pytest.mark.parametrize("name", [name for name in CONFIGURATIONS if name not in NOT_SIMULATED])
def test_the_simulator_takes_what_the_broker_takes(checked: Callable[[], None], name: str) -> None:
    checked()
