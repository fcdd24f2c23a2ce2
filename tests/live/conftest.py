"""Tests against real servers: each gets a virtual host of its own and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.servers import LiveServer, fresh_vhost


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder counts as live, before ``-m`` chooses."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.live)


@pytest.fixture
def live_vhost(live_server: LiveServer) -> Iterator[str]:
    """The name of a fresh virtual host on ``live_server``, deleted when the test ends."""
    with fresh_vhost(live_server) as name:
        yield name
