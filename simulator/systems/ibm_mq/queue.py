"""The dead-letter queue that the handler browses."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator

import msgspec

from simulator.systems.ibm_mq.mqdlh import DeadMessage

# What a queue is ordered by: priority, the highest first, and arrival.
Position = tuple[int, int]


class Queued(msgspec.Struct, frozen=True):
    """A message in its place on the queue.

    Attributes:
        position: its place.
        name: what the scenario calls it.
        message: its MQMD and data.
    """

    position: Position
    name: str
    message: DeadMessage


class DeadLetterQueue:
    """Messages in the order in which they are browsed.

    Args:
        by_priority: whether a higher priority goes ahead (MSGDLVSQ(PRIORITY)); else first in, first out.
    """

    def __init__(self, *, by_priority: bool) -> None:
        self._by_priority = by_priority
        self._arrivals = 0
        self._positions: list[Position] = []
        self._queued: dict[Position, Queued] = {}

    def __len__(self) -> int:
        return len(self._positions)

    def __iter__(self) -> Iterator[Queued]:
        return (self._queued[position] for position in self._positions)

    def __contains__(self, position: Position) -> bool:
        return position in self._queued

    def put(self, name: str, message: DeadMessage) -> Queued:
        """Put a message where its priority and its arrival place it."""
        self._arrivals += 1
        position = (-message.priority if self._by_priority else 0, self._arrivals)
        queued = Queued(position, name, message)
        insort(self._positions, position)
        self._queued[position] = queued
        return queued

    def after(self, position: Position | None) -> Queued | None:
        """Return the first message behind a position (``None``: the first of all); ``None`` at the end."""
        index = 0 if position is None else bisect_right(self._positions, position)
        return self._queued[self._positions[index]] if index < len(self._positions) else None

    def at(self, position: Position) -> Queued:
        """Return the message with that position. Raises ``KeyError`` if it has gone."""
        return self._queued[position]

    def remove(self, position: Position) -> None:
        """Take a message from the queue. Raises ``KeyError`` if it has gone."""
        del self._queued[position]
        del self._positions[bisect_left(self._positions, position)]

    def find(self, name: str) -> Queued | None:
        """Return the first message with that name; ``None`` if no message has it."""
        return next((queued for queued in self if queued.name == name), None)
