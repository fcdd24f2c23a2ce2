"""Decides which messages ``reserve`` moves to the dead letter queue, and what they are there.

The reference says that a message is moved when its ``reserved_count`` exceeds ``max_reservations``.
It means the count that one more reservation would give: its picture shows a dead letter with
the count 10 for a maximum of 10, and a maximum of 1 is to let a message be reserved once.

Source: dead letter queue reference, Behavior and One Time Delivery Use Case.
"""

from __future__ import annotations

from msgspec.structs import replace

from simulator.systems.ironmq.message import Message, expiry_us
from simulator.systems.ironmq.settings import DeadLetter, Settings


def is_dead(message: Message, dead_letter: DeadLetter | None) -> bool:
    """Return whether ``reserve``, when it comes across the message, moves it instead of returning it."""
    return dead_letter is not None and message.reserved_count >= dead_letter.max_reservations


def dead_letter(message: Message, target: Settings, now_us: int) -> Message:
    """Return the message as it arrives on the dead letter queue: unchanged, except that its life starts again."""
    return replace(message, expires_us=expiry_us(target, now_us))
