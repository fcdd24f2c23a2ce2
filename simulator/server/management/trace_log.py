"""Writes trace logs: a record for each message of the firehose, as the tracing plugin writes it.

``dlx replay`` and ``dlx convert`` read them as they read RabbitMQ's own. Two traits of the
text format are not copied: 4.0 writes characters as single bytes, and nothing ever breaks
a payload's lines.

Source: rabbit_tracing_consumer.erl delivery_to_log_record, log.
"""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Mapping
from typing import Any

import msgspec

from dlx.erlang_printing import field_term, printed
from dlx.message import Message
from simulator.json_values import plain
from simulator.server.management.management_releases import Api
from simulator.server.management.values import moment

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
