"""What all tests share: which real servers there are, and Hypothesis' settings. The plugin has the options."""

from __future__ import annotations

import os
import sys

import pytest
from hypothesis import settings

from simulator.testing.which_broker import BACKENDS
from tests.live import servers

# Where the simulator and a broker differ, pytest shows what does.
pytest.register_assert_rewrite("tests.systems.activemq.live.agreement")

NO_SERVER = "no RabbitMQ server: pass --dlx-broker or run make test-live"

# A busy machine is no reason to fail an example; a failing one is printed so that it can be run again.
settings.register_profile("dlx", deadline=None, print_blob=True)
settings.load_profile("dlx")

# A Spark session inside a test: on loopback, and its workers on this very Python instead of PATH's python3.
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
# It does so little that optimizing it costs more than it saves.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that asks for ``live_server`` once for each server there is; one with ``dlx_broker``, there too."""
    if "dlx_broker" in metafunc.fixturenames:
        _add_live_servers(metafunc.config)
    if "live_server" not in metafunc.fixturenames:
        return
    found = _live_servers(metafunc.config)
    params = [pytest.param(server, id=server.release, marks=pytest.mark.live) for server in found]
    if not params:
        params = [pytest.param(None, id="none", marks=[pytest.mark.live, pytest.mark.skip(reason=NO_SERVER)])]
    metafunc.parametrize("live_server", params, indirect=True, scope="session")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test whose broker is no simulator counts as live, before ``-m`` chooses.

    A name with an object's address in it differs in each process, and pytest-xdist then runs nothing.
    """
    for item in items:
        if " at 0x" in item.nodeid:
            raise pytest.UsageError(f"{item.nodeid}: the name of this test changes from run to run; give it an id")
        backend = item.callspec.params.get("dlx_broker") if hasattr(item, "callspec") else None
        if backend is not None and not backend.simulated:
            item.add_marker(pytest.mark.live)


@pytest.fixture(scope="session")
def live_server(request: pytest.FixtureRequest) -> servers.LiveServer:
    """A running RabbitMQ server; the test runs once for each of those given."""
    return request.param


_FOUND = pytest.StashKey[list[servers.LiveServer]]()


def _live_servers(config: pytest.Config) -> list[servers.LiveServer]:
    """The servers of this run, asked once."""
    if _FOUND not in config.stash:
        try:
            named = [option for option in config.getoption("dlx_broker") if option.startswith("amqp")]
            config.stash[_FOUND] = servers.given(named)
        except servers.NoSuchServerError as error:
            raise pytest.UsageError(str(error)) from error
    return config.stash[_FOUND]


def _add_live_servers(config: pytest.Config) -> None:
    """Where no broker is named, the plugin's tests run on the simulator and on the servers of the environment."""
    if config.getoption("dlx_broker") or BACKENDS in config.stash:
        return
    # Loaded here, for tests/clients/ runs where little is installed.
    from simulator.testing.brokers.running_server import RunningServer
    from simulator.testing.brokers.servers import Server
    from simulator.testing.brokers.simulated import Simulator

    real = [Server(each.release, each.version, each.amqp_url, each.management_url) for each in _live_servers(config)]
    if real:
        config.stash[BACKENDS] = [Simulator(), *map(RunningServer, real)]
