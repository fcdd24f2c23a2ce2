"""How deeply JSON from outside may be nested, whatever Python's own limit is."""

from __future__ import annotations

import msgspec
import pytest

from simulator.json_reading import NestedTooDeeplyError, read_json


@pytest.mark.parametrize(
    "data", [b"[[[]]]", b'{"a":{"b":[1]}}', b'["[[[[", "\\"[[[["]', b"[" + b"[]," * 50 + b"{}]", b"1"]
)
def test_json_within_the_limit_is_read(data: bytes) -> None:
    assert read_json(data, 3) == msgspec.json.decode(data)


@pytest.mark.parametrize("data", [b"[[[[]]]]", b'{"a":[{"b":[]}]}', b'["]]]",[[["\\"]",[]]]]', b"[[[[", b"[[]],[[[["])
def test_json_beyond_the_limit_is_refused_whether_it_is_whole_or_not(data: bytes) -> None:
    with pytest.raises(NestedTooDeeplyError, match="nested more than 3 deep"):
        read_json(data, 3)


def test_a_document_with_many_brackets_is_read_in_no_time() -> None:
    wide = b"[" + b'{"name":"[[[","arguments":{}},' * 100_000 + b"1]"
    assert len(read_json(wide)) == 100_001
