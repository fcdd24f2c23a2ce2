"""Names and patterns of destinations, and which of several entries applies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.systems.activemq.destinations import (
    Destination,
    DestinationEntry,
    DestinationMap,
    UndefinedError,
    compare,
    entries,
    matches,
    parse_destination,
    parts,
)

NAMES = st.lists(st.sampled_from(["A", "B", "*"]), min_size=1, max_size=3).map(".".join)
PATTERNS = st.one_of(NAMES, NAMES.map(lambda name: f"{name}.>"), st.just(">"))


def queue(name: str) -> Destination:
    return Destination("queue", name)


@pytest.mark.parametrize(
    ("pattern", "name", "found"),
    [
        (">", "A.B", True),
        ("A.>", "A", True),
        ("A.>", "A.B.C", True),
        ("A.>", "AB", False),
        ("A.*.>", "A.B", True),
        ("A.*.>", "A", False),
        ("A.>.>", "A", True),
        ("A.*", "A.B", True),
        ("A.*", "A.B.C", False),
        ("*.B", "A.B", True),
        ("A.B.>", "A.*", True),
        ("A", "A", True),
        ("A", "B", False),
    ],
)
def test_patterns(pattern: str, name: str, found: bool) -> None:
    assert matches(queue(pattern), queue(name)) == found


def test_a_queue_is_no_topic() -> None:
    assert not matches(queue(">"), Destination("topic", "A"))
    assert compare(queue("A"), Destination("topic", "A")) < 0 < compare(Destination("topic", "A"), queue("A"))


@pytest.mark.parametrize(
    ("name", "winner"),
    [
        ("P", "P.>"),
        ("P.Z", "P.>"),
        ("P.Z.X", "P.*.X"),
        ("P.A.Z", "P.A.*"),
        ("P.A.X", "P.*.X"),
        ("P.A.X.Y", "P.A.X.Y"),
        ("P.A.X.Z", "P.>"),
        ("P.B", "P.B.>"),
        ("P.B.X", "P.*.X"),
        ("P.B.C.D", "P.B.>"),
        ("Q", None),
    ],
)
def test_the_most_special_entry_wins(name: str, winner: str | None) -> None:
    keys = ["P.>", "P.*.X", "P.A.*", "P.A.X.Y", "P.B.>"]
    for order in (keys, keys[::-1]):
        found = DestinationMap(tuple(each for key in order for each in entries(queue(key), key)))
        assert found.lookup(queue(name)) == winner


def test_of_entries_that_do_not_name_their_destination_none_comes_first() -> None:
    found = DestinationMap((DestinationEntry(queue("M.>"), 1), DestinationEntry(queue("M.A"), 2)), default=0)
    assert [found.lookup(queue(name)) for name in ("M", "OTHER")] == [1, 0]
    with pytest.raises(UndefinedError, match=r"those of queue://M\.> and of queue://M\.A both apply"):
        found.lookup(queue("M.A"))
    assert (
        DestinationMap((DestinationEntry(queue("M.>"), 1), DestinationEntry(queue("M.A"), 1))).lookup(queue("M.A")) == 1
    )


def test_a_composite_key_is_for_each_of_its_parts() -> None:
    found: DestinationMap[int] = DestinationMap(tuple(entries(queue("A,topic://B"), 1)))
    assert found.lookup(queue("A")) == found.lookup(Destination("topic", "B")) == 1
    assert found.lookup(queue("B")) is None
    assert parts(queue("A,topic://B")) == (queue("A"), Destination("topic", "B"))


@pytest.mark.parametrize(("text", "kind"), [("A", "queue"), ("topic://A", "topic"), ("temp-queue://A", "temp-queue")])
def test_reading_a_destination(text: str, kind: str) -> None:
    found = parse_destination(text)
    assert (found.kind, found.name) == (kind, "A")
    assert parse_destination(str(found)) == found


@pytest.mark.parametrize("text", ["", "queue://", "stack://A"])
def test_what_is_no_destination(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_destination(text)


@given(PATTERNS, PATTERNS)
def test_of_two_patterns_the_wider_one_comes_later(wide: str, narrow: str) -> None:
    left, right = queue(wide), queue(narrow)
    assert (compare(left, right) == 0) == (left == right)
    if left != right and left.is_pattern and matches(left, right) and not matches(right, left):
        assert compare(left, right) > 0 > compare(right, left)


def test_a_composite_may_begin_with_a_bare_name() -> None:
    assert parts(parse_destination("A,topic://B")) == (queue("A"), Destination("topic", "B"))
