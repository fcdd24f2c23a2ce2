"""What a node counts of all its messages, whatever becomes of the queues and exchanges that they went through."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from simulator.broker.state.virtual_hosts import Counters


@dataclass(slots=True)
class GlobalCounters:
    """The counts since the node started.

    ``dead_letters`` are by reason, queue type and strategy (``dlx.global_counters.Account``).
    Deliveries are counted at their queues; ``gone`` has, by queue type, those of queues
    that are deleted, and under ``volatile`` the answers by direct reply-to.
    """

    received: int = 0
    received_confirm: int = 0
    routed: int = 0
    unroutable_dropped: int = 0
    unroutable_returned: int = 0
    confirmed: int = 0
    gone: dict[str, Counters] = field(default_factory=dict)
    dead_letters: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def died(self, reason: str, queue_type: str, strategy: str, count: int = 1) -> None:
        """Count deaths."""
        account = reason, queue_type, strategy
        self.dead_letters[account] = self.dead_letters.get(account, 0) + count

    def keep(self, queue_type: str, counters: Counters) -> None:
        """Keep the counts of a queue that is going."""
        kept = self.of_type(queue_type)
        for each in fields(Counters):
            setattr(kept, each.name, getattr(kept, each.name) + getattr(counters, each.name))

    def of_type(self, queue_type: str) -> Counters:
        """Return the kept counts of a type of queue."""
        return self.gone.setdefault(queue_type, Counters())
