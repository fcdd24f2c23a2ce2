"""The same scenarios on a running Zaqar and on the simulator: what the server did, the simulator does."""

from __future__ import annotations

import pytest

from tests.systems.zaqar import vectors
from tests.systems.zaqar.live import Recorder, Server
from tests.systems.zaqar.random_scenarios import drawn
from tests.systems.zaqar.scenarios import SCENARIOS, SLOW

pytestmark = pytest.mark.live


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_simulator_does_what_the_server_did(name: str, zaqar_server: Server) -> None:
    vectors.check(Recorder(zaqar_server.send, zaqar_server.redis).record(SCENARIOS[name]), name)


@pytest.mark.parametrize("seed", range(20))
def test_so_it_does_in_what_nobody_thought_of(seed: int, zaqar_server: Server) -> None:
    recorded = Recorder(zaqar_server.send, zaqar_server.redis).record(drawn(seed))
    vectors.check(recorded, f"drawn({seed})")


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_so_it_does_when_time_passes(name: str, zaqar_server: Server) -> None:
    vectors.check(Recorder(zaqar_server.send, zaqar_server.redis).record(SLOW[name]), name)
