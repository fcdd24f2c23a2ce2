"""The counts of one copy from delivery to delivery: each return to a quorum queue makes them larger.

Live servers (3.8, 3.10, 4.0, 4.3) count each requeue, ``basic.recover``, and loss of a channel or connection once,
alike for ``basic.get`` and consumers. So of one copy in one queue each delivery shows a higher count of returns than
those before it. It may be more than one higher: what a channel that died never took is counted, and leaves no row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from dlx.delivery_counts import X_ACQUIRED_COUNT, X_DELIVERY_COUNT
from dlx.releases import Release
from simulator.replay.graph import Target
from simulator.replay.states import Row
from simulator.replay.unchecked import Unchecked
from simulator.replay.verdicts import Difference

OWN = "the client sent a header of that name"
CARRIED = "a dead letter may have brought the count along"
WHICH_COPY = "the log does not tell of which copy it is"
GAP = "the log lacks deliveries that the count tells of"
UNSURE = "clocks of several recorders, or a release that repeats deliveries, may have it fall"


class Grown(NamedTuple):
    """What the counts of a delivery say, held against the deliveries before it."""

    differences: tuple[Difference, ...] = ()
    unchecked: tuple[Unchecked, ...] = ()


class _Shown(NamedTuple):
    """The counts that deliveries have shown: all returns, the most of them that are certain, and the failed ones."""

    returns: frozenset[int]
    most: int
    failed: int


class CountGrowth:
    """Holds the counts of one message's deliveries from quorum queues against each other."""

    def __init__(self, rules: Release) -> None:
        self._rules = rules
        self._header = X_ACQUIRED_COUNT if rules.quorum_acquired_count_header else X_DELIVERY_COUNT
        self._shown: dict[Target, _Shown] = {}

    def delivered(
        self,
        row: Row,
        target: Target,
        client: Mapping[str, Any],
        *,
        copies: int,
        may_carry: bool,
        in_order: bool,
    ) -> Grown:
        """Take a delivery from a quorum queue, of one of so many ``copies`` at most.

        ``client`` are the headers of the message itself. ``may_carry``: a dead letter may have brought its count
        into the queue. ``in_order``: the rows have the order in which the broker delivered.
        """
        returns, failed = (row.of_delivery.get(name, 0) for name in (self._header, X_DELIVERY_COUNT))
        if not isinstance(returns, int) or not isinstance(failed, int):
            return Grown()  # which no queue shows
        before = self._shown.get(target)
        if self._header in client or X_DELIVERY_COUNT in client:
            return self._open(row, OWN) if before or returns else Grown()
        if before is None:
            carried = may_carry and returns > 0
            self._shown[target] = _Shown(
                frozenset() if carried else frozenset({returns}), 0 if carried else returns, failed
            )
            if carried:
                return self._open(row, CARRIED)
            return self._open(row, GAP) if returns else Grown()
        self._shown[target] = _Shown(before.returns | {returns}, max(before.most, returns), max(before.failed, failed))
        if copies != 1:
            return self._open(row, WHICH_COPY)
        return self._compared(row, before, returns, failed, in_order=in_order)

    def _compared(self, row: Row, before: _Shown, returns: int, failed: int, *, in_order: bool) -> Grown:
        """Hold the counts of a copy against those that it has shown before."""
        flagged = self._rules.quorum_repeats_are_flagged
        if returns <= before.most:
            repeated = returns in before.returns or not returns
            if not flagged or not (in_order or repeated):
                return self._open(row, UNSURE)
            return Grown((Difference(self._header, f"{before.most + 1} or more", str(returns)),))
        if self._header != X_DELIVERY_COUNT and in_order:
            most = before.failed + returns - before.most
            if not before.failed <= failed <= most:
                return Grown((Difference(X_DELIVERY_COUNT, f"{before.failed} to {most}", str(failed)),))
        return self._open(row, GAP) if returns > before.most + 1 else Grown()

    def _open(self, row: Row, why: str) -> Grown:
        return Grown(unchecked=(Unchecked("delivery-count", row.queue or "", why),))
