"""Tries an idea on a sequence: whether its bad deliveries have an explanation then.

The rows before a delivery are what they are, and so are the states that they showed. An idea only
adds to what is possible: other ways for a dead letter, one more publish, consumers that rejected
where the log shows no delivery. So what was explained stays explained, and only the bad
deliveries are searched for again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from dlx.message import PublishRefusedError
from dlx.message_flow import State
from simulator.events import Event
from simulator.replay.checks.explain import Explainer
from simulator.replay.kernel.message_verdicts import Explained, Fits, Lineage
from simulator.replay.repair.sequences import Seen
from simulator.replay.rows.verdict_words import BAD, Verdict
from simulator.replay.search.graph import ConsumerConstraints, DeliveredState, StatePath
from simulator.replay.search.visible_state import CaptureRow

_UNEXPLAINED = Verdict("unexplained")


class _Replay(Lineage):
    """Replays one message without looking for what is nearest to an unexplained delivery: that takes long."""

    def __init__(self, explainer: Explainer) -> None:
        super().__init__(explainer)
        self.is_known_bad = False
        self.explained = Explained(_UNEXPLAINED, None)
        self.constraints = ConsumerConstraints()

    def _explain(self, row: CaptureRow, content: str, headers: Mapping[str, Any], fits: Fits) -> Explained:
        if self.is_known_bad and row.queue in self._explainer.topology.queues:
            self.explained = Explained(_UNEXPLAINED, self._explainer.observed(row, None, headers), may_carry=False)
        else:
            self.explained = super()._explain(row, content, headers, fits)
        self.constraints = self._freedom()
        return self.explained

    def _inexact(
        self,
        target: DeliveredState,
        row: CaptureRow,
        content: str,
        headers: Mapping[str, Any],
        constraints: ConsumerConstraints,
    ) -> Explained:
        return Explained(_UNEXPLAINED, self._explainer.observed(row, None, headers))


class ReplayedDelivery(NamedTuple):
    """A delivery as it was replayed: whether it is as predicted, the state it showed, and what consumers may do.

    ``state`` is ``None`` where the definitions lack the queue; ``may_carry`` says whether the state may have come
    with a delivery count.
    """

    is_bad: bool
    state: State | None
    may_carry: bool
    constraints: ConsumerConstraints


def replay_rows(
    explainer: Explainer, seen: Sequence[Seen], bad: Collection[int] = frozenset()
) -> list[ReplayedDelivery | None]:
    """Replay a sequence; rows other than deliveries are ``None``.

    ``bad``: deliveries, by index, that are known not to be as predicted, so that no search is needed.
    """
    lineage = _Replay(explainer)
    found: list[ReplayedDelivery | None] = []
    for at, each in enumerate(seen):
        lineage.is_known_bad = at in bad
        verdict = lineage.step(*each).verdict
        if verdict is None or each.row.event != Event.DELIVERED:
            found.append(None)
        else:
            known = lineage.explained
            found.append(ReplayedDelivery(verdict.name in BAD, known.state, known.may_carry, lineage.constraints))
    return found


def bad_rows(rows: Sequence[ReplayedDelivery | None]) -> frozenset[int]:
    """Return the indexes of the deliveries that are not as predicted."""
    return frozenset(at for at, row in enumerate(rows) if row is not None and row.is_bad)


class WrongDelivery:
    """A delivery that is not as predicted.

    Args:
        seen: its sequence.
        rows: that sequence as it was replayed, with states of the explainers that are tried.
        bad: the indexes of all bad deliveries in it.
        at: the index of this one.
    """

    def __init__(
        self, seen: Sequence[Seen], rows: Sequence[ReplayedDelivery | None], bad: frozenset[int], at: int
    ) -> None:
        self.delivered = seen[at]
        self.before = seen[:at]
        self._seen = seen
        self._rows = rows
        self._bad = bad
        self._at = at

    def explained(
        self, explainer: Explainer, publish: Seen | None = None, *, every_queue: bool = False
    ) -> dict[int, StatePath]:
        """Return the bad deliveries that have an explanation, and each with it; none if this one has none.

        Args:
            explainer: answers what can become of messages.
            publish: one more publish before this delivery.
            every_queue: consumers may have rejected the message wherever it was, delivered or not.
        """
        first = self._found(explainer, self._at, publish, every_queue)
        if first is None:
            return {}
        found = {self._at: first}
        for other in sorted(self._bad - {self._at}):
            known = self._found(explainer, other, publish if other > self._at else None, every_queue)
            if known is not None:
                found[other] = known
        return found

    def _found(self, explainer: Explainer, at: int, publish: Seen | None, every_queue: bool) -> StatePath | None:
        row, content, _ = self._seen[at]
        known = self._rows[at]
        if known is None or row.queue is None or row.queue not in explainer.topology.queues:
            return None
        constraints = known.constraints
        if every_queue:
            constraints = ConsumerConstraints(frozenset(explainer.topology.queues))
        roots = self._roots(explainer, at, content, publish)
        found = explainer.first_path(list(roots), DeliveredState(row.queue, row.visible), constraints)
        if found is None:
            return None
        counts = explainer.counts
        before = any(roots.values()) if found.hops else roots[found.state]
        may_carry = counts.may_carry(found.hops, before=before)
        client = found.state.message.headers or {}
        return None if counts.differences(row, client, may_carry=may_carry) else found

    def _roots(self, explainer: Explainer, at: int, content: str, publish: Seen | None) -> dict[State, bool]:
        """Return the states that the delivery may descend from: those of rows before it with its content.

        Each with whether it may have come with a delivery count. With one more publish it must be that: nothing
        else was found to explain the delivery. There is no known path from a queue that the definitions lack.
        """
        queue = self._seen[at].row.queue or ""
        before = zip(self._seen[:at], self._rows, strict=False) if publish is None else [(publish, None)]
        found: dict[State, bool] = {}
        for each, known in before:
            if not explainer.same_content(each.content, content, queue):
                continue
            if each.row.event == Event.PUBLISHED:
                with suppress(PublishRefusedError):
                    for state in explainer.entries(each.row, each.headers):
                        found.setdefault(state, False)
            elif known is not None and each.row.queue in explainer.topology.queues:
                state = known.state or explainer.observed(each.row, None, each.headers)
                found[state] = known.may_carry or found.get(state, False)
        return found
