"""Rows of a capture as a client sees them: what it publishes, and what it is given."""

from __future__ import annotations

from typing import Any

from pika import BasicProperties
from pika.spec import Basic

from simulator.capture.observe import split_properties
from simulator.capture.schema import Observation
from simulator.json_values import plain, text

PROPERTIES = (
    *("content_type", "content_encoding", "headers", "delivery_mode", "priority", "correlation_id", "reply_to"),
    *("expiration", "message_id", "timestamp", "type", "user_id", "app_id", "cluster_id"),
)


def published_row(
    exchange: str, routing_key: str, body: str | bytes, properties: BasicProperties | None
) -> Observation:
    """Return the row of a publish, read back from the wire as its consumer's pika will read it. Raises as pika does."""
    Basic.Publish(exchange=exchange, routing_key=routing_key).encode()
    sent = BasicProperties()
    if properties is not None:
        sent.decode(b"".join(properties.encode()))
    keys = [routing_key, *_keys(sent.headers, "CC"), *_keys(sent.headers, "BCC")]
    payload = body.encode() if isinstance(body, str) else bytes(body)
    fields = _fields(sent)
    fields.get("headers", {}).pop("BCC", None)
    return _observation(exchange, None, keys, None, fields, payload)


def delivered_row(queue: str, method: Any, properties: BasicProperties, body: bytes) -> Observation:
    """Return the row of a delivery, or of a message that basic.get gave."""
    keys = routing_keys_of(method.routing_key, properties.headers or {})
    return _observation(method.exchange, queue, keys, bool(method.redelivered), _fields(properties), body)


def routing_keys_of(routing_key: str | bytes, headers: dict[str, Any]) -> list[str | bytes]:
    """Return the keys the message was routed by, as far as a consumer can see them: it cannot see BCC.

    A dead letter whose key is not the first of those that it died with has a
    dead-letter routing key, and was routed by that alone.
    """
    deaths = headers.get("x-death")
    if isinstance(deaths, list) and deaths and isinstance(deaths[0], dict):
        keys = deaths[0].get("routing-keys")
        if isinstance(keys, list) and keys[:1] != [routing_key]:
            return [routing_key]
    return [routing_key, *_keys(headers, "CC")]


def _keys(headers: dict[str, Any] | None, name: str) -> list[str | bytes]:
    keys = (headers or {}).get(name)
    return [key for key in keys if isinstance(key, str | bytes)] if isinstance(keys, list) else []


def _fields(properties: BasicProperties) -> dict[str, Any]:
    """Return the properties that are set, as plain JSON values."""
    values = ((name, getattr(properties, name)) for name in PROPERTIES)
    return {name: plain(value) for name, value in values if value is not None}


def _observation(
    exchange: str | bytes,
    queue: str | None,
    keys: list[str | bytes],
    redelivered: bool | None,
    fields: dict[str, Any],
    payload: bytes,
) -> Observation:
    """Return a row that lacks what ``Recorder.write`` adds. pika has names as bytes that are not UTF-8."""
    return Observation(
        0, "", 0, "", "", "", "", "", 0, _name(exchange), queue, None, list(map(_name, keys)), redelivered,
        *split_properties(fields, payload), payload,
    )  # fmt: skip


def _name(value: str | bytes) -> str:
    return text(value) if isinstance(value, bytes) else value
