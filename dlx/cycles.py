"""When a dead letter is dropped as a cycle.

A dead letter is not put into a queue that it already died in, if no client
rejected it on the way: walking the deaths from the newest, the first one in the
target queue closes a cycle, and the cycle is automatic if no entry up to there
was ``rejected``. A death that is itself a rejection is never checked. The rule
is the same in every release; the order of the deaths it walks is not, which is
why until 3.12 some loops spin for ever (``death_order`` in ``dlx.releases``).

Source: rabbit_dead_letter.erl is_cycle (3.10.8), mc.erl is_cycle_v2 (3.13.7 on).
"""

from __future__ import annotations

from collections.abc import Sequence

from dlx.deaths import REJECTED

DeathKey = tuple[object, object]


def is_cycle(queue: str, reason: str, deaths: Sequence[DeathKey | None]) -> bool:
    """Whether the dead letter must not enter ``queue``.

    ``deaths`` are the (queue, reason) pairs of the history in its own order, the
    current death included; ``None`` stands for an element that is no table, which
    only a client can have put there.
    """
    if reason == REJECTED:
        return False
    for index, death in enumerate(deaths):
        if death is not None and death[0] == queue:
            return all(known is not None and known[1] != REJECTED for known in deaths[: index + 1])
    return False
