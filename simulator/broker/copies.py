"""One copy of a message in one queue."""

from __future__ import annotations

import msgspec

from dlx.message import Message


class Copy(msgspec.Struct, gc=False):
    """A message as one queue holds it.

    Attributes:
        uid: number of the published message; its copies and dead letters share it.
        message: what was published or dead-lettered; copies that look alike share it.
        body: the payload.
        priority: of the message, as its queue reads it.
        size: bytes it counts towards the queue's limit in bytes.
        position: its place in the queue, ascending from the head; kept over requeues.
        expires_us: when its time to live ends, microseconds since 1970.
        redelivered: whether the next delivery is a redelivery.
        acquired: how often it came back to this queue; ``None`` until it did (``dlx.delivery_counts``).
        failed: how many of its deliveries failed, those of former queues included where they are carried.
        ready_us: until when a delayed retry keeps it back.
        expiration_forgotten: whether its queue will not know its expiration when it dies (``original_expiration``).
    """

    uid: int
    message: Message
    body: bytes
    priority: int = 0
    size: int = 0
    position: int = 0
    expires_us: int | None = None
    redelivered: bool = False
    acquired: int | None = None
    failed: int | None = None
    ready_us: int | None = None
    expiration_forgotten: bool = False
