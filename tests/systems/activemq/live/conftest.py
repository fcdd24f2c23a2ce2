"""Real ActiveMQ brokers for the tests of this folder: ``side_by_side`` plays what they are about."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.systems.activemq.live.side_by_side import Checks, why_not


@pytest.fixture
def checked(request: pytest.FixtureRequest, activemq_checks: Checks) -> Callable[[], None]:
    """Wait until the test's scenario was played; raises what its ``check`` raised."""
    if request.node.nodeid not in activemq_checks:
        pytest.skip(why_not())
    return activemq_checks[request.node.nodeid].result
