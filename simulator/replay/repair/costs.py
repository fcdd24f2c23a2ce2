"""How much a hypothesis costs: the cheapest one that explains a delivery is the one to look at first.

Only the order counts, not the numbers: one is the smallest step that makes a difference, and
hypotheses no further apart than ``TIE`` are called equally likely. A hypothesis is paid for
once, whatever it explains, and for each message again if each is a new event. So one change of
definitions that explains many messages is cheaper than many single events.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

Kind = Literal["rows missing", "log cut", "other definitions", "foreign publish", "forged headers"]
LOG_CUT: Kind = "log cut"
ROWS_MISSING: Kind = "rows missing"
OTHER_DEFINITIONS: Kind = "other definitions"
FOREIGN_PUBLISH: Kind = "foreign publish"
FORGED_HEADERS: Kind = "forged headers"

TIE = 1.0
"""Hypotheses whose costs differ by no more are called equally likely: the trace cannot tell."""


class Cost(NamedTuple):
    """What a hypothesis costs once, and again for each message; ``why`` gives the reason."""

    once: float
    each: float
    why: str


COSTS: dict[Kind, Cost] = {
    ROWS_MISSING: Cost(3, 1, "logs lose rows: they are rotated, and tracing is switched on late or falls behind"),
    LOG_CUT: Cost(5.5, 0, "every log begins somewhere, but only the messages of its beginning lack their publish"),
    FOREIGN_PUBLISH: Cost(4, 1, "somebody publishes past the trace; a trace shows every publish of a channel"),
    OTHER_DEFINITIONS: Cost(5, 0, "one export serves a whole log, and operators change policies"),
    FORGED_HEADERS: Cost(5, 1, "clients rarely write the headers that a broker writes"),
}
"""The table of all kinds."""
REMARKS: dict[str, Cost] = {
    "argument": Cost(0.5, 0, "only who deletes and declares a queue again changes its arguments"),
    "another part": Cost(1, 0, "two changes at the same time are less likely than one"),
    "back and forth": Cost(3, 0, "no single moment separates the rows that need the change from those that exclude it"),
    "new address": Cost(0, 1.5, "no publish in the log goes to that exchange with those keys"),
    "second publish": Cost(0, 1, "most messages are published once, and the log has a publish of this one"),
    "left out": Cost(-1, 0, "a consumer that retries by itself publishes without the headers of the broker"),
    "further row": Cost(0, 1, "each further row that must have been lost is another loss"),
}
"""What makes a hypothesis less likely than others of its kind, or more."""


def once(kind: Kind, remarks: Iterable[str]) -> float:
    """Return what the hypothesis costs, whatever it explains."""
    return COSTS[kind].once + sum(REMARKS[remark].once for remark in remarks)


def each(kind: Kind, remarks: Iterable[str]) -> float:
    """Return what it costs again for each message."""
    return COSTS[kind].each + sum(REMARKS[remark].each for remark in remarks)
