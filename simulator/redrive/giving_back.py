"""Gives deliveries back to their queue in order, and waits until the queue has them, over a connection with callbacks.

A channel that ends before the server has worked off its nacks is a lost channel for the rest of its
messages: on 4.3 that counts as failed deliveries. ``peek.py`` does the same over a blocking connection.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any

from pika.channel import Channel

from simulator.redrive.how_to_peek import TOGETHER
from simulator.redrive.peek import SETTLE_S

PAUSE_S = 0.005

Later = Callable[[float, Callable[[], None]], object]
"""Calls something after so many seconds."""


class GivingBack:
    """Nacks some deliveries, and the next ones when the queue has those.

    Args:
        channel, queue: where they were delivered, and from what.
        tags: of the deliveries: all that the channel has not settled. They are read when the broker has answered
            once: by then nothing is on its way any more.
        later: of the connection's loop.
        done: called at the end.
    """

    def __init__(
        self, channel: Channel, queue: str, tags: Collection[int], later: Later, done: Callable[[], None]
    ) -> None:
        self._channel, self._queue, self._later, self._done = channel, queue, later, done
        self._held = tags
        self._tags: list[int] = []
        self._most = self._wanted = -1
        self._since = time.monotonic()

    def look(self) -> None:
        """Ask how many messages are ready, and go on; unless the broker has closed the channel meanwhile."""
        if not self._channel.is_open:
            return
        self._channel.queue_declare(self._queue, passive=True, callback=self._on_count)

    def _on_count(self, frame: Any) -> None:
        ready: int = frame.method.message_count
        if ready > self._most:
            self._most, self._since = ready, time.monotonic()
        if self._wanted < 0:
            self._wanted, self._tags = ready, sorted(self._held)
        if ready < self._wanted and time.monotonic() - self._since < SETTLE_S:
            self._later(PAUSE_S, self.look)
        elif self._tags:
            self._give_some(ready)
        else:
            self._done()

    def _give_some(self, ready: int) -> None:
        together = TOGETHER if ready >= self._wanted else len(self._tags)  # others take them: no order to keep
        some, self._tags = self._tags[:together], self._tags[together:]
        self._channel.basic_nack(some[-1], multiple=True, requeue=True)
        self._wanted += len(some)
        self._since = time.monotonic()
        self.look()
