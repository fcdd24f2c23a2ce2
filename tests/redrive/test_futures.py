"""What a dry run says of the deaths after a redrive comes true; ``python -m tests.redrive.futures`` tries far more."""

from __future__ import annotations

import pytest

from dlx.releases import RELEASES
from simulator.redrive.server import server_at
from simulator.server import serve
from tests.live.servers import LiveServer
from tests.redrive.dead_letters import Place
from tests.redrive.futures import on_live, play

SEEDS = range(1, 9)


@pytest.mark.parametrize("release", RELEASES)
def test_predicted_futures_come_true_on_the_simulator(release: str) -> None:
    with serve(release, management_port=0) as server:
        place = Place(server_at(server.amqp_url, server.management_url), release)
        cases = play(place, SEEDS, lambda: server.clock.advance(seconds=2), messages=10)
    assert [wrong for case in cases for wrong in case.wrong] == []


def test_predicted_futures_come_true_on_a_real_server(live_server: LiveServer) -> None:
    cases = on_live(live_server, SEEDS[:4])
    assert [wrong for case in cases for wrong in case.wrong] == []
