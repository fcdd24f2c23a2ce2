"""Writes times for people: spans, and moments."""

from __future__ import annotations

from datetime import UTC, datetime

_UNITS = (("d", 86_400_000_000), ("h", 3_600_000_000), ("min", 60_000_000), ("s", 1_000_000))


def span(us: int) -> str:
    """Return a span of microseconds in its two largest units: ``1 h 30 min``, ``2 s 500 ms``; ``0 s`` for none."""
    parts = []
    for unit, size in _UNITS:
        count, us = divmod(us, size)
        if count:
            parts.append(f"{count} {unit}")
    if us:
        parts.append(f"{us / 1000:g} ms")
    return " ".join(parts[:2]) or "0 s"


def moment(time_us: int) -> str:
    """Return a moment in microseconds since 1970 as text, to the millisecond: ``2026-01-31 12:00:00.250 UTC``."""
    at = datetime.fromtimestamp(time_us // 1_000 / 1_000, UTC)
    return at.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", " UTC")
