"""A real ActiveMQ for the tests of this folder, started for them and stopped after them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.systems.activemq.live.player import Player

BROKER = Path(__file__).parent / "broker"


def why_not() -> str:
    """Why no broker can be started here; empty where one can."""
    found = subprocess.run([BROKER, "why"], capture_output=True, text=True, check=True)
    return found.stdout.strip()


@pytest.fixture(scope="session")
def player() -> Iterator[Player]:
    """The process that starts brokers, each for one scenario, and plays to them."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    subprocess.run([BROKER, "prepare"], check=True)
    player = Player(BROKER)
    yield player
    player.close()


@pytest.fixture(scope="session")
def activemq() -> Iterator[Path]:
    """The command that plays steps to the broker that runs."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    subprocess.run([BROKER, "start"], check=True)
    try:
        yield BROKER
    finally:
        subprocess.run([BROKER, "stop"], check=True)
