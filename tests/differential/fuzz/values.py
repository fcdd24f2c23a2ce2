"""Strategies for values of AMQP tables: every type, every width of integers, tables in arrays in tables.

Clients send what their language has: those in Go and Java a long, those in Node the narrowest integer that fits.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.differential.wire import AGAIN
from tests.vectors.amqp import Field

NAMES = ["a", "n", "x-kind", "z", "Ö"]
RANGES = {
    "b": (-(2**7), 2**7), "B": (0, 2**8), "s": (-(2**15), 2**15), "u": (0, 2**16), "I": (-(2**31), 2**31),
    "i": (0, 2**32), "l": (-(2**63), 2**63),
}  # fmt: skip
SCALARS: list[Any] = [
    "red", "", "1", 0, 1, -7, 2**40, 2.5, 1.0, True, False, None, b"\x00\xff", Field("S", b"\xff"),
    Field("b", -5), Field("B", 200), Field("s", 300), Field("u", 60000), Field("i", 4_000_000_000),
    Field("l", 5), Field("f", 0.5), Field("T", 1_700_000_000), Field("T", 2**40),
]  # fmt: skip
DECIMAL = Field("D", [2, 314])
COMMON = ["red", 1]  # what bindings to headers exchanges mostly ask for


def plain(value: Any) -> Any:
    """A value without its type on the wire."""
    return value.value if isinstance(value, Field) else value


def widths(number: int) -> st.SearchStrategy[Any]:
    """That integer, with each type that can hold it."""
    return st.sampled_from([Field(tag, number) for tag, (low, beyond) in RANGES.items() if low <= number < beyond])


@st.composite
def retyped(draw: st.DrawFn, table: dict[str, Any]) -> dict[str, Any]:
    """The table, its integers now and then with another type."""
    found = dict(table)
    for name, value in table.items():
        if type(value) is int and draw(st.integers(0, 3)) == 0:
            found[name] = draw(widths(value))
    return found


def scalars() -> st.SearchStrategy[Any]:
    """Values of every type but decimals, tables and arrays."""
    return st.sampled_from(SCALARS)


def nested() -> st.SearchStrategy[Any]:
    """Arrays and tables, within each other up to three deep."""
    shallow = st.lists(scalars(), max_size=3) | st.dictionaries(st.sampled_from(NAMES), scalars(), max_size=3)
    deep = st.lists(scalars() | shallow, max_size=2) | st.dictionaries(st.sampled_from(NAMES), shallow, max_size=2)
    return st.one_of(shallow, shallow, st.lists(deep, max_size=2), st.dictionaries(st.sampled_from(NAMES), deep))


def values() -> st.SearchStrategy[Any]:
    """Header values, nested ones among them."""
    return st.one_of(st.sampled_from(COMMON), scalars(), scalars(), nested())


@st.composite
def tables(draw: st.DrawFn, repeated: bool) -> dict[str, Any]:
    """Up to three fields, now and then, if ``repeated``, one of them twice."""
    found: dict[str, Any] = draw(st.dictionaries(st.sampled_from(NAMES), values(), max_size=3))
    if found and repeated and draw(st.integers(0, 11)) == 0:
        found[draw(st.sampled_from(sorted(found))) + AGAIN] = draw(scalars())
    return found


def anything() -> st.SearchStrategy[Any]:
    """A value that an argument may well not be allowed to have."""
    odd = [-1, 1.5, -2.0, "5", "x", 2**31, 2**32, 315_360_000_001, [1, "x"], [], {}, {"a": 1}, DECIMAL]
    return st.one_of(st.sampled_from([*odd, Field("l", 5), Field("b", -1), Field("T", 17)]), scalars())
