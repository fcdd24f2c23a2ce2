"""Field values that pika decodes wrongly or not at all, kept exact while a capture runs."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pika.data

_NUMBERS = {b"f": struct.Struct(">f"), b"d": struct.Struct(">d"), b"T": struct.Struct(">Q")}


_LAST_DATE_S = 253_402_300_799  # the end of the year 9999


@contextmanager
def exact_values(*, to_publish: bool = False) -> Iterator[None]:
    """Have pika decode floats as floats (it cuts them to integers), and timestamps as integer seconds.

    pika raises for timestamps beyond the year 9999, which would end the connection. With ``to_publish`` the others stay
    what pika makes of them, so that they are published as timestamps again. It can publish floats then, too.
    """
    original: Any = pika.data.decode_value
    original_encode: Any = pika.data.encode_value

    def decode_value(encoded: bytes, offset: int) -> tuple[Any, int]:
        """Return the field value at ``offset``, and the offset behind it, as pika's own function gives them."""
        kind = encoded[offset : offset + 1]
        number = _NUMBERS.get(kind)
        if to_publish and kind == b"T" and _NUMBERS[kind].unpack_from(encoded, offset + 1)[0] <= _LAST_DATE_S:
            number = None
        if number is None:
            decoded: tuple[Any, int] = original(encoded, offset)
            return decoded
        return number.unpack_from(encoded, offset + 1)[0], offset + 1 + number.size

    def encode_value(pieces: list[bytes], value: Any) -> int:
        """Append the encoded value, and return how many bytes it takes, as pika's own function does."""
        if not isinstance(value, float):
            size: int = original_encode(pieces, value)
            return size
        pieces.append(b"d" + _NUMBERS[b"d"].pack(value))
        return len(pieces[-1])

    pika.data.decode_value, pika.data.encode_value = decode_value, encode_value
    try:
        yield
    finally:
        pika.data.decode_value, pika.data.encode_value = original, original_encode
