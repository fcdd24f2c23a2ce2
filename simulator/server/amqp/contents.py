"""Encodes messages for delivery: address and properties once for all deliveries that look the same, and frames."""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Any

from dlx.bounded_cache import BoundedCache
from dlx.message import Message
from dlx.releases import Release
from simulator.broker import delivered_properties
from simulator.server.amqp.frames import BODY, ENVELOPE, HEADER, METHOD, OVERHEAD
from simulator.server.amqp.methods import encode_properties, short_string

BASIC = 60

_METHOD = Struct(">BHLHH")  # envelope, class, method
_HEADER = Struct(">BHLHHQ")  # envelope, class, weight, size of the body
_DELIVERY = Struct(">QB")


class DeliveryEncoder:
    """Encodes deliveries for all connections of a node.

    The broker shares one message object among deliveries that look the same, so its bytes
    are remembered by ``id()``, together with the message, which keeps the ``id()`` valid.
    """

    def __init__(self, release: Release) -> None:
        self._release = release
        self._remembered: BoundedCache[Any, tuple[Message, bytes, bytes]] = BoundedCache(4_096)

    def encoded(self, message: Message, added: Mapping[str, Any] | None) -> tuple[Message, bytes, bytes]:
        """Return the message, its exchange and routing key as two short strings, and its properties, encoded."""
        key = (id(message), *added.items()) if added else id(message)
        try:
            found = self._remembered.get(key)
        except TypeError:  # a value of these headers is a table
            return self._encode(message, added)
        if found is None:
            found = self._remembered[key] = self._encode(message, added)
        return found

    def _encode(self, message: Message, added: Mapping[str, Any] | None) -> tuple[Message, bytes, bytes]:
        address = short_string(message.exchange) + short_string(message.routing_key)
        return message, address, encode_properties(delivered_properties(message, self._release, added))


def delivery(
    channel: int, tag: bytes, number: int, redelivered: bool, address: bytes, properties: bytes, body: bytes, limit: int
) -> bytes:
    """Encode ``basic.deliver`` with its content. ``tag``: the consumer tag as a short string; ``limit``: frame_max."""
    size = len(body)
    head = (
        _METHOD.pack(METHOD, channel, 13 + len(tag) + len(address), BASIC, 60)
        + tag
        + _DELIVERY.pack(number, redelivered)
        + address
        + b"\xce"
        + _HEADER.pack(HEADER, channel, 12 + len(properties), BASIC, 0, size)
        + properties
    )
    if 0 < size <= limit - OVERHEAD:
        return head + b"\xce" + ENVELOPE.pack(BODY, channel, size) + body + b"\xce"
    return head + b"\xce" + body_frames(channel, body, limit)


def content(channel: int, properties: bytes, body: bytes, limit: int) -> bytes:
    """Encode the frames of content header and body."""
    header = _HEADER.pack(HEADER, channel, 12 + len(properties), BASIC, 0, len(body))
    return header + properties + b"\xce" + body_frames(channel, body, limit)


def body_frames(channel: int, body: bytes, limit: int) -> bytes:
    """Encode a body in frames of at most ``limit`` bytes; an empty body has no frame."""
    step = limit - OVERHEAD
    parts: list[bytes] = []
    for start in range(0, len(body), step):
        part = body[start : start + step]
        parts += (ENVELOPE.pack(BODY, channel, len(part)), part, b"\xce")
    return b"".join(parts)
