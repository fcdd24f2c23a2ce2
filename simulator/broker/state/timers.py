"""What will happen by itself, and when: a heap of deadlines.

A deadline that no longer holds is not removed: whoever it wakes looks for itself
whether there is anything to do.
"""

from __future__ import annotations

import heapq
from typing import Any

Deadline = tuple[int, int, str, Any]


class Timers:
    """Deadlines, earliest first; equal ones in the order in which they were set."""

    def __init__(self) -> None:
        self._heap: list[Deadline] = []
        self._count = 0

    def set(self, due_us: int, kind: str, subject: Any) -> None:
        """Have ``kind`` looked at for ``subject`` at ``due_us``."""
        self._count += 1
        heapq.heappush(self._heap, (due_us, self._count, kind, subject))

    def next_due(self) -> int | None:
        """The earliest deadline, microseconds since 1970."""
        return self._heap[0][0] if self._heap else None

    def pop(self, now_us: int) -> Deadline | None:
        """Remove and return the earliest deadline if it has come."""
        if self._heap and self._heap[0][0] <= now_us:
            return heapq.heappop(self._heap)
        return None
