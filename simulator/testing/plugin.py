"""The pytest plugin ``dlx``: a fresh broker for every test, simulated or real.

    def test_a_rejected_order_is_parked(dlx_broker): ...

pytest loads this file in every run of everybody who has the package, so it imports
nothing but pytest; the rest is loaded when a test asks for it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from dlx.topology import Topology
    from simulator.testing.brokers.broker_under_test import Backend, Broker, Clock
    from simulator.testing.search.topology_under_test import OneTopology

BACKENDS = pytest.StashKey["list[Backend]"]()
"""The brokers of this run; set before the collection, it replaces those of ``--dlx-broker``."""

_DEFAULT = pytest.StashKey["Backend"]()

_MARKER = (
    "dlx_topology(file=None, *, release=None, vhost=None): the definitions file to import into the test's broker; "
    "the release of RabbitMQ that the test is for; the virtual host of the file that is meant"
)
_NOTHING_GIVEN = (
    "dlx_topology: no definitions file is given; mark the test with @pytest.mark.dlx_topology(FILE), "
    "or set --dlx-definitions or dlx_definitions in the configuration"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the group ``dlx``."""
    group = parser.getgroup("dlx", "dead letters (dlx)")
    group.addoption(
        "--dlx-broker",
        action="append",
        default=[],
        metavar="BROKER",
        help="what dlx_broker is: simulator (the default), container:IMAGE (with the management plugin), or a running "
        "server as amqp://user:password@host:port/ (management at that port + 10000) or 'AMQP_URL|MANAGEMENT_URL'. "
        "Given more than once, tests run once for each.",
    )
    group.addoption(
        "--dlx-release",
        metavar="RELEASE",
        help="the release of RabbitMQ that the simulator is, such as 4.3; real servers must be of it",
    )
    group.addoption("--dlx-definitions", metavar="FILE", help="the definitions to import into every test's broker")
    parser.addini("dlx_release", "the release of RabbitMQ that the simulator is")
    parser.addini("dlx_definitions", "the definitions to import into every test's broker", type="string")


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known, and look at what the options name before anything is collected."""
    config.addinivalue_line("markers", _MARKER)
    named = config.getoption("dlx_broker")
    if named:
        config.stash[BACKENDS] = [_named(config, name) for name in named]
    elif _release(config) is not None:
        _named(config, "simulator")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each broker that was given."""
    given = metafunc.config.stash.get(BACKENDS, [])
    if given and "dlx_broker" in metafunc.fixturenames:
        metafunc.parametrize("dlx_broker", given, ids=[backend.id for backend in given], indirect=True)


@pytest.fixture
def dlx_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A fresh broker: amqp_url, management_url, clock, release, vhost, api(method, path, body)."""
    from dlx.releases import UnknownReleaseError
    from simulator.definitions import DefinitionsError
    from simulator.testing.brokers.broker_under_test import BrokerUnavailableError

    file, release, vhost = _marked(request)
    try:
        with _backend(request).broker(release, _topology(request, file, vhost)) as broker:
            if release not in (None, broker.release):
                pytest.skip(f"the test is for RabbitMQ {release}, and this one is {broker.release}")
            yield broker
    except DefinitionsError as error:
        raise _failed(str(error)) from None
    except UnknownReleaseError as error:
        raise _failed(f"@pytest.mark.dlx_topology: {error}") from None
    except ModuleNotFoundError as error:
        raise _failed(_needed(error)) from None
    except BrokerUnavailableError as error:
        pytest.exit(f"--dlx-broker: {error}", returncode=pytest.ExitCode.USAGE_ERROR)


@pytest.fixture
def dlx_clock(dlx_broker: Broker) -> Clock:
    """The broker's time. On the simulator ``advance(hours=24)`` takes no time; on a real server it waits."""
    return dlx_broker.clock


@pytest.fixture
def dlx_amqp_url(dlx_broker: Broker) -> str:
    """Where AMQP clients connect, with user, password and virtual host."""
    return dlx_broker.amqp_url


@pytest.fixture
def dlx_topology(dlx_broker: Broker) -> Topology:
    """Return the ``dlx.topology.Topology`` of the definitions imported into the broker."""
    if dlx_broker.topology is None:
        raise _failed(_NOTHING_GIVEN)
    return dlx_broker.topology.topology


# Which broker


