"""Messages are conserved: every copy that entered a queue is in it, or left it with an event that says why."""

from __future__ import annotations

from collections import Counter

from dlx.topology import STREAM
from simulator.broker import Broker
from simulator.events import Happened, copies_added


class Ledger:
    """How many messages each queue must have, by the events.

    Streams are left out: what is read from them stays.
    """

    def __init__(self) -> None:
        self.balance: Counter[tuple[str, str]] = Counter()
        self._last: Happened | None = None
        self._streams: set[tuple[str, str]] = set()

    def observe(self, event: Happened) -> None:
        """Note what happened."""
        if event.queue is not None:
            self.balance[event.vhost, event.queue] += copies_added(event, self._last)
        self._last = event

    def expected(self, broker: Broker) -> dict[tuple[str, str], int]:
        """Return how many messages each queue must have now, without the queues that must be empty."""
        here = {
            (vhost.name, queue.name)
            for vhost in broker.vhosts.values()
            for queue in vhost.queues.values()
            if queue.definition.type == STREAM
        }
        for key in self._streams | here:
            self.balance.pop(key, None)
        self._streams = here
        return {key: count for key, count in self.balance.items() if count}
