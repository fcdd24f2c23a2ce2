"""The questions that the assertions ask a broker, simulated or real."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import starmap
from typing import Protocol

import msgspec

from dlx.consumer import DeathHistory

PATHS_SHOWN = 10
"""How many different paths of dead letters a failure shows."""


class QueueContents(msgspec.Struct):
    """The contents of a queue.

    Attributes:
        histories: of the messages that are ready.
        others: how many more messages are unacknowledged or held; ``None`` where nobody can tell.
    """

    histories: list[DeathHistory]
    others: int | None = None


class Inspection(Protocol):
    """A broker under inspection. The texts it returns are lines of a failure's message."""

    def wait_until_right(self, wrong: Callable[[], list[str]], times: int | None) -> list[str]:
        """Ask ``wrong`` until it finds nothing or patience ends, and return what it found last.

        The work of clients may need a moment to show. ``times``: how many dead letters are
        expected; if 0, there must be none for a while.
        """

    def queues(self) -> list[str]:
        """Return the names of the queues."""

    def contents(self, queue: str) -> QueueContents | None:
        """Return the contents of a queue; ``None`` when it does not exist."""

    def evidence(self) -> list[str]:
        """Say what happened to the messages, as far as the broker shows it."""

    def losses(self) -> list[str]:
        """Say which messages were lost."""

    def what_became(self, told: str) -> list[str]:
        """Say for a failed test what was lost, what waits in each queue, and what ``told`` leaves out."""

    def traces(self, test: str) -> list[bytes]:
        """Return a trace of each message as a line of OTLP's JSON, for the test of that name; none of a server."""

    def unrest(self, within_us: int) -> list[str]:
        """Let that many microseconds pass, and say what still happens to messages after them."""


def paths_told(histories: Iterable[DeathHistory], waiting: int) -> str:
    """Say how the first messages of a queue died, and how many were not read."""
    paths = Counter(map(path_of, histories))
    more = waiting - paths.total()
    return ("; ".join(starmap(_path_told, paths.items())) or "nothing") + (f"; and {more:,} more" if more > 0 else "")


def path_of(history: DeathHistory) -> str:
    """Return a message's path, and where it first died if the path begins elsewhere, as it does in a retry loop."""
    first = history.first
    if first is None or not history.deaths or history.deaths[-1].key == (first.queue, first.reason):
        return history.path
    return f"{history.path} (died first in {first.queue})"


def _path_told(path: str, count: int) -> str:
    if not path:
        return f"{count:,} message{'' if count == 1 else 's'}, never dead-lettered"
    return path if count == 1 else f"{path} ({count:,} times)"
