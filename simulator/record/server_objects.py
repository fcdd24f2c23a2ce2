"""What a server shows of its objects: what was declared, who was connected and consumed, and when it was gone.

Polls of the management API see what is there at the time. Events of the plugin ``rabbitmq_event_exchange`` tell
what comes and goes between polls; a poll that is not much later may still show what was there before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from simulator.capture.erlang_terms import TermError, parse_term
from simulator.capture.firehose import TRACE_EXCHANGE
from simulator.capture.trace_logs import plain_table
from simulator.record.recording import (
    SECTIONS,
    ClientConnection,
    Declaration,
    Kind,
    RecordedQueue,
    Recording,
    binding_name,
)

EVENT_EXCHANGE = "amq.rabbitmq.event"
STALE_US = 10_000_000
"""For how long after an event a poll may show what was there before: the management API keeps its answers a while."""
_PREDECLARED = "amq."
_FIELDS: Mapping[Kind, tuple[str, ...]] = {
    "queue": ("name", "vhost", "durable", "auto_delete", "arguments"),
    "exchange": ("name", "vhost", "type", "durable", "auto_delete", "internal", "arguments"),
    "binding": ("source", "vhost", "destination", "destination_type", "routing_key", "arguments"),
}
_COUNTED = ("ack", "deliver_get", "deliver_no_ack", "get", "get_empty", "get_no_ack", "publish", "redeliver")

ChannelName = tuple[str, int]
"""The name of a connection, which has the addresses of both ends, and the number of a channel."""


class Poll(msgspec.Struct, kw_only=True):
    """What the management API answered at one time: a list of each kind of objects."""

    at_us: int
    queues: list[dict[str, Any]]
    exchanges: list[dict[str, Any]]
    bindings: list[dict[str, Any]]
    connections: list[dict[str, Any]]
    channels: list[dict[str, Any]]
    consumers: list[dict[str, Any]]


class ServerObjects:
    """The objects of a server, or of one virtual host of it, as polls and events show them.

    Attributes:
        confirming: channels with publisher confirms.
        known_channels: channels that the server listed.
        returned: how many unroutable messages the server gave back to each channel.

    Args:
        vhost: the only one that counts; ``None`` for all.
        own: what the connections of the recording itself call themselves.
    """

    def __init__(self, vhost: str | None, own: str) -> None:
        self._vhost, self._own = vhost, own
        self._own_connections: set[str] = set()
        self._declarations: dict[tuple[Kind, str, str], Declaration] = {}
        self._connections: dict[str, ClientConnection] = {}
        self._all_connections: list[ClientConnection] = []
        self._consumed: dict[tuple[str, str], RecordedQueue] = {}
        self._consumers: dict[tuple[str, str], tuple[str, str]] = {}  # the queue, by the channel's name and the tag
        self._consumers_gone: dict[tuple[str, str], int] = {}  # as polls saw it
        self._consumers_counted: set[tuple[str, str]] = set()  # a server may list one again that polls saw go
        self._channel_names: dict[str, str] = {}  # by Erlang process
        self._connection_names: dict[str, str] = {}
        self._told_us: dict[Hashable, int] = {}  # of what an event told
        self._counters = GrowingCounters(_COUNTED)
        self._returned = GrowingCounters(("return_unroutable",))
        self._at_rest: dict[tuple[str, str], tuple[Mapping[str, Any], int]] = {}  # what a queue has, and since when
        self._held: dict[tuple[str, str], list[tuple[int, int]]] = {}  # when the last polls were, and what they showed
        self._polled_us = 0
        self._polled = False
        self.confirming: set[ChannelName] = set()
        self.known_channels: set[ChannelName] = set()

    # Polls

    def polled(self, poll: Poll) -> None:
        """Take what a poll found."""
        self._told_us = {key: at_us for key, at_us in self._told_us.items() if poll.at_us - at_us < STALE_US}
        for kind, found in (("exchange", poll.exchanges), ("queue", poll.queues), ("binding", poll.bindings)):
            self._see_all(kind, found, poll.at_us)  # type: ignore[arg-type]
        self._see_connections(poll.connections, poll.at_us)
        for channel in poll.channels:
            self._see_channel(channel)
        self._see_consumers(poll.consumers, poll.at_us)
        self._counters.read({(each["vhost"], each["name"]): _stats(each) for each in poll.queues})
        self._returned.read({_channel_of(each): _stats(each) for each in poll.channels})
        self._see_rest(poll.queues, poll.at_us)
        self._see_held(poll.queues, poll.at_us)
        self._polled = True

    def _see_all(self, kind: Kind, found: Iterable[Mapping[str, Any]], at_us: int) -> None:
        seen = set()
        for each in found:
            item = item_of(kind, each)
            if item is not None:
                key = _key(kind, item)
                seen.add(key)
                if key not in self._told_us:
                    self._there(kind, item, at_us, times=int(self._polled))
        for key, declaration in self._declarations.items():
            if key[0] == kind and key not in seen and key not in self._told_us:
                _gone(declaration, at_us)

    def _see_connections(self, found: Iterable[Mapping[str, Any]], at_us: int) -> None:
        seen = set()
        for each in found:
            name = str(each.get("name", ""))
            seen.add(name)
            if ("connection", name) not in self._told_us:
                self._connected(name, each, each.get("client_properties") or {})
        for name, connection in self._connections.items():
            if name not in seen and connection.closed_us is None and ("connection", name) not in self._told_us:
                connection.closed_us = at_us

    def _see_channel(self, channel: Mapping[str, Any]) -> None:
        if "confirm" in channel:  # the server counts a channel some seconds after it was opened
            name = _channel_of(channel)
            self.known_channels.add(name)
            if channel["confirm"]:
                self.confirming.add(name)

    def _see_consumers(self, found: Iterable[Mapping[str, Any]], at_us: int) -> None:
        seen = set()
        for each in found:
            channel = each.get("channel_details") or {}
            key = str(channel.get("name", "")), str(each["consumer_tag"])
            seen.add(key)
            if ("consumer", *key) not in self._told_us:
                queue = each["queue"]
                self._consuming(key, (queue["vhost"], queue["name"]), int(each.get("prefetch_count") or 0))
        for key in [key for key in self._consumers if key not in seen and ("consumer", *key) not in self._told_us]:
            del self._consumers[key]
            self._consumers_gone[key] = at_us

    def _see_rest(self, found: Iterable[Mapping[str, Any]], at_us: int) -> None:
        """Note since when the server counts nothing new of each queue, and how many messages are in it."""
        before, self._at_rest, self._polled_us = self._at_rest, {}, at_us
        for each in found:
            key = each["vhost"], each["name"]
            stats = _stats(each)
            now = {"messages": each.get("messages"), **{name: stats.get(name, 0) for name in _COUNTED}}
            known = before.get(key)
            self._at_rest[key] = known if known is not None and known[0] == now else (now, at_us)

    def _see_held(self, found: Iterable[Mapping[str, Any]], at_us: int) -> None:
        """Note how many dead letters each queue holds, in the last polls: those on their way are among them."""
        before, self._held = self._held, {}
        for each in found:
            if each.get("messages_dlx"):
                key = each["vhost"], each["name"]
                seen = self._held[key] = [*before.get(key, ()), (at_us, int(each["messages_dlx"]))]
                while len(seen) > 1 and at_us - seen[1][0] >= STALE_US:
                    del seen[0]

    # Events

    def event(self, name: str, fields: Mapping[str, Any]) -> None:
        """Take an event, such as ``queue.created``; what it tells of another virtual host, or in another form, not."""
        subject, _, act = name.partition(".")
        at_ms = fields.get("timestamp_in_ms")
        if not isinstance(at_ms, int) or (self._vhost is not None and fields.get("vhost", self._vhost) != self._vhost):
            return
        at_us = at_ms * 1000
        try:
            if subject in SECTIONS:
                self._declared_or_deleted(subject, act, fields, at_us)  # type: ignore[arg-type]
            elif subject == "connection":
                self._connection_event(act, fields, at_us)
            elif subject == "channel":
                self._channel_event(act, fields)
            elif subject == "consumer":
                self._consumer_event(act, fields, at_us)
        except (KeyError, TypeError, TermError):
            return  # another form of another release: the next poll shows the object

    def _declared_or_deleted(self, kind: Kind, act: str, fields: Mapping[str, Any], at_us: int) -> None:
        given: dict[str, Any] = {**fields, "arguments": _table(fields.get("arguments") or [])}
        if kind == "binding":
            given |= {"source": fields["source_name"], "destination": fields["destination_name"]}
            given["destination_type"] = fields["destination_kind"]
        item = item_of(kind, given)
        if item is None:
            return
        key = _key(kind, item)
        self._told_us[key] = at_us
        if act == "created":
            declaration = self._there(kind, item, at_us, times=1)
            owner = self._connections.get(self._connection_names.get(str(fields.get("owner_pid")), ""))
            if owner is not None and owner.number not in declaration.connections:
                declaration.connections.append(owner.number)
        elif act == "deleted" and key in self._declarations:
            _gone(self._declarations[key], at_us)

    def _connection_event(self, act: str, fields: Mapping[str, Any], at_us: int) -> None:
        name = str(fields["name"])
        if act == "created":
            self._connection_names[str(fields["pid"])] = name
            self._told_us["connection", name] = at_us
            self._connected(name, fields, _table(fields.get("client_properties") or []))
        elif act == "closed" and name in self._connections:
            self._told_us["connection", name] = at_us
            self._connections[name].closed_us = at_us

    def _channel_event(self, act: str, fields: Mapping[str, Any]) -> None:
        process = str(fields["pid"])
        if act == "created":
            self._channel_names[process] = str(fields["name"])
        elif act == "closed" and process in self._channel_names:  # not every release tells of its consumers then
            name = self._channel_names.pop(process)
            for key in [key for key in self._consumers if key[0] == name]:
                del self._consumers[key]

    def _consumer_event(self, act: str, fields: Mapping[str, Any], at_us: int) -> None:
        name = self._channel_names.get(str(fields["channel"]))
        if name is None:  # a channel that was open before: the next poll shows its consumers
            return
        key = name, str(fields["consumer_tag"])
        if act == "created" and at_us <= self._consumers_gone.get(key, 0):
            return  # polls saw it come and go before this event came
        self._told_us["consumer", *key] = at_us
        if act == "created":
            self._consuming(key, (fields["vhost"], fields["queue"]), int(fields["prefetch_count"]))
        elif act == "deleted":
            self._consumers.pop(key, None)
            self._consumers_counted.discard(key)

    # What is known

    def _there(self, kind: Kind, item: dict[str, Any], at_us: int, times: int) -> Declaration:
        key = _key(kind, item)
        found = self._declarations.get(key)
        if found is None:
            found = Declaration(kind=kind, vhost=key[1], name=key[2], item=item, first_us=at_us, times=times)
            self._declarations[key] = found
            return found
        if found.gone_us is not None:
            found.times += times
            found.gone_us = None
        if found.item != item:
            found.replaces.append(found.item)
            found.item = item
        return found

    def _connected(self, name: str, fields: Mapping[str, Any], client: Mapping[str, Any]) -> None:
        shown = fields.get("user_provided_name") or client.get("connection_name")
        if shown == self._own:
            self._own_connections.add(name)
            return
        opened_us = fields["connected_at"] * 1000 if isinstance(fields.get("connected_at"), int) else None
        found = self._connections.get(name)
        if found is None or (found.closed_us is not None and found.opened_us not in (None, opened_us)):
            found = self._add_connection(name)
        found.opened_us, found.closed_us = opened_us, None
        found.name = str(shown or name)
        found.product, found.version = str(client.get("product", "")), str(client.get("version", ""))
        found.vhost, found.user = str(fields.get("vhost", "/")), str(fields.get("user", ""))

    def _add_connection(self, name: str) -> ClientConnection:
        found = ClientConnection(number=len(self._all_connections) + 1, name=name)
        self._connections[name] = found
        self._all_connections.append(found)
        return found

    def connection(self, name: str, vhost: str, user: str) -> ClientConnection:
        """Return the connection whose addresses are ``name``, of which a trace told."""
        found = self._connections.get(name)
        if found is None:
            found = self._add_connection(name)
            found.vhost, found.user = vhost, user
        return found

    def _consuming(self, key: tuple[str, str], queue: tuple[str, str], prefetch: int) -> None:
        if key in self._consumers:
            return
        self._consumers[key] = queue
        found = self.consumption(*queue)
        found.consumers += key not in self._consumers_counted
        self._consumers_counted.add(key)
        found.consumers_max = max(found.consumers_max, sum(each == queue for each in self._consumers.values()))
        if prefetch not in found.prefetch:
            found.prefetch.append(prefetch)
        by = self._connections.get(key[0].rpartition(" (")[0])
        if by is not None and by.number not in found.connections:
            found.connections.append(by.number)

    def consumption(self, vhost: str, queue: str) -> RecordedQueue:
        """Return what is known of the use of a queue."""
        return self._consumed.setdefault((vhost, queue), RecordedQueue(vhost=vhost, queue=queue))

    def is_there(self, vhost: str, queue: str) -> bool:
        """Return whether the queue is there now, as far as the server said."""
        found = self._declarations.get(("queue", vhost, queue))
        return found is not None and found.gone_us is None

    def was_there(self, vhost: str, queue: str, at_us: int, tolerance_us: int) -> bool:
        """Return whether the queue was there at that time, give or take the tolerance."""
        found = self._declarations.get(("queue", vhost, queue))
        if found is None or found.first_us is None or found.first_us > at_us + tolerance_us:
            return False
        return found.gone_us is None or found.gone_us >= at_us - tolerance_us

    def returned(self, channel: ChannelName) -> int | None:
        """Return how many unroutable messages went back to a channel; ``None`` where the server did not count."""
        found = self._returned.totals.get(channel)
        return None if found is None else found["return_unroutable"]

    def finish(self, recording: Recording, *, traced: Sequence[str]) -> None:
        """Put into the recording what was seen; deliveries in virtual hosts that were traced are counted already."""
        watching = self._watching()
        recording.connections = list(self._all_connections)
        recording.declarations = [each for each in self._declarations.values() if not _of_queues(each, watching)]
        for key, counted in self._counters.totals.items():
            if counted.total():
                _count(self.consumption(*key), counted, traced=key[0] in traced)
        for key, seen in self._held.items():
            if self._polled_us - seen[0][0] >= STALE_US:
                self.consumption(*key).held = min(count for _, count in seen)
        recording.not_seen += self._ended_unseen(watching)
        recording.consumed = [found for key, found in self._consumed.items() if key not in watching]

    def _ended_unseen(self, watching: Collection[tuple[str, str]]) -> Iterator[str]:
        """Yield of which queues deliveries ended in a way that nothing shows.

        A delivery that is neither acknowledged nor given again once its queue is empty was rejected, or its message
        left the queue after it was requeued. The counters of deliveries and of messages are not of the same moment:
        only of a queue at rest are they known together.
        """
        for key, (now, since_us) in self._at_rest.items():
            declared = self._declarations.get(("queue", *key))
            once = declared is not None and declared.times <= 1  # the counters of a queue go with it
            counted = self._counters.totals.get(key)
            if counted is None or key in watching or not once:
                continue
            if now["messages"] != 0 or self._polled_us - since_us < STALE_US:
                continue
            by_hand = counted["deliver_get"] - counted["deliver_no_ack"] - counted["get_no_ack"]
            unseen = by_hand - counted["ack"] - counted["redeliver"] - self.consumption(*key).rejected
            if unseen > 0:
                deliveries = f"{unseen:,} deliver{'y' if unseen == 1 else 'ies'} of {key[1]!r}"
                yield (
                    f"how {deliveries} ended, which nobody acknowledged: rejected, or requeued and then expired or "
                    "purged; a queue without a dead-letter exchange shows no more"
                )

    def _watching(self) -> set[tuple[str, str]]:
        """Return the queues of those who watch the server, as this recording does."""
        bound = {
            (each.vhost, each.item["destination"])
            for each in self._declarations.values()
            if each.kind == "binding" and each.item["source"] in (TRACE_EXCHANGE, EVENT_EXCHANGE)
        }
        queues = ((key, self._declarations.get(("queue", *key))) for key in bound)
        return {key for key, queue in queues if queue is None or queue.item.get("exclusive")}


class GrowingCounters:
    """How much counters of a server have grown since they were first read. What is new, or began anew, grew from 0.

    Attributes:
        totals: by the object that they count for, how much each counter grew.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.totals: dict[Any, Counter[str]] = {}
        self._names = names
        self._before: dict[Hashable, Mapping[str, int]] | None = None

    def read(self, now: Mapping[Any, Mapping[str, int]]) -> None:
        """Take what the counters of all objects say now."""
        for key, counted in now.items():
            if not counted:
                continue
            before = counted if self._before is None else self._before.get(key, {})
            total = self.totals.setdefault(key, Counter())
            for name in self._names:
                number = counted.get(name, 0)
                total[name] += number - before.get(name, 0) if number >= before.get(name, 0) else number
        # Where a poll has no counters of an object, those of the poll before stand.
        self._before = {**(self._before or {}), **{key: counted for key, counted in now.items() if counted}}


