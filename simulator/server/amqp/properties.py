"""Encodes and decodes the basic properties of a message, by their names in the protocol.

Source: rabbit_framing_amqp_0_9_1.erl decode_properties (which ignores the flag for more flags).
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from struct import error as StructError
from typing import Any

from simulator.server.amqp.protocol_errors import MalformedError
from simulator.server.amqp.tables import decode_table, encode_table

# In the order of their flags, from the highest bit on, with the type of each.
_PROPERTIES = (
    ("content_type", "shortstr"),
    ("content_encoding", "shortstr"),
    ("headers", "table"),
    ("delivery_mode", "octet"),
    ("priority", "octet"),
    ("correlation_id", "shortstr"),
    ("reply_to", "shortstr"),
    ("expiration", "shortstr"),
    ("message_id", "shortstr"),
    ("timestamp", "longlong"),
    ("type", "shortstr"),
    ("user_id", "shortstr"),
    ("app_id", "shortstr"),
    ("cluster_id", "shortstr"),
)
_FLAGS = tuple((0x8000 >> place, name, kind) for place, (name, kind) in enumerate(_PROPERTIES))
_U16 = Struct(">H")
_U32 = Struct(">L")
_U64 = Struct(">Q")


def decode_properties(data: bytes) -> dict[str, Any]:
    """Decode the properties of a content header; absent ones are left out. Raises ``MalformedError``."""
    properties: dict[str, Any] = {}
    try:
        flags, offset = _U16.unpack_from(data)[0], 2
        for flag, name, kind in _FLAGS:
            if flags & flag:
                properties[name], offset = _decode(data, offset, kind)
    except (IndexError, StructError) as error:
        raise MalformedError(f"no properties: {error}") from None
    if offset != len(data):
        raise MalformedError("properties that are longer or shorter than their frame")
    return properties


def _decode(data: bytes, offset: int, kind: str) -> tuple[Any, int]:
    if kind == "shortstr":
        end = offset + 1 + data[offset]
        return data[offset + 1 : end].decode(errors="surrogateescape"), end
    if kind == "octet":
        return data[offset], offset + 1
    if kind == "longlong":
        return _U64.unpack_from(data, offset)[0], offset + 8
    end = offset + 4 + _U32.unpack_from(data, offset)[0]
    return decode_table(data[offset + 4 : end]), end


def encode_properties(properties: Mapping[str, Any]) -> bytes:
    """Encode properties for a content header. Raises ``ValueError`` for a value that does not fit."""
    flags = 0
    parts = [b""]
    try:
        for flag, name, kind in _FLAGS:
            value = properties.get(name)
            if value is not None:
                flags |= flag
                parts.append(_encode(value, kind))
    except StructError as error:
        raise ValueError(f"{name}: {error}") from None
    parts[0] = _U16.pack(flags)
    return b"".join(parts)


def _encode(value: Any, kind: str) -> bytes:
    if kind == "shortstr":
        return short_string(value)
    if kind == "octet":
        return bytes((value & 0xFF,))  # the management API publishes other numbers, too; a server sends their low bits
    return _U64.pack(value & 0xFFFF_FFFF_FFFF_FFFF) if kind == "longlong" else encode_table(value)


def short_string(text: str) -> bytes:
    """Encode a short string, after its length. Raises ``ValueError`` beyond 255 bytes."""
    data = text.encode(errors="surrogateescape")
    return bytes((len(data),)) + data
