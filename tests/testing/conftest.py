"""What tests need that run pytest inside pytest."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def loaded() -> None:
    """Everything that a test inside may load is loaded.

    pytester forgets afterwards what was loaded there for the first time; loaded again, a module's
    classes would be others than those that its users know.
    """
    from simulator.testing.brokers import inspect_server, inspect_simulator
    from simulator.testing.brokers.backends import Simulator

    assert inspect_server
    assert inspect_simulator
    with Simulator().broker(None, None) as broker:
        broker.api("GET", "overview")
