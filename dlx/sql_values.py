"""What SQL makes of unknown values, which are ``None`` here: for selectors of JMS and for filters of AMQP 1.0."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}
SUMS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def negated(truth: Any) -> bool | None:
    """Return what NOT makes of a value, which is unknown unless it is a truth."""
    return not truth if isinstance(truth, bool) else None


def joined(one: Any, other: Any, *, decides: bool) -> bool | None:
    """Return what OR makes of two truths, one of which decides if it is true; AND, if it is false."""
    if decides in [each for each in (one, other) if isinstance(each, bool)]:
        return decides
    return not decides if isinstance(one, bool) and isinstance(other, bool) else None
