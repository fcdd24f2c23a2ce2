"""Traces that run: each consumes the firehose of a virtual host and writes it to a log.

A trace is a consumer on a queue of its own, bound to ``amq.rabbitmq.trace``; while a
virtual host has one, its firehose is on.

Source: rabbit_tracing_traces.erl, rabbit_tracing_consumer.erl.
"""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from dlx.erlang_printing import field_term, printed
from dlx.message import Message
from simulator.broker.commands import BindQueue, Consume, DeclareQueue, SetTracing
from simulator.broker.replies import ConsumerCancelled, Delivered, QueueDeclared, Reply
from simulator.json_values import plain
from simulator.server.management.http_errors import bad_request
from simulator.server.management.internal_channel import InternalChannel, RefusedByBroker
from simulator.server.management.management_releases import Api, api_of
from simulator.server.management.values import moment
from simulator.server.node import Node

START_FAILED = "Something went wrong trying to start the trace - check the logs."
_EXCHANGE = "amq.rabbitmq.trace"
_TRACES_MAX = 100


class Trace:
    """A running trace. To the node it is a client that only takes deliveries.

    Attributes:
        settings: the body of the request that started it.
        queue: the queue that it consumes.
        log: the log that it writes.
    """

    def __init__(
        self, channel: InternalChannel, vhost: str, name: str, settings: Mapping[str, Any], log: TraceLog
    ) -> None:
        self.vhost = vhost
        self.name = name
        self.settings = dict(settings)
        self.log = log
        self.queue = ""
        self._node = channel.node
        self._api: Api = api_of(channel.node.broker.release)
        self._channel = channel

    def start(self, user: str) -> None:
        """Consume. Raises ``RefusedByBroker`` when the user may not."""
        channel = self._channel
        channel.open(self.vhost, user)
        declared = channel.run(DeclareQueue(channel=channel.id, exclusive=True))
        self.queue = next(reply.queue for reply in declared if isinstance(reply, QueueDeclared))
        channel.run(BindQueue(channel.id, self.queue, _EXCHANGE, self.settings["pattern"]))
        self._node.connections[channel.connection] = _Tap(self, channel)
        channel.run(Consume(channel=channel.id, queue=self.queue, no_ack=True))

    def stop(self) -> None:
        """Stop consuming; the log stays."""
        self._node.connections.pop(self._channel.connection, None)
        self._channel.close()

    def take(self, delivered: Delivered) -> None:
        """Write down one message of the firehose."""
        record = trace_record(
            delivered.message,
            delivered.body,
            self._node.clock.now_us(),
            self._api,
            form=self.settings["format"],
            max_payload_bytes=self.settings.get("max_payload_bytes"),
        )
        self.log.append(record)


class _Tap:
    """Represents the trace among the node's clients."""

    id = 0
    protocol = "Direct 0-9-1"
    peer_host = host = ""
    peer_port = port = 0
    auth_mechanism = user = ""
    channel_max = frame_max = heartbeat_s = pending_bytes = 0
    state = "running"
    busy = False
    tls = None
    container_id: str | None = None
    client_properties: Mapping[str, Any] = MappingProxyType({})
    received_bytes = received_packets = sent_bytes = sent_packets = 0

    def __init__(self, trace: Trace, channel: InternalChannel) -> None:
        self.name = channel.connection.name
        self.connected_us = channel.node.clock.now_us()
        self._trace = trace

    def sessions(self) -> None:
        """Have none."""

    def reply(self, reply: Reply) -> None:
        """Take a reply of the broker: write down deliveries."""
        if isinstance(reply, Delivered):
            self._trace.take(reply)
        elif isinstance(reply, ConsumerCancelled):
            self._trace.stop()

    def flush(self) -> None:
        """Do nothing: nothing waits to be sent."""

    def alarm_changed(self, active: bool) -> None:
        """Do nothing: a trace does not publish."""

    def close(self, reason: str) -> None:
        """Stop the trace."""
        self._trace.stop()

    def abort(self) -> None:
        """Stop the trace."""
        self._trace.stop()


class Traces:
    """The traces of a node, and their logs.

    Attributes:
        running: by virtual host and name.
        logs: by file name, of finished traces too.
    """

    def __init__(self, node: Node, new_channel: Callable[[], InternalChannel]) -> None:
        self.running: dict[tuple[str, str], Trace] = {}
        self.logs: dict[str, TraceLog] = {}
        self._node = node
        self._new_channel = new_channel

    def start(self, vhost: str, name: str, settings: Mapping[str, Any], user: str) -> None:
        """Start a trace, which appends to a log of its name. Raises ``ApiError`` when that does not work."""
        if (vhost, name) in self.running or len(self.running) >= _TRACES_MAX:
            raise bad_request(START_FAILED)
        log = self.logs.setdefault(f"{name}.log", TraceLog(f"{name}.log"))
        trace = Trace(self._new_channel(), vhost, name, settings, log)
        try:
            trace.start(user)
        except RefusedByBroker as refusal:
            raise bad_request(START_FAILED) from refusal
        self.running[vhost, name] = trace
        self._node.handle(SetTracing(vhost, True))

    def stop(self, vhost: str, name: str) -> None:
        """Stop a trace; with the last one of a virtual host, its firehose ends."""
        self.running.pop((vhost, name)).stop()
        if not any(other == vhost for other, _ in self.running):
            self._node.handle(SetTracing(vhost, False))

    def forget_vhost(self, vhost: str) -> None:
        """Stop the traces of a virtual host that is being deleted."""
        for key in [key for key in self.running if key[0] == vhost]:
            self.stop(*key)


