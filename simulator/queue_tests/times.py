"""Reads times as people write them in cases: ``24h``, ``1h 30min``, ``250ms``."""

from __future__ import annotations

import re

_UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "min": 60_000, "s": 1_000, "ms": 1}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|min|d|h|s)(?![a-z])")


def milliseconds(time: int | str) -> int:
    """Return a time in milliseconds. Raises ``ValueError`` for text that is no time, or a negative number."""
    if isinstance(time, int):
        if time < 0:
            raise ValueError(f"{time} ms; time only goes forward")
        return time
    parts = _PART.findall(time)
    if not parts or _PART.sub("", time).strip():
        raise ValueError(f"{time!r} is no time; expected milliseconds, or such as '90s', '24h', '1h 30min', '250ms'")
    return round(sum(float(number) * _UNITS_MS[unit] for number, unit in parts))
