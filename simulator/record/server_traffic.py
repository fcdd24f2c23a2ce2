"""What a server's firehose shows of its messages: what clients published, and what they were given."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

from dlx.deaths import REJECTED, X_DEATH
from simulator.capture.schema import Observation
from simulator.events import Event
from simulator.record.publishes import PublishKey, SeenPublishes, identities
from simulator.record.recording import ClientConnection, Recording, is_reply
from simulator.record.server_objects import ChannelName, ServerObjects

TOLERANCE_US = 1_500_000
"""How much later than a publish a poll may see its queue, and an event may come."""

_PERSISTENT = 2


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
        self._published = SeenPublishes()
        self._channels: Counter[tuple[PublishKey, ChannelName]] = Counter()
        self._unroutable: defaultdict[ChannelName, Counter[PublishKey]] = defaultdict(Counter)
        self._undecided: list[_ToDefault] = []
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
        published = self._published.find(key)
        if published is None:
            return
        headers, properties = _headers(row), json.loads(row.properties)
        persistent = properties.get("delivery_mode") == _PERSISTENT
        published.add(headers, row.expiration or "", persistent=persistent, by=by.number)
        channel = row.connection, row.channel
        self._channels[key, channel] += 1
        self._enter(key, channel, row)
        self._published.published(_message(row, properties), headers, published)

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

    def _deliver(self, row: Observation, by: ClientConnection) -> None:
        if row.queue is None:
            return
        consumed = self._objects.consumption(row.vhost, row.queue)
        consumed.deliveries += 1
        consumed.redeliveries += bool(row.redelivered)
        if by.number not in consumed.connections:
            consumed.connections.append(by.number)
        properties = json.loads(row.properties)
        message = _message(row, properties)
        self._published.delivered(message, consumed, _headers(row), properties.get("reply_to"))
        for queue, times in _rejected_in(row.x_death):
            rejected = self._rejected[row.vhost, queue]
            rejected[row.message] = max(times, rejected.get(row.message, 0))

    def finish(self, recording: Recording) -> None:
        """Put into the recording what was seen."""
        for publish in self._undecided:
            self._decide(publish)
        for (key, channel), times in self._channels.items():
            if channel in self._objects.confirming:
                self._published.by_key[key].confirmed += times
        for channel, unroutable in self._unroutable.items():
            self._no_queue_took(unroutable, self._objects.returned(channel) or 0, recording)
        for place, messages in self._rejected.items():
            self._objects.consumption(*place).rejected = sum(messages.values())
        recording.published = list(self._published.by_key.values())
        recording.omitted = self._published.omitted

    def _no_queue_took(self, unroutable: Counter[PublishKey], returned: int, recording: Recording) -> None:
        """Note the unroutable publishes of one channel, to which the server gave back ``returned`` of them."""
        all_returned = returned == unroutable.total()
        for key, times in unroutable.items():
            found = self._published.by_key[key]
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


def _message(row: Observation, properties: dict[str, Any]) -> Iterator[Hashable]:
    """Yield what identifies the message of a row."""
    body = blake2b(row.payload, digest_size=16).digest() if row.payload else None
    return identities({**properties, "message_id": row.message_id}, row.connection, body)


def _rejected_in(x_death: str | None) -> Iterator[tuple[str, int]]:
    """Yield in which queues the message was rejected, and how often in each."""
    deaths = None if x_death is None else json.loads(x_death)
    for death in deaths if isinstance(deaths, list) else ():
        if isinstance(death, dict) and death.get("reason") == REJECTED and isinstance(death.get("count"), int):
            yield str(death.get("queue")), death["count"]
