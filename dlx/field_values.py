"""AMQP 0-9-1 field values in Python, with the type each has on the wire.

Most values need nothing: ``str`` is a longstr, ``int`` a signedint (a long where
32 bits do not hold it), and ``bool``, ``float``, ``datetime``, ``Decimal``, ``list``,
``dict`` and ``None`` are what they look like. The classes here are the types that
Python does not have, so that a consumer gets exactly what a client sent:
they are integers, floats and bytes in every other respect. Plain ``bytes`` are a
longstr that is not UTF-8.

Source: rabbit_binary_parser.erl parse_field_value, rabbit_binary_generator.erl.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

__all__ = [
    "Binary",
    "DeepArray",
    "DeepTable",
    "Float32",
    "Long",
    "Short",
    "SignedByte",
    "Timestamp",
    "UnsignedByte",
    "UnsignedInt",
    "UnsignedShort",
    "plain",
    "same_on_wire",
    "timestamp",
    "type_name",
    "wire_type",
]


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DATETIME_MAX = 253_402_300_799  # the last second of the year 9999


class _Number:
    """A number whose ``repr`` says its type on the wire; as text it is the number alone."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({super().__repr__()})"

    def __str__(self) -> str:
        return super().__repr__()


class SignedByte(_Number, int):
    """``b``: 8 bits."""


class UnsignedByte(_Number, int):
    """``B``: 8 bits."""


class Short(_Number, int):
    """``s``: 16 bits."""


class UnsignedShort(_Number, int):
    """``u``: 16 bits."""


class UnsignedInt(_Number, int):
    """``i``: 32 bits."""


class Long(_Number, int):
    """``l``: 64 bits, also where the value would fit into fewer."""


class Timestamp(_Number, int):
    """``T`` beyond the years that ``datetime`` knows: seconds since 1970."""


class Float32(_Number, float):
    """``f``: 32 bits."""


class Binary(bytes):
    """``x``: a byte array."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({super().__repr__()})"


class DeepTable(bytes):
    """``F``: a table nested too deep to be read; it is passed on unchanged."""


class DeepArray(bytes):
    """``A``: an array nested too deep, as ``DeepTable``."""


def timestamp(seconds: int) -> datetime | Timestamp:
    """Return a timestamp of that many seconds since 1970."""
    return _EPOCH + timedelta(seconds=seconds) if seconds <= _DATETIME_MAX else Timestamp(seconds)


# Python class -> (tag on the wire, RabbitMQ's name for it). Looked up by the exact class first.
_TYPES: dict[type, tuple[str, str]] = {
    str: ("S", "longstr"),
    bytes: ("S", "longstr"),
    bool: ("t", "bool"),
    float: ("d", "double"),
    datetime: ("T", "timestamp"),
    Decimal: ("D", "decimal"),
    dict: ("F", "table"),
    list: ("A", "array"),
    tuple: ("A", "array"),
    type(None): ("V", "void"),
    SignedByte: ("b", "byte"),
    UnsignedByte: ("B", "unsignedbyte"),
    Short: ("s", "short"),
    UnsignedShort: ("u", "unsignedshort"),
    UnsignedInt: ("i", "unsignedint"),
    Long: ("l", "long"),
    Timestamp: ("T", "timestamp"),
    Float32: ("f", "float"),
    Binary: ("x", "binary"),
}
_SIGNED_INT = ("I", "signedint")
_LONG = ("l", "long")


def wire_type(value: Any) -> tuple[str, str]:
    """Return the type tag on the wire and RabbitMQ's name of the type, such as ``("S", "longstr")``.

    Raises ``TypeError`` for a value that no AMQP type holds.
    """
    found = _TYPES.get(type(value))
    if found is not None:
        return found
    if type(value) is int:
        return _SIGNED_INT if -(2**31) <= value < 2**31 else _LONG
    if isinstance(value, int):  # a library's own integer class, such as pika's of 64 bits
        return _LONG
    for kind, name in ((str, str), (bytes, bytes), (Mapping, dict), (Sequence, list), (float, float)):
        if isinstance(value, kind):
            return _TYPES[name]
    raise TypeError(f"no AMQP type holds {value!r}")


def type_name(value: Any) -> str:
    """Return RabbitMQ's name of a value's type, as its error texts print it: ``signedint``, ``longstr`` ..."""
    return wire_type(value)[1]


def same_on_wire(one: Any, other: Any) -> bool:
    """Return whether two values are the same, types included; tables also in the order of their fields."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        fields = zip(one.items(), other.items(), strict=False)
        return len(one) == len(other) and all(a[0] == b[0] and same_on_wire(a[1], b[1]) for a, b in fields)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_on_wire, one, other))
    return bool(one == other) and (type(one) is type(other) or wire_type(one) == wire_type(other))


def plain(value: Any) -> Any:
    """Return a typed number or byte array as Python's own type; an ``enc_hook`` for msgspec.

    Raises ``TypeError`` for anything else.
    """
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, bytes):
        return bytes(value)
    raise TypeError(f"not a field value: {value!r}")
