"""Tells which rules a delivery shows that no delivery before it has shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from simulator.replay.coverage.paths import PathRules, Shown
from simulator.replay.coverage.release_rows import RowTrials
from simulator.replay.explain import Explainer
from simulator.replay.graph import ConsumerConstraints, Found, Target
from simulator.replay.sources import Source
from simulator.replay.states import Row


class Delivery(NamedTuple):
    """An explained delivery: its row, from which source by which path, and what else might have led to it."""

    row: Row
    target: Target
    source: Source
    found: Found
    sources: Sequence[Source]
    constraints: ConsumerConstraints


class ShownRules:
    """Tells the rules that deliveries of one virtual host show."""

    def __init__(self, explainer: Explainer) -> None:
        self._paths = PathRules(explainer.flow, explainer.unknown_routing)
        self._rows = RowTrials(explainer)
        self._known: dict[Any, tuple[Shown, ...]] = {}

    def of(self, delivery: Delivery) -> tuple[Shown, ...]:
        """Return the rules; equal deliveries have the same."""
        roots = tuple(root.number for root in delivery.source.roots)
        key = roots, delivery.row.signature, delivery.found.hops, delivery.found.state.number
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = tuple(dict.fromkeys(self._shown(delivery)))
        return known

    def _shown(self, delivery: Delivery) -> Iterator[Shown]:
        row, source, found = delivery.row, delivery.source, delivery.found
        yield from self._paths.shown(found, row, is_publish=source.is_publish)
        sources = [source, *(each for each in delivery.sources if each is not source)]
        for name in self._rows.deciding(sources, delivery.target, row, delivery.constraints):
            yield Shown(name, found.hops[-1].queue if found.hops else found.state.queue)
