"""Which brokers a test runs on: those of ``--dlx-broker``, and of the simulator the releases that are asked for.

Where the simulator is meant without a release, the marker ``dlx_releases`` says which, or else the command line, or
else the configuration. Like the plugin, this loads nothing but pytest until a test needs it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

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
    releases = _releases_in(config, "dlx_releases")
    if releases and _releases_in(config, "dlx_release"):
        raise pytest.UsageError("dlx_release and dlx_releases in the configuration do the same; leave one of them out")
    config.stash[_RELEASES] = _simulators(config, releases, "dlx_releases in the configuration")
    configured_answer_within_s(config)
    named = config.getoption("dlx_broker")
    if named:
        config.stash[BACKENDS] = [_find_backend(config, name) for name in named]
    elif _release(config) is not None:
        _default(config)


def brokers_of(test: pytest.Item | pytest.Collector) -> list[Backend]:
    """Return the brokers of a test; none if it has the default one."""
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
    given = [*map(repr, marker.args), *(f"{name}={value!r}" for name, value in marker.kwargs.items())]
    source = f"@pytest.mark.dlx_releases({', '.join(given)})"
    if not marker.args or marker.kwargs or not all(isinstance(name, str | float) for name in marker.args):
        told = "expected releases, each in quotes, such as dlx_releases('3.13', '4.3')"
        raise failed(f"{test.nodeid}: {source}: {told}")
    if _marked_release(test):
        raise failed(f"{test.nodeid}: dlx_releases and the release of dlx_topology do the same; leave one of them out")
    try:
        return _simulators(test.config, [_release_text(each, source) for each in marker.args], source)
    except pytest.UsageError as error:
        raise failed(f"{test.nodeid}: {error}") from None


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
    named: str | None = config.getoption("dlx_release")
    if named:
        return _checked(config, named, "--dlx-release")
    configured = _releases_in(config, "dlx_release")
    if len(configured) > 1:
        raise pytest.UsageError("dlx_release in the configuration names one release; dlx_releases names several")
    return _checked(config, configured[0], "dlx_release in the configuration") if configured else None


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
        raise pytest.UsageError(f"--dlx-broker {name} and --dlx-release {wanted} name two releases; leave one out")
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


# The configuration, in which TOML may have numbers. pytest refuses them where it wants text.


def configured_answer_within_s(config: pytest.Config) -> float | None:
    """Return ``dlx_answer_within_s`` of the configuration; ``None`` without it. Raises ``pytest.UsageError``."""
    value = _configured(config, "dlx_answer_within_s")
    if isinstance(value, str):
        value = value.strip("'\"")
    return None if value in ("", None) else _seconds("dlx_answer_within_s in the configuration", value)


def answer_within_s(test: pytest.Item | pytest.Collector) -> float | None:
    """Return how long time stands for a consumer, seconds: of the closest marker, else of the configuration."""
    marker = test.get_closest_marker("dlx_answer_within_s")
    if marker is None:
        return configured_answer_within_s(test.config)
    if len(marker.args) != 1 or marker.kwargs:
        raise failed("expected @pytest.mark.dlx_answer_within_s(seconds), such as dlx_answer_within_s(30)")
    try:
        return _seconds("@pytest.mark.dlx_answer_within_s", marker.args[0])
    except pytest.UsageError as error:
        raise failed(str(error)) from None


def _seconds(source: str, value: Any) -> float:
    from simulator.testing.brokers.broker_under_test import seconds_of

    try:
        return seconds_of(source, value)
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None


def _releases_in(config: pytest.Config, option: str) -> list[str]:
    """Return the releases of an option of the configuration, as text. Raises ``pytest.UsageError``."""
    value = _configured(config, option)
    if isinstance(value, str):
        value = value.split()
    values = value if isinstance(value, list) else [] if value is None else [value]
    if any("," in str(each) for each in values):
        told = " ".join(map(str, values))
        raise pytest.UsageError(f"{option} in the configuration: separate releases by spaces, not commas; got {told!r}")
    return [_release_text(each, f"{option} in the configuration", isinstance(value, list)) for each in values]


def _release_text(value: object, source: str, in_list: bool = False) -> str:
    """Return the release that a value names: 4.3 is '4.3', but 3.1 may be meant for '3.10'."""
    from dlx.releases import RELEASES

    if isinstance(value, str):
        return value.strip("'\"")
    longer = f"{value}0"
    if isinstance(value, float) and longer not in RELEASES:
        return str(value)
    right = f'"{longer if longer in RELEASES else RELEASES[-1]}"'
    told = f"{source}: expected releases in quotes, such as {f'[{right}]' if in_list else right}"
    if longer in RELEASES:
        told = f"{source}: a number drops the last zero of {longer}, so write {right} in quotes"
    raise pytest.UsageError(f"{told}; got {value!r}")


def _configured(config: pytest.Config, option: str) -> Any:
    written = _in_toml(config, option)
    try:
        found = config.getini(option)
    except (TypeError, pytest.UsageError):
        if written is None:
            raise
        return written
    # In [tool.pytest.ini_options] pytest makes texts of numbers.
    is_number = not isinstance(written, str | list) and found in (str(written), [str(written)])
    return written if is_number else found


def _in_toml(config: pytest.Config, option: str) -> Any:
    """Return an option as the TOML file of the configuration has it; ``None`` if it has not."""
    if config.inipath is None or config.inipath.suffix != ".toml":
        return None
    document = tomllib.loads(config.inipath.read_text(encoding="utf-8"))
    tables: Any = document.get("tool", document).get("pytest", {})
    return tables.get(option, tables.get("ini_options", {}).get(option))


# Failures


def needed(error: ModuleNotFoundError) -> str:
    """Say what to install for the library that was not found."""
    from simulator.extras import missing

    found = missing(error)
    if found is None:
        raise error
    return f"dlx_broker: {found}"


def failed(why: str) -> BaseException:
    """Return a failure without a stack trace: it is the test that is wrong."""
    return pytest.fail.Exception(why, pytrace=False)
