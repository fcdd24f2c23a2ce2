"""What a log shows of each message: who published it, which queues delivered it, and what consumers did then.

A trace has publishes and deliveries. What became of a delivery follows from what came after it
(``simulator.whatif.consumer_actions``), or a recorder has written it down.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

Named = tuple[str, str]
"""A virtual host, and a message in it."""
LAST = 2**62
"""Stands behind every row of the log."""


class ConsumerAction(StrEnum):
    """What a consumer did with a delivery."""

    ENDED = "ended"
    """Acknowledged, or rejected where nothing takes a dead letter: no trace tells these apart."""
    REJECTED = "rejected"
    FAILED = "rejected (basic.reject)"
    """As some releases tell: a queue counts such a rejection as a failed delivery, and one by basic.nack not."""
    REQUEUED = "requeued"
    CRASHED = "failed (reject with requeue, or a lost channel)"


class Shown(msgspec.Struct, frozen=True, order=True, gc=False):
    """What a delivery shows of the way behind it. ``x_death`` is canonical JSON without times, or empty."""

    queue: str
    exchange: str
    routing_keys: tuple[str, ...]
    x_death: str


class Came(msgspec.Struct, gc=False):
    """How a message came into the queue that delivered it.

    Attributes:
        at_us, place: when, and in which row of the log, it was published there; or
        after: which delivery of the message it was whose end sent it there,
        later_us: how much later it came, since it waited for TTLs on the way,
        latest_us: and until when it must have been sent.
        back: whether a consumer returned it after that delivery.
    """

    at_us: int = 0
    place: float = 0
    after: int | None = None
    later_us: int = 0
    latest_us: int = 0
    back: bool = False


class StoryDelivery(msgspec.Struct, gc=False):
    """One delivery.

    Attributes:
        shown: what it shows; its ``queue`` is where it came from.
        at_us: when, microseconds since 1970.
        place: which row of the log it is: of rows of the same moment, the one with the smaller place was first.
        connection: the consumer's.
        returned, failed: how often the message came back before, and how often a consumer failed it, as it shows.
        outcome: what the consumer did.
        until_us: when: at the earliest, or where it came back to its queue, at the latest.
        until_place: behind which rows of that moment.
        observed: whether a recorder wrote the outcome down; otherwise it is inferred.
        traced: whether the log has it. A delivery that was lost on the way to its channel has no trace, but counts.
        came: how it came into its queue; ``None`` where that is not known.
    """

    shown: Shown
    at_us: int
    place: float
    connection: str
    returned: int = 0
    failed: int = 0
    action: ConsumerAction = ConsumerAction.ENDED
    until_us: int = 0
    until_place: float = 0
    observed: bool = False
    traced: bool = True
    came: Came | None = None

    @property
    def queue(self) -> str:
        """Where it came from."""
        return self.shown.queue

    @property
    def seems_returned(self) -> bool:
        """Whether it was requeued as far as one can tell."""
        return self.action == ConsumerAction.REQUEUED and not self.observed

    @property
    def may_be_back_before(self) -> bool:
        """Whether it came back, and no recorder tells when."""
        return self.action in (ConsumerAction.REQUEUED, ConsumerAction.CRASHED) and not self.observed

    @property
    def rejected(self) -> bool:
        """Whether it was rejected, by whichever method."""
        return self.action in (ConsumerAction.REJECTED, ConsumerAction.FAILED)

    @property
    def may_be_hidden(self) -> bool:
        """Whether it was the last, and no recorder tells whether it was acknowledged."""
        return self.action == ConsumerAction.ENDED and not self.observed

    def if_failed(self) -> ConsumerAction:
        """Return what the consumer did, if it failed the message where it may have."""
        if self.seems_returned:
            return ConsumerAction.CRASHED
        return ConsumerAction.FAILED if self.action == ConsumerAction.REJECTED else self.action

    def settle(self, action: ConsumerAction, at_us: int, place: float) -> None:
        """Note what the consumer did, unless a recorder has written it down."""
        if not self.observed:
            self.action, self.until_us = action, max(at_us, self.at_us)
            self.until_place = max(place, self.place) if self.until_us == self.at_us else place


class Publication(msgspec.Struct, gc=False):
    """One publish.

    Attributes:
        at_us, place: when, and which row of the log it is.
        exchange, routing_key, properties, body: what was published.
        after: the delivery of the same message whose consumer published it again, by its place among them.
        refused_by: queues that were full and dead-lettered it instead of letting it in.
    """

    at_us: int
    place: float
    exchange: str
    routing_key: str
    properties: Mapping[str, Any]
    body: bytes
    after: int | None = None
    refused_by: tuple[str, ...] = ()


class Story(msgspec.Struct, gc=False):
    """All that a log shows of one message.

    Attributes:
        vhost, message: whose it is.
        publications, deliveries: in the order of the log.
    """

    vhost: str
    message: str
    publications: list[Publication] = []
    deliveries: list[StoryDelivery] = []

    def by_queue(self) -> dict[str, list[StoryDelivery]]:
        """Return the deliveries by queue."""
        found: dict[str, list[StoryDelivery]] = {}
        for delivery in self.deliveries:
            found.setdefault(delivery.queue, []).append(delivery)
        return found

    def with_failures(self) -> Story:
        """Return it as if consumers had failed the message where they may have, if they seem to have returned it.

        They may have lost their channels where they seem to have returned it, and rejected it by basic.reject.
        """
        if not any(delivery.seems_returned for delivery in self.deliveries):
            return self  # failures are counted, but only a return asks how many there are
        failed = [msgspec.structs.replace(each, action=each.if_failed()) for each in self.deliveries]
        return msgspec.structs.replace(self, deliveries=failed)

    @property
    def began(self) -> tuple[int, float]:
        """The moment and the place of the first row that was seen of it."""
        published = [(each.at_us, each.place) for each in self.publications[:1]]
        delivered = [(each.at_us, each.place) for each in self.deliveries[:1]]
        return min(published + delivered, default=(0, 0))
