"""Strategies for what clients publish: properties, and headers of all types, hostile ones among them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.vectors.amqp import Field

REASONS = ["expired", "maxlen", "delivery_limit"]
NAMES = ["a", "n", "x-kind", "z", "Ö"]
EXPIRATIONS = ["0", "150", "400", "900", "60000", "+060000"]


def sometimes(strategy: st.SearchStrategy[Any], percent: int, otherwise: Any = None) -> st.SearchStrategy[Any]:
    """Values of the strategy, so often out of a hundred."""
    return st.integers(1, 100).flatmap(lambda n: strategy if n > 100 - percent else st.just(otherwise))


SCALARS: list[Any] = [
    "red", "", "1", 0, 1, -7, 2**40, 2.5, 1.0, True, False, None, b"\x00\xff", Field("S", b"\xff"),
    Field("b", -5), Field("B", 200), Field("s", 300), Field("u", 60000), Field("i", 4_000_000_000),
    Field("l", 5), Field("f", 0.5), Field("T", 1_700_000_000),
]  # fmt: skip

COMMON = ["red", 1]  # what bindings to headers exchanges mostly ask for


def scalars() -> st.SearchStrategy[Any]:
    """Header values of every type but decimals, tables and arrays."""
    return st.sampled_from(SCALARS)


def values() -> st.SearchStrategy[Any]:
    """Header values, nested ones among them."""
    nested = st.lists(scalars(), max_size=3) | st.dictionaries(st.sampled_from(NAMES), scalars(), max_size=3)
    return st.one_of(st.sampled_from(COMMON), scalars(), nested, st.lists(nested, max_size=2))


def deaths(queues: list[str], rejections: bool) -> st.SearchStrategy[dict[str, Any]]:
    """An entry of an x-death header that a client made up."""
    reasons = [*REASONS, "rejected"] if rejections else REASONS
    return st.fixed_dictionaries(
        {
            "count": st.sampled_from([Field("l", 1), Field("l", 7)]),
            "exchange": st.sampled_from(["", "x1"]),
            "queue": st.sampled_from(queues),
            "reason": st.sampled_from(reasons),
            "routing-keys": st.lists(st.sampled_from(queues), min_size=1, max_size=2),
            "time": st.just(Field("T", 1_600_000_000)),
        }
    )


def hostile(queues: list[str], rejections: bool) -> st.SearchStrategy[dict[str, Any]]:
    """Headers that mean something to the server."""
    return st.one_of(
        st.lists(deaths(queues, rejections), max_size=2).map(lambda entries: {"x-death": entries}),
        st.sampled_from([3, -1, "many", Field("l", 50)]).map(lambda count: {"x-delivery-count": count}),
        st.just({"x-acquired-count": 9}),
        st.sampled_from(queues).map(lambda queue: {"x-first-death-queue": queue, "x-first-death-reason": "rejected"}),
        st.sampled_from(queues).map(lambda queue: {"x-last-death-queue": queue}),
        st.sampled_from(["text", 5, [1], [[]]]).map(lambda wrong: {"CC": wrong}),
    )


def copies(queues: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    """CC and BCC headers."""
    keys = st.lists(st.sampled_from([*queues, "k", "nowhere"]), min_size=1, max_size=2)
    return st.one_of(keys.map(lambda cc: {"CC": cc}), keys.map(lambda bcc: {"BCC": bcc}))


@st.composite
def headers(draw: st.DrawFn, queues: list[str], rejections: bool) -> dict[str, Any] | None:
    """Headers, or none at all."""
    kind = draw(st.integers(0, 9))
    if kind < 4:
        return None
    found = draw(st.dictionaries(st.sampled_from(NAMES), values(), max_size=3))
    if kind >= 7:
        found |= draw(copies(queues))
    if kind == 9 or kind == 6:
        found |= draw(hostile(queues, rejections))
    return found


@st.composite
def properties(draw: st.DrawFn, expirations: list[str]) -> dict[str, Any]:
    """Properties; most messages have none."""
    found = {
        "expiration": draw(sometimes(st.sampled_from(expirations), 15)),
        "priority": draw(sometimes(st.sampled_from([0, 1, 3, 4, 5, 9, 200]), 25)),
        "delivery_mode": draw(sometimes(st.sampled_from([1, 2]), 20)),
        "message_id": draw(sometimes(st.just("id"), 10)),
        "content_type": draw(sometimes(st.just("text/plain"), 5)),
        "timestamp": draw(sometimes(st.just(1_700_000_000), 5)),
    }
    return {name: value for name, value in found.items() if value is not None}
