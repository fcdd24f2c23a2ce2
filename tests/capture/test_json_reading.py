"""How deeply JSON from outside may be nested, whatever Python's own limit is."""

from __future__ import annotations

import msgspec
import pytest

from dlx.releases import RELEASES, release
from simulator.json_reading import NestedTooDeeplyError, place_of, read_json, read_json_as, strict_json


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


LENIENT = b"""{"queues": [
  {'name': 'say "hi"', "size": 1,}, // the first
  {"name": "a\tb\\x", /* and "this" */ "size": [1, 2 ,]}
],}"""
READ = {"queues": [{"name": 'say "hi"', "size": 1}, {"name": "a\tb\\x", "size": [1, 2]}]}


@pytest.mark.parametrize("name", RELEASES)
def test_servers_until_3_10_read_more_than_json(name: str) -> None:
    if name in ("3.8", "3.9", "3.10"):
        assert read_json_as(LENIENT, release(name)) == READ
    else:
        with pytest.raises(msgspec.DecodeError):
            read_json_as(LENIENT, release(name))


def test_what_others_refuse_is_named_with_its_place() -> None:
    _, found = strict_json(LENIENT)
    assert {what: place_of(LENIENT, at) for what, at in found.items()} == {
        "strings in single quotes": "line 2, column 4",
        "trailing commas": "line 2, column 33",
        "comments": "line 2, column 37",
        "control characters in strings": "line 3, column 14",
        "escapes that JSON does not have": "line 3, column 16",
    }


def test_json_stays_as_it_is_where_more_is_read() -> None:
    data = b'{"a": "// \' \\" /* , ]", "b": ["\\u00e9\\ud83d\\ude00\\n", "{,}"], "c": {}}'
    assert strict_json(data) == (data, {})


@pytest.mark.parametrize("data", [b"[,]", b"{,}", b"[1,,]", b"/* [1]", b"[1] /", b"{a: 1}", b"# c\n[1]", b"[1,] ]"])
def test_what_no_server_reads_is_refused_in_every_release(data: bytes) -> None:
    for name in RELEASES:
        with pytest.raises(msgspec.DecodeError):
            read_json_as(data, release(name))


@pytest.mark.parametrize(
    ("data", "first", "last"),
    [
        (b'{"a": 1, "b": 5, "a": 2}', {"a": 1, "b": 5}, {"a": 2, "b": 5}),
        (b'[{"x": {"a": [1], "a": [2]}}]', [{"x": {"a": [1]}}], [{"x": {"a": [2]}}]),
        (b'{"a": ":", "\\u0061": 2}', {"a": ":"}, {"a": 2}),
        (b'{"a": "\\u003a", "a": 2}', {"a": ":"}, {"a": 2}),
    ],
)
def test_of_equal_keys_the_release_tells_which_one_counts(data: bytes, first: object, last: object) -> None:
    assert read_json_as(data, release("3.10")) == last
    assert read_json_as(data, release("3.11")) == first
    assert read_json_as(data, release("4.3")) == first
