"""Values that Hypothesis prints as what they are, and not as the call that made them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import strategies as st

Value = TypeVar("Value")


@st.composite
def built(
    draw: st.DrawFn, /, make: Callable[..., Value], *parts: st.SearchStrategy[Any], **named: st.SearchStrategy[Any]
) -> Value:
    """What ``make`` returns for the values drawn, as by ``st.builds``.

    A failing test prints the ``repr`` of the value. With ``st.builds`` or ``.map`` it may print the call of ``make``,
    which can be pasted only where ``make`` is among the documented imports.
    """
    return make(*map(draw, parts), **{name: draw(part) for name, part in named.items()})
