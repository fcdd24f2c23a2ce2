"""The publishes that a recorder sees, counted by exchange and routing key, and recognised as repeats of deliveries."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from simulator.record.recording import RecordedPublishes, RecordedQueue

KEYS_MAX = 2_000
"""How many exchanges and keys are listed in ``published`` of a recording."""
DELIVERIES_REMEMBERED = 10_000
"""How many deliveries may be recognised when clients publish them again."""

PublishKey = tuple[str, str, str]
"""Virtual host, exchange and routing key."""


class _Delivered(NamedTuple):
    """A delivery that a client may publish again."""

    queue: RecordedQueue
    headers: Mapping[str, Any]
    reply_to: str | None


class SeenPublishes:
    """What clients published, and the last deliveries, which they may publish again.

    Attributes:
        by_key: what is known of each exchange and routing key.
        omitted: how many messages had a key beyond those that are listed.
    """

    def __init__(self) -> None:
        self.by_key: dict[PublishKey, RecordedPublishes] = {}
        self.omitted = 0
        self._delivered: OrderedDict[Hashable, _Delivered] = OrderedDict()

    def find(self, key: PublishKey) -> RecordedPublishes | None:
        """Return where a publish is counted; ``None`` counts it as omitted, as too many keys are listed."""
        found = self.by_key.get(key)
        if found is None and len(self.by_key) < KEYS_MAX:
            vhost, exchange, routing_key = key
            found = self.by_key[key] = RecordedPublishes(vhost=vhost, exchange=exchange, routing_key=routing_key)
        self.omitted += found is None
        return found

    def delivered(
        self, message: Iterable[Hashable], queue: RecordedQueue, headers: Mapping[str, Any], reply_to: str | None
    ) -> None:
        """Remember a delivery by what identifies its message (``identities``)."""
        delivered = _Delivered(queue, headers, reply_to)
        for key in message:
            self._delivered[key] = delivered
        while len(self._delivered) > DELIVERIES_REMEMBERED:
            self._delivered.popitem(last=False)

    def settled(self, by: Hashable, body: Hashable) -> None:
        """Forget a body that a client has no longer in its hands."""
        self._delivered.pop((by, body), None)

    def published(self, message: Iterable[Hashable], headers: Mapping[str, Any], to: RecordedPublishes) -> None:
        """Note whether a client publishes what it was delivered: the same id, or the body of a delivery in its hands.

        A reply has the correlation id of its request, and goes to the address that the request names.
        """
        if not self._delivered:
            return
        found = next((self._delivered[key] for key in message if key in self._delivered), None)
        if found is None or (to.exchange == "" and to.routing_key == found.reply_to):
            return
        found.queue.republished += 1
        to.add_republished(headers, found.headers)


def identities(properties: Mapping[str, Any], by: Hashable, body: Hashable | None) -> Iterator[Hashable]:
    """Yield what two publishes of one message have in common: its ids, or its body in the hands of one client.

    Args:
        properties: of the message, with ``message_id`` and ``correlation_id`` where it has them.
        by: the client.
        body: what stands for the body; ``None`` for an empty one, which says nothing.
    """
    for name in ("message_id", "correlation_id"):
        if properties.get(name):
            yield name, properties[name]
    if body is not None:
        yield by, body
