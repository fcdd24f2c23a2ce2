"""What a replay says about one delivery."""

from __future__ import annotations

from typing import Literal

import msgspec

from dlx.message_flow import Hop

Name = Literal["agree", "ambiguous", "differ", "unexplained"]
PATH = "path"
"""The field of a difference that is about the way to the queue, not about what was delivered."""
VERDICTS: tuple[Name, ...] = ("agree", "ambiguous", "differ", "unexplained")
"""The names of all verdicts, best first."""


class Difference(msgspec.Struct, frozen=True):
    """One field that the broker delivered otherwise than predicted.

    ``field`` is a path such as ``x-death[0].count``; ``expected`` and ``seen`` are
    JSON texts, ``absent`` for what is not there. ``behaviours`` are the rows of the
    release table that the difference comes from, where a release explains it.
    """

    field: str
    expected: str
    seen: str
    behaviours: tuple[str, ...] = ()


class Verdict(msgspec.Struct, frozen=True):
    """The verdict on one delivery.

    ``hops`` are the deaths since the last observed state of that copy. The last
    ``new_hops`` of them were on no other delivery's path before; ``new_deaths`` is
    one less where the first of these put another copy of a known death into
    another queue.
    ``alternatives`` are all hop sequences of an ambiguous delivery, as text.
    """

    name: Name
    why: str = ""
    hops: tuple[Hop, ...] = ()
    new_hops: int = 0
    new_deaths: int = 0
    alternatives: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()


def path_text(hops: tuple[Hop, ...]) -> str:
    """A hop sequence as text: ``orders rejected -> orders.wait expired``."""
    return " -> ".join(f"{hop.queue} {hop.reason}" for hop in hops) or "no hop"
