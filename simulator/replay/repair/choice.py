"""Chooses, for a whole log, the fewest and cheapest hypotheses that explain what the definitions do not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from simulator.replay.repair import hypotheses as costs
from simulator.replay.repair.hypotheses import Change, Hypothesis, tightest, without_bounds
from simulator.replay.repair.sequences import RowSequence

# When other definitions were in force: before a moment, after it, or as long as the log goes.
#
# A death under them lies between the row in which the message was last seen before and the delivery that shows it. So
# each delivery that needs the change bounds the moment, and so does each one that the change would make impossible.


class ChangeTime(NamedTuple):
    """When definitions changed, in microseconds since 1970.

    ``before``: the other definitions were in force until then, and not from then on.
    ``after_us`` and ``by_us`` are the bounds of the moment; without any bound they were in force all the time.
    """

    before: bool = True
    after_us: int | None = None
    by_us: int | None = None


class _Bounds(NamedTuple):
    """Bounds some deaths: the last one was after ``start_us``, the first one before ``end_us``."""

    start_us: int
    end_us: int


class Died(NamedTuple):
    """Says when a message died: after the row ``after`` of its sequence, and before the delivery ``by``."""

    sequence: RowSequence
    after: int
    by: int


def moment(needing: Iterable[Died], excluding: Iterable[Died]) -> ChangeTime | None:
    """Return when the definitions changed; ``None`` if no single moment fits.

    ``needing`` are deaths that the other definitions explain, ``excluding`` those that they make impossible.
    """
    need, exclude = _bounds(needing), _bounds(excluding)
    if exclude is None or need is None:
        return ChangeTime()
    if need.start_us < exclude.end_us:
        return ChangeTime(True, need.start_us, exclude.end_us)
    if exclude.start_us < need.end_us:
        return ChangeTime(False, exclude.start_us, need.end_us)
    return None


def _bounds(deaths: Iterable[Died]) -> _Bounds | None:
    found = [(sequence.latest_us[after], sequence.earliest_us[by]) for sequence, after, by in deaths]
    return _Bounds(max(start_us for start_us, _ in found), min(end_us for _, end_us in found)) if found else None


# Chooses, for a whole log, the fewest and cheapest hypotheses that explain what the definitions do not.
#
# One hypothesis that explains many messages is paid for once. The choice is greedy: of all that is left, the
# hypothesis that costs least for each delivery that it explains. Those that explain the same deliveries and cost
# about as much are reported with it.


Item = tuple[int, int]
"""A delivery that is not as predicted: the number of its sequence, and the index of its row."""


class HypothesisGroup(msgspec.Struct, eq=False):
    """A hypothesis, and the deliveries that it explains, each with its own form of the hypothesis.

    ``moment`` is when definitions changed; ``judged`` is false until that has been determined.
    """

    kind: costs.Kind
    items: dict[Item, Hypothesis]
    moment: ChangeTime | None = None
    judged: bool = True

    def cost(self, items: Iterable[Item], counts: Sequence[int]) -> float:
        """Return what the hypothesis costs if it explains these deliveries; ``counts`` are those of the sequences."""
        sequences = {sequence: self.items[sequence, at] for sequence, at in items}
        first = next(iter(sequences.values()))
        once = costs.once(self.kind, (*first.remarks, *(["back and forth"] if self.is_back_and_forth else [])))
        return once + sum(counts[number] * costs.each(self.kind, h.remarks) for number, h in sequences.items())

    @property
    def change(self) -> Change:
        """The other definitions under which all the deliveries are explained."""
        return tightest(hypothesis.change for hypothesis in self.items.values())

    @property
    def is_back_and_forth(self) -> bool:
        """Whether definitions would have changed more than once."""
        return self.kind == costs.OTHER_DEFINITIONS and self.judged and self.moment is None


class HypothesisChoice(NamedTuple):
    """Deliveries, and the hypotheses that explain all of them with their costs, the cheapest first."""

    items: tuple[Item, ...]
    groups: tuple[tuple[float, HypothesisGroup], ...]


def grouped(suggestions: Iterable[tuple[Item, Hypothesis]]) -> list[HypothesisGroup]:
    """Bring together what is one hypothesis."""
    found: dict[Hypothesis, HypothesisGroup] = {}
    for item, hypothesis in suggestions:
        key = _key(hypothesis)
        if key not in found:
            found[key] = HypothesisGroup(hypothesis.kind, {}, judged=hypothesis.kind != costs.OTHER_DEFINITIONS)
        found[key].items.setdefault(item, hypothesis)
    return list(found.values())


def _key(hypothesis: Hypothesis) -> Hypothesis:
    """Return the hypothesis without what may differ from message to message."""
    one = msgspec.structs.replace(hypothesis, routing_keys=(), remarks=())
    if hypothesis.kind == costs.OTHER_DEFINITIONS:
        return msgspec.structs.replace(one, change=without_bounds(hypothesis.change), remarks=hypothesis.remarks)
    if hypothesis.kind == costs.ROWS_MISSING and hypothesis.exchange is not None:
        return msgspec.structs.replace(one, exchange="", queue=None)
    return one


class Chooser:
    """Chooses among groups.

    Args:
        groups: the hypotheses.
        counts: how many messages each sequence stands for.
        judge: finds out the moment of a group of other definitions.
    """

    def __init__(
        self,
        groups: Sequence[HypothesisGroup],
        counts: Sequence[int],
        judge: Callable[[HypothesisGroup], ChangeTime | None],
    ) -> None:
        self._groups = groups
        self._counts = counts
        self._judge = judge

    def choose(self) -> list[HypothesisChoice]:
        """Return what to tell, in the order in which it was chosen."""
        left = {item for group in self._groups for item in group.items}
        found = []
        while left:
            best = self._best(left)
            items = tuple(sorted(left & best.items.keys()))
            found.append(HypothesisChoice(items, tuple(self._tied(best, items))))
            left.difference_update(items)
        return found

    def _best(self, left: set[Item]) -> HypothesisGroup:
        while True:
            _, number = min(
                (self._cost_of_each(group, left & group.items.keys()), number)
                for number, group in enumerate(self._groups)
                if left & group.items.keys()
            )
            if self._groups[number].judged:
                return self._groups[number]
            self._settle(self._groups[number])

    def _cost_of_each(self, group: HypothesisGroup, items: set[Item]) -> float:
        return group.cost(items, self._counts) / sum(self._counts[number] for number, _ in items)

    def _tied(self, best: HypothesisGroup, items: tuple[Item, ...]) -> list[tuple[float, HypothesisGroup]]:
        """Return the hypotheses that explain all of the deliveries and cost about as much as the best."""
        most = best.cost(items, self._counts) + costs.TIE
        found = []
        for group in self._groups:
            if all(item in group.items for item in items):
                if group.cost(items, self._counts) <= most:
                    self._settle(group)
                found.append((group.cost(items, self._counts), group))
        return sorted((each for each in found if each[0] <= most), key=lambda each: each[0])

    def _settle(self, group: HypothesisGroup) -> None:
        if not group.judged:
            group.moment = self._judge(group)
            group.judged = True
