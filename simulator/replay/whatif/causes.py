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
from simulator.replay.whatif.coupling import Unit
from simulator.replay.whatif.differences import Difference, Side, differences, taken_back
from simulator.replay.whatif.rerun import Rerun, Unseen
from simulator.replay.whatif.what_if import Case, prepared, rerun

KINDS_MAX = 40
SAMPLE_EACH = 2
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


def find_causes(cases: Sequence[Case], units: Sequence[Unit], before: Side, after: Side, unseen: Unseen) -> Causes:
    """Return what makes messages end differently. ``cases`` are in the order of the units."""
    changed = [case for case in cases if case.reproduced and case.changed]
    found = differences(before, after)
    if not changed or not found:
        return Causes((), ())
    if len(found) == 1:
        return Causes((Cause(found[0].what, len(changed)),), ())
    counted: Counter[str] = Counter()
    unchecked = []
    at = 0
    for unit in units:
        own = cases[at : at + len(unit.stories)]
        at += len(unit.stories)
        if not any(case.reproduced and case.changed for case in own):
            continue
        if unit.queues and len(own) > TOGETHER_MAX:
            names = ", ".join(f"'{queue}'" for _, queue in unit.queues)
            unchecked.append(f"what makes messages end differently around {names}: {len(own):,} messages meet there")
            continue
        counted += _of_unit(own, bool(unit.queues), found, before, after, unseen)
    return Causes(tuple(Cause(what, messages) for what, messages in counted.most_common()), tuple(unchecked))


def _of_unit(
    own: Sequence[Case], coupled: bool, found: Sequence[Difference], before: Side, after: Side, unseen: Unseen
) -> Counter[str]:
    kinds: defaultdict[tuple[object, ...], list[Case]] = defaultdict(list)
    for case in own:
        if case.reproduced and case.changed:
            kinds[case.before.ends, case.after.ends, case.before.deaths, case.after.deaths].append(case)
    counted: Counter[str] = Counter()
    frequent = sorted(kinds.values(), key=len, reverse=True)[:KINDS_MAX]
    played = list(own) if coupled else [case for alike in frequent for case in alike[:SAMPLE_EACH]]
    ends = _Experiments(played, before, after, unseen)
    for alike in frequent:
        case = alike[0]
        if ends.under(after, case) != case.after.ends:
            continue  # by itself it ends otherwise: it changes because others do
        causes = [each for each in found if ends.under(taken_back(after, before, each), case) == case.before.ends]
        if not causes:
            causes = [each for each in found if ends.under(taken_back(before, after, each), case) == case.after.ends]
        for each in causes:
            counted[each.what] += len(alike)
    return counted


class _Experiments:
    """Plays some messages under one side after the other, each once."""

    def __init__(self, played: Sequence[Case], before: Side, after: Side, unseen: Unseen) -> None:
        self._stories = [case.story for case in played]
        self._place = {id(case): place for place, case in enumerate(played)}
        self._unseen: Unseen = unseen
        first = Rerun(prepared(before).document, self._stories, release=before.release, unseen=unseen)
        first.play()
        self._habits = first.habits()
        self._known: dict[bytes, list[object]] = {}

    def under(self, side: Side, case: Case) -> object:
        """Return how a message ends under that side; nothing if the broker refuses its definitions."""
        key = msgspec.json.encode((side.definitions.document, str(side.release)))
        if key not in self._known:
            try:
                fates = rerun(self._stories, prepared(side), self._habits, self._unseen)
            except DefinitionsError:
                return case.after.ends
            self._known[key] = [fate.ends for fate in fates]
        return self._known[key][self._place[id(case)]]
