"""Where a message goes that is brought back from a dead-letter queue."""

from __future__ import annotations

from typing import Literal

import msgspec

from simulator.redrive.waiting import Waiting

Origin = Literal["origin", "published"]
"""``origin``: the queue in which it first died, through the default exchange, so that no other queue gets a copy.
``published``: the exchange and the first routing key that it was published with; whatever is bound there gets it."""


class Address(msgspec.Struct, frozen=True):
    """An exchange and a routing key; the default exchange is the empty text, whose keys are names of queues."""

    exchange: str
    routing_key: str

    def __str__(self) -> str:
        if not self.exchange:
            return f"the queue '{self.routing_key}'"
        return f"the exchange '{self.exchange}' with {self.routing_key!r}"


def address_of(message: Waiting, to: Origin | Address) -> Address | None:
    """Return where the message goes; ``None`` where none of its headers tells where it came from."""
    if isinstance(to, Address):
        return to
    first = message.deaths.first
    if to == "origin":
        return None if first is None else Address("", first.queue)
    entry = message.first_entry
    return None if entry is None or not entry.routing_keys else Address(entry.exchange, entry.routing_keys[0])