# Writes trace logs: a record for each message of the firehose, as the tracing plugin writes it.
#
# ``dlx replay`` and ``dlx convert`` read them as they read RabbitMQ's own. Two traits of the
# text format are not copied: 4.0 writes characters as single bytes, and nothing ever breaks
# a payload's lines.
#
# Source: rabbit_tracing_consumer.erl delivery_to_log_record, log.


LOG_BYTES_MAX = 256 * 1024 * 1024
_KEYS = (
    "node", "timestamp", "type", "exchange", "user", "queue", "connection", "vhost", "channel",
    "routing_keys", "properties", "payload", "routed_queues",
)  # fmt: skip
_LABEL_WIDTH = 14


class TraceLog:
    """The records of one trace, in memory. When they grow beyond ``limit`` bytes, the oldest are dropped."""

    def __init__(self, name: str, limit: int = LOG_BYTES_MAX) -> None:
        self.name = name
        self.size = 0
        self._limit = limit
        self._records: deque[bytes] = deque()

    def append(self, record: bytes) -> None:
        """Add one record."""
        self._records.append(record)
        self.size += len(record)
        while self.size > self._limit:
            self.size -= len(self._records.popleft())

    def content(self) -> bytes:
        """Return all records."""
        return b"".join(self._records)


def trace_record(
    trace: Message, body: bytes, time_us: int, api: Api, *, form: str, max_payload_bytes: int | None
) -> bytes:
    """Return the record of a message that came from the exchange ``amq.rabbitmq.trace``.

    Args:
        trace: the message; its headers describe the traced one.
        body: the payload of the message that was traced.
        time_us: when, microseconds since 1970.
        api: the release's way of writing.
        form: ``json`` or ``text``.
        max_payload_bytes: where to cut the payload off.
    """
    headers = trace.headers or {}
    kind, _, queue = trace.routing_key.partition(".")
    published = kind == "publish"
    fields = {
        "timestamp": moment(time_us, api, milliseconds=True),
        "type": "published" if published else "received",
        "node": headers["node"],
        "connection": headers["connection"],
        "vhost": headers["vhost"],
        "user": headers["user"],
        "channel": headers["channel"],
        "exchange": headers["exchange_name"],
        "queue": "none" if published else queue,
        "routed_queues": list(headers["routed_queues"]) if published else "none",
        "routing_keys": list(headers["routing_keys"]),
    }
    payload = body[:max_payload_bytes]
    write = _json if form == "json" else _text
    return write(fields, headers["properties"], payload, api)


def _json(fields: Mapping[str, Any], properties: Mapping[str, Any], payload: bytes, api: Api) -> bytes:
    encoded = base64.b64encode(payload).decode()
    record = {**fields, "properties": plain(properties), "payload": encoded}
    keys = sorted(record) if api.trace_key_order == "alphabetical" else _KEYS
    return msgspec.json.encode({key: record[key] for key in keys}) + b"\n"


def _text(fields: Mapping[str, Any], properties: Mapping[str, Any], payload: bytes, api: Api) -> bytes:
    lines = [
        "",
        "=" * 80,
        f"{fields['timestamp']}: Message {fields['type']}",
        "",
        f"Node:         {fields['node']}",
        f"Connection:   {fields['connection']}",
        f"Virtual host: {fields['vhost']}",
        f"User:         {fields['user']}",
        f"Channel:      {fields['channel']}",
        f"Exchange:     {fields['exchange']}",
        f"Routing keys: {_names(fields['routing_keys'], _LABEL_WIDTH)}",
        *_queues(fields),
        f"Properties:   {printed(field_term(properties), _LABEL_WIDTH)}",
        "Payload: ",
    ]
    head = "\n".join(lines).encode("utf-8", "surrogateescape")
    return head + b"\n" + payload + b"\n"


def _queues(fields: Mapping[str, Any]) -> list[str]:
    if fields["type"] == "received":
        return [f"Queue:        {fields['queue']}"]
    return [f"Routed queues: {_names(fields['routed_queues'], _LABEL_WIDTH + 1)}"]


def _names(names: list[str], column: int) -> str:
    return printed([field_term(name) for name in names], column)
