"""Keeps deadlines for what will happen by itself: one heap of them, for every system.

A deadline that no longer holds is not removed: whoever it wakes looks for itself
whether there is anything to do.
"""

from __future__ import annotations

import heapq
from typing import Any, Generic, TypeVar

What = TypeVar("What")
"""How a system says what is to happen: the name of an operation, or the operation itself."""
Deadline = tuple[int, Any, What, Any]
"""The time, the rank among the deadlines of that time, what is to happen, and to whom."""


class Deadlines(Generic[What]):
    """Deadlines, earliest first; those of one time in the order in which they were set.

    Times are whole numbers of any unit: microseconds in most systems, milliseconds in ActiveMQ.
    """

    def __init__(self) -> None:
        self._heap: list[Deadline[What]] = []
        self._count = 0

    def set(self, due: int, what: What, subject: Any = None, rank: Any = None) -> None:
        """Have ``what`` done to ``subject`` at the time ``due``.

        ``rank`` replaces the order in which deadlines were set. Ranks are unique; either all deadlines of a heap have
        one, or no deadline has.
        """
        self._count += 1
        heapq.heappush(self._heap, (due, self._count if rank is None else rank, what, subject))

    def first(self) -> Deadline[What] | None:
        """Return the earliest deadline, or ``None`` if there is no deadline."""
        return self._heap[0] if self._heap else None

    def next_due(self) -> int | None:
        """Return the time of the earliest deadline, or ``None`` if there is no deadline."""
        return self._heap[0][0] if self._heap else None

    def kinds(self) -> frozenset[What]:
        """Return what is to happen, whenever that is."""
        return frozenset(what for _, _, what, _ in self._heap)

    def pop(self, now: int) -> Deadline[What] | None:
        """Remove and return the earliest deadline if it has come; otherwise return ``None``."""
        if self._heap and self._heap[0][0] <= now:
            return heapq.heappop(self._heap)
        return None
