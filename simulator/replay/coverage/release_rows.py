"""Finds the rows of the release table that decided a delivery: under another value, nothing leads to it.

That is an experiment, as with the causes of a difference. A row that was found once is not tried again, and
of the deliveries with equal sources, states and paths only one is tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import msgspec

from dlx.message import PublishRefusedError
from dlx.message_flow import State
from dlx.releases import Release
from simulator.replay.coverage.catalogue import RELEASE_ROWS
from simulator.replay.explain import Explainer
from simulator.replay.graph import ConsumerConstraints, Effort, Target
from simulator.replay.sources import Source
from simulator.replay.states import Row

TRIED_MAX = 400
"""Distinct deliveries on which one process tries the rows: that takes half a second at most."""
UNTRIED = "untried"
"""Stands among the rules for deliveries beyond that number."""
SOURCES_MAX = 32
"""Sources from which one delivery may have come; with more of them, the rows are not tried on it."""
STATES_MAX = 500
"""States that one search under another value may look at."""


class RowTrials:
    """Tries other values of the rows on the deliveries of one virtual host."""

    def __init__(self, explainer: Explainer) -> None:
        self._explainer = explainer
        self._left = {row.name: row.values for row in RELEASE_ROWS}
        self._others: dict[str, list[Explainer]] = {}
        self._tried = 0

    def deciding(
        self, sources: Sequence[Source], target: Target, row: Row, constraints: ConsumerConstraints
    ) -> Iterator[str]:
        """Yield the rows, not found before, under another value of which no source explains the delivery.

        ``sources`` are those with its content; the first explains it under the rules as they are.
        """
        if self._tried >= TRIED_MAX or len(sources) > SOURCES_MAX:
            yield UNTRIED
            return
        self._tried += 1
        read = _Reading(self._explainer.release)
        _explains(self._explainer.afresh(cast("Release", read), _effort()), sources, target, row, constraints)
        for name in sorted(read.names & self._left.keys()):
            if any(not _explains(other, sources, target, row, constraints) for other in self._under_others(name)):
                del self._left[name]
                yield name

    def _under_others(self, name: str) -> list[Explainer]:
        """Return the explainers that differ in that row alone."""
        if name not in self._others:
            own, values = self._explainer.release, self._left[name]
            different = [value for number, value in enumerate(values) if value not in values[:number]]
            different.remove(getattr(own, name))
            others = (msgspec.structs.replace(own, **{name: value}) for value in different)
            self._others[name] = [self._explainer.afresh(rules, _effort()) for rules in others]
        return self._others[name]


def _effort() -> Effort:
    return Effort(STATES_MAX, every_way=False)


class _Reading:
    """Stands for a release, and notes the rows that are asked for: only they can decide anything."""

    def __init__(self, release: Release) -> None:
        self.names: set[str] = set()
        self._release = release

    def __getattr__(self, name: str) -> Any:
        self.names.add(name)
        return getattr(self._release, name)


def _explains(
    other: Explainer, sources: Sequence[Source], target: Target, row: Row, constraints: ConsumerConstraints
) -> bool:
    """Tell whether a path leads from one of the sources to the delivery; yes, if the search was cut short."""
    for source in sources:
        roots = _roots(other, source)
        for found in other.paths(roots, target, constraints):
            may_carry = other.counts.may_carry(found.hops, before=source.may_carry)
            if not other.counts.differences(row, found.state.message.headers or {}, may_carry=may_carry):
                return True
        if other.may_have_more(roots, target, constraints):
            return True
    return False


def _roots(other: Explainer, source: Source) -> tuple[State, ...]:
    if not source.is_publish:
        return tuple(other.observed(source.row, root.message, source.headers) for root in source.roots)
    try:
        return other.entries(source.row, source.headers)
    except PublishRefusedError:
        return ()
