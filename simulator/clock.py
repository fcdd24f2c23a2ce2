"""Time, as a broker gets it: wall time, or virtual time that stands still until it is moved.

The broker itself has no clock: every command comes with the time. The driver of a
broker asks a clock here. All times are microseconds since 1970.
"""

from __future__ import annotations

import time
from typing import Protocol

_US = 1_000_000


def duration_us(
    *,
    days: float = 0,
    hours: float = 0,
    minutes: float = 0,
    seconds: float = 0,
    milliseconds: float = 0,
) -> int:
    """Return a span of time in microseconds.

    Raises ``ValueError`` for a negative one, because time only goes forward, and ``TypeError`` for what is no number.
    """
    given = {"days": days, "hours": hours, "minutes": minutes, "seconds": seconds, "milliseconds": milliseconds}
    for unit, value in given.items():
        if not hasattr(value, "__float__"):
            raise TypeError(f"expected {unit} to be a number, got {value!r}")
    total = round((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * _US + milliseconds * 1000)
    if total < 0:
        raise ValueError("time only goes forward: a duration must not be negative")
    return total


class Clock(Protocol):
    """A clock, as a driver uses it."""

    def now_us(self) -> int:
        """Return the time, microseconds since 1970: never less than it was before."""

    def wait_s(self, until_us: int) -> float | None:
        """Return the seconds of wall time until it is ``until_us``; ``None`` if that time will not come by itself."""


class WallClock:
    """Real time. A system clock that is set back does not turn it back."""

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now_us(self) -> int:
        """Return the time, microseconds since 1970."""
        return (time.monotonic_ns() + self._offset_ns) // 1000

    def wait_s(self, until_us: int) -> float | None:
        """Return the seconds until ``until_us``; 0 when it has passed."""
        return max(0, until_us - self.now_us()) / _US


class VirtualClock:
    """Time that stands still until ``advance`` or ``jump`` moves it, or that runs at a ``rate``.

    Args:
        start_us: the time it starts with, microseconds since 1970; by default the present.
        rate: virtual seconds per second of wall time; 0 stands still, 3600 makes an hour of a second.
    """

    def __init__(self, start_us: int | None = None, rate: float = 0) -> None:
        if rate < 0:
            raise ValueError("a clock's rate must not be negative")
        self.rate = rate
        self._base_us = time.time_ns() // 1000 if start_us is None else start_us
        self._since_ns = time.monotonic_ns()

    def now_us(self) -> int:
        """Return the time, microseconds since 1970."""
        if not self.rate:
            return self._base_us
        return self._base_us + int((time.monotonic_ns() - self._since_ns) * self.rate) // 1000

    def wait_s(self, until_us: int) -> float | None:
        """Return the seconds of wall time until ``until_us``, 0 once it is past; ``None`` if the clock stands still."""
        ahead_us = until_us - self.now_us()
        if ahead_us <= 0:
            return 0
        return ahead_us / _US / self.rate if self.rate else None

    def advance(
        self,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        milliseconds: float = 0,
    ) -> int:
        """Move the time forward, and return the new time. Raises ``ValueError`` for a negative duration."""
        self._base_us += duration_us(
            days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds
        )
        return self.now_us()

    def jump(self, due_us: int | None) -> bool:
        """Move the time to a deadline, such as ``broker.next_due()``, and return whether the deadline was ahead."""
        ahead_us = 0 if due_us is None else due_us - self.now_us()
        self._base_us += max(0, ahead_us)
        return ahead_us > 0
