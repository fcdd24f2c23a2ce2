"""What a server's firehose shows of its messages: what clients published, and what they were given."""

from __future__ import annotations

import json
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Hashable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

from dlx.deaths import REJECTED, X_DEATH
from simulator.capture.schema import Observation
from simulator.events import Event
from simulator.record.recording import (
    DELIVERIES_REMEMBERED,
    KEYS_MAX,
    ClientConnection,
    RecordedPublishes,
    RecordedQueue,
    Recording,
    is_reply,
)
from simulator.record.server_objects import ChannelName, ServerObjects

TOLERANCE_US = 1_500_000
"""How much later than a publish a poll may see its queue, and an event may come."""

PublishKey = tuple[str, str, str]
_PERSISTENT = 2


class _Delivered(NamedTuple):
    """A delivery that a client may publish again."""

    queue: RecordedQueue
    headers: Mapping[str, Any]
    reply_to: str | None


class _ToDefault(NamedTuple):
    """A publish to the default exchange, whose trace names a queue whether it is there or not."""

    key: PublishKey
    channel: ChannelName
    queues: list[str]
    at_us: int


class ServerTraffic:
    """The messages of the virtual hosts that are traced.

    Args:
        objects: what else is known of the server.
    """

    def __init__(self, objects: ServerObjects) -> None:
        self._objects = objects
        self._published: dict[PublishKey, RecordedPublishes] = {}
        self._omitted = 0
        self._channels: Counter[tuple[PublishKey, ChannelName]] = Counter()
        self._unroutable: defaultdict[ChannelName, Counter[PublishKey]] = defaultdict(Counter)
        self._undecided: list[_ToDefault] = []
        self._delivered: OrderedDict[Hashable, _Delivered] = OrderedDict()
        self._rejected: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(dict)

    def row(self, row: Observation) -> None:
        """Take one row of the firehose."""
        by = self._objects.connection(row.connection, row.vhost, row.user)
        if row.event == Event.PUBLISHED:
            self._publish(row, by)
        else:
            self._deliver(row, by)

    def _publish(self, row: Observation, by: ClientConnection) -> None:
        key = row.vhost, row.exchange, row.routing_keys[0] if row.routing_keys else ""
        published = self._published_to(key)
        if published is None:
            self._omitted += 1
            return
        headers, properties = _headers(row), json.loads(row.properties)
        persistent = properties.get("delivery_mode") == _PERSISTENT
        published.add(headers, row.expiration or "", persistent=persistent, by=by.number)
        channel = row.connection, row.channel
        self._channels[key, channel] += 1
        self._enter(key, channel, row)
        self._republished(row, properties, headers, published)

    def _published_to(self, key: PublishKey) -> RecordedPublishes | None:
        found = self._published.get(key)
        if found is None and len(self._published) < KEYS_MAX:
            found = self._published[key] = RecordedPublishes(vhost=key[0], exchange=key[1], routing_key=key[2])
        return found

    def _enter(self, key: PublishKey, channel: ChannelName, row: Observation) -> None:
        """Note which queues the publish entered."""
        queues = row.routed_queues or []
        there = queues if row.exchange else [queue for queue in queues if self._objects.is_there(row.vhost, queue)]
        for queue in there:
            self._objects.consumption(row.vhost, queue).entered += 1
        if there or is_reply(row.exchange, key[2]):
            return
        if row.exchange or not queues:
            self._unroutable[channel][key] += 1
        else:
            self._undecided.append(_ToDefault(key, channel, queues, row.time_us))

    def _republished(
        self, row: Observation, properties: Mapping[str, Any], headers: Mapping[str, Any], published: RecordedPublishes
    ) -> None:
        """Note whether a client publishes what it was given, unless it is a reply."""
        found = next((self._delivered[key] for key in _identities(row, properties) if key in self._delivered), None)
        if found is None or (row.exchange == "" and published.routing_key == found.reply_to):
            return
        found.queue.republished += 1
        published.add_republished(headers, found.headers)

    def _deliver(self, row: Observation, by: ClientConnection) -> None:
        if row.queue is None:
            return
        consumed = self._objects.consumption(row.vhost, row.queue)
        consumed.deliveries += 1
        consumed.redeliveries += bool(row.redelivered)
        if by.number not in consumed.connections:
            consumed.connections.append(by.number)
        properties = json.loads(row.properties)
        delivered = _Delivered(consumed, _headers(row), properties.get("reply_to"))
        for key in _identities(row, properties):
            self._delivered[key] = delivered
        while len(self._delivered) > DELIVERIES_REMEMBERED:
            self._delivered.popitem(last=False)
        for queue, times in _rejected_in(row.x_death):
            rejected = self._rejected[row.vhost, queue]
            rejected[row.message] = max(times, rejected.get(row.message, 0))

    def finish(self, recording: Recording) -> None:
        """Put into the recording what was seen."""
        for publish in self._undecided:
            self._decide(publish)
        for (key, channel), times in self._channels.items():
            if channel in self._objects.confirming:
                self._published[key].confirmed += times
        for channel, unroutable in self._unroutable.items():
            self._no_queue_took(unroutable, self._objects.returned(channel) or 0, recording)
        for place, messages in self._rejected.items():
            self._objects.consumption(*place).rejected = sum(messages.values())
        recording.published = list(self._published.values())
        recording.omitted = self._omitted

    def _no_queue_took(self, unroutable: Counter[PublishKey], returned: int, recording: Recording) -> None:
        """Note the unroutable publishes of one channel, to which the server gave back so many of them."""
        all_returned = returned == unroutable.total()
        for key, times in unroutable.items():
            found = self._published[key]
            found.unroutable += times
            if all_returned:
                found.returned += times
                found.mandatory += times
        if returned > 0 and not all_returned:
            some = f"{returned:,} of {unroutable.total():,} unroutable messages of one channel"
            recording.not_seen.append(f"which messages went back to their publisher, which are {some}")

    def _decide(self, publish: _ToDefault) -> None:
        vhost = publish.key[0]
        there = [q for q in publish.queues if self._objects.was_there(vhost, q, publish.at_us, TOLERANCE_US)]
        for queue in there:
            self._objects.consumption(vhost, queue).entered += 1
        if not there:
            self._unroutable[publish.channel][publish.key] += 1

    def unknown_confirms(self) -> int:
        """Return how many publishes went over channels that were closed before the server counted them."""
        known = self._objects.known_channels
        return sum(times for (_, channel), times in self._channels.items() if channel not in known)


def _headers(row: Observation) -> dict[str, Any]:
    """Return all headers of the message; of BCC, which a trace leaves out, only that it was there."""
    found: dict[str, Any] = json.loads(row.headers) | json.loads(row.broker_headers)
    if row.x_death is not None:
        found[X_DEATH] = None
    if row.event == Event.PUBLISHED and len(row.routing_keys) > 1 + len(found.get("CC") or ()):
        found["BCC"] = None
    return found


def _identities(row: Observation, properties: Mapping[str, Any]) -> Iterator[Hashable]:
    """Yield what two publishes of one message have in common."""
    if row.message_id:
        yield "message_id", row.message_id
    if properties.get("correlation_id"):
        yield "correlation_id", properties["correlation_id"]
    if row.payload:
        yield row.connection, blake2b(row.payload, digest_size=16).digest()


def _rejected_in(x_death: str | None) -> Iterator[tuple[str, int]]:
    """Yield in which queues the message was rejected, and how often in each."""
    deaths = None if x_death is None else json.loads(x_death)
    for death in deaths if isinstance(deaths, list) else ():
        if isinstance(death, dict) and death.get("reason") == REJECTED and isinstance(death.get("count"), int):
            yield str(death.get("queue")), death["count"]
