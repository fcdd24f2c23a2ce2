"""The error of a file of tests that cannot be run."""

from __future__ import annotations


class CaseFileError(ValueError):
    """A file of tests that cannot be run.

    Attributes:
        source: the file.
        line: the line in it, counted from 1; 0 where none is to blame.
        problem: what is wrong, and what would be right.
    """

    def __init__(self, source: str, line: int, problem: str) -> None:
        super().__init__(f"{source}:{line}: {problem}" if line else f"{source}: {problem}")
        self.source, self.line, self.problem = source, line, problem
