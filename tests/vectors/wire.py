"""AMQP 0-9-1 field values on the wire, for pika.

pika decodes integers of every width to ``int``, truncates floats and cannot
encode them. So importing this makes pika encode tables of ``Field`` and decode
received headers to them: for the recorder alone, never for tests.
"""

from __future__ import annotations

import struct
from typing import Any

import pika
import pika.data
import pika.spec

from tests.vectors.amqp import Field, field

NUMBERS = {
    "b": ">b",
    "B": ">B",
    "s": ">h",
    "u": ">H",
    "I": ">i",
    "i": ">I",
    "l": ">q",
    "T": ">Q",
    "f": ">f",
    "d": ">d",
}


def _encode(value: Field) -> bytes:
    tag, content = value
    match tag:
        case "V":
            body = b""
        case "t":
            body = bytes([content])
        case "S":
            body = _sized(content.encode())
        case "x":
            body = _sized(content)
        case "A":
            body = _sized(b"".join(_encode(item) for item in content))
        case "F":
            body = _sized(b"".join(_short(name) + _encode(item) for name, item in content.items()))
        case _:
            body = struct.pack(NUMBERS[tag], content)
    return tag.encode() + body


def _sized(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


def _short(text: str) -> bytes:
    body = text.encode()
    return bytes([len(body)]) + body


def _decode(data: bytes, at: int) -> tuple[Field, int]:
    tag = chr(data[at])
    at += 1
    if tag == "V":
        return Field(tag, None), at
    if tag == "t":
        return Field(tag, bool(data[at])), at + 1
    if tag in NUMBERS:
        return Field(tag, struct.unpack_from(NUMBERS[tag], data, at)[0]), at + struct.calcsize(NUMBERS[tag])
    if tag == "F":
        fields, at = _decode_table(data, at)
        return Field(tag, fields), at
    end = at + 4 + struct.unpack_from(">I", data, at)[0]
    at += 4
    if tag == "S":
        return Field(tag, data[at:end].decode()), end
    if tag == "x":
        return Field(tag, data[at:end]), end
    if tag != "A":
        raise ValueError(f"unknown field type {tag!r}")
    items = []
    while at < end:
        item, at = _decode(data, at)
        items.append(item)
    return Field(tag, items), end


def _decode_table(data: bytes, at: int) -> tuple[dict[str, Field], int]:
    end = at + 4 + struct.unpack_from(">I", data, at)[0]
    at += 4
    fields = {}
    while at < end:
        name = data[at + 1 : at + 1 + data[at]].decode()
        fields[name], at = _decode(data, at + 1 + data[at])
    return fields, end


class TypedProperties(pika.spec.BasicProperties):
    """Properties whose received headers are a table of ``Field``."""

    headers: Any

    def decode(self, encoded: bytes, offset: int = 0) -> Any:
        super().decode(encoded, offset)
        if self.headers is not None:
            flags = struct.unpack_from(">H", encoded, offset)[0]
            at = offset + 2
            for before in (self.FLAG_CONTENT_TYPE, self.FLAG_CONTENT_ENCODING):
                if flags & before:
                    at += 1 + encoded[at]
            self.headers = _decode_table(encoded, at)[0]
        return self


def _encode_value(pieces: list[bytes], value: Any) -> int:
    encoded = _encode(field(value))
    pieces.append(encoded)
    return len(encoded)


# pika looks both up at each use; there is no parameter for them.
pika.data.encode_value = _encode_value
pika.spec.props[pika.spec.BasicProperties.INDEX] = TypedProperties
