"""Shows a message as a consumer reads it back from a stream.

A stream stores messages in AMQP 1.0 form. Fields without a place there are gone when an
AMQP 0-9-1 consumer reads the message: ``cluster_id``, BCC keys, arrays and tables in
headers, except those with a place of their own. Byte arrays come back as text, and
a dead letter has the expiration again that its death took away, there and in its deaths
cut to 32 bits.

Source: rabbit_msg_record.erl from_amqp091, rabbit_stream_queue.erl msg_to_iodata
(3.10.8); mc_amqpl.erl convert_to, convert_from, mc_amqp.erl essential_properties
(3.13.7 on).
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

from dlx.deaths import X_DEATH, Death
from dlx.field_values import Binary, Timestamp
from dlx.message import Message, published_expiration
from dlx.releases import Release


def read_from_stream(message: Message, release: Release) -> Message:
    """Return the message as a stream hands it out, its properties apart."""
    headers = None if message.headers is None else headers_kept(message.headers, release)
    cc = (headers or {}).get("CC", ())
    keys = (message.routing_key, *(key for key in cc if isinstance(key, str)))
    expiration = _expiration_kept(published_expiration(message), release)
    deaths = message.deaths and tuple(_death_kept(death, release) for death in message.deaths)
    return msgspec.structs.replace(
        message, headers=headers, routing_keys=keys, bcc=(), expiration=expiration, deaths=deaths
    )


def can_keep(message: Message, release: Release) -> bool:
    """Return whether a stream can keep the message.

    A decimal among the headers that it keeps makes the server fail, and in AMQP 1.0 form a priority that is not an
    octet, as the management API may publish it.
    """
    priority = message.properties.get("priority") or 0
    if release.headers_kept_in_stream != "scalar headers" and priority not in range(256):
        return False
    return not any(map(_has_decimal, _headers_written(message.headers or {}, release).values()))


def _has_decimal(value: Any) -> bool:
    match value:
        case dict():
            return any(map(_has_decimal, value.values()))
        case list() | tuple():
            return any(map(_has_decimal, value))
    return isinstance(value, Decimal)


def _death_kept(death: Death, release: Release) -> Death:
    return msgspec.structs.replace(death, original_expiration=_expiration_kept(death.original_expiration, release))


def _expiration_kept(expiration: str | None, release: Release) -> str | None:
    """Return what comes back of an expiration: AMQP 1.0 has 32 bits for it, and no leading zeros."""
    if release.headers_kept_in_stream == "scalar headers" or expiration is None or not expiration.isdecimal():
        return expiration
    return str(int(expiration) % 2**32)


def headers_kept(headers: Mapping[str, Any], release: Release) -> dict[str, Any]:
    """Return those of a client's headers that a stream keeps."""
    written = _headers_written(headers, release)
    if release.headers_kept_in_stream == "scalar headers":
        return {name: _in_range(value) for name, value in written.items()}
    return {name: _read(value) for name, value in written.items() if name != X_DEATH}  # its place is elsewhere


def _headers_written(headers: Mapping[str, Any], release: Release) -> dict[str, Any]:
    return {name: value for name, value in headers.items() if _keeps(name, value, release)}


def _read(value: Any) -> Any:
    """Return a header value as it comes back from the stream: the client's byte arrays have become text."""
    match value:
        case Binary():
            return _text(value)
        case Timestamp():
            return _in_range(value)
        case list() | tuple():
            return [_read(item) for item in value]
        case dict():
            return {name: _read(item) for name, item in value.items()}
    return value


def _in_range(value: Any) -> Any:
    return Timestamp(_seconds_kept(value)) if isinstance(value, Timestamp) else value


def _seconds_kept(seconds: int) -> int:
    """Return what comes back of a time: AMQP 1.0 has 64 bits for it, in ms and with a sign."""
    ms = (seconds * 1000 + 2**63) % 2**64 - 2**63
    return (ms // 1000 if ms >= 0 else -(-ms // 1000)) % 2**64


def _text(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return bytes(value)


def _keeps(name: str, value: Any, release: Release) -> bool:
    if release.headers_kept_in_stream == "scalar headers":
        return not isinstance(value, list | tuple | dict)
    if name == "CC":
        return isinstance(value, list | tuple)
    return name.startswith("x-") or not isinstance(value, list | tuple | dict)


def properties_kept(properties: Mapping[str, Any], release: Release) -> dict[str, Any]:
    """Return the properties that a stream hands out."""
    kept = {name: value for name, value in properties.items() if name != "cluster_id"}
    if kept.get("timestamp") is not None:
        kept["timestamp"] = _seconds_kept(kept["timestamp"])
    if release.headers_kept_in_stream == "x- headers and CC":
        kept["delivery_mode"] = 2 if properties.get("delivery_mode") == 2 else 1
    return kept
