"""When other definitions were in force: before a moment, after it, or as long as the log goes.

A death under them lies between the row in which the message was last seen before and the
delivery that shows it. So each delivery that needs the change bounds the moment, and so does
each one that the change would make impossible.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from simulator.replay.repair.sequences import RowSequence


class Moment(NamedTuple):
    """When definitions changed, in microseconds since 1970.

    ``before``: the other definitions were in force until then, and not from then on.
    ``after_us`` and ``by_us`` are the bounds of the moment; without any bound they were in force all the time.
    """

    before: bool = True
    after_us: int | None = None
    by_us: int | None = None


class _Bounds(NamedTuple):
    """Bounds some deaths: the last one was after ``start_us``, the first one before ``end_us``."""

    start_us: int
    end_us: int


class Died(NamedTuple):
    """Says when a message died: after the row ``after`` of its sequence, and before the delivery ``by``."""

    sequence: RowSequence
    after: int
    by: int


def moment(needing: Iterable[Died], excluding: Iterable[Died]) -> Moment | None:
    """Return when the definitions changed; ``None`` if no single moment fits.

    ``needing`` are deaths that the other definitions explain, ``excluding`` those that they make impossible.
    """
    need, exclude = _bounds(needing), _bounds(excluding)
    if exclude is None or need is None:
        return Moment()
    if need.start_us < exclude.end_us:
        return Moment(True, need.start_us, exclude.end_us)
    if exclude.start_us < need.end_us:
        return Moment(False, exclude.start_us, need.end_us)
    return None


def _bounds(deaths: Iterable[Died]) -> _Bounds | None:
    found = [(sequence.latest_us[after], sequence.earliest_us[by]) for sequence, after, by in deaths]
    return _Bounds(max(start_us for start_us, _ in found), min(end_us for _, end_us in found)) if found else None
