"""How serious a difference is: a message elsewhere is worse than another count, and that than one header more.

The fields of a queue with the same cause are judged by their example.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from simulator.replay.differences import ABSENT
from simulator.replay.explain import ROUTED_QUEUES
from simulator.replay.report.data import FieldDiffers

TITLES = ("Lost, or elsewhere", "Counts and histories", "Other values", "Headers more or less")
ELSEWHERE, COUNTS, VALUES, HEADERS = range(len(TITLES))
_ELSEWHERE = ("path", "exchange", "routing_keys", "expiration", ROUTED_QUEUES)
_COUNTS = ("x-death length", "x-death", "x-delivery-count", "x-acquired-count")
_OF_A_DEATH = (".count", ".queue", ".reason", ".exchange")


def seriousness(differs: FieldDiffers) -> int:
    """Return the place of the difference in ``TITLES``: 0 is the most serious."""
    field = differs.field
    if field.startswith(_ELSEWHERE):
        return ELSEWHERE
    if ABSENT in (differs.expected, differs.seen):
        return HEADERS
    if field in _COUNTS or field.endswith(_OF_A_DEATH):
        return COUNTS
    return VALUES


def seriousness_of_cause(found: Iterable[FieldDiffers]) -> int:
    """Return the place in ``TITLES`` of differences with one cause: that of the worst, or of most if none is bad."""
    counts: Counter[int] = Counter()
    for each in found:
        counts[seriousness(each)] += each.count
    bad = [rank for rank in (ELSEWHERE, COUNTS) if counts[rank]]
    return bad[0] if bad else max(counts, key=lambda rank: (counts[rank], -rank), default=VALUES)
