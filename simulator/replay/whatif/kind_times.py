"""The times of messages that are alike, in columns: their moments, and what their plays plan from these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from simulator.replay.whatif.alike_plays import Timed
from simulator.replay.whatif.timetable import Pair, Sum, Timetable, in_order

Places = Sequence[int]
"""The columns of times."""


class Held(NamedTuple):
    """From when until when a consumer held a delivery, and how long one may hold it."""

    at_us: int
    until_us: int
    may_us: int


class TimesOfKind(NamedTuple):
    """Where everything is that happens to messages of a kind.

    Attributes:
        timetable: how times follow from the moments, and what must be so beyond the order of the moments.
        before: the columns of all that was planned in the first play.
        ends: those of its beginning and end, and of those of the second play.
    """

    timetable: Timetable
    before: Places
    ends: tuple[int, int, int, int]


def times_of_kind(
    moments_us: Sequence[int], first: Timed, others: Sequence[Timed] = (), held: Iterable[Held] = ()
) -> TimesOfKind | None:
    """Return where everything is for messages whose moments have the same order; ``None`` if a moment is missing.

    Args:
        moments_us: those of one of them, one in each column; the last one is the end of the log.
        first, others: its plays on both sides; on the other one there are none if they give the same, or are to come.
        held: how long consumers held it, compared with how long they may.
    """
    found = _Times(moments_us)
    own = {time_us: place for place, time_us in reversed([*enumerate(moments_us)])}
    before = found.of(first, own)
    if before is None:
        return None
    ends = [before[first.play.first], before[first.play.last]] * 2
    for at_us, until_us, may_us in held:
        found.must_be_held_alike(own[at_us], own[until_us], may_us, is_us=until_us - at_us)
    if others:
        # What the second play is told are the moments, and when stays began and ended in the first one.
        stays = {place for _, some in first.play.stays for _, *ends_of in some for place in ends_of}
        told = {before[place]: first.times_us[place] for place in stays}
        found.must_be_in_order({own[time_us]: time_us for time_us in first.moments} | told)
        places = own | {time_us: column for column, time_us in told.items()}
        for each in others:
            after = found.of(each, places)
            if after is None:
                return None
            if each is others[0]:
                ends[2:] = after[each.play.first], after[each.play.last]
    return TimesOfKind(found.timetable(), before, (ends[0], ends[1], ends[2], ends[3]))


class _Times:
    """Puts the times of plays into columns behind those of the moments."""

    def __init__(self, moments_us: Sequence[int]) -> None:
        self._moments = len(moments_us)
        self._sums: dict[Sum, int] = {}
        self._order: dict[Pair, None] = {}

    def of(self, timed: Timed, places: Mapping[int, int]) -> Places | None:
        """Return the columns of the times of a play; ``None`` if ``places`` lacks a moment."""
        if any(time_us not in places for time_us in timed.moments):
            return None
        found = [*(places[time_us] for time_us in timed.moments), self._moments - 1]
        for start, since, until, more_us in timed.play.timetable.sums:
            made = Sum(found[start], found[since], found[until], more_us)
            found.append(self._sums.setdefault(made, self._moments + len(self._sums)))
        self._take(Pair(found[before], found[after], equal) for before, after, equal in timed.play.timetable.order)
        return found

    def must_be_in_order(self, times_us: Mapping[int, int]) -> None:
        """Take note that these times, by their columns, must have the order that they have."""
        self._take(in_order(times_us))

    def must_be_held_alike(self, at: int, until: int, may_us: int, *, is_us: int) -> None:
        """Take note that of two moments the second one must be before the end of that time, or behind it, as it is."""
        made = Sum(at, more_us=may_us)
        end = self._sums.setdefault(made, self._moments + len(self._sums))
        pair = Pair(until, end, False) if is_us < may_us else Pair(end, until, is_us == may_us)
        self._order[pair] = None

    def timetable(self) -> Timetable:
        """Return how times follow from moments, and what must be so."""
        return Timetable([*self._sums], [*self._order])

    def _take(self, order: Iterable[Pair]) -> None:
        """Take note of what must be so; the order of moments is known."""
        for pair in order:
            if max(pair.before, pair.after) >= self._moments:
                self._order[pair] = None
