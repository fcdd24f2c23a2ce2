"""Decide when a dead letter is dropped as a cycle.

A dead letter is not put into a queue that it already died in, if no client
rejected it on the way: walking the deaths from the newest, the first one in the
target queue closes a cycle, and the cycle is automatic if no entry up to there
was ``rejected``. A death that is itself a rejection is never checked. The rule
is the same in every release; the order of the deaths it walks is not, which is
why until 3.12 some loops spin forever (``death_order`` in ``dlx.releases``).

Source: rabbit_dead_letter.erl is_cycle (3.10.8), mc.erl is_cycle_v2 (3.13.7 on).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dlx.deaths import REJECTED


def is_cycle(queue: str, reason: str, deaths: Sequence[tuple[Any, ...] | None]) -> bool:
    """Return whether the dead letter must not enter ``queue``.

    ``deaths`` are the deaths in the history's own order, the current one included:
    tuples that begin with queue and reason, such as ``dlx.recorded_deaths`` reads.
    ``None`` is an element that is not a table, which only a client can have put there.
    """
    if reason == REJECTED:
        return False
    for index, death in enumerate(deaths):
        if death is not None and death[0] == queue:
            return all(known is not None and known[1] != REJECTED for known in deaths[: index + 1])
    return False
