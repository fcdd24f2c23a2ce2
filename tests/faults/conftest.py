"""Every test here runs on the simulator of each release, and on each live server there is."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

from dlx.releases import RELEASES
from tests.faults import targets
from tests.faults.targets import Target
from tests.live.servers import LiveServer, given


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "target" not in metafunc.fixturenames:
        return
    simulated = [pytest.param(release, id=f"simulated-{release}") for release in RELEASES]
    servers = _servers(tuple(each for each in metafunc.config.getoption("--dlx-broker") if each.startswith("amqp")))
    real = [pytest.param(server, id=f"live-{server.release}", marks=pytest.mark.live) for server in servers]
    metafunc.parametrize("target", simulated + real, indirect=True, scope="session")


@cache
def _servers(options: tuple[str, ...]) -> list[LiveServer]:
    """The live servers of this run, asked once."""
    return given(options)


@pytest.fixture(scope="session")
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    """A server to be ill-treated."""
    if isinstance(request.param, str):
        with targets.simulated(request.param) as simulated:
            yield simulated
    else:
        yield targets.live(request.param)


@pytest.fixture
def vhost(target: Target) -> Iterator[str]:
    """A fresh virtual host on ``target``."""
    with target.vhosts(1) as (name,):
        yield name
