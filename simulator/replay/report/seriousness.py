"""How serious a difference is: a message elsewhere is worse than another count, and that than one header more."""

from __future__ import annotations

from simulator.replay.differences import ABSENT
from simulator.replay.explain import ROUTED_QUEUES
from simulator.replay.report.data import FieldDiffers

TITLES = ("Lost, or elsewhere", "Counts and histories", "Other values", "Headers more or less")
_ELSEWHERE = ("path", "exchange", "routing_keys", "expiration", ROUTED_QUEUES)
_COUNTS = ("x-death length", "x-death", "x-delivery-count", "x-acquired-count")


def seriousness(differs: FieldDiffers) -> int:
    """Return the place of the difference in ``TITLES``: 0 is the most serious."""
    field = differs.field
    if field.startswith(_ELSEWHERE):
        return 0
    if ABSENT in (differs.expected, differs.seen):
        return 3
    if field in _COUNTS or field.endswith((".count", ".queue", ".reason")):
        return 1
    return 2
