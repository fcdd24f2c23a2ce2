"""What queues hold while messages come back: those that came before, until their time to live ends."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from itertools import takewhile
from typing import NamedTuple

import msgspec


class Held(msgspec.Struct):
    """What a queue holds: how many messages are ready, and of how many bytes."""

    messages: int = 0
    bytes: int = 0


class _Leaving(NamedTuple):
    at_us: float
    bytes: int


class HeldMeanwhile:
    """What queues hold while one message after the other is published.

    Args:
        now: what each queue holds at the start. How long that stays is not known, so it stays.
        apart_us: the time between two publishes.
    """

    def __init__(self, now: Mapping[str, Held], apart_us: float) -> None:
        self._held = {queue: Held(each.messages, each.bytes) for queue, each in now.items()}
        self._leaving: dict[str, deque[_Leaving]] = {}
        self._apart_us, self._now_us = apart_us, 0.0

    def next_publish(self, *, waits_us: float = 0.0) -> None:
        """Let the time pass until the next publish, which waits so long."""
        self._now_us += max(waits_us, self._apart_us)

    def of(self, queue: str, *, in_us: float = 0.0) -> Held:
        """Return what a queue holds now, or will hold of that in some microseconds."""
        held = self._held.setdefault(queue, Held())
        leaving = self._leaving.get(queue, deque())
        while leaving and leaving[0].at_us <= self._now_us:
            held.messages -= 1
            held.bytes -= leaving.popleft().bytes
        gone = list(takewhile(lambda each: each.at_us <= self._now_us + in_us, leaving))
        return Held(held.messages - len(gone), held.bytes - sum(each.bytes for each in gone))

    def add(self, queue: str, size_bytes: int, ttl_ms: int | None) -> None:
        """Count a message that comes into a queue now, and has that time to live there."""
        self.of(queue)
        held = self._held[queue]
        held.messages += 1
        held.bytes += size_bytes
        if ttl_ms is not None:
            leaving = _Leaving(self._now_us + ttl_ms * 1_000, size_bytes)
            self._leaving.setdefault(queue, deque()).append(leaving)
