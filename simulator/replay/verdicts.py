"""The verdict of a replay on one delivery."""

from __future__ import annotations

from typing import Literal

import msgspec

from dlx.message_flow import Hop
from simulator.replay.unchecked import Unchecked

Name = Literal["agree", "ambiguous", "differ", "unexplained"]
PATH = "path"
"""The field of a difference in the way to the queue, not in the delivered message."""
VERDICTS: tuple[Name, ...] = ("agree", "ambiguous", "differ", "unexplained")
BAD: tuple[Name, ...] = ("differ", "unexplained")
"""The verdicts on deliveries that are not as predicted."""
"""The names of all verdicts, best first."""


class Difference(msgspec.Struct, frozen=True):
    """One field of a delivery that is not as predicted.

    Attributes:
        field: its path, such as ``x-death[0].count``.
        expected, seen: its values as JSON; ``absent`` where the field is missing.
        behaviours: the rows of the release table that cause it, where another release explains it.
    """

    field: str
    expected: str
    seen: str
    behaviours: tuple[str, ...] = ()


class Verdict(msgspec.Struct, frozen=True):
    """The verdict on one delivery.

    Attributes:
        name: the verdict.
        why: why a delivery is unexplained.
        hops: the deaths since this copy was last observed.
        new_hops: how many of the last hops no other delivery's path has had.
        new_deaths: the same without a first hop that only puts another copy of a known death into another queue.
        alternatives: all sequences of hops that lead to an ambiguous delivery, as text.
        differences: the fields that are not as predicted.
        unchecked: what the log could neither confirm nor refute.
    """

    name: Name
    why: str = ""
    hops: tuple[Hop, ...] = ()
    new_hops: int = 0
    new_deaths: int = 0
    alternatives: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()
    unchecked: tuple[Unchecked, ...] = ()


def path_text(hops: tuple[Hop, ...]) -> str:
    """Return a sequence of hops as text: ``orders rejected -> orders.wait expired``."""
    return " -> ".join(f"{hop.queue} {hop.reason}" for hop in hops) or "no hop"
