"""Plays scenarios to real ActiveMQ brokers, several side by side: each mostly waits.

A module of such tests has a function ``check``, which takes a player and the parameters
of a test, and raises ``AssertionError`` where the broker and the simulator differ.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.systems.activemq.live.player import Player

BROKER = Path(__file__).parent / "broker"
AT_ONCE = 8

Checks = Mapping[str, Future[None]]


def why_not() -> str:
    """Why no broker can be started here; empty where one can."""
    found = subprocess.run([BROKER, "why"], capture_output=True, text=True, check=True)
    return found.stdout.strip()


def asked_for(items: Sequence[pytest.Item]) -> list[pytest.Function]:
    """The tests that ask for ``checked``."""
    return [item for item in items if isinstance(item, pytest.Function) and "checked" in item.fixturenames]


@contextmanager
def begun(tests: Sequence[pytest.Function]) -> Iterator[Checks]:
    """Begin to check what the tests are about; what becomes of each, by the id of the test."""
    subprocess.run([BROKER, "prepare"], check=True)
    players = _Players()
    with ThreadPoolExecutor(AT_ONCE, initializer=players.begin) as pool:
        yield {test.nodeid: pool.submit(players.run, test.module.check, _parameters(test)) for test in tests}
        pool.shutdown(cancel_futures=True)
    players.close()


def _parameters(test: pytest.Function) -> Mapping[str, Any]:
    return test.callspec.params if hasattr(test, "callspec") else {}


class _Players:
    """Processes that start brokers, one for each thread."""

    def __init__(self) -> None:
        self._own = threading.local()
        self._all: list[Player] = []

    def begin(self) -> None:
        """Start the process of this thread."""
        self._own.player = Player(BROKER)
        self._all.append(self._own.player)

    def run(self, check: Callable[..., None], parameters: Mapping[str, Any]) -> None:
        """Let it play what one test is about."""
        check(self._own.player, **parameters)

    def close(self) -> None:
        """End them."""
        for player in self._all:
            player.close()
