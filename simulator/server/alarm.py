"""The alarms: publishers wait while the queues hold more than the limit, or while an alarm is raised on request."""

from __future__ import annotations

from typing import Literal

from simulator.broker import Broker

Resource = Literal["disk", "memory"]

MESSAGE_BYTES = 500  # what a message takes beside its body, roughly
_CHECK_EVERY_BYTES = 1 << 20


class Alarm:
    """Says whether publishers must wait: ``active`` while the queues hold too much or an alarm is raised on request.

    Bodies count once for every queue they are in, although the copies share them, so the
    alarm comes early rather than late.

    Attributes:
        limit_bytes: how much the queues may hold.
        raised: the resources that somebody says are short, each by who says so.
    """

    def __init__(self, broker: Broker, limit_bytes: int) -> None:
        if limit_bytes <= 0:
            raise ValueError("a memory limit must be positive")
        self.limit_bytes = limit_bytes
        self.raised: dict[int, Resource] = {}
        self.active = False
        self._broker = broker
        self._received = 0
        self._full = False

    @property
    def resources(self) -> list[Resource]:
        """What is short."""
        return sorted({*self.raised.values(), *(("memory",) if self._full else ())})

    def received(self, count: int) -> None:
        """Count bytes that came in; the queues cannot have grown by much more."""
        self._received += count

    def check(self) -> bool:
        """Measure the queues, if enough came in, and return whether ``active`` changed."""
        if self._full or self._received >= min(_CHECK_EVERY_BYTES, self.limit_bytes):
            self._received = 0
            self._full = self.held_bytes() > self.limit_bytes
        before, self.active = self.active, self._full or bool(self.raised)
        return self.active != before

    def held_bytes(self) -> int:
        """Return how many bytes the queues hold."""
        queues = [queue for vhost in self._broker.vhosts.values() for queue in vhost.queues.values()]
        bodies = sum(queue.store.ready_bytes + queue.unacked_bytes for queue in queues)
        return bodies + sum(queue.messages for queue in queues) * MESSAGE_BYTES
