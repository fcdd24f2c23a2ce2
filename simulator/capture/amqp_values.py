"""Field values that pika decodes wrongly or not at all, kept exact while a capture runs."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pika.data

_NUMBERS = {b"f": struct.Struct(">f"), b"d": struct.Struct(">d"), b"T": struct.Struct(">Q")}


@contextmanager
def exact_values() -> Iterator[None]:
    """Have pika decode floats as floats (it cuts them to integers), and timestamps as integer seconds.

    pika raises for timestamps beyond the year 9999, which would end the connection.
    """
    original: Any = pika.data.decode_value

    def decode_value(encoded: bytes, offset: int) -> tuple[Any, int]:
        """Return the field value at ``offset``, and the offset behind it, as pika's own function gives them."""
        number = _NUMBERS.get(encoded[offset : offset + 1])
        if number is None:
            decoded: tuple[Any, int] = original(encoded, offset)
            return decoded
        return number.unpack_from(encoded, offset + 1)[0], offset + 1 + number.size

    pika.data.decode_value = decode_value
    try:
        yield
    finally:
        pika.data.decode_value = original
