"""A message, the two operations that count, and which messages ``reserve`` moves to the dead letter queue.

The reference says that a message is moved when its ``reserved_count`` exceeds ``max_reservations``.
It means the count that one more reservation would give: its picture shows a dead letter with
the count 10 for a maximum of 10, and a maximum of 1 is to let a message be reserved once.

Source: dead letter queue reference, Behavior and One Time Delivery Use Case.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

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
