"""Names as teams give them, so that an example reads like somebody's topology."""

from __future__ import annotations

NOWHERE = "nowhere"
"""An exchange or queue that does not exist."""

_QUEUES = (
    "orders", "orders.wait", "orders.retry", "orders.dead", "mail", "mail.wait", "mail.dead", "audit",
)  # fmt: skip


def first_names(count: int) -> tuple[str, ...]:
    """So many different names."""
    return (*_QUEUES[:count], *(f"audit.{number}" for number in range(2, count - len(_QUEUES) + 2)))
