"""Finds which of the differences between two sides make messages end differently, by experiment.

Messages of each kind of change are played again with one difference taken back. Where that
brings the old end back, the difference is a cause; where none does so alone, those count that
bring the new end about alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from simulator.definitions import DefinitionsError
from simulator.replay.whatif.differences import Difference, differences, taken_back
from simulator.replay.whatif.fates import Ends
from simulator.replay.whatif.rerun import in_order
from simulator.replay.whatif.stage import Queue
from simulator.replay.whatif.what_if import Case, Prepared, Runs, prepared

WAYS_MAX = 40
TOGETHER_MAX = 3_000
"""Messages of coupled queues that are played for each difference."""


class Cause(msgspec.Struct, frozen=True, rename={"what": "behaviour or setting"}):
    """A setting, or a row of the release table, and how many messages end differently by it."""

    what: str
    messages: int


class Causes(NamedTuple):
    """The causes, most messages first, and what was not looked at, in sentences."""

    found: tuple[Cause, ...]
    unchecked: tuple[str, ...]


class Part(NamedTuple):
    """Messages of which some change.

    Attributes:
        changed: how many do.
        ways: for the most frequent ways of change, how many change so, and one of them.
        queues: the queues that couple them; none where each is played by itself.
        together: all that meet in these queues, unless they are too many.
        messages: how many that are.
    """

    changed: int
    ways: Sequence[tuple[int, Case]]
    queues: tuple[Queue, ...]
    together: Sequence[Case]
    messages: int


def find_causes(runs: Runs, parts: Iterable[Part]) -> Causes:
    """Return what makes messages end differently."""
    found = differences(runs.before.side, runs.after.side)
    counted: Counter[str] = Counter()
    unchecked = []
    laboratory = _Laboratory(runs, found)
    for part in parts:
        if len(found) == 1:
            counted[found[0].what] += part.changed
        elif part.queues and part.messages > TOGETHER_MAX:
            names = ", ".join(f"'{queue}'" for _, queue in part.queues)
            unchecked.append(
                f"what makes messages end differently around {names}: {part.messages:,} messages meet there"
            )
        else:
            counted += _of_part(part, laboratory)
    causes = sorted(counted.items(), key=lambda cause: (-cause[1], cause[0]))
    return Causes(tuple(Cause(what, messages) for what, messages in causes), tuple(unchecked))


def _of_part(part: Part, laboratory: _Laboratory) -> Counter[str]:
    together = _Experiments(part.together, laboratory) if part.queues else None
    counted: Counter[str] = Counter()
    for messages, example in part.ways:
        experiments = together or _Experiments([example], laboratory)
        for what in experiments.causes(example):
            counted[what] += messages
    return counted


class _Laboratory:
    """The sides that experiments ask for: each of the two with one difference as it is in the other."""

    def __init__(self, runs: Runs, found: Sequence[Difference]) -> None:
        self.runs, self.differences = runs, found
        self._known: dict[tuple[bool, Difference], Prepared | None] = {}

    def without(self, what: Difference) -> Prepared | None:
        """Return the other side without this difference; nothing if the broker refuses its definitions."""
        return self._side(self.runs.after, self.runs.before, what)

    def only_with(self, what: Difference) -> Prepared | None:
        """Return the log's own side with this difference alone; nothing if the broker refuses its definitions."""
        return self._side(self.runs.before, self.runs.after, what)

    def _side(self, side: Prepared, to: Prepared, what: Difference) -> Prepared | None:
        key = side is self.runs.after, what
        if key not in self._known:
            try:
                self._known[key] = prepared(taken_back(side.side, to.side, what))
            except DefinitionsError:
                self._known[key] = None
        return self._known[key]


class _Experiments:
    """Plays messages that belong together under one side after the other, each once."""

    def __init__(self, played: Sequence[Case], laboratory: _Laboratory) -> None:
        self._place = {id(case): place for place, case in enumerate(played)}
        self._laboratory = laboratory
        self._firsts = [each.first for each in in_order(laboratory.runs.first(case.story for case in played))]
        self._known: dict[int, list[Ends]] = {}

    def causes(self, case: Case) -> list[str]:
        """Return the differences that make the message end differently."""
        everything = self._laboratory.differences
        for side, end in ((self._laboratory.without, case.before.ends), (self._laboratory.only_with, case.after.ends)):
            found = [each.what for each in everything if self._ends(side(each), case) == end]
            if found:
                return found
        return []

    def _ends(self, side: Prepared | None, case: Case) -> Ends | None:
        if side is None:
            return None
        if id(side) not in self._known:  # the laboratory keeps it
            run = self._laboratory.runs.other(self._firsts, side.stage)
            self._known[id(side)] = [each.fate.ends for each in in_order(run)]
        return self._known[id(side)][self._place[id(case)]]
