"""The pytest plugin ``dlx``: a fresh broker for every test, simulated or real.

    def test_a_rejected_order_is_parked(dlx_broker): ...

pytest loads this file in every run of everybody who has the package, so it imports
nothing but pytest; the rest is loaded when a test asks for it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from simulator.testing.which_broker import (
    answer_within_s,
    brokers_of,
    check_configuration,
    chosen,
    failed,
    needed,
    releases_of,
)

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from dlx.topology import Topology
    from simulator.testing.brokers.activemq import ActiveMQ
    from simulator.testing.brokers.broker_under_test import Broker, Clock
    from simulator.testing.fuzz.topology_under_test import OneTopology

pytest_plugins = ("simulator.testing.lint_plugin",)

_BROKER = pytest.StashKey["Broker"]()
_ACTIVEMQ = pytest.StashKey["ActiveMQ"]()

REPORTED = "what became of the messages"
"""The section of the report of a failed test."""

_MARKER = (
    "dlx_topology(file=None, *, release=None, vhost=None): the definitions file to import into the test's broker; "
    "the release of RabbitMQ that the test is for; the virtual host to take from the file"
)
_RELEASES_MARKER = (
    "dlx_releases(*releases): run the test once for each of these releases of RabbitMQ, such as '3.13', '4.3'; on "
    "servers of other releases it is skipped"
)
_ANSWER_MARKER = (
    "dlx_answer_within_s(seconds): how long a consumer may hold a delivery, in seconds of real time, before the "
    "simulator's time goes on without it"
)
_SHARED = "dlx_session_broker"
_MARKED_FOR_ALL = (
    "dlx_topology: this test has the broker of the whole run, whose definitions and release are those of the command "
    "line or the configuration; leave the marker out"
)
_NO_TLS_FOR_ALL = (
    "dlx_tls: this test has the broker of the whole run, which has no TLS; leave the marker out, or connect to "
    "dlx_amqp_url in a test that has a broker of its own"
)
_TLS_FILES = ("cert", "key", "ca", "client_cert", "client_key")
_TLS_MARKER = (
    "dlx_tls(*, clients='optional', login_from=None): give the simulated broker TLS as well, at "
    "dlx_broker.amqps_url with the certificates of dlx_broker.tls; on servers the test is skipped"
)
_ACTIVEMQ_MARKER = (
    "dlx_activemq(file): the activemq.xml of the test's ActiveMQ; without it the broker has no configuration"
)
_SINCE_EMPTY = "The test has the broker of the whole run as the tests before left it, because it has no dlx_broker:"
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
        help="what dlx_broker is: simulator (the default), the simulator of a release such as 4.3, container:IMAGE "
        "(with the management plugin), or a running server as amqp://user:password@host:port/ (management at that "
        "port + 10000) or 'AMQP_URL|MANAGEMENT_URL'. "
        "Given more than once, tests run once for each.",
    )
    group.addoption(
        "--dlx-release",
        metavar="RELEASE",
        help="the release of RabbitMQ to simulate, such as 4.3; real servers must run it",
    )
    group.addoption(
        "--dlx-otlp",
        metavar="FILE",
        help="write what happened to the messages of failed tests to FILE, as OpenTelemetry traces in OTLP's JSON",
    )
    group.addoption("--dlx-definitions", metavar="FILE", help="the definitions to import into every test's broker")
    parser.addini("dlx_release", "the release of RabbitMQ to simulate")
    parser.addini("dlx_releases", "the releases of RabbitMQ to simulate, one after the other, such as 3.13 4.3", "args")
    parser.addini("dlx_definitions", "the definitions to import into every test's broker", type="string")
    parser.addini(
        "dlx_answer_within_s",
        "how long a consumer may hold a delivery, in seconds of real time, before the simulator's time goes on "
        "without it",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the markers known, and look at what the options name before anything is collected."""
    config.addinivalue_line("markers", _MARKER)
    config.addinivalue_line("markers", _RELEASES_MARKER)
    config.addinivalue_line("markers", _ANSWER_MARKER)
    config.addinivalue_line("markers", _TLS_MARKER)
    config.addinivalue_line("markers", _ACTIVEMQ_MARKER)
    check_configuration(config)
    if config.getoption("dlx_otlp"):
        _begin_traces(config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each broker that was given, and for each release that it is for."""
    shared = _SHARED in metafunc.fixturenames
    if not shared and "dlx_broker" not in metafunc.fixturenames:
        return
    given = brokers_of(metafunc.definition)
    if given:
        name = _SHARED if shared else "dlx_broker"
        metafunc.parametrize(name, given, ids=[backend.id for backend in given], indirect=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to the report of a failed test what became of the messages of its broker."""
    report = yield
    if report.failed and report.when == "call":
        own, shared = item.stash.get(_BROKER, None), getattr(item, "funcargs", {}).get(_SHARED)
        broker = own if own is not None else shared
        traces = item.config.getoption("dlx_otlp")
        if traces and broker is not None:
            _write_traces(item.config.invocation_params.dir / traces, broker, item.nodeid)
        if own is not None:
            report.sections.append((REPORTED, "\n".join(_what_became(own, report.longreprtext))))
        elif shared is not None:
            told = [_SINCE_EMPTY, *_what_became(shared, report.longreprtext)]
            report.sections.append((REPORTED, "\n".join(told)))
        activemq = item.stash.get(_ACTIVEMQ, None)
        if activemq is not None:
            report.sections.append((REPORTED, "\n".join(activemq.what_became())))
    return report


@pytest.fixture
def dlx_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A fresh broker: amqp_url, management_url, clock, release, vhost, api(method, path, body).

    In a test that also has the broker of the whole run it is that one, with all queues empty.
    """
    file, release, vhost = _marked(request)
    with contextlib.ExitStack() as ended:
        if _SHARED in request.fixturenames:
            broker: Broker = request.getfixturevalue(_SHARED)
            if file or release or vhost:
                raise failed(_MARKED_FOR_ALL)
            if request.node.get_closest_marker("dlx_tls"):
                raise failed(_NO_TLS_FOR_ALL)
        else:
            broker = ended.enter_context(_started(request, file, release, vhost))
        wanted = [release] if release else releases_of(request.node)
        if wanted and broker.release not in wanted:
            pytest.skip(f"the test is for RabbitMQ {' and '.join(wanted)}, and this one is {broker.release}")
        within_s = answer_within_s(request.node)
        ended.callback(setattr, broker.clock, "answer_within_s", broker.clock.answer_within_s)
        if within_s is not None:
            broker.clock.answer_within_s = within_s
        if _SHARED in request.fixturenames:
            broker.empty()
        request.node.stash[_BROKER] = broker
        yield broker
        del request.node.stash[_BROKER]


@pytest.fixture(scope="session")
def dlx_session_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """One broker for the whole run, for an application that is configured once."""
    with _started(request) as broker:
        yield broker


@pytest.fixture(scope="session")
def dlx_session_amqp_url(dlx_session_broker: Broker) -> str:
    """Where AMQP clients connect to the broker of the whole run, with user, password and virtual host."""
    return dlx_session_broker.amqp_url


@contextlib.contextmanager
def _started(
    request: pytest.FixtureRequest, file: str | None = None, release: str | None = None, vhost: str | None = None
) -> Iterator[Broker]:
    """Yield a new broker. Raises a failure that says why there is none, or ends the run."""
    from dlx.releases import UnknownReleaseError
    from simulator.definitions import DefinitionsError
    from simulator.server.tls import TlsError
    from simulator.testing.brokers.broker_under_test import BrokerUnavailableError
    from simulator.testing.lint_plugin import watched  # not above: pytest loads that as a plugin first

    try:
        with (
            _broker(request, release, _topology(request, file, vhost)) as broker,
            watched(request.config, broker),
        ):
            yield broker
    except DefinitionsError as error:
        raise failed(str(error)) from None
    except UnknownReleaseError as error:
        raise failed(f"@pytest.mark.dlx_topology: {error}") from None
    except TlsError as error:
        raise failed(f"@pytest.mark.dlx_tls: {error}") from None
    except ModuleNotFoundError as error:
        raise failed(needed(error)) from None
    except BrokerUnavailableError as error:
        pytest.exit(f"--dlx-broker: {error}", returncode=pytest.ExitCode.USAGE_ERROR)


@pytest.fixture
def dlx_activemq(request: pytest.FixtureRequest) -> Iterator[ActiveMQ]:
    """A fresh simulated ActiveMQ for clients of STOMP: host, port, advance(hours=1), queues(), messages(queue)."""
    marker = request.node.get_closest_marker("dlx_activemq")
    if marker is not None and (len(marker.args) != 1 or marker.kwargs):
        raise failed(f"expected @pytest.mark.{_ACTIVEMQ_MARKER.partition(':')[0]}")
    folders = request.path.parent, request.config.rootpath
    try:
        from simulator.systems.activemq.activemq_xml import ConfigurationError
        from simulator.testing.brokers.activemq import started

        file = None if marker is None else _found(os.fspath(marker.args[0]), "@pytest.mark.dlx_activemq", folders)
        with contextlib.ExitStack() as ended:
            try:
                broker = ended.enter_context(started(file))
            except ConfigurationError as error:
                raise failed(f"@pytest.mark.dlx_activemq: {file}: {error}") from None
            request.node.stash[_ACTIVEMQ] = broker
            yield broker
            del request.node.stash[_ACTIVEMQ]
    except ModuleNotFoundError as error:
        raise failed(needed(error)) from None


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
        raise failed(_NOTHING_GIVEN)
    return dlx_broker.topology.topology


def _broker(
    request: pytest.FixtureRequest, release: str | None, topology: OneTopology | None
) -> AbstractContextManager[Broker]:
    """Return the broker of the test, with TLS if its marker ``dlx_tls`` asks for it."""
    backend, marker = chosen(request), request.node.get_closest_marker("dlx_tls")
    if marker is None:
        return backend.broker(release, topology)
    from simulator.server.tls import Tls
    from simulator.testing.brokers.simulated import Simulator

    if not isinstance(backend, Simulator):
        pytest.skip("the test has @pytest.mark.dlx_tls, which makes certificates for the simulator")
    folders = request.path.parent, request.config.rootpath
    files = {
        name: str(_found(os.fspath(file), f"@pytest.mark.dlx_tls: {name}", folders))
        for name, file in marker.kwargs.items()
        if name in _TLS_FILES and isinstance(file, str | os.PathLike)
    }
    try:
        tls = Tls(management_port=0, **{**marker.kwargs, **files})
    except (TypeError, ValueError) as error:
        raise failed(f"@pytest.mark.dlx_tls: {error}") from None
    if marker.args:
        raise failed(f"expected @pytest.mark.{_TLS_MARKER.partition(':')[0]}")
    return backend.broker(release, topology, tls)


def _what_became(broker: Broker, told: str) -> list[str]:
    """Say what happened to the messages, beyond what the failure shows. A broker that is gone fails no report."""
    from simulator.testing.assertions import inspect

    try:
        return inspect(broker).what_became(told)
    except Exception as error:  # the test has failed, and its own failure is what counts
        return [f"The broker does not say: {error}"]


# What became of them as traces: those of a failed test are appended to the file of the run.


def _begin_traces(config: pytest.Config) -> None:
    """Empty the file, before any test runs. Raises ``pytest.UsageError`` if it cannot be written."""
    from simulator.extras import ExtraMissingError, check_installed

    file = config.invocation_params.dir / config.getoption("dlx_otlp")
    try:
        check_installed("otlp")
        if not hasattr(config, "workerinput"):  # a worker of pytest-xdist comes later
            file.write_bytes(b"")
    except ExtraMissingError as error:
        raise pytest.UsageError(f"--dlx-otlp: {error}") from None
    except OSError as error:
        raise pytest.UsageError(f"--dlx-otlp {file}: {error.strerror or error}") from None


def _write_traces(file: Path, broker: Broker, test: str) -> None:
    """Append the traces of a test at once, as workers share the file. A broker that is gone has none."""
    from simulator.testing.assertions import inspect

    with contextlib.suppress(Exception):  # the test has failed, and its own failure is what counts
        lines = b"".join(inspect(broker).traces(test))
        with file.open("ab", buffering=0) as stream:
            stream.write(lines)


# What is imported into it. The marker wins over the command line, which wins over the configuration.


def _marked(request: pytest.FixtureRequest) -> tuple[str | None, str | None, str | None]:
    """Return the file, release and virtual host of the test's markers, each from the closest marker that has it."""
    file = release = vhost = None
    for marker in request.node.iter_markers("dlx_topology"):
        try:
            next_file, next_release, next_vhost = _arguments(*marker.args, **marker.kwargs)
        except (TypeError, AttributeError):
            raise failed(f"expected @pytest.mark.{_MARKER.partition(':')[0]}, all of them texts") from None
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
    from simulator.testing.fuzz.topology_under_test import read_topology

    config = request.config
    root, here = config.rootpath, config.invocation_params.dir
    configured = config.inipath.parent if config.inipath else root
    sources = [
        (marked, "@pytest.mark.dlx_topology", (request.path.parent, root) if marked else ()),
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
        raise failed(f"{source}: no file {file!r} in {looked}")
    return found
