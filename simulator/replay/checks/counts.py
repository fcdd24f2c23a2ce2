"""Delivery counts against delivery limits, as far as a log shows them.

A trace shows the counts that a quorum queue adds to a delivery, and no returns. A
delivered message has not passed the limit; so no count is above it, except one that a
dead letter brought along, which is held against the limit only at its next return.
And a message that died of the limit was delivered before with the limit reached,
unless its last delivery was lost on the way to its channel: that counts, and is not traced.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from dlx.delivery_counts import COUNT_HEADERS, X_ACQUIRED_COUNT, X_DELIVERY_COUNT
from dlx.field_values import plain
from dlx.message_flow import Hop, MessageFlow
from dlx.releases import Release
from dlx.settings import DELIVERY_LIMIT
from dlx.topology import QUORUM, STREAM
from simulator.replay.checks.differences import ABSENT
from simulator.replay.rows.verdict_words import Difference, Unchecked
from simulator.replay.search.graph import DeliveredState
from simulator.replay.search.visible_state import X_STREAM_OFFSET, CaptureRow

COUNT_MAX = 2**31
_encode = msgspec.json.Encoder(order="deterministic", enc_hook=plain).encode


class DeliveryCountCheck:
    """Judges the delivery counts of one virtual host by the rules of one release."""

    def __init__(self, flow: MessageFlow) -> None:
        self._flow = flow
        self._rules = flow.release

    def may_carry(self, hops: tuple[Hop, ...], *, before: bool) -> bool:
        """Return whether a message may have a count of failed deliveries with it behind these deaths.

        One of them may have brought it along, or it came with it ``before`` them: the queues in between keep it.
        """
        carried = self._rules.delivery_count_carried
        if not hops or carried == "never":
            return before and not hops
        return before or carried == "from all queues" or any(self.is_quorum(hop.queue) for hop in hops)

    def repeats_unflagged(self, row: CaptureRow) -> bool:
        """Return whether the queue may deliver a copy again without a flag or a count."""
        return self.is_quorum(row.queue or "") and not self._rules.quorum_repeats_are_flagged

    def is_uncounted(self, row: CaptureRow) -> bool:
        """Return whether a delivery lacks the counts that a quorum queue adds to every delivery but the first."""
        return self.is_quorum(row.queue or "") and not any(name in row.of_delivery for name in COUNT_HEADERS)

    def is_counted(self, row: CaptureRow, client: Mapping[str, Any], *, may_carry: bool) -> bool:
        """Return whether a delivery has a count that its queue adds only once the message was returned."""
        name = X_ACQUIRED_COUNT if X_ACQUIRED_COUNT in row.of_delivery else X_DELIVERY_COUNT
        count = row.of_delivery.get(name)
        if not self.is_quorum(row.queue or "") or not isinstance(count, int) or count == client.get(name):
            return False
        return count > 0 and not may_carry

    def may_come_flagged(self, row: CaptureRow, *, may_carry: bool) -> bool:
        """Return whether the first delivery of a copy may have the flag of a redelivery.

        It has where failed deliveries came along with a dead letter, which a classic queue does not show. A nack
        does not fail a delivery, a reject does, and ``x-death`` calls both rejected.
        """
        if self.is_quorum(row.queue or ""):
            return may_carry and not self.is_uncounted(row)
        return may_carry and self._rules.delivery_count_carried == "from all queues"

    def reached(self, row: CaptureRow, *, may_carry: bool) -> int:
        """Return the count that the delivery limit reads, as a delivery shows it; 0 before any return.

        Where the limit counts returns, a count that a dead letter may have brought along says nothing of them.
        """
        count = row.of_delivery.get(X_DELIVERY_COUNT)
        unsure = may_carry and self._rules.quorum_delivery_limit_counts == "returns"
        return count if isinstance(count, int) and not unsure else 0

    def differences(self, row: CaptureRow, client: Mapping[str, Any], *, may_carry: bool) -> list[Difference]:
        """Return a difference for each count shown that no number of returns explains.

        ``client`` are the headers of the message itself. ``may_carry``: a dead letter may
        have brought its count into this queue.
        """
        queue = row.queue or ""
        is_stream = self._flow.topology.queues[queue].type == STREAM
        found = []
        for name in (*COUNT_HEADERS, X_STREAM_OFFSET):
            seen, own = row.of_delivery.get(name), client.get(name)
            if seen == own or (is_stream and name == X_STREAM_OFFSET):
                continue
            allowed = self._allowed(row, name, may_carry=may_carry) if isinstance(seen, int) else range(0)
            if seen not in allowed:
                found.append(Difference(name, self._expected(queue, name, own, allowed), _json(seen)))
        return found

    def _allowed(self, row: CaptureRow, name: str, *, may_carry: bool) -> range:
        """Return the values that the queue may show."""
        queue, rules = row.queue or "", self._rules
        if not self.is_quorum(queue) or name == X_STREAM_OFFSET:
            return range(0)
        if name == X_ACQUIRED_COUNT and not rules.quorum_acquired_count_header:
            return range(0)
        most = COUNT_MAX
        if name == X_DELIVERY_COUNT and not may_carry:
            limit, acquired = self._flow.settings(queue).delivery_limit, row.of_delivery.get(X_ACQUIRED_COUNT)
            most = most if limit is None else limit
            # Failed deliveries are some of all returns.
            most = min(most, acquired) if isinstance(acquired, int) else most
        return range(0 if rules.quorum_count_on_first_get else 1, most + 1)

    def _expected(self, queue: str, name: str, own: Any, allowed: range) -> str:
        setting = self._flow.settings(queue).values.get(DELIVERY_LIMIT)
        by = "" if setting is None or name != X_DELIVERY_COUNT else f" ({setting} in '{queue}')"
        return f"{allowed[0]} to {allowed[-1]}{by}" if allowed else f"{_json(own)}{by}"

    def why_unproved(self, queue: str, reached: int | None) -> Unchecked | None:
        """Return what is unchecked of a death by the delivery limit; ``None`` if the log shows the limit reached.

        ``reached`` is the count that the last delivery before the death showed, ``None`` if none was seen.
        """
        settings = self._flow.settings(queue)
        limit = settings.delivery_limit
        if limit is None or (reached is not None and reached >= limit):
            return None
        shown = "no delivery of it" if reached is None else f"deliveries of it up to a count of {reached}"
        return Unchecked("delivery-limit", queue, f"{settings.values[DELIVERY_LIMIT]}; the log shows {shown}")

    def is_quorum(self, queue: str) -> bool:
        """Return whether the queue is a quorum queue."""
        found = self._flow.topology.queues.get(queue)
        return found is not None and found.type == QUORUM


def _json(value: Any) -> str:
    return ABSENT if value is None else _encode(value).decode()


# The counts of one copy from delivery to delivery: each return to a quorum queue makes them larger.
#
# Live servers (3.8, 3.10, 4.0, 4.3) count each requeue, ``basic.recover``, and loss of a channel or connection once,
# alike for ``basic.get`` and consumers. So of one copy in one queue each delivery shows a higher count of returns
# than those before it. It may be more than one higher: what a channel that died never took is counted, and leaves no
# row.


OWN = "the client sent a header of that name"
CARRIED = "a dead letter may have brought the count along"
WHICH_COPY = "the log does not say which copy it belongs to"
GAP = "the log lacks deliveries that the count includes"
UNSURE = "clocks of several recorders, or a release that repeats deliveries, may make it fall"


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
        self._shown: dict[DeliveredState, _Shown] = {}

    def delivered(
        self,
        row: CaptureRow,
        target: DeliveredState,
        client: Mapping[str, Any],
        *,
        copies: int,
        may_carry: bool,
        in_order: bool,
    ) -> Grown:
        """Take a delivery from a quorum queue, of one of at most ``copies`` copies.

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

    def _compared(self, row: CaptureRow, before: _Shown, returns: int, failed: int, *, in_order: bool) -> Grown:
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

    def _open(self, row: CaptureRow, why: str) -> Grown:
        return Grown(unchecked=(Unchecked("delivery-count", row.queue or "", why),))
