"""The hash in ``properties_key`` is Erlang's."""

from __future__ import annotations

from typing import Any

import pytest

from dlx.erlang_hash import arguments_hash, phash2
from dlx.erlang_printing import Atom
from dlx.field_values import Long

# What erlang:phash2(Term, 1 bsl 32) gave on OTP 29.
VECTORS: list[tuple[Any, int]] = [
    ([(b"k", Atom("longstr"), b"v"), (b"n", Atom("signedint"), 1)], 1_636_928_317),
    ([], 3_468_870_702),
    (b"", 147_926_629),
    (b"hello world, longer than 12", 333_560_021),
    ((), 221_703_996),
    ((1, 2), 4_118_095_950),
    (-5, 517_668_864),
    (Atom("foo"), 27_999),
    (1 << 40, 282_329_375),
    (-(1 << 70), 4_181_281_985),
    (2.5, 2_784_981_260),
    ([1, 2, 3, 4, 5, Atom("x")], 4_080_490_398),
    ((b"", [], b"x"), 3_113_303_234),
    ([(b"t", Atom("bool"), Atom("true"))], 1_286_633_413),
]


@pytest.mark.parametrize(("term", "wanted"), VECTORS, ids=lambda value: repr(value)[:40])
def test_terms_hash_as_in_erlang(term: Any, wanted: int) -> None:
    assert phash2(term) == wanted


def test_arguments_hash_whatever_their_order() -> None:
    assert arguments_hash({"n": Long(1), "k": "v"}) == arguments_hash({"k": "v", "n": Long(1)}) == "c8kv6Q"
