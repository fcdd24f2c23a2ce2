"""Values of AMQP 1.0 as those of AMQP 0-9-1, and the other way round: every type keeps its nearest relative.

Source: mc_amqpl.erl to_091, from_091; live servers of 4.0.5 and 4.3.6.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import UUID

from proton import (
    Array,
    Described,
    byte,
    char,
    decimal32,
    decimal64,
    decimal128,
    float32,
    int32,
    short,
    symbol,
    timestamp,
    ubyte,
    uint,
    ulong,
    ushort,
)

from dlx import field_values
from dlx.deaths import seconds
from dlx.erlang_printing import Atom
from dlx.field_values import Float32, Long, Short, SignedByte, UnsignedByte, UnsignedInt, UnsignedShort, wire_type
from simulator.server.amqp.tables import text_or_bytes

UTF8_BYTES_MAX = 4_096  # a longer text counts as binary: the server does not look
_64_BITS = 1 << 64


class NoSuchValueError(ValueError):
    """A value that the server cannot turn into one of the other protocol: it fails over it."""


def field_value(value: Any) -> Any:
    """Return a value of AMQP 1.0 as one of AMQP 0-9-1. Raises ``NoSuchValueError``."""
    convert = _FIELDS.get(type(value))
    if convert is None:
        raise NoSuchValueError(f"no value of AMQP 0-9-1 for {value!r}")
    return convert(value)


def is_opaque(value: Any) -> bool:
    """Return whether the server passes the value on without knowing it: a decimal, or a float that is not a number."""
    return isinstance(value, (decimal32, decimal64, decimal128)) or (
        isinstance(value, float) and not math.isfinite(value)
    )


def seconds_of(milliseconds: int) -> int:
    """Return whole seconds, cut towards zero, as 64 bits without a sign."""
    whole = abs(milliseconds) // 1_000
    return (whole if milliseconds >= 0 else -whole) % _64_BITS


def _long(value: int) -> Long:
    return Long(value if value < _64_BITS // 2 else value - _64_BITS)


def _table(entries: Mapping[Any, Any]) -> dict[str, Any]:
    known = [(key, value) for key, value in entries.items() if not (is_opaque(key) or is_opaque(value))]
    return {_key(key): field_value(value) for key, value in known}


def _key(key: Any) -> str:
    if isinstance(key, (bytes, memoryview)):
        return bytes(key).decode(errors="surrogateescape")
    if not isinstance(key, str) or isinstance(key, char):
        raise NoSuchValueError(f"no name of a field: {key!r}")
    return str(key)


def _array(elements: Iterable[Any]) -> list[Any]:
    known = [element for element in elements if not is_opaque(element)]
    if any(isinstance(element, (ulong, Array)) for element in known):
        raise NoSuchValueError("an array of AMQP 0-9-1 has no ulong and no array of AMQP 1.0")
    return [field_value(element) for element in known]


_FIELDS: dict[type, Callable[[Any], Any]] = {
    type(None): lambda value: None,
    bool: bool,
    str: str,
    symbol: str,
    bytes: text_or_bytes,
    memoryview: lambda value: text_or_bytes(bytes(value)),
    byte: SignedByte,
    ubyte: UnsignedByte,
    short: Short,
    ushort: UnsignedShort,
    int32: int,
    uint: UnsignedInt,
    int: Long,  # Proton's long is Python's int
    ulong: _long,
    float: float,
    float32: Float32,
    timestamp: lambda value: field_values.timestamp(seconds_of(value)),
    list: _array,
    Array: _array,
    dict: _table,
}


def value_of(field: Any) -> Any:
    """Return a value of AMQP 0-9-1 as one of AMQP 1.0. Raises ``NoSuchValueError``."""
    return _VALUES[wire_type(field)[0]](field)


def _text(field: str | bytes) -> str | bytes:
    data = field.encode(errors="surrogateescape") if isinstance(field, str) else bytes(field)
    found = text_or_bytes(data)
    return data if len(data) > UTF8_BYTES_MAX or b"\0" in data else found


def _refuse(field: Any) -> Any:
    raise NoSuchValueError(f"no value of AMQP 1.0 for {field!r}")


_VALUES: dict[str, Callable[[Any], Any]] = {
    "S": _text,
    "t": bool,
    "b": byte,
    "B": ubyte,
    "s": short,
    "u": ushort,
    "I": int32,
    "i": uint,
    "l": int,
    "f": float32,
    "d": float,
    "x": bytes,
    "T": lambda field: timestamp((seconds(field) or 0) * 1_000),
    "V": lambda field: None,
    "A": lambda field: [value_of(element) for element in field],
    "F": lambda field: {symbol(name): value_of(value) for name, value in field.items()},
    "D": _refuse,
}


def erlang_term(value: Any) -> Any:
    """Return a value of AMQP 1.0 as the Erlang term that error texts print."""
    if value is None:
        return Atom("null")
    if isinstance(value, bool):
        return Atom(str(value).lower())
    if isinstance(value, Mapping):
        return Atom("map"), [(erlang_term(key), erlang_term(each)) for key, each in value.items()]
    if type(value) is list:
        return Atom("list"), [erlang_term(each) for each in value]
    if isinstance(value, Described):
        return Atom("described"), erlang_term(value.descriptor), erlang_term(value.value)
    if isinstance(value, Array):
        return Atom("array"), [erlang_term(each) for each in value.elements]
    plain = value.encode() if isinstance(value, str) else value.bytes if isinstance(value, UUID) else value
    if not isinstance(plain, (bytes, int, float)):
        return Atom(type(value).__name__.lower())
    return Atom(_NAMES.get(type(value), "binary")), plain


def erlang_pair(first: int, second: int) -> bytes:
    """Return two numbers of at most 31 bits as Erlang writes their tuple (term_to_binary)."""
    return b"\x83h\x02" + b"".join(
        b"a" + number.to_bytes() if number < 256 else b"b" + number.to_bytes(4) for number in (first, second)
    )


_NAMES: dict[type, str] = {
    str: "utf8", symbol: "symbol", bytes: "binary", byte: "byte", ubyte: "ubyte", short: "short", ushort: "ushort",
    int32: "int", uint: "uint", int: "long", ulong: "ulong", float: "double", float32: "float", char: "char",
    timestamp: "timestamp", UUID: "uuid",
}  # fmt: skip
