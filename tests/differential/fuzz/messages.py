"""Strategies for what clients publish: properties, and headers of all types, hostile ones among them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.differential.fuzz import claimed_deaths
from tests.differential.fuzz.values import tables
from tests.vectors.amqp import Field

EXPIRATIONS = ["0", "150", "400", "900", "60000", "+060000"]


@st.composite
def sometimes(draw: st.DrawFn, strategy: st.SearchStrategy[Any], percent: int, otherwise: Any = None) -> Any:
    """Values of the strategy, so often out of a hundred."""
    return draw(strategy) if draw(st.integers(1, 100)) > 100 - percent else otherwise


def hostile(queues: list[str], rejections: bool, repeated: bool, harmless: bool) -> st.SearchStrategy[dict[str, Any]]:
    """Headers that mean something to the server."""
    claims = claimed_deaths.claims(queues, rejections, repeated=repeated, other_than_tables=harmless)
    return st.one_of(
        claims.map(lambda claim: {"x-death": claim}),
        claims.map(lambda claim: {"x-death": claim}),
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
def headers(
    draw: st.DrawFn, queues: list[str], rejections: bool, repeated: bool, harmless: bool
) -> dict[str, Any] | None:
    """Headers, or none at all.

    ``repeated``: a field may stand in a table twice; ``harmless``: nothing in x-death can harm what other tests do.
    """
    kind = draw(st.integers(0, 9))
    if kind < 4:
        return None
    found = draw(tables(repeated))
    if kind >= 7:
        found |= draw(copies(queues))
    if kind == 9 or kind == 6:
        found |= draw(hostile(queues, rejections, repeated, harmless))
    return found


@st.composite
def properties(draw: st.DrawFn, expirations: list[str]) -> dict[str, Any]:
    """Properties; most messages have none."""
    found = {
        "expiration": draw(sometimes(st.sampled_from(expirations), 15)),
        "priority": draw(sometimes(st.sampled_from([0, 1, 3, 4, 5, 9, 10, 200, 255]), 25)),
        "delivery_mode": draw(sometimes(st.sampled_from([1, 2, 2] * 10 + [*range(10)]), 20)),
        "message_id": draw(sometimes(st.just("id"), 10)),
        "content_type": draw(sometimes(st.just("text/plain"), 5)),
        "user_id": draw(sometimes(st.just("guest"), 5)),
        "type": draw(sometimes(st.sampled_from(["t", "ö", ""]), 5)),
        "correlation_id": draw(sometimes(st.just("c" * 255), 3)),
        "reply_to": draw(sometimes(st.just("q1"), 3)),
        "app_id": draw(sometimes(st.just(""), 3)),
        "timestamp": draw(sometimes(st.just(1_700_000_000), 5)),
    }
    return {name: value for name, value in found.items() if value is not None}
