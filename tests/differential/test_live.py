"""The simulator answers every scenario as a real server does now."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests import real_servers
from tests.differential.differences import difference, same
from tests.differential.management import RefusedError
from tests.differential.operations import Scenario
from tests.differential.player import Target, play
from tests.differential.scenarios import load
from tests.differential.simulated import simulated
from tests.differential.transcript import Transcript
from tests.live.servers import LiveServer

AT_A_TIME = 16  # scenarios mostly wait
ATTEMPTS = 2  # more, alone and with more patience, before a difference counts: a loaded machine can miss a deadline


def test_the_simulator_answers_as_the_server_does(live_server: LiveServer) -> None:
    release = live_server.release
    if release not in real_servers.RECORDED:
        pytest.skip(f"no scenario is for {release}")
    scenarios = [scenario for scenario in load() if release in scenario.releases]
    server = Target(live_server.amqp_url, live_server.management_url)
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        played = [pool.submit(_played, scenario, server) for scenario in scenarios]
        with simulated(release) as target:
            simulator = [play(scenario.operations, target) for scenario in scenarios]
        theirs = [future.result() for future in played]
    found = [
        _divergence(scenario, release, server, real, mine)
        for scenario, real, mine in zip(scenarios, theirs, simulator, strict=True)
    ]
    divergences = [text for text in found if text is not None]
    if divergences:
        pytest.fail("\n\n".join([*divergences, f"{len(divergences)} of {len(scenarios)} differ"]), pytrace=False)


def _played(scenario: Scenario, server: Target) -> Transcript:
    """What the server did; nothing, which is played again, where its management API was behind and knew no queue."""
    try:
        return play(scenario.operations, server)
    except RefusedError:
        return []


def _divergence(
    scenario: Scenario, release: str, server: Target, real: Transcript, simulator: Transcript
) -> str | None:
    """How the two differ, if the server goes on to."""
    for attempt in range(ATTEMPTS):
        if same(real, simulator):
            return None
        real = play(scenario.operations, server._replace(patience=2 + 2 * attempt))
    if same(real, simulator):
        return None
    return difference(scenario, release, {"rabbitmq": real, "simulator": simulator})
