"""One call of the API, with all that any of them needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from simulator.systems.zaqar.requests import Request, ZaqarAnswer
from simulator.systems.zaqar.store import Shown, Store


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was let in.

    Attributes:
        store: the driver.
        request: as it came.
        project, client: from the headers ``X-PROJECT-ID`` and ``Client-ID``.
        now_us: microseconds since 1970.
        queue, item: the queue, and the id of the message or claim, where the path names one.
    """

    store: Store
    request: Request
    project: str
    client: str
    now_us: int
    queue: str = ""
    item: str = ""


Handlers = dict[str, Callable[[Call], ZaqarAnswer]]
"""What answers, by method."""


def formatted(message: Shown, base: str, claim_id: str | None) -> dict[str, Any]:
    """Return a message as answers show it, without its claim count. ``base`` is the path of its queue."""
    claim = f"?claim_id={claim_id}" if claim_id else ""
    return {
        "id": message["id"],
        "href": f"{base}/messages/{message['id']}{claim}",
        "ttl": message["ttl"],
        "age": message["age"],
        "body": message["body"],
    }
