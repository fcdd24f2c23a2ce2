"""Limits of virtual hosts and users: what may be limited, and which limit is in force.

Source: rabbit_vhost_limit.erl; rabbit_auth_backend_internal.erl validate_user_limits, get_user_limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dlx.parameter_validation import Member, is_integer, wrong_members, wrong_number

MAX_CONNECTIONS = "max-connections"
MAX_QUEUES = "max-queues"
MAX_CHANNELS = "max-channels"
OF_VHOSTS = (MAX_CONNECTIONS, MAX_QUEUES)
OF_USERS = (MAX_CONNECTIONS, MAX_CHANNELS)

Limits = Mapping[str, int]
"""Limits by name, as they were set; a negative number is none."""


def limit_reached(limits: Limits | None, name: str, count: int) -> int | None:
    """Return the limit if ``count`` has reached it; ``None`` where there is room for one more, or no limit."""
    limit = (limits or {}).get(name, -1)
    return limit if 0 <= limit <= count else None


def wrong_limits(limits: Any, known: tuple[str, ...], what: str) -> list[str]:
    """Return what is wrong with limits that are to be set, in RabbitMQ's words; ``what`` names them all."""
    return wrong_members(limits, [Member(name, _wrong_limit(name)) for name in known], what)


def _wrong_limit(name: str) -> Callable[[Any], str | None]:
    return lambda value: wrong_number(name, value, is_integer)
