"""Field values that pika does not encode (floats, narrow integers) or decodes wrongly (floats)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pika.data

_FORMATS = {
    "b": ">b", "B": ">B", "s": ">h", "u": ">H", "i": ">I", "l": ">q", "f": ">f", "d": ">d", "T": ">Q",
}  # fmt: skip


class Number(NamedTuple):
    """A number under one of AMQP's type tags."""

    tag: str
    value: float


@contextmanager
def all_numbers() -> Iterator[None]:
    """Have pika encode ``Number`` and floats, and decode floats as floats, timestamps as ``Number``."""
    encode, decode = pika.data.encode_value, pika.data.decode_value

    def encode_value(pieces: list[bytes], value: Any) -> int:
        number = Number("d", value) if isinstance(value, float) else value
        if not isinstance(number, Number):
            return int(encode(pieces, value))
        pieces.append(number.tag.encode() + struct.pack(_FORMATS[number.tag], number.value))
        return len(pieces[-1])

    def decode_value(encoded: bytes, offset: int) -> tuple[Any, int]:
        tag = encoded[offset : offset + 1]
        if tag == b"T":  # kept as it is: pika raises beyond the year 9999
            return Number("T", struct.unpack_from(">Q", encoded, offset + 1)[0]), offset + 9
        if tag not in (b"f", b"d"):
            return decode(encoded, offset)
        form = _FORMATS[tag.decode()]
        return struct.unpack_from(form, encoded, offset + 1)[0], offset + 1 + struct.calcsize(form)

    pika.data.encode_value, pika.data.decode_value = encode_value, decode_value
    try:
        yield
    finally:
        pika.data.encode_value, pika.data.decode_value = encode, decode
