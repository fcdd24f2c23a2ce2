"""The entries of a rules table, their continued lines joined, each character with its place.

A line whose last non-blank is ``+`` goes on with the first non-blank of the next line,
one with ``-`` with its first column. Blank lines and comments (``*`` in column 1) do not
count, even between a line and its continuation.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from simulator.systems.ibm_mq.rules_table_errors import Problem

LENGTH_MAX = 72


class LogicalLine(msgspec.Struct, frozen=True):
    """One entry: its text, and the line and column of each character and of the end."""

    text: str
    places: tuple[tuple[int, int], ...]

    def problem(self, at: int, text: str, code: str | None = None) -> Problem:
        """Return the problem at the character with the index ``at``."""
        return Problem(*self.places[at], text, code)


def logical_lines(text: str) -> Iterator[LogicalLine | Problem]:
    """Yield the entries from the top down. A continuation that nothing follows is a ``Problem``, the last."""
    joined, places, mark = "", [], ""
    for number, line in significant_lines(text):
        start = len(line) - len(line.lstrip(" ")) if mark == "+" else 0
        mark = line[-1] if line[-1] in "+-" else ""
        piece = line[start : len(line) - len(mark)]
        joined += piece
        places += [(number, start + column) for column in range(1, len(piece) + 1)]
        if not mark:
            yield LogicalLine(joined, (*places, (number, len(line) + 1)))
            joined, places = "", []
    if mark:
        yield Problem(number, len(line), f"the table ends after the continuation mark {mark}; a line must follow")


def long_lines(text: str) -> Iterator[Problem]:
    """Yield a warning for each line of more than 72 characters; not every platform reads on."""
    for number, line in significant_lines(text):
        if len(line) > LENGTH_MAX:
            yield Problem(number, LENGTH_MAX + 1, f"the line has {len(line)} characters; {LENGTH_MAX} are portable")


def significant_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that are neither blank nor comments, numbered from 1, without trailing blanks."""
    for number, line in enumerate(text.split("\n"), 1):
        kept = line.removesuffix("\r").rstrip(" ")
        if kept and not kept.startswith("*"):
            yield number, kept
