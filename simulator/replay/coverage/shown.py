"""Tells which rules a delivery shows that no delivery before it has shown."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from simulator.replay.coverage.paths import PathRules, Shown
from simulator.replay.coverage.release_rows import RowTrials
from simulator.replay.explain import Explainer
from simulator.replay.graph import ConsumerConstraints, Found, Target
from simulator.replay.row_codec import without_expirations
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

    @property
    def key(self) -> Hashable:
        """Return what tells it from deliveries of the same virtual host that show other rules.

        No rule looks at how many milliseconds an expiration has.
        """
        headers = repr(sorted(self.source.headers.items(), key=repr)) if self.source.headers else ""
        return _template(self.row.signature), _template(self.source.row.signature), headers, self.found.hops


@lru_cache(maxsize=10_000)
def _template(signature: str) -> str:
    return without_expirations(signature)[0]


class ShownRules:
    """Tells the rules that deliveries of one virtual host show, each once."""

    def __init__(self, explainer: Explainer) -> None:
        self._paths = PathRules(explainer.flow, explainer.unknown_routing)
        self._rows = RowTrials(explainer)
        self._told: set[Shown] = set()

    def new(self, delivery: Delivery) -> list[Shown]:
        """Return the rules that no delivery before this one has shown."""
        found = [each for each in dict.fromkeys(self._shown(delivery)) if each not in self._told]
        self._told.update(found)
        return found

    def _shown(self, delivery: Delivery) -> Iterator[Shown]:
        row, source, found = delivery.row, delivery.source, delivery.found
        yield from self._paths.shown(found, row, is_publish=source.is_publish)
        sources = [source, *(each for each in delivery.sources if each is not source)]
        for name in self._rows.deciding(sources, delivery.target, row, delivery.constraints):
            yield Shown(name, found.hops[-1].queue if found.hops else found.state.queue)
