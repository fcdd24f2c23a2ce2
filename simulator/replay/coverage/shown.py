"""Tells which rules a delivery shows."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from simulator.replay.coverage.paths import NO_QUEUE, PathRules, Shown
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
    """Tells the rules that deliveries of one virtual host show."""

    def __init__(self, explainer: Explainer) -> None:
        self._paths = PathRules(explainer.flow, explainer.unknown_routing)
        self._rows = RowTrials(explainer)

    def of(self, delivery: Delivery) -> tuple[Shown, ...]:
        """Return the rules that the delivery shows, each once."""
        return tuple(dict.fromkeys(self._shown(delivery)))

    def _shown(self, delivery: Delivery) -> Iterator[Shown]:
        row, source = delivery.row, delivery.source
        yield from self._paths.shown(delivery.found, row, is_publish=source.is_publish)
        sources = [source, *(each for each in delivery.sources if each is not source)]
        for name in self._rows.deciding(sources, delivery.target, row, delivery.constraints):
            yield Shown(name, NO_QUEUE)
