"""The interface of the stores that hold a queue's ready messages: ``classic``, ``quorum`` and ``stream`` implement it.

A store holds the ready messages of one queue and decides which is next, what the
time and the limits take away, and where a message goes that comes back. It knows
no consumers, channels, exchanges or dead letters: what dies is handed to the
caller, in the order in which RabbitMQ dead-letters it. Unacknowledged messages are
with the caller, too.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Protocol

from dlx.delivery_counts import Return
from dlx.settings import Settings
from simulator.broker.copies import Copy


class Store(Protocol):
    """The ready messages of one queue.

    ``ready`` and ``ready_bytes`` count what may be delivered; ``total`` also what
    waits for a delayed retry.
    ``now_us`` is microseconds since 1970 everywhere.
    """

    settings: Settings
    limited: bool
    pending: int
    pending_bytes: int

    @property
    def ready(self) -> int: ...

    @property
    def ready_bytes(self) -> int: ...

    @property
    def total(self) -> int: ...

    def configure(self, settings: Settings) -> None:
        """Apply new effective settings: at the declaration, and when a policy changes."""

    def enter(self, copy: Copy, now_us: int) -> None:
        """Add a message that is published or dead-lettered into the queue, and set what belongs to this queue."""

    def refuses(self, copy: Copy, *, internal: bool, publisher: Hashable = None) -> bool:
        """Return whether overflow reject-publish turns the message away; ``internal``: it is a dead letter."""

    def know(self, publisher: Hashable) -> None:
        """Remember who publishes to a queue without limits, for the time when it gets some; ``None``: no publisher."""

    def forget(self, publisher: Hashable) -> None:
        """Forget what is kept for a publisher that will not come back."""

    def head(self) -> Copy | None:
        """Return the message that would be delivered next."""

    def waiting(self) -> Iterable[Copy]:
        """Yield messages that are ready or wait for a delayed retry, in about their order of delivery."""

    def take(self) -> Copy:
        """Remove the head, to deliver it. It comes back by ``give_back`` or not at all."""

    def give_back(self, copies: list[Copy], how: Return, now_us: int) -> list[Copy]:
        """Take deliveries back; return those whose delivery limit is exceeded, which stay out."""

    def expired(self, now_us: int) -> list[Copy]:
        """Remove what expires by now."""

    def overflowing(self) -> list[Copy]:
        """Remove what the length limits push out."""

    def due_us(self) -> int | None:
        """Return when ``expired`` or ``awake`` next has something to do."""

    def awake(self, now_us: int) -> bool:
        """Make ready the messages that a delayed retry held back until now; return whether there were any."""

    def purge(self) -> list[Copy]:
        """Remove all ready messages."""
