"""The rows of one message, in order: each delivery explained from what was seen before it.

A message fans out, and each copy has its own line of descent, so the row before a
delivery is often not its ancestor. Every publish and every delivered state is a
source; a delivery is searched for from the latest source back to the first, and
the path that reaches exactly what was delivered is its explanation. The state it
showed becomes a source itself, also where it differs from the prediction: what
comes after is predicted from what was seen, and one difference is reported once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import islice
from typing import Any, NamedTuple

from dlx.message import PublishRefusedError
from dlx.message_flow import State
from simulator.events import Event
from simulator.replay.explain import Explainer, Nearest
from simulator.replay.graph import ConsumerConstraints, Found, Target
from simulator.replay.sources import Source
from simulator.replay.states import Row
from simulator.replay.verdicts import Verdict, path_text

SLIGHT = 2
"""Differing fields up to which a delivery counts as altered, not as unexplained."""
SOURCES_MAX = 64
"""Sources that the search for the nearest explanation looks at, the latest first."""
NO_DEATH = (Event.ACKED, Event.REQUEUED)
"""What a recorded consumer said of a delivery that it did not reject."""

_Key = tuple[str, str, tuple[int, ...]]


class _Explained(NamedTuple):
    """The verdict on a delivery, the state it showed, and where it comes from."""

    verdict: Verdict
    state: State | None
    source: Source | None = None
    is_redelivery: bool = False


class Lineage:
    """One message's observations so far."""

    def __init__(self, explainer: Explainer) -> None:
        self._explainer = explainer
        self._sources: dict[_Key, Source] = {}  # the latest last
        self._by_content: dict[str, dict[_Key, Source]] = {}
        self._open: Counter[Target] = Counter()  # deliveries, less those known not to have been rejected
        self._rejectable: Counter[str] = Counter()  # of each queue, the states with an open delivery
        self._publishes = 0

    def step(self, row: Row, content: str, headers: Mapping[str, Any]) -> Verdict | None:
        """Take the next row; return the verdict if it is a delivery, else ``None``.

        ``content`` is the row's properties and user headers, compared and never
        parsed; ``headers`` those that headers exchanges look at.
        """
        if row.event == Event.PUBLISHED:
            self._publish(row, content, headers)
            return None
        if row.event != Event.DELIVERED:
            if row.event in NO_DEATH:
                self._count(row, -1)
            return None
        explained = self._explain(row, content, headers)
        self._count(row, 1)
        if explained.state is not None:
            source = self._observe(row, content, headers, (explained.state,), explained.source)
            source.instances += not explained.is_redelivery
        return explained.verdict

    def _count(self, row: Row, change: int) -> None:
        """Count a delivery, or take back one that was not rejected.

        By state: recorders have clocks of their own, so a row may stand before its delivery.
        """
        target = Target(row.queue or "", row.visible)
        before = self._open[target]
        self._open[target] = before + change
        self._rejectable[target.queue] += (before + change > 0) - (before > 0)

    def _publish(self, row: Row, content: str, headers: Mapping[str, Any]) -> None:
        self._publishes += 1
        try:
            roots = self._explainer.entries(row, headers)
        except PublishRefusedError:
            roots = ()
        self._observe(row, content, headers, roots, None).instances += 1

    def _observe(
        self,
        row: Row,
        content: str,
        headers: Mapping[str, Any],
        roots: tuple[State, ...],
        parent: Source | None,
    ) -> Source:
        """Return the source for what was observed, which is now the latest."""
        key = (row.event, content, tuple(state.number for state in roots))
        alike = self._by_content.setdefault(content, {})
        source = alike.pop(key, None)
        if source is None:
            source = Source(row, content, headers, roots, parent)
        else:
            del self._sources[key]
        self._sources[key] = alike[key] = source
        return source

    def _explain(self, row: Row, content: str, headers: Mapping[str, Any]) -> _Explained:
        queue = row.queue or ""
        why = self._explainer.why_unknown(row.vhost, queue)
        if why is not None:
            return _Explained(Verdict("unexplained", why), None)
        target = Target(queue, row.visible)
        constraints = self._freedom()
        exact = self._exact(target, row, content, constraints)
        if exact is None:
            return self._inexact(target, row, content, headers, constraints)
        source, paths = exact
        best = paths[0]
        redelivery = not source.is_publish and not best.hops
        new = (0, 0) if redelivery else source.claim(target, best.hops)
        verdict = self._verdict(row, paths, new)
        return _Explained(verdict, best.state, source, redelivery)

    def _verdict(self, row: Row, paths: list[Found], new: tuple[int, int]) -> Verdict:
        best = paths[0]
        counts = self._explainer.count_differences(row, best.state)
        if counts:
            return Verdict("differ", "", best.hops, *new, differences=tuple(counts))
        sequences = list(dict.fromkeys(path_text(path.hops) for path in paths))
        if len(sequences) > 1:
            return Verdict("ambiguous", "", best.hops, *new, alternatives=tuple(sequences))
        return Verdict("agree", "", best.hops, *new)

    def _alike(self, content: str, queue: str) -> list[Source]:
        """Return the sources with that content, the latest first; streams add a delivery mode to it."""
        if not self._explainer.is_stream(queue):
            return list(reversed(self._by_content.get(content, {}).values()))
        same_content = self._explainer.same_content
        return [s for s in reversed(self._sources.values()) if same_content(s.content, content, queue)]

    def _exact(
        self, target: Target, row: Row, content: str, constraints: ConsumerConstraints
    ) -> tuple[Source, list[Found]] | None:
        """Return the latest source that leads exactly to the target; prefer one whose counts fit, not used up."""
        miscounted: tuple[Source, list[Found]] | None = None
        used_up: tuple[Source, list[Found]] | None = None
        again: tuple[Source, list[Found]] | None = None
        for source in self._alike(content, target.queue):
            paths = self._explainer.paths(source.roots, target, constraints)
            if not paths:
                continue
            if self._explainer.count_differences(row, paths[0].state):
                miscounted = miscounted or (source, paths)
            elif not source.is_publish and not paths[0].hops:
                again = again or (source, paths)
            elif source.is_used_up(target):
                used_up = used_up or (source, paths)
            else:
                return source, paths
        return again or used_up or miscounted

    def _inexact(
        self, target: Target, row: Row, content: str, headers: Mapping[str, Any], constraints: ConsumerConstraints
    ) -> _Explained:
        explainer = self._explainer
        if not self._publishes and not self._sources:
            observed = explainer.observed(row, None, headers)
            return _Explained(Verdict("unexplained", "no publish of this message in the log before it"), observed)
        latest = list(islice(reversed(self._sources.values()), SOURCES_MAX))
        nearest = explainer.nearest(latest, target, content, constraints)
        ruled_out = explainer.ruled_out(latest, target, content, constraints)
        parent = nearest.found.state.message if nearest else None
        observed = explainer.observed(row, parent, headers)
        if nearest is None or self._is_far(nearest, ruled_out):
            return _Explained(Verdict("unexplained", ruled_out or self._no_path(target)), observed)
        new = nearest.source.claim(Target(target.queue, explainer.visible(nearest.found.state)), nearest.found.hops)
        counts = explainer.count_differences(row, nearest.found.state)
        differences = (*nearest.differences, *counts)
        verdict = Verdict("differ", "", nearest.found.hops, *new, differences=differences)
        return _Explained(verdict, observed, nearest.source)

    def _is_far(self, nearest: Nearest, ruled_out: str | None) -> bool:
        """Tell whether the nearest explanation explains nothing: another way fits, or its deaths are missing."""
        if len(nearest.differences) <= SLIGHT:
            return False
        fields = {difference.field for difference in nearest.differences}
        unmoved = not nearest.found.hops and bool(fields & {"x-death", "x-death length"})
        return unmoved or ruled_out is not None or not self._publishes

    def _no_path(self, target: Target) -> str:
        if not self._publishes:
            return "no publish of this message in the log before it, and no path from its earlier deliveries"
        return f"no path from the publish to queue '{target.queue}' that rules and definitions allow"

    def _freedom(self) -> ConsumerConstraints:
        settled = frozenset(queue for queue, states in self._rejectable.items() if not states)
        return ConsumerConstraints(frozenset(self._rejectable), settled)
