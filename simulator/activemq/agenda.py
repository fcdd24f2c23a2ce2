"""What is to happen at a later time, in the order in which it is due."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

Action = Callable[[], None]


class Agenda:
    """Actions by time; those of one time in the order they were added."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, Action]] = []
        self._numbers = count()

    def add(self, due_ms: int, action: Action) -> None:
        """Do ``action`` at ``due_ms``."""
        heapq.heappush(self._entries, (due_ms, next(self._numbers), action))

    @property
    def next_due_ms(self) -> int | None:
        """When the next one is due; ``None`` where there is none."""
        return self._entries[0][0] if self._entries else None

    def pop(self) -> Action:
        """The next one, which is due no more."""
        return heapq.heappop(self._entries)[2]
