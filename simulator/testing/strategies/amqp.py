"""AMQP 0-9-1 field values, with the types that they have on the wire."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from typing import Any

from hypothesis import strategies as st

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
from simulator.testing.strategies.building_blocks import built, check_count

DEPTH_MAX = 90
"""Levels of arrays and tables, at most: clients and servers look no deeper than about 100."""

_YEAR_10000_S = 253_402_300_800
_USUAL_DEPTH = 2
_DEEP_ONE_IN = 12
_NAMES = ("kind", "tenant", "x-kind", "n")
_INTEGERS = {
    SignedByte: (-(2**7), 2**7 - 1),
    UnsignedByte: (0, 2**8 - 1),
    Short: (-(2**15), 2**15 - 1),
    UnsignedShort: (0, 2**16 - 1),
    UnsignedInt: (0, 2**32 - 1),
    Long: (-(2**63), 2**63 - 1),
    Timestamp: (_YEAR_10000_S, 2**64 - 1),  # what is earlier is a datetime
}


def field_values(*, depth_max: int = 60) -> st.SearchStrategy[Any]:
    """Draw values of every type that a header can have: a byte array is not a string, 5 in 8 bits is not 5 in 64.

    Strings that are not UTF-8 are ``bytes``. Most values are flat or nested once or twice, a few go down to
    ``depth_max`` levels of arrays or tables (0 to 90).
    """
    check_count("depth_max", depth_max, most=DEPTH_MAX)
    return _values(depth_max)


def field_tables(*, depth_max: int = 60) -> st.SearchStrategy[dict[str, Any]]:
    """Draw tables of such values, with names of their own."""
    return _tables(field_values(depth_max=depth_max))


def _decimal(digits: int, scale: int) -> Decimal:
    return Decimal(digits).scaleb(-scale)


def _whole_seconds(at: datetime) -> datetime:
    return at.replace(microsecond=0, tzinfo=UTC)


_SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.text(max_size=8),
    st.integers(-(2**31), 2**31 - 1),
    st.booleans(),
    st.none(),
    *(st.integers(*limits).map(kind) for kind, limits in _INTEGERS.items()),
    st.floats(allow_nan=False, allow_infinity=False),
    built(Float32, st.floats(allow_nan=False, allow_infinity=False, width=32)),
    built(_decimal, st.integers(0, 2**32 - 1), st.integers(0, 6)),
    built(_whole_seconds, st.datetimes(datetime(1970, 1, 1), datetime(9999, 1, 1))),
    st.binary(max_size=8).map(Binary),
    st.binary(max_size=8).map(lambda rest: b"\xff" + rest),
)
_KEYS = st.one_of(st.sampled_from(_NAMES), st.text(max_size=8))


def _tables(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(_KEYS, values, max_size=3)


@cache
def _values(depth_max: int) -> st.SearchStrategy[Any]:
    found = _SCALARS
    for _ in range(min(depth_max, _USUAL_DEPTH)):
        found = st.one_of(_SCALARS, st.lists(found, max_size=3), _tables(found))
    if depth_max <= _USUAL_DEPTH:
        return found
    deep = _deep(depth_max)
    return st.integers(1, _DEEP_ONE_IN).flatmap(lambda n: deep if n == _DEEP_ONE_IN else found)


@st.composite
def _deep(draw: st.DrawFn, depth_max: int) -> Any:
    """Draw an array in an array in an array, or tables in the same way."""
    value: Any = draw(_SCALARS)
    as_table = draw(st.booleans())
    for _ in range(draw(st.integers(1, depth_max))):
        value = {"in": value} if as_table else [value]
    return value
