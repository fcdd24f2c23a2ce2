"""The alarms: publishers wait while the queues hold more than the limit, or while an alarm is raised on request."""

from __future__ import annotations

from typing import Literal

from simulator.broker import Broker

Resource = Literal["disk", "memory"]

MESSAGE_BYTES = 500  # what a message takes beside its body, roughly
_CHECK_EVERY_BYTES = 1 << 20
_CHECKS_NEAR_LIMIT = 16
"""The queues are measured after that part of the room at the earliest, however near the limit they are."""


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
        self._next_check = self._most_unchecked = min(_CHECK_EVERY_BYTES, limit_bytes)

    @property
    def resources(self) -> list[Resource]:
        """What is short."""
        return sorted({*self.raised.values(), *(("memory",) if self._full else ())})

    def received(self, count: int) -> None:
        """Count bytes that came in; the queues cannot have grown by much more."""
        self._received += count

    def check(self) -> bool:
        """Measure the queues, if enough came in, and return whether ``active`` changed."""
        if self._full or self._received >= self._next_check:
            self._received = 0
            room = self.limit_bytes - self.held_bytes()
            self._full = room < 0
            self._next_check = min(max(room, self._most_unchecked // _CHECKS_NEAR_LIMIT), self._most_unchecked)
        before, self.active = self.active, self._full or bool(self.raised)
        return self.active != before

    def held_bytes(self) -> int:
        """Return how many bytes the queues hold."""
        queues = [queue for vhost in self._broker.vhosts.values() for queue in vhost.queues.values()]
        bodies = sum(queue.store.ready_bytes + queue.unacked_bytes for queue in queues)
        return bodies + sum(queue.messages for queue in queues) * MESSAGE_BYTES
