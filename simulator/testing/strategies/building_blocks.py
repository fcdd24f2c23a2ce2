"""The building blocks of all strategies: names as teams give them, and values that print as what they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import strategies as st

NOWHERE = "nowhere"
"""An exchange or queue that does not exist."""

_QUEUES = (
    "orders", "orders.wait", "orders.retry", "orders.dead", "mail", "mail.wait", "mail.dead", "audit",
)  # fmt: skip

Value = TypeVar("Value")


def first_names(count: int) -> tuple[str, ...]:
    """Return that many different queue names."""
    return (*_QUEUES[:count], *(f"audit.{number}" for number in range(2, count - len(_QUEUES) + 2)))


@st.composite
def built(
    draw: st.DrawFn, /, make: Callable[..., Value], *parts: st.SearchStrategy[Any], **named: st.SearchStrategy[Any]
) -> Value:
    """Draw what ``make`` returns for the values drawn, as ``st.builds`` does.

    A failing test prints the ``repr`` of the value. With ``st.builds`` or ``.map`` it may print the call of ``make``,
    which can be pasted only where ``make`` is among the documented imports.
    """
    return make(*map(draw, parts), **{name: draw(part) for name, part in named.items()})
