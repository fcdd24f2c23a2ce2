"""One queue: the messages on it, and the order of those that can be reserved."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from simulator.systems.ironmq.message import Message
from simulator.systems.ironmq.settings import Settings


@dataclass(slots=True, eq=False)
class Stored:
    """One message on one queue.

    Attributes:
        uid: the number of the posted message, which its dead letters keep.
        message: what IronMQ shows of it.
        reservation_id: of the running reservation.
        timer: the number of the timer that ends its reservation or delay; 0 while it is available.
    """

    uid: int
    message: Message
    reservation_id: str | None = None
    timer: int = 0


class Queue:
    """A queue.

    Attributes:
        name: in its project.
        settings: what it is configured with.
        messages: all that are on it, reserved and delayed ones too, by id.
        available: those that can be reserved, the next one first.
        total_messages: how many have ever come to it.
        is_reachable: whether any of its replicas is online.
    """

    def __init__(self, name: str, settings: Settings) -> None:
        self.name = name
        self.settings = settings
        self.messages: dict[str, Stored] = {}
        self.available: OrderedDict[str, Stored] = OrderedDict()
        self.total_messages = 0
        self.is_reachable = True

    def holds(self, stored: Stored) -> bool:
        """Return whether this very copy is on the queue."""
        return self.messages.get(stored.message.id) is stored

    def add(self, stored: Stored) -> None:
        """Take in a message, which nobody can reserve yet."""
        self.messages[stored.message.id] = stored
        self.total_messages += 1

    def offer(self, stored: Stored, *, at_front: bool) -> None:
        """Make a message available, as the next one or as the last."""
        stored.reservation_id, stored.timer = None, 0
        self.available[stored.message.id] = stored
        self.available.move_to_end(stored.message.id, last=not at_front)

    def take(self) -> Stored:
        """Take and return the next available message. Raises ``KeyError`` if no message is available."""
        return self.available.popitem(last=False)[1]

    def remove(self, stored: Stored) -> None:
        """Remove a message from the queue."""
        del self.messages[stored.message.id]
        self.available.pop(stored.message.id, None)