def item_of(kind: Kind, shown: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return an object as an export has it; ``None`` for what every virtual host has, which exports leave out."""
    item = {name: shown[name] for name in _FIELDS[kind] if name in shown}
    if kind == "exchange" and (item["name"] == "" or item["name"].startswith(_PREDECLARED)):
        return None
    if kind == "binding" and item["source"] == "":
        return None
    if kind == "queue" and shown.get("exclusive"):
        item["exclusive"] = True
    return item


def _key(kind: Kind, item: Mapping[str, Any]) -> tuple[Kind, str, str]:
    return kind, item["vhost"], binding_name(item) if kind == "binding" else item["name"]


def _gone(declaration: Declaration, at_us: int) -> None:
    if declaration.gone_us is None:
        declaration.gone_us = at_us


def _of_queues(declaration: Declaration, queues: set[tuple[str, str]]) -> bool:
    """Return whether it is one of these queues, or a binding of one."""
    if declaration.kind == "exchange":
        return False
    name = declaration.name if declaration.kind == "queue" else declaration.item["destination"]
    return (declaration.vhost, name) in queues


def _count(consumed: RecordedQueue, counted: Mapping[str, int], *, traced: bool) -> None:
    """Put the counters of a queue into what is known of it."""
    consumed.acked = counted["ack"]
    consumed.automatic = counted["deliver_no_ack"] + counted["get_no_ack"]
    consumed.gets = counted["get"] + counted["get_no_ack"] + counted["get_empty"]
    if not traced:
        consumed.entered = counted["publish"]
        consumed.deliveries, consumed.redeliveries = counted["deliver_get"], counted["redeliver"]


def _stats(shown: Mapping[str, Any]) -> Mapping[str, int]:
    """Return the counters of an object; an empty object is an empty list to the management API."""
    found = shown.get("message_stats")
    return found if isinstance(found, Mapping) else {}


def _channel_of(channel: Mapping[str, Any]) -> ChannelName:
    name = str(channel.get("name", ""))
    connection, _, number = name.rpartition(" (")
    return connection, int(number[:-1]) if number[:-1].isdecimal() else 0


def _table(fields: Iterable[Any]) -> dict[str, Any]:
    """Read a table as an event has it: each field is an Erlang term as text.

    Raises ``TermError`` or ``TypeError``.
    """
    return plain_table([parse_term(str(field).encode())[0] for field in fields])
