"""Lets cases run at the same time on one server, and those alone that would disturb the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition

_ALONE = -1


class Turns:
    """The turns of the cases on one server."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._running = 0

    @contextmanager
    def turn(self, *, alone: bool) -> Iterator[None]:
        """Wait until a case may run, and let others wait or run beside it."""
        with self._changed:
            self._changed.wait_for(lambda: self._running == 0 if alone else self._running != _ALONE)
            self._running = _ALONE if alone else self._running + 1
        try:
            yield
        finally:
            with self._changed:
                self._running = 0 if alone else self._running - 1
                self._changed.notify_all()
