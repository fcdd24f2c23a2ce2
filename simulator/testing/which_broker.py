"""Which brokers a test runs on: those of ``--dlx-broker``, and of the simulator the releases that are asked for.

Where the simulator is meant without a release, the marker ``dlx_releases`` says which, or else the command line, or
else the configuration. Like the plugin, this loads nothing but pytest until a test needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from simulator.testing.brokers.broker_under_test import Backend

BACKENDS = pytest.StashKey["list[Backend]"]()
"""The brokers of this run; set before the collection, it replaces those of ``--dlx-broker``."""

_SIMULATOR = "simulator"
_DEFAULT = pytest.StashKey["Backend"]()
_RELEASES = pytest.StashKey["list[Backend]"]()


def check_configuration(config: pytest.Config) -> None:
    """Find the brokers that options and the configuration name. Raises ``pytest.UsageError``."""
    releases = config.getini("dlx_releases")
    if releases and config.getini("dlx_release"):
        raise pytest.UsageError("dlx_release and dlx_releases in the configuration say the same; leave one of them out")
    config.stash[_RELEASES] = _simulators(config, releases, "dlx_releases in the configuration")
    named = config.getoption("dlx_broker")
    if named:
        config.stash[BACKENDS] = [_find_backend(config, name) for name in named]
    elif _release(config) is not None:
        _default(config)


def brokers_of(test: pytest.Item | pytest.Collector) -> list[Backend]:
    """Return the brokers of a test; none where it has the one that nobody named."""
    given = test.config.stash.get(BACKENDS, [])
    simulated = _releases_marked(test) or _releases_configured(test)
    if not simulated:
        return given
    servers = [backend for backend in given if not backend.simulated]
    named = [backend for backend in given or [_default(test.config)] if backend.simulated]
    wanted = [each for backend in named for each in (simulated if backend.id == _SIMULATOR else [backend])]
    return [*{backend.id: backend for backend in wanted}.values(), *servers]


def chosen(request: pytest.FixtureRequest) -> Backend:
    """Return the broker for this run of the test."""
    if hasattr(request, "param"):
        backend: Backend = request.param
        return backend
    return (brokers_of(request.node) or [_default(request.config)])[0]


def releases_of(test: pytest.Item | pytest.Collector) -> list[str]:
    """Return the releases that the closest marker ``dlx_releases`` names; none without one."""
    return [backend.id for backend in _releases_marked(test)]


def _releases_marked(test: pytest.Item | pytest.Collector) -> list[Backend]:
    marker = test.get_closest_marker("dlx_releases")
    if marker is None:
        return []
    if not marker.args or marker.kwargs or not all(isinstance(name, str) for name in marker.args):
        raise failed("expected @pytest.mark.dlx_releases(*releases), such as dlx_releases('3.13', '4.3')")
    if _marked_release(test):
        raise failed("dlx_releases and the release of dlx_topology say the same; leave one of them out")
    try:
        return _simulators(test.config, marker.args, "@pytest.mark.dlx_releases")
    except pytest.UsageError as error:
        raise failed(str(error)) from None


def _releases_configured(test: pytest.Item | pytest.Collector) -> list[Backend]:
    """Return those of the configuration, unless the test or the command line has its own."""
    if test.config.getoption("dlx_release") or _marked_release(test):
        return []
    return test.config.stash[_RELEASES]


def _simulators(config: pytest.Config, releases: Sequence[str], source: str) -> list[Backend]:
    return [_backend(config, _checked(config, release, source)) for release in releases]


def _marked_release(test: pytest.Item | pytest.Collector) -> bool:
    return any(marker.kwargs.get("release") for marker in test.iter_markers("dlx_topology"))


def _release(config: pytest.Config) -> str | None:
    """Return the release that the simulator is to be, if the command line or the configuration names one."""
    source = "--dlx-release" if config.getoption("dlx_release") else "dlx_release in the configuration"
    named = config.getoption("dlx_release") or config.getini("dlx_release")
    return _checked(config, named, source) if named else None


def _checked(config: pytest.Config, version: str, source: str) -> str:
    """Return the release of a name or version, and warn if another version stands in for it."""
    from dlx.releases import StandInRelease, UnknownReleaseError, release_and_remark

    try:
        found, remark = release_and_remark(version)
        if remark:
            config.issue_config_time_warning(StandInRelease(remark), stacklevel=2)
    except (StandInRelease, UnknownReleaseError) as error:
        raise pytest.UsageError(f"{source}: {error}") from error
    return found.name


def _default(config: pytest.Config) -> Backend:
    """Return the simulator, for a run that names no broker."""
    if _DEFAULT not in config.stash:
        config.stash[_DEFAULT] = _backend(config, _SIMULATOR, _release(config))
    return config.stash[_DEFAULT]


def _find_backend(config: pytest.Config, name: str) -> Backend:
    """Return the broker that ``--dlx-broker`` names. The release in the configuration is for the simulator alone."""
    wanted: str | None = config.getoption("dlx_release")
    if name == _SIMULATOR:
        return _backend(config, name, _release(config))
    if not name[:1].isdigit():
        return _backend(config, name, wanted)
    found = _checked(config, name, "--dlx-broker")
    if wanted and _checked(config, wanted, "--dlx-release") != found:
        raise pytest.UsageError(f"--dlx-broker {name} and --dlx-release {wanted} say two releases; leave one out")
    return _backend(config, found)


def _backend(config: pytest.Config, name: str, release: str | None = None) -> Backend:
    from simulator.testing.brokers.broker_under_test import BrokerUnavailableError

    try:
        from simulator.testing.brokers.backends import backend

        found = backend(name, release)
    except ModuleNotFoundError as error:
        raise pytest.UsageError(needed(error)) from error
    except (ValueError, BrokerUnavailableError) as error:
        raise pytest.UsageError(f"--dlx-broker: {error}") from error
    config.add_cleanup(found.close)
    return found


# Failures


def needed(error: ModuleNotFoundError) -> str:
    """Tell what to install for the library that was not found."""
    from simulator.extras import missing

    found = missing(error)
    if found is None:
        raise error
    return f"dlx_broker: {found}"


def failed(why: str) -> BaseException:
    """Return a failure without a stack trace: it is the test that is wrong."""
    return pytest.fail.Exception(why, pytrace=False)
