"""Finds which of the differences between two sides make messages end differently, by experiment.

Messages of each kind of change are played again with one difference taken back. Where that
brings the old end back, the difference is a cause; where none does so alone, those count that
bring the new end about alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from simulator.replay.whatif.differences import Difference, differences
from simulator.replay.whatif.fates import Ends
from simulator.replay.whatif.laboratory import Laboratory
from simulator.replay.whatif.rerun import in_order
from simulator.replay.whatif.stage import Queue, Stage
from simulator.replay.whatif.what_if import Case, Runs

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
    for part in parts:
        if len(found) == 1:
            counted[found[0].what] += part.changed
        elif part.queues and part.messages > TOGETHER_MAX:
            names = ", ".join(f"'{queue}'" for _, queue in part.queues)
            unchecked.append(
                f"what makes messages end differently around {names}: {part.messages:,} messages meet there"
            )
        else:
            counted += _of_part(part, runs, found)
    causes = sorted(counted.items(), key=lambda cause: (-cause[1], cause[0]))
    return Causes(tuple(Cause(what, messages) for what, messages in causes), tuple(unchecked))


def _of_part(part: Part, runs: Runs, found: Sequence[Difference]) -> Counter[str]:
    played = part.together if part.queues else [example for _, example in part.ways]
    laboratory = Laboratory(runs, found, [case.story for case in played], together=bool(part.queues))
    together = _Experiments(played, laboratory) if part.queues else None
    counted: Counter[str] = Counter()
    for messages, example in part.ways:
        experiments = together or _Experiments([example], laboratory)
        for what in experiments.causes(example):
            counted[what] += messages
    return counted


class _Experiments:
    """Plays messages that belong together under one side after the other, each once."""

    def __init__(self, played: Sequence[Case], laboratory: Laboratory) -> None:
        self._place = {id(case): place for place, case in enumerate(played)}
        self._laboratory = laboratory
        self._differences = laboratory.differences([case.story for case in played])
        self._firsts = [each.first for each in in_order(laboratory.runs.first(case.story for case in played))]
        self._known: dict[int, list[Ends]] = {}

    def causes(self, case: Case) -> list[str]:
        """Return the differences that make the message end differently."""
        found = self._bringing(case.before.ends, self._laboratory.without, case)
        if found or self._ends(self._laboratory.runs.before.stage, case) == case.after.ends:
            return found  # none are needed where the log's own side, played again, may end in the new way
        return self._bringing(case.after.ends, self._laboratory.only_with, case)

    def _bringing(self, end: Ends, stage: Callable[[Difference], Stage | None], case: Case) -> list[str]:
        """Return the differences whose stages bring the message to that end."""
        return [each.what for each in self._differences if self._ends(stage(each), case) == end]

    def _ends(self, stage: Stage | None, case: Case) -> Ends | None:
        if stage is None:
            return None
        if id(stage) not in self._known:  # the laboratory keeps it
            run = self._laboratory.runs.other(self._firsts, stage)
            self._known[id(stage)] = [each.fate.ends for each in in_order(run)]
        return self._known[id(stage)][self._place[id(case)]]
