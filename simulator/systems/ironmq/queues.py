"""A queue and its messages: which message is dead, the order of those that can be reserved, and what ends at its time.

The reference says that a message is moved when its ``reserved_count`` exceeds ``max_reservations``.
It means the count that one more reservation would give: its picture shows a dead letter with
the count 10 for a maximum of 10, and a maximum of 1 is to let a message be reserved once.

Timers end reservations, delays and lives of messages.

Source: dead letter queue reference, Behavior and One Time Delivery Use Case.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import count
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from simulator.deadlines import Deadline, Deadlines
from simulator.systems.ironmq.pushes import Pushing
from simulator.systems.ironmq.settings import DeadLetterSettings, Settings

_US = 1_000_000


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message on a queue.

    Attributes:
        id: a string of digits, one in its project; it never changes.
        body: what was posted.
        expires_us: when it is gone from the queue, microseconds since 1970.
        reserved_count: how often it was reserved or touched.
    """

    id: str
    body: str
    expires_us: int
    reserved_count: int = 0


def expiry_us(settings: Settings, now_us: int) -> int:
    """Return when a message that comes to a queue with these settings now is gone."""
    return now_us + settings.message_expiration_s * _US


def posted(id: str, body: str, settings: Settings, now_us: int) -> Message:
    """Make a new message on a queue with these settings."""
    return Message(id=id, body=body, expires_us=expiry_us(settings, now_us))


def counted(message: Message) -> Message:
    """Return the message after ``reserve`` or ``touch``; nothing else changes its count."""
    return replace(message, reserved_count=message.reserved_count + 1)


def is_dead(message: Message, dead_letter: DeadLetterSettings | None) -> bool:
    """Return whether ``reserve``, when it comes across the message, moves it instead of returning it."""
    return dead_letter is not None and message.reserved_count >= dead_letter.max_reservations


def dead_letter(message: Message, target: Settings, now_us: int) -> Message:
    """Return the message as it arrives on the dead letter queue: unchanged, except that its life starts again."""
    return replace(message, expires_us=expiry_us(target, now_us))


@dataclass(slots=True, eq=False)
class QueuedMessage:
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
        pushing: what a push queue has pushed of the messages that have ever come to it, by id.
    """

    def __init__(self, name: str, settings: Settings) -> None:
        self.name = name
        self.settings = settings
        self.messages: dict[str, QueuedMessage] = {}
        self.available: OrderedDict[str, QueuedMessage] = OrderedDict()
        self.total_messages = 0
        self.is_reachable = True
        self.pushing: dict[str, Pushing] = {}

    def holds(self, stored: QueuedMessage) -> bool:
        """Return whether this very copy is on the queue."""
        return self.messages.get(stored.message.id) is stored

    def add(self, stored: QueuedMessage) -> None:
        """Take in a message, which cannot be reserved yet."""
        self.messages[stored.message.id] = stored
        self.total_messages += 1

    def offer(self, stored: QueuedMessage, *, at_front: bool) -> None:
        """Make a message available, as the next one or as the last."""
        stored.reservation_id, stored.timer = None, 0
        self.available[stored.message.id] = stored
        self.available.move_to_end(stored.message.id, last=not at_front)

    def take(self) -> QueuedMessage:
        """Take and return the next available message. Raises ``KeyError`` if no message is available."""
        return self.available.popitem(last=False)[1]

    def remove(self, stored: QueuedMessage) -> None:
        """Remove a message from the queue."""
        del self.messages[stored.message.id]
        self.available.pop(stored.message.id, None)


class Then(IntEnum):
    """What happens when a timer ends; at one moment, in this order."""

    EXPIRE = 0
    TO_FRONT = 1
    TO_END = 2
    PUSH = 3


_AVAILABLE = (Then.TO_FRONT, Then.TO_END)


class Ended(NamedTuple):
    """A timer that has ended."""

    time_us: int
    then: Then
    queue: Queue
    stored: QueuedMessage


class Timers:
    """All timers of a project. Those of messages that have gone elsewhere since count for nothing."""

    def __init__(self) -> None:
        self._deadlines = Deadlines[Then]()
        self._numbers = count(1)

    def start(self, time_us: int, then: Then, queue: Queue, stored: QueuedMessage) -> None:
        """Start a timer; one that makes the message available replaces the one before."""
        number = next(self._numbers)
        if then in _AVAILABLE:
            stored.timer = number
        # Messages that go to the front at one moment go there last first, which keeps their order.
        rank = (then, -number if then == Then.TO_FRONT else number)
        self._deadlines.set(time_us, then, (queue, stored, number), rank)

    def next_due_us(self) -> int | None:
        """Return when the next timer ends, or ``None`` if no timer runs."""
        while (first := self._deadlines.first()) is not None and not _counts(first):
            self._deadlines.pop(first[0])
        return self._deadlines.next_due()

    def ended(self, now_us: int) -> Iterator[Ended]:
        """Yield the timers that have ended by now, in order of time."""
        while self.next_due_us() is not None and (deadline := self._deadlines.pop(now_us)) is not None:
            time_us, _, then, (queue, stored, _) = deadline
            yield Ended(time_us, then, queue, stored)


def _counts(deadline: Deadline[Then]) -> bool:
    _, _, then, (queue, stored, number) = deadline
    return bool(queue.holds(stored) and (then not in _AVAILABLE or number == stored.timer))
