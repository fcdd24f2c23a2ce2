"""The memory alarm: publishers wait while the queues hold more than the limit."""

from __future__ import annotations

from simulator.broker import Broker

MESSAGE_BYTES = 500  # what a message takes beside its body, roughly
_CHECK_EVERY_BYTES = 1 << 20


class MemoryAlarm:
    """Watches how much the queues of a broker hold: ``active`` while it is more than ``limit_bytes``.

    Bodies count once for every queue they are in, although the copies share them, so the
    alarm comes early rather than late.
    """

    def __init__(self, broker: Broker, limit_bytes: int) -> None:
        if limit_bytes <= 0:
            raise ValueError("a memory limit must be positive")
        self.limit_bytes = limit_bytes
        self.active = False
        self._broker = broker
        self._received = 0

    def received(self, count: int) -> None:
        """Count bytes that came in; the queues cannot have grown by much more."""
        self._received += count

    def check(self) -> bool:
        """Measure the queues, if enough came in, and return whether ``active`` changed."""
        if not self.active and self._received < min(_CHECK_EVERY_BYTES, self.limit_bytes):
            return False
        self._received = 0
        before, self.active = self.active, self.held_bytes() > self.limit_bytes
        return self.active != before

    def held_bytes(self) -> int:
        """Return how many bytes the queues hold."""
        queues = [queue for vhost in self._broker.vhosts.values() for queue in vhost.queues.values()]
        bodies = sum(queue.store.ready_bytes + queue.unacked_bytes for queue in queues)
        return bodies + sum(queue.messages for queue in queues) * MESSAGE_BYTES
