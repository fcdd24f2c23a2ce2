"""How many messages of a queue are in which state."""

from __future__ import annotations

from dlx.topology import STREAM
from simulator.broker import QueueState

RARE = frozenset({"delayed", "held"})
"""What few queues ever have: back after a delayed retry; dead, and held until the dead letter has arrived."""


def counts(queue: QueueState) -> dict[str, int]:
    """Return how many messages are in which state, and how many consumers there are."""
    store = queue.store
    return {
        "ready": store.ready,
        "unacked": queue.unacked,
        "delayed": 0 if queue.definition.type == STREAM else store.total - store.ready,
        "held": store.pending,
        "consumers": len(queue.consumers),
    }
