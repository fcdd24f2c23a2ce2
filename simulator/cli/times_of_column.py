"""Times in a table: one unit for a whole column."""

from __future__ import annotations

from collections.abc import Callable, Iterable

_UNITS = ((3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms"))
_HUNDREDTHS_S = 10


def column_of_times(times_ms: Iterable[float]) -> Callable[[float], str]:
    """Return what writes each time of a column, milliseconds.

    The unit is the largest in which all are whole; else seconds, if two decimals tell all, and milliseconds if not.
    """
    given = list(times_ms)
    whole = [(size, unit) for size, unit in _UNITS if all(not ms % size for ms in given)]
    size, unit = whole[0] if whole and any(given) else (1_000, "s")
    if unit == "ms" and all(not ms % _HUNDREDTHS_S for ms in given):
        size, unit = 1_000, "s"
    elif not whole:
        size, unit = 1, "ms"
    return lambda ms: f"{_plain(ms / size)} {unit}"


def _plain(number: float) -> str:
    return f"{round(number, 3):,}".removesuffix(".0")
