"""Where the tests of dead-letter queues run: simulated servers of each release, and real ones."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from dlx.releases import RELEASES
from simulator.redrive.server import server_at
from tests.live.servers import LiveServer
from tests.redrive.dead_letters import Place, simulated


@pytest.fixture(params=RELEASES)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A simulated server of each release."""
    with simulated(request.param) as found:
        yield found


@pytest.fixture
def live_place(live_server: LiveServer) -> Iterator[Place]:
    """A virtual host of its own on a real server."""
    name = f"dlx-redrive-{uuid.uuid4().hex[:8]}"
    found = Place(server_at(live_server.amqp_url, live_server.management_url, name), live_server.release)
    found.api("PUT", f"vhosts/{name}", {})
    try:
        yield found
    finally:
        found.api("DELETE", f"vhosts/{name}")
