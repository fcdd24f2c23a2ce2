"""Finds repetitions in a list of lines, so that each is written or drawn once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

Line = TypeVar("Line")


def repeats(lines: Sequence[Line], longest: int = 8) -> Iterator[tuple[Sequence[Line], int]]:
    """Yield the lines in parts, each with the number of times that it comes in a row."""
    at = 0
    while at < len(lines):
        found = [(size, _times(lines, at, size)) for size in range(1, longest + 1)]
        size, times = max(found, key=lambda each: (each[1] - 1) * each[0])
        size = size if times > 1 else 1
        yield lines[at : at + size], times
        at += size * times


def _times(lines: Sequence[Line], at: int, size: int) -> int:
    part, times = lines[at : at + size], 1
    while lines[at + times * size : at + (times + 1) * size] == part:
        times += 1
    return times
