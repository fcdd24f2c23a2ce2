"""The settings of a queue. The fields are named as in IronMQ's JSON, with the units added.

Source: API reference, Create Queue; push queues reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

PULL = "pull"
PUSH_TYPES = ("multicast", "unicast")
TYPES = (PULL, *PUSH_TYPES)

MAX_RESERVATIONS = 10
MESSAGE_TIMEOUT_S = 60
MESSAGE_EXPIRATION_S = 7 * 86_400
RETRIES = 3
RETRIES_DELAY_S = 60


class DeadLetterSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where a queue's dead letters go, and after how many reservations.

    Attributes:
        queue_name: a queue of the same project.
        max_reservations: how often a message can be reserved.
    """

    queue_name: str
    max_reservations: int = MAX_RESERVATIONS


class Subscriber(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a push queue pushes its messages."""

    name: str
    url: str
    headers: Mapping[str, str] = {}


class Push(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that make a push queue. ``error_queue`` is empty if the queue does not have one."""

    subscribers: tuple[Subscriber, ...]
    retries: int = RETRIES
    retries_delay_s: int = msgspec.field(default=RETRIES_DELAY_S, name="retries_delay")
    error_queue: str = ""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one queue; the defaults are those of a pull queue.

    Attributes:
        message_timeout_s: how long a reservation lasts that does not say so itself.
        message_expiration_s: how long a message lives on the queue.
        type: ``pull``, ``multicast`` or ``unicast``; it never changes.
        push: of a push queue.
        dead_letter: of a pull queue whose dead letters are kept.
    """

    message_timeout_s: int = msgspec.field(default=MESSAGE_TIMEOUT_S, name="message_timeout")
    message_expiration_s: int = msgspec.field(default=MESSAGE_EXPIRATION_S, name="message_expiration")
    type: str = PULL
    push: Push | None = None
    dead_letter: DeadLetterSettings | None = None

    def shown(self) -> dict[str, Any]:
        """Return the settings as IronMQ shows them: ``push`` and ``dead_letter`` only if the queue has them."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return {name: value for name, value in fields.items() if value is not None}


# What a request may set. IronMQ passes over other names; a scenario with one has a misprint in it.
FIELDS = tuple(field.encode_name for field in msgspec.structs.fields(Settings))