def _release(config: pytest.Config) -> str | None:
    """Return the release that the simulator is to be, if the command line or the configuration names one."""
    return config.getoption("dlx_release") or config.getini("dlx_release") or None


def _named(config: pytest.Config, name: str) -> Backend:
    """Return the backend that an option names. The release in the configuration is for the simulator alone."""
    from dlx.releases import StandInRelease, UnknownReleaseError, stand_in_remark
    from simulator.testing.brokers.backends import backend
    from simulator.testing.brokers.broker_under_test import BrokerUnavailableError

    source = "--dlx-release" if config.getoption("dlx_release") else "dlx_release in the configuration"
    wanted = _release(config) if name == "simulator" else config.getoption("dlx_release")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StandInRelease)
            found = backend(name, wanted)
        if name == "simulator" and wanted and (remark := stand_in_remark(wanted)):
            config.issue_config_time_warning(StandInRelease(remark), stacklevel=2)
    except (StandInRelease, UnknownReleaseError) as error:
        raise pytest.UsageError(f"{source}: {error}") from error
    except ModuleNotFoundError as error:
        raise pytest.UsageError(_needed(error)) from error
    except (ValueError, BrokerUnavailableError) as error:
        raise pytest.UsageError(f"--dlx-broker: {error}") from error
    config.add_cleanup(found.close)
    return found


def _backend(request: pytest.FixtureRequest) -> Backend:
    """Return the backend for this run of the test."""
    if hasattr(request, "param"):
        backend: Backend = request.param
        return backend
    stash = request.config.stash
    given = stash.get(BACKENDS, [])
    if given:
        return given[0]
    if _DEFAULT not in stash:
        stash[_DEFAULT] = _named(request.config, "simulator")
    return stash[_DEFAULT]


# What is imported into it. The marker goes before the command line, and that before the configuration.


def _marked(request: pytest.FixtureRequest) -> tuple[str | None, str | None, str | None]:
    """Return the file, release and virtual host of the test's markers, each from the closest marker that has it."""
    file = release = vhost = None
    for marker in request.node.iter_markers("dlx_topology"):
        try:
            next_file, next_release, next_vhost = _arguments(*marker.args, **marker.kwargs)
        except (TypeError, AttributeError):
            raise _failed(f"expected @pytest.mark.{_MARKER.partition(':')[0]}, all of them texts") from None
        if file is None or next_file is None:  # a virtual host beside a file is one of that file
            vhost = vhost or next_vhost
        file, release = file or next_file, release or next_release
    return file, release, vhost


def _arguments(
    file: str | os.PathLike[str] | None = None, *, release: str | None = None, vhost: str | None = None
) -> tuple[str | None, str | None, str | None]:
    named = None if release is None else ".".join(release.split(".")[:2])
    return None if file is None else os.fspath(file), named, vhost


def _topology(request: pytest.FixtureRequest, marked: str | None, vhost: str | None) -> OneTopology | None:
    """Return the topology of the test, if it has one."""
    from simulator.testing.search.topology_under_test import read_topology

    config = request.config
    root, here = config.rootpath, config.invocation_params.dir
    configured = config.inipath.parent if config.inipath else root
    sources = [
        (marked, "@pytest.mark.dlx_topology", (request.path.parent, root)),
        (config.getoption("dlx_definitions"), "--dlx-definitions", (here, root)),
        (config.getini("dlx_definitions"), "dlx_definitions", (configured,)),
    ]
    for file, source, folders in sources:
        if file:
            return read_topology(_found(file, source, folders), vhost)
    return None


def _found(file: str, source: str, folders: Sequence[Path]) -> Path:
    """Return the file in the first of the folders that has it."""
    found = next((folder / file for folder in folders if (folder / file).is_file()), None)
    if found is None:
        looked = " or ".join(dict.fromkeys(map(str, folders)))
        raise _failed(f"{source}: no file {file!r} in {looked}")
    return found


def _needed(error: ModuleNotFoundError) -> str:
    """Tell what to install for the library that was not found."""
    from simulator.extras import missing

    needed = missing(error)
    if needed is None:
        raise error
    return f"dlx_broker: {needed}"


def _failed(why: str) -> BaseException:
    """Return a failure without a stack trace: it is the test that is wrong."""
    return pytest.fail.Exception(why, pytrace=False)
