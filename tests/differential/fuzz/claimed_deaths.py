"""Strategies for histories that a client makes up: whole entries of x-death, and those that no server would write."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.differential.fuzz.values import RANGES, anything
from tests.differential.wire import AGAIN
from tests.vectors.amqp import Field

REASONS = ["expired", "maxlen", "delivery_limit"]


def entries(queues: list[str], rejections: bool) -> st.SearchStrategy[dict[str, Any]]:
    """An entry of x-death as a server writes it."""
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


@st.composite
def spoilt(draw: st.DrawFn, queues: list[str], rejections: bool, repeated: bool) -> dict[str, Any]:
    """An entry with one or two faults: a field that is missing, ``repeated``, or of another type."""
    found = draw(entries(queues, rejections))
    for _ in range(draw(st.sampled_from([1, 1, 1, 2]))):
        name = draw(st.sampled_from(sorted(found)))
        fault = draw(st.sampled_from(["missing", "width", "other", "more", *["twice"] * repeated]))
        if fault == "missing":
            del found[name]
        elif fault == "twice":
            found[name.removesuffix(AGAIN) + AGAIN] = draw(anything())
        elif fault == "width":
            found["count"] = Field(draw(st.sampled_from(sorted(RANGES))), 3)
        elif fault == "more":
            found["original-expiration"] = draw(st.sampled_from(["5", "", "x"]) | anything())
        else:
            found[name] = draw(anything())
    return found


def claims(queues: list[str], rejections: bool, *, repeated: bool, other_than_tables: bool) -> st.SearchStrategy[Any]:
    """The value of an x-death header; an array holds ``other_than_tables`` only where that harms nobody else."""
    whole, faulty = entries(queues, rejections), spoilt(queues, rejections, repeated)
    several = st.lists(whole | faulty, max_size=3)
    doubled = st.one_of(whole, faulty).map(lambda entry: [entry, entry])
    found = [st.lists(whole, max_size=2), st.lists(whole, max_size=2), several, several, doubled, whole]
    found.append(st.sampled_from(["text", 5, None, True, {}, b"x"]))
    if other_than_tables:
        found.append(st.tuples(st.sampled_from(["x", 1, [], None]), several).map(lambda pair: [pair[0], *pair[1]]))
    return st.one_of(found)
