"""The problems of a rules table, each with its place."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

# What the product's messages say with these numbers.
NO_INPUT = "AMQ8750"
VALUE_TOO_LONG = "AMQ8752"
KEYWORD_REPEATED = "AMQ8753"
OUT_OF_RANGE = "AMQ8757"
INVALID_COMBINATION = "AMQ8759"


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong, or likely a mistake, in a rules table.

    Attributes:
        line: its line in the file, from 1.
        column: its column in that line, from 1.
        text: what is wrong, and what is allowed.
        code: the number of the product's message for it; a plain error of syntax has none.
    """

    line: int
    column: int
    text: str
    code: str | None = None

    def __str__(self) -> str:
        code = f" ({self.code})" if self.code else ""
        return f"line {self.line}, column {self.column}: {self.text}{code}"


class RulesTableError(ValueError):
    """A rules table that the handler refuses. Its text has one line for each problem.

    Attributes:
        problems: all that is wrong, from the top of the table down.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))
