"""Messages are conserved: every copy that entered a queue is in it, or left it with an event that says why."""

from __future__ import annotations

from collections import Counter

from dlx.deaths import MAXLEN
from dlx.topology import STREAM
from simulator.broker import Broker
from simulator.events import Event, Happened

_LEAVES = frozenset({
    Event.ACKED, Event.REJECTED, Event.EXPIRED, Event.LENGTH_DROPPED, Event.LIMIT_DROPPED, Event.PURGED,
})  # fmt: skip
_DIES = frozenset({Event.REJECTED, Event.EXPIRED, Event.LENGTH_DROPPED, Event.LIMIT_DROPPED, Event.NACKED})


class Ledger:
    """How many messages each queue must have, by the events.

    Streams are left out: what is read from them stays.
    """

    def __init__(self) -> None:
        self.balance: Counter[tuple[str, str]] = Counter()
        self._last: tuple[Event, str | None, int] | None = None
        self._streams: set[tuple[str, str]] = set()

    def observe(self, event: Happened) -> None:
        """Note what happened."""
        if event.queue is not None:
            self.balance[event.vhost, event.queue] += self._change(event)
        self._last = event.event, event.queue, event.uid

    def _change(self, event: Happened) -> int:
        if event.event in (Event.ROUTED, Event.HELD):
            return 1
        if event.event in _LEAVES:
            return -1
        follows = self._last is not None and self._last[0] in _DIES and self._last[1:] == (event.queue, event.uid)
        if follows and self._last is not None and self._last[0] == Event.NACKED:
            follows = event.reason == MAXLEN  # else another that the queue held is released
        if event.event == Event.REQUEUED:  # a rejection that crashed its queue
            return int(follows)
        released = event.event in (Event.DEAD_LETTERED, Event.DROPPED) and not follows
        return -1 if released else 0  # at least once; otherwise a death has been counted

    def expected(self, broker: Broker) -> dict[tuple[str, str], int]:
        """How many messages each queue must have now; those that must be empty are left out."""
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
