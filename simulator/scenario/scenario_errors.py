"""The error of a scenario that cannot be run, whichever system it is for."""

from __future__ import annotations


class ScenarioError(ValueError):
    """A scenario that cannot be run: the place in it, and what would be right there.

    Attributes:
        where: the field, such as ``steps[3].queue``.
        problem: what is wrong, and what would be right.
    """

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}" if where else problem)
        self.where, self.problem = where, problem
