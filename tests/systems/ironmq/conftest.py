"""An IronMQ for each test."""

from __future__ import annotations

import pytest

from tests.systems.ironmq.client import Client


@pytest.fixture
def mq() -> Client:
    """An IronMQ without queues, at time 0."""
    return Client()
