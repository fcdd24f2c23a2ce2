"""Field tables keep every value's type, and other decoders read them alike."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pika.data
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import decode as pamqp_decode

from dlx.field_values import (
    Binary,
    Float32,
    Long,
    Short,
    SignedByte,
    Timestamp,
    UnsignedByte,
    UnsignedInt,
    UnsignedShort,
)
from simulator.server.amqp.protocol_errors import MalformedError
from simulator.server.amqp.tables import DEPTH_MAX, decode_table, encode_table, encode_value
from simulator.testing.strategies import field_tables

# A value of each type, and its bytes with the tag before them (rabbit_binary_generator.erl).
ON_THE_WIRE = [
    (True, b"t\x01"),
    (SignedByte(-2), b"b\xfe"),
    (UnsignedByte(254), b"B\xfe"),
    (Short(-2), b"s\xff\xfe"),
    (UnsignedShort(65534), b"u\xff\xfe"),
    (-2, b"I\xff\xff\xff\xfe"),
    (UnsignedInt(4294967294), b"i\xff\xff\xff\xfe"),
    (Long(-2), b"l\xff\xff\xff\xff\xff\xff\xff\xfe"),
    (2**40, b"l\x00\x00\x01\x00\x00\x00\x00\x00"),
    (Float32(0.5), b"f\x3f\x00\x00\x00"),
    (0.5, b"d\x3f\xe0\x00\x00\x00\x00\x00\x00"),
    (Decimal("1.50"), b"D\x02\x00\x00\x00\x96"),
    (datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC), b"T\x00\x00\x00\x00\x65\x93\x7d\x25"),
    (Timestamp(2**63), b"T\x80\x00\x00\x00\x00\x00\x00\x00"),
    ("größe", b"S\x00\x00\x00\x07gr\xc3\xb6\xc3\x9fe"),
    (b"\xff", b"S\x00\x00\x00\x01\xff"),
    (Binary(b"\x00\xff"), b"x\x00\x00\x00\x02\x00\xff"),
    (None, b"V"),
    ([1, "a"], b"A\x00\x00\x00\x0bI\x00\x00\x00\x01S\x00\x00\x00\x01a"),
    ({"k": None}, b"F\x00\x00\x00\x03\x01kV"),
]

keys = st.text(max_size=60)


def typed(value: Any) -> Any:
    """The value with its types, which comparing values does not look at."""
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    return [typed(item) for item in value] if isinstance(value, list) else (type(value), value)


@pytest.mark.parametrize(("value", "data"), ON_THE_WIRE, ids=lambda part: type(part).__name__)
def test_each_type_has_its_bytes_and_comes_back_as_it_was(value: Any, data: bytes) -> None:
    assert encode_value(value) == data
    decoded = decode_table(b"\x01k" + data)["k"]
    expected = Long(value) if type(value) is int and abs(value) >= 2**31 else value
    assert typed(decoded) == typed(expected)


@given(field_tables())
def test_every_table_comes_back_with_its_types(table: dict[str, Any]) -> None:
    assert typed(decode_table(encode_table(table)[4:])) == typed(table)


@given(st.dictionaries(keys, st.booleans() | st.text(min_size=1) | st.integers(-(2**31), 2**31 - 1)))
def test_other_decoders_read_the_same(table: dict[str, Any]) -> None:
    data = encode_table(table)
    assert pamqp_decode.field_table(data) == (len(data), table)
    assert pika.data.decode_table(data, 0) == (table, len(data))


@given(st.binary(max_size=60))
def test_bytes_are_a_table_or_malformed(data: bytes) -> None:
    try:
        table = decode_table(data)
    except MalformedError:
        return
    assert typed(decode_table(encode_table(table)[4:])) == typed(table)


@pytest.mark.parametrize(
    "data",
    [
        b"\x01",  # no key
        b"\x01k",  # no value
        b"\x01kQ",  # no such type
        b"\x01kI\x00\x00",  # half an integer
        b"\x01kS\x00\x00\x00\x05abc",  # a string longer than the table
        b"\x01kF\x00\x00\x00\x02\x05a",  # a table in it that is none
        b"\x01kd\x7f\xf8\x00\x00\x00\x00\x00\x00",  # not a number
        b"\x01kd\x7f\xf0\x00\x00\x00\x00\x00\x00",  # infinity
    ],
)
def test_what_rabbitmq_cannot_parse_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedError):
        decode_table(data)


def test_tables_of_any_depth_are_handed_on() -> None:
    deep = b""
    for _ in range(3 * DEPTH_MAX):
        deep = b"\x01kF" + len(deep).to_bytes(4) + deep
    assert encode_table(decode_table(deep))[4:] == deep


def test_of_equal_keys_the_first_counts() -> None:
    assert decode_table(b"\x01kt\x01\x01kt\x00") == {"k": True}


def test_a_key_that_is_no_utf_8_comes_back() -> None:
    assert encode_table(decode_table(b"\x02\xff\xfeV"))[4:] == b"\x02\xff\xfeV"


@pytest.mark.parametrize("table", [{"k" * 256: 1}, {"k": Short(2**15)}, {"k": Decimal(2**32)}])
def test_what_amqp_cannot_hold_is_refused(table: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        encode_table(table)
