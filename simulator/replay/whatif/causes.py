"""Finds which of the differences between two sides make messages end differently, by experiment.

Messages of each kind of change are played again with one difference taken back. Where that
brings the old end back, the difference is a cause; where none does so alone, those count that
bring the new end about alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from simulator.definitions import DefinitionsError
from simulator.replay.whatif.differences import Difference, differences, taken_back
from simulator.replay.whatif.fates import Ends
from simulator.replay.whatif.what_if import Case, Comparison, Prepared, prepared

KINDS_MAX = 40
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


def find_causes(comparison: Comparison) -> Causes:
    """Return what makes messages end differently."""
    changed = sum(case.reproduced and case.changed for case in comparison.cases)
    found = differences(comparison.before.side, comparison.after.side)
    if not changed or not found:
        return Causes((), ())
    if len(found) == 1:
        return Causes((Cause(found[0].what, changed),), ())
    counted: Counter[str] = Counter()
    unchecked = []
    laboratory = _Laboratory(comparison, found)
    at = 0
    for unit in comparison.units:
        own = comparison.cases[at : at + len(unit.stories)]
        at += len(unit.stories)
        if not any(case.reproduced and case.changed for case in own):
            continue
        if unit.queues and len(own) > TOGETHER_MAX:
            names = ", ".join(f"'{queue}'" for _, queue in unit.queues)
            unchecked.append(f"what makes messages end differently around {names}: {len(own):,} messages meet there")
            continue
        counted += _of_unit(own, bool(unit.queues), laboratory)
    return Causes(tuple(Cause(what, messages) for what, messages in counted.most_common()), tuple(unchecked))


def _of_unit(own: Sequence[Case], coupled: bool, laboratory: _Laboratory) -> Counter[str]:
    kinds: defaultdict[tuple[object, ...], list[Case]] = defaultdict(list)
    for case in own:
        if case.reproduced and case.changed:
            kinds[case.before.ends, case.after.ends, case.before.deaths, case.after.deaths].append(case)
    together = _Experiments(own, laboratory) if coupled else None
    counted: Counter[str] = Counter()
    for alike in sorted(kinds.values(), key=len, reverse=True)[:KINDS_MAX]:
        experiments = together or _Experiments(alike[:1], laboratory)
        for what in experiments.causes(alike[0]):
            counted[what] += len(alike)
    return counted


class _Laboratory:
    """The sides that experiments ask for: each of the two with one difference as it is in the other."""

    def __init__(self, comparison: Comparison, found: Sequence[Difference]) -> None:
        self.comparison, self.differences = comparison, found
        self._known: dict[tuple[bool, Difference], Prepared | None] = {}

    def without(self, what: Difference) -> Prepared | None:
        """Return the other side without this difference; nothing if the broker refuses its definitions."""
        return self._side(self.comparison.after, self.comparison.before, what)

    def only_with(self, what: Difference) -> Prepared | None:
        """Return the log's own side with this difference alone; nothing if the broker refuses its definitions."""
        return self._side(self.comparison.before, self.comparison.after, what)

    def _side(self, side: Prepared, to: Prepared, what: Difference) -> Prepared | None:
        key = side is self.comparison.after, what
        if key not in self._known:
            try:
                self._known[key] = prepared(taken_back(side.side, to.side, what))
            except DefinitionsError:
                self._known[key] = None
        return self._known[key]


class _Experiments:
    """Plays messages that belong together under one side after the other, each once."""

    def __init__(self, played: Sequence[Case], laboratory: _Laboratory) -> None:
        self._stories = [case.story for case in played]
        self._place = {id(case): place for place, case in enumerate(played)}
        self._laboratory = laboratory
        self._stays = laboratory.comparison.first(self._stories).stays
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
            run = self._laboratory.comparison.other(self._stories, self._stays, side)
            self._known[id(side)] = [fate.ends for fate in run.fates()]
        return self._known[id(side)][self._place[id(case)]]
