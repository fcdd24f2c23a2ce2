"""What all tests share: which real servers there are, and Hypothesis' settings."""

from __future__ import annotations

import os
import sys

import pytest
from hypothesis import settings

from tests.live import servers

NO_SERVER = "no RabbitMQ server: pass --dlx-broker or run make test-live"

# A busy machine is no reason to fail an example; a failing one is printed so that it can be run again.
settings.register_profile("dlx", deadline=None, print_blob=True)
settings.load_profile("dlx")

# A Spark session inside a test: on loopback, and its workers on this very Python instead of PATH's python3.
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--dlx-broker",
        action="append",
        default=[],
        metavar="AMQP_URL",
        help="a running RabbitMQ server with the management plugin, as amqp://user:password@host:port/ "
        "(management at that port + 10000) or 'AMQP_URL|MANAGEMENT_URL'; may be given more than once",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that asks for ``live_server`` once for each server there is."""
    if "live_server" not in metafunc.fixturenames:
        return
    found = _live_servers(metafunc.config)
    params = [pytest.param(server, id=server.release, marks=pytest.mark.live) for server in found]
    if not params:
        params = [pytest.param(None, id="none", marks=[pytest.mark.live, pytest.mark.skip(reason=NO_SERVER)])]
    metafunc.parametrize("live_server", params, indirect=True, scope="session")


@pytest.fixture(scope="session")
def live_server(request: pytest.FixtureRequest) -> servers.LiveServer:
    """A running RabbitMQ server; the test runs once for each of those given."""
    return request.param


_FOUND = pytest.StashKey[list[servers.LiveServer]]()


def _live_servers(config: pytest.Config) -> list[servers.LiveServer]:
    """The servers of this run, asked once."""
    if _FOUND not in config.stash:
        try:
            config.stash[_FOUND] = servers.given(config.getoption("--dlx-broker"))
        except servers.NoSuchServerError as error:
            raise pytest.UsageError(str(error)) from error
    return config.stash[_FOUND]
