"""Encodes and decodes field tables; every value keeps the type that it came with.

Client libraries make one integer of seven types; RabbitMQ gives a consumer what the
publisher sent, so this codec keeps them apart with the classes of ``dlx.field_values``.
Strings that are not UTF-8 stay bytes; a key that is not is kept by surrogate
escapes. Of equal keys in one table the first counts, as where RabbitMQ looks one up.

Source: rabbit_binary_parser.erl parse_table, rabbit_binary_generator.erl field_value_to_binary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from struct import Struct
from struct import error as StructError
from typing import Any

from dlx.field_values import (
    Binary,
    DeepArray,
    DeepTable,
    Float32,
    Long,
    Short,
    SignedByte,
    UnsignedByte,
    UnsignedInt,
    UnsignedShort,
    timestamp,
    wire_type,
)
from simulator.server.amqp.protocol_errors import MalformedError

DEPTH_MAX = 100  # tables within tables that are decoded; RabbitMQ has no limit but its frame size

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_U32 = Struct(">L")
_DECIMAL = Struct(">BL")


def decode_table(data: bytes, depth: int = 0) -> dict[str, Any]:
    """Decode a table (without its length). Raises ``MalformedError``."""
    table: dict[str, Any] = {}
    offset, end = 0, len(data)
    try:
        while offset < end:
            start = offset + 1
            offset = start + data[offset]
            key = data[start:offset].decode(errors="surrogateescape")
            value, offset = _decode_value(data, offset, depth)
            if key not in table:
                table[key] = value
    except (IndexError, StructError, KeyError) as error:
        raise MalformedError(f"not a field table: {error}") from None
    if offset != end:
        raise MalformedError("a field table ends within a value")
    return table


def _decode_array(data: bytes, depth: int) -> list[Any]:
    values: list[Any] = []
    offset, end = 0, len(data)
    while offset < end:
        value, offset = _decode_value(data, offset, depth)
        values.append(value)
    return values


def _decode_value(data: bytes, offset: int, depth: int) -> tuple[Any, int]:
    tag = data[offset]
    offset += 1
    fixed = _FIXED.get(tag)
    if fixed is not None:
        form, make = fixed
        value = form.unpack_from(data, offset)
        return make(*value), offset + form.size
    of_bytes = _SIZED[tag]
    start = offset + 4
    end = start + _U32.unpack_from(data, offset)[0]
    if end > len(data):
        raise MalformedError("a field table's value is longer than the table")
    if depth >= DEPTH_MAX and tag in _NESTED:
        return _NESTED[tag](data[start:end]), end
    return of_bytes(data[start:end], depth + 1), end


def text_or_bytes(data: bytes) -> str | bytes:
    """Return what a long string holds: text where it is UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _finite(value: float) -> float:
    if value - value != 0:  # NaN and the infinities, which Erlang has not
        raise MalformedError("a float that is not a number")
    return value


# Tag -> the format of its bytes, and what makes the Python value of them. 'l' and 'L' are the same type.
_FIXED: dict[int, tuple[Struct, Callable[..., Any]]] = {
    ord("t"): (Struct(">B"), bool),
    ord("b"): (Struct(">b"), SignedByte),
    ord("B"): (Struct(">B"), UnsignedByte),
    ord("s"): (Struct(">h"), Short),
    ord("u"): (Struct(">H"), UnsignedShort),
    ord("I"): (Struct(">l"), int),
    ord("i"): (Struct(">L"), UnsignedInt),
    ord("l"): (Struct(">q"), Long),
    ord("L"): (Struct(">q"), Long),
    ord("d"): (Struct(">d"), _finite),
    ord("f"): (Struct(">f"), lambda value: Float32(_finite(value))),
    ord("D"): (_DECIMAL, lambda scale, digits: Decimal(digits).scaleb(-scale)),
    ord("T"): (Struct(">Q"), timestamp),
    ord("V"): (Struct(""), lambda: None),
}
_SIZED: dict[int, Callable[[bytes, int], Any]] = {
    ord("S"): lambda data, _depth: text_or_bytes(data),
    ord("x"): lambda data, _depth: Binary(data),
    ord("F"): decode_table,
    ord("A"): _decode_array,
}
_NESTED = {ord("F"): DeepTable, ord("A"): DeepArray}


def encode_table(table: Mapping[str, Any]) -> bytes:
    """Encode a table, after its length. Raises ``TypeError`` or ``ValueError`` for values that AMQP cannot hold."""
    parts: list[bytes] = []
    for key, value in table.items():
        name = key.encode(errors="surrogateescape")
        if len(name) > 255:
            raise ValueError(f"a table's key has 255 bytes at most, this one has {len(name)}")
        parts += (bytes((len(name),)), name, encode_value(value))
    return _sized(parts)


def encode_value(value: Any) -> bytes:
    """Encode one value, after its tag. Raises as ``encode_table`` does."""
    tag = _DEEP.get(type(value)) or wire_type(value)[0]
    try:
        return tag.encode() + _ENCODERS[tag](value)
    except StructError as error:
        raise ValueError(f"{value!r} is not an AMQP value of type {tag!r}: {error}") from None


def _sized(parts: Iterable[bytes]) -> bytes:
    data = b"".join(parts)
    return _U32.pack(len(data)) + data


def _encode_bytes(value: str | bytes) -> bytes:
    return _sized((value.encode(errors="surrogateescape") if isinstance(value, str) else value,))


def _encode_decimal(value: Decimal) -> bytes:
    scale = max(0, -int(value.as_tuple().exponent))
    return _DECIMAL.pack(scale, int(value.scaleb(scale)))


def _encode_timestamp(value: datetime | int) -> bytes:
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        value = (aware - _EPOCH) // timedelta(seconds=1)
    return _FIXED[ord("T")][0].pack(value)


_ENCODERS: dict[str, Callable[[Any], bytes]] = {
    **{tag: _FIXED[ord(tag)][0].pack for tag in "tbBsuIildf"},
    "D": _encode_decimal,
    "T": _encode_timestamp,
    "V": lambda _value: b"",
    "S": _encode_bytes,
    "x": _encode_bytes,
    "F": lambda table: _encode_bytes(table) if isinstance(table, DeepTable) else encode_table(table),
    "A": lambda array: _encode_bytes(array) if isinstance(array, DeepArray) else _sized(map(encode_value, array)),
}
_DEEP: dict[type, str] = {DeepTable: "F", DeepArray: "A"}
