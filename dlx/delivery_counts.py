"""Count how often a message was returned to a quorum queue, render the counts, and apply the delivery limit.

Two counts: ``acquired`` counts every return, ``delivery`` the deliveries that
failed. Which of them the delivery limit reads, and what counts as failed, differs
between releases; so does whether a dead letter brings ``delivery`` along. Classic
queues of 4.3 count failed deliveries too, but show and limit nothing.

Source: rabbit_fifo.erl return_one, incr_msg; rabbit_fifo_client.erl
add_delivery_count_header; rabbit_variable_queue.erl (4.3).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from dlx.field_values import Long
from dlx.message import Message
from dlx.releases import Release
from dlx.topology import QUORUM

X_DELIVERY_COUNT = "x-delivery-count"
X_ACQUIRED_COUNT = "x-acquired-count"
COUNT_HEADERS = (X_DELIVERY_COUNT, X_ACQUIRED_COUNT)

Return = Literal[
    "nack", "reject", "recover", "lost channel", "final nack", "final reject", "released", "failed",
    "final released", "final failed",
]  # fmt: skip


class Counts(msgspec.Struct, frozen=True):
    """The counts of one message in one queue; each is ``None`` until it first counts something."""

    acquired: int | None = None
    delivery: int | None = None


def entering(message: Message, release: Release) -> Counts:
    """Return the counts of a message that enters a queue."""
    return Counts(delivery=None if release.delivery_count_carried == "never" else message.delivery_count)


def returned(counts: Counts, how: Return, release: Release) -> Counts:
    """Return the counts after the message came back, or was finally rejected."""
    return Counts(acquired=(counts.acquired or 0) + 1, delivery=failures(counts.delivery, how, release))


def failures(before: int | None, how: Return, release: Release) -> int | None:
    """Return how many deliveries have failed once one more came back, or was finally rejected."""
    return (before or 0) + 1 if how in release.returns_counted_as_failures else before


def limit_exceeded(counts: Counts, limit: int | None, release: Release) -> bool:
    """Return whether the return just counted is one too many; a limit of L allows L + 1 deliveries."""
    if limit is None:
        return False
    counted = counts.delivery if release.quorum_delivery_limit_counts == "failures" else counts.acquired
    return counted is not None and counted > limit


def count_headers(counts: Counts, release: Release, *, first_get: bool = False) -> dict[str, int]:
    """Return the headers a quorum queue adds to a delivery. ``first_get``: the first delivery, by basic.get."""
    acquired = counts.delivery if counts.acquired is None else counts.acquired
    if acquired is None:
        return {X_DELIVERY_COUNT: Long(0)} if first_get and release.quorum_count_on_first_get else {}
    if not release.quorum_acquired_count_header:
        return {X_DELIVERY_COUNT: Long(acquired)}
    shown: dict[str, int] = {X_ACQUIRED_COUNT: Long(acquired)}
    if counts.delivery is not None:
        shown[X_DELIVERY_COUNT] = Long(counts.delivery)
    return shown


def carried(failed: int | None, queue_type: str, release: Release) -> int | None:
    """Return the ``delivery_count`` that a message takes along when it dies in a queue of that type.

    ``failed``: how many of its deliveries have failed.
    """
    if release.delivery_count_carried == "from all queues":
        return failed
    if release.delivery_count_carried == "from quorum queues" and queue_type == QUORUM:
        return failed
    return None
