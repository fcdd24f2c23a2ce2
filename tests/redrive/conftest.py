"""Where the tests of dead-letter queues run: simulated servers of each release, and real ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dlx.releases import RELEASES
from tests.live.servers import LiveServer
from tests.redrive.dead_letters import Place, simulated, vhost_on


@pytest.fixture(params=RELEASES)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A simulated server of each release."""
    with simulated(request.param) as found:
        yield found


@pytest.fixture
def live_place(live_server: LiveServer) -> Iterator[Place]:
    """A virtual host of its own on a real server."""
    with vhost_on(live_server, "dlx-redrive") as found:
        yield found
