"""What tests need that run pytest inside pytest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import simulator


@pytest.fixture(scope="session")
def loaded() -> None:
    """Everything that a test inside may load is loaded.

    pytester forgets afterwards what was loaded there for the first time; loaded again, a module's
    classes would be others than those that its users know.
    """
    from simulator.testing import declared
    from simulator.testing.brokers import inspect_server, inspect_simulator
    from simulator.testing.brokers.backends import Simulator

    assert declared
    assert inspect_server
    assert inspect_simulator
    with Simulator().broker(None, None) as broker:
        broker.api("GET", "overview")


@pytest.fixture
def pytester(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """pytest as a developer runs it: where CI or BUILD_NUMBER are set, its summary would repeat failures in full."""
    for name in ("CI", "BUILD_NUMBER"):
        monkeypatch.delenv(name, raising=False)
    return pytester


@pytest.fixture
def inner(loaded: None, pytester: pytest.Pytester) -> pytest.Pytester:
    """A folder for test files, whose pytest knows no cache and no plugins but this one's."""
    pytester.makeini("[pytest]\naddopts = -p no:cacheprovider -p no:hypothesispytest\n")
    return pytester


@pytest.fixture
def server() -> Iterator[str]:
    """Something that passes for a real server: AMQP and management URL."""
    with simulator.serve("4.3", clock="wall", management_port=0) as server:
        yield f"{server.amqp_url}|{server.management_url}"
