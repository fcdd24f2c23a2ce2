"""Holds what paths ask of the times against the times of the messages, for many rows at once.

Every state of a message has a *stay* in its queue: it came in between two moments, and
was seen at a third. A path carries the bounds from its source over each death to the
delivery: a death by expiry is a TTL later than the entry, a death that ``x-death`` has
the time of lies in that second, and all deaths lie before the delivery. Bounds that cross
by more than the tolerance refute the path.

Rows are late, never early: the broker writes a trace after the fact. By how much, where that is more than the
tolerance, ``Lateness`` says for each row: what a row shows happened between then and its time. All is arithmetic on
columns; row by row only where a path is refuted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.replay.checks.lengths import SECOND_US, Arrivals, LengthLimit, arrived
from simulator.replay.checks.path_times import ANY_NUMBER, NO_TIME, NO_TTL, HopTimes, PathTimes
from simulator.replay.rows.assumptions import Assumptions
from simulator.replay.rows.columns import Ints

Flags = npt.NDArray[np.bool_]
NEVER_US = -(2**60)
FOREVER_US = 2**60
"""A bound that nothing is known of."""
_MS_US = 1_000
_TTL_MS_MAX = 2**52
"""A longer TTL never ends in a log, and its microseconds would not fit into a column."""
NO_LIMIT = -1
HOPS_MARKED_MAX = 62
"""Hops of one path of which each can be marked as unchecked; those behind share the last mark."""

NO_FAULT, TOO_EARLY, WRONG_TIME, TOO_LATE, TOO_FEW, NOT_NEW, NOT_AGAIN, OTHER_TIME, DIED_EARLY, UNDELAYED = range(10)
"""What refutes a path: a death before its TTL, one at a time that does not fit, a delivery after the TTL, a death
by a length limit that the queue was not over, a delivery that is said to be the first and cannot be, a redelivery
without the count that its queue adds, a death at another time than an earlier delivery shows, one that is before
its TTL by ``x-death`` alone, and not by the times of the rows, or what came into a queue before its delay was over."""
FLAG_UNKNOWN = -1
"""The flag ``redelivered`` of a row that has none; otherwise 0 or 1."""


class Stays(NamedTuple):
    """When messages came into their queues, between ``from_us`` and ``by_us``, and when each was seen there first.

    ``firsts`` is how many deliveries have shown the same so far, and were not redeliveries.
    """

    from_us: Ints
    by_us: Ints
    seen_us: Ints
    firsts: Ints

    def at(self, rows: Ints) -> Stays:
        """Return the stays of these rows."""
        return Stays(*(each[rows] for each in self))

    def put(self, rows: Ints, stays: Stays) -> None:
        """Set the stays of these rows."""
        for own, given in zip(self, stays, strict=True):
            own[rows] = given


class Facts(NamedTuple):
    """What rows tell of times: when they were written, the expirations (``NO_TTL`` without), the times of x-death.

    ``late_us`` is how late they may have been written. Also the flag ``redelivered``, which belongs to a delivery and
    not to the state that it shows.
    """

    time_us: Ints
    late_us: Ints
    expiration_us: Ints
    death_start: Ints
    death_count: Ints
    death_times: Ints
    redelivered: npt.NDArray[np.int8]

    def at(self, rows: Ints) -> Facts:
        """Return the facts of these rows."""
        return self._replace(
            time_us=self.time_us[rows],
            late_us=self.late_us[rows],
            expiration_us=self.expiration_us[rows],
            death_start=self.death_start[rows],
            death_count=self.death_count[rows],
            redelivered=self.redelivered[rows],
        )

    def kept(self, row: int) -> tuple[int, int, tuple[int, ...]]:
        """Return what later rows ask of one row: how late it may be, its expiration, and the times of its x-death."""
        start, count = int(self.death_start[row]), int(self.death_count[row])
        times = tuple(self.death_times[start : start + count].tolist())
        return int(self.late_us[row]), int(self.expiration_us[row]), times

    @classmethod
    def of_kept(cls, late_us: int, expiration_us: int, death_times: tuple[int, ...]) -> Facts:
        """Return the facts of one row from what was ``kept`` of it."""
        one = np.zeros(1, np.int64)
        times = np.array(death_times, np.int64)
        late, expiration = np.array([late_us]), np.array([expiration_us])
        return cls(one, late, expiration, one, np.array([len(times)]), times, one.astype(np.int8))

    def died_us(self, index: Ints) -> Ints:
        """Return the times of deaths by their index in ``x-death``, ``NEVER_US`` where there is none."""
        known = (index != NO_TIME) & (index < self.death_count)
        if not known.any():
            return np.full(len(index), NEVER_US)
        seconds = self.death_times[np.where(known, self.death_start + index, 0)]
        return np.where(known & (seconds >= 0), seconds * SECOND_US, NEVER_US)


class HopColumns(NamedTuple):
    """The deaths at one place of their paths: the rows they belong to, and their bounds.

    ``wait_us`` passed since the death before: the TTL before a death by expiry, and the delay of an exchange.
    """

    rows: Ints
    place: int
    earliest_us: Ints
    latest_us: Ints
    wait_us: Ints


class Refutation(NamedTuple):
    """What refutes a path: at which of its hops, or behind the last one for the delivery, and two numbers.

    The one that is asked for, and the one that was found: two moments, for a TTL two durations, in
    microseconds, and for a limit two numbers of messages or bytes. ``since_us`` is when the row was written from which
    the path starts.
    """

    kind: int
    place: int
    asked: int
    found: int
    since_us: int


class HopMarks(NamedTuple):
    """The first five of ``Marks``, of one row."""

    untested: int
    hidden: int
    late: int
    unfilled: int
    flag: int


class Marks(NamedTuple):
    """What the times say of paths, by row.

    ``untested`` and ``late`` have a bit for each death by expiry whose TTL is not above the
    tolerance, and for each that came later than its TTL; ``hidden`` for each that fits its TTL only if the rows are
    late, or would if they were; ``unfilled`` for each death by a
    limit that the messages of the log do not fill. ``late`` has one more for the delivery,
    behind those of the deaths. ``flag`` is 1 where the flag of the delivery may be wrong. The others are those of
    ``Refutation``.
    """

    untested: Ints
    hidden: Ints
    late: Ints
    unfilled: Ints
    flag: Ints
    fault: Ints
    fault_hop: Ints
    asked: Ints
    found: Ints
    since: Ints

    @classmethod
    def none(cls, rows: int) -> Marks:
        """Return marks that say nothing of that many rows."""
        return cls(*(np.zeros(rows, np.int64) for _ in cls._fields))

    def unchecked(self) -> Ints:
        """Return the rows of whose paths something is unchecked."""
        return np.flatnonzero((self.untested | self.hidden | self.late | self.unfilled | self.flag) != 0)

    def unchecked_at(self, row: int) -> HopMarks:
        """Return what is unchecked of the path of one row."""
        return HopMarks(*(int(mark[row]) for mark in self[: len(HopMarks._fields)]))

    def fault_at(self, row: int) -> Refutation:
        """Return what refutes the path of one row."""
        return Refutation(*(int(mark[row]) for mark in self[len(HopMarks._fields) :]))

    def put(self, rows: Ints, marks: Marks) -> None:
        """Set the marks of these rows."""
        for own, given in zip(self, marks, strict=True):
            own[rows] = given


class Judged(NamedTuple):
    """What came of rows: their stays, their deaths, and what the times say of their paths."""

    stays: Stays
    hops: list[HopColumns]
    marks: Marks


class _TimeColumns(NamedTuple):
    """All ``PathTimes`` that have a number, as columns."""

    source: Ints
    earlier: Ints
    judged: Flags
    refuted: Flags
    held: Flags
    not_new: Flags
    not_again: Flags
    copies: Ints
    has_flag: Flags
    comes_flagged: Flags
    kept: Ints
    first_kept: Ints
    kept_here: Ints
    kept_there: Ints
    last_ttl_us: Ints
    last_own: Flags
    last_overtakes: Flags
    delay_us: Ints
    hops: Ints
    first_hop: Ints
    hop_expired: Flags
    hop_ttl_us: Ints
    hop_own: Flags
    hop_time: Ints
    hop_held: Flags
    hop_limit: Ints
    hop_delay_us: Ints
    limits: tuple[LengthLimit, ...]


class TimeCheck:
    """Judges rows by numbered ``PathTimes``.

    Args:
        assumptions: how far two times may be apart that are the same, and whether the log is complete.
        arrivals: the messages that can have come into queues with a length limit.
    """

    def __init__(self, assumptions: Assumptions, arrivals: Arrivals) -> None:
        self._terms = _Terms(assumptions.tolerance_us, assumptions.complete, arrivals)
        self._numbers: dict[PathTimes, int] = {}
        self._paths: list[PathTimes] = []
        self._known: _TimeColumns | None = None

    def number(self, times: PathTimes) -> int:
        """Return the number of these ``PathTimes``."""
        number = self._numbers.get(times)
        if number is None:
            number = self._numbers[times] = len(self._paths)
            self._paths.append(times)
            self._known = None
        return number

    @property
    def size(self) -> int:
        """How many have a number."""
        return len(self._paths)

    def hop_counts(self, numbers: Ints) -> Ints:
        """Return how many deaths are on the paths with these numbers."""
        return self._columns.hops[numbers]

    def refuted(self, numbers: Ints) -> Flags:
        """Return whether the paths with these numbers are the last ones, and refuted like the others."""
        return self._columns.refuted[numbers]

    def sources(self, numbers: Ints) -> tuple[Ints, Ints]:
        """Return how many rows back the sources are, and the latest rows that showed the same; 0: there is none."""
        return self._columns.source[numbers], self._columns.earlier[numbers]

    @property
    def _columns(self) -> _TimeColumns:
        if self._known is None:
            self._known = _columns(self._paths)
        return self._known

    def judge(self, rows: Ints, numbers: Ints, facts: Facts, source: Stays, of_source: Facts, earlier: Stays) -> Judged:
        """Judge rows that do not depend on each other.

        ``facts`` are those of the rows; ``source`` and ``of_source`` belong to the rows that
        their paths start from, ``earlier`` to those that showed the same before; where there is
        none, they are ignored.
        """
        used, numbers = np.unique(numbers, return_inverse=True)
        columns = _columns([self._paths[number] for number in used.tolist()])
        first = columns.source[numbers] == 0
        known = columns.judged[numbers]
        was = facts.time_us - facts.late_us
        start = Stays(
            np.where(first, np.where(known, was, NEVER_US), source.from_us),
            np.where(first, np.where(columns.held[numbers], FOREVER_US, facts.time_us), source.by_us),
            np.where(first, np.where(known, was, NEVER_US), source.seen_us),
            np.where(columns.earlier[numbers] > 0, earlier.firsts, 0) + (facts.redelivered == 0),
        )
        work = _Work(columns, self._terms, rows, numbers, facts, start)
        work.wait(columns.delay_us[numbers], 0)
        for place in range(int(columns.hops[numbers].max(initial=0))):
            work.hop(place, of_source)
        work.delivery()
        work.flag()
        work.kept_deaths(of_source)
        stays = _joined(work.stays(), earlier, columns.earlier[numbers] > 0)
        return Judged(stays, work.hops, work.marks)


class _Terms(NamedTuple):
    """What all rows are judged by."""

    tolerance_us: int
    complete: bool
    arrivals: Arrivals


class _Work:
    """Carries the bounds of rows along their paths."""

    def __init__(
        self, columns: _TimeColumns, terms: _Terms, rows: Ints, numbers: Ints, facts: Facts, start: Stays
    ) -> None:
        self._columns = columns
        self._terms = terms
        self._tolerance_us = terms.tolerance_us
        self._rows = rows
        self._numbers = numbers
        self._facts = facts
        self._judged = columns.judged[numbers]
        self._came, self._until, self._seen, self._firsts = start
        self._since = start.seen_us
        self._delay = np.zeros(len(rows), np.int64)
        self.hops: list[HopColumns] = []
        self.marks = Marks.none(len(rows))

    def wait(self, delay_us: Ints, place: int) -> None:
        """Take the paths over the delays of an exchange before the hop at that place."""
        self._delay = delay_us
        if not delay_us.any():
            return
        found = self._facts.time_us - self._came + self._tolerance_us
        self._came = self._came + delay_us
        self._until = np.where(self._until == FOREVER_US, FOREVER_US, self._until + delay_us)
        self._blame((delay_us > 0) & (found < delay_us), UNDELAYED, place, delay_us, found)

    def hop(self, place: int, source: Facts) -> None:
        """Take the paths that are long enough over their next death."""
        columns, tolerance_us = self._columns, self._tolerance_us
        has = columns.hops[self._numbers] > place
        hop = np.where(has, columns.first_hop[self._numbers] + place, 0)
        expired = columns.hop_expired[hop]
        ttl = _smaller(columns.hop_ttl_us[hop], columns.hop_own[hop], source.expiration_us)
        wait = np.where(expired & (ttl != NO_TTL), ttl, 0)
        possible = np.maximum(self._came, self._seen) if place == 0 else self._came
        earliest, latest = np.maximum(possible, self._came + wait), self._facts.time_us
        rows_fit = earliest <= latest + tolerance_us
        died = self._facts.died_us(columns.hop_time[hop])
        known = died != NEVER_US
        if known.any():
            earliest = np.maximum(earliest, died)
            latest = np.where(known, np.minimum(latest, died + SECOND_US - 1), latest)
            late = known & (died > self._until + wait + tolerance_us)
            self._mark(self.marks.late, expired & late, place)
        self._mark(self.marks.untested, expired & (wait <= tolerance_us), place)
        crossed = has & (earliest > latest + tolerance_us)
        late_us = source.late_us
        if late_us.any():
            hidden = (wait > tolerance_us) & (
                (wait <= late_us + tolerance_us) | (earliest + late_us > latest + tolerance_us)
            )
            self._mark(self.marks.hidden, has & expired & hidden & (late_us > 0) & ~crossed, place)
        if crossed.any():
            too_early = crossed & expired & (possible <= latest + tolerance_us)
            most = latest - self._came + tolerance_us
            self._blame(too_early & rows_fit, DIED_EARLY, place, wait, most)
            self._blame(too_early & ~rows_fit, TOO_EARLY, place, wait, most)
            self._blame(crossed & ~too_early, WRONG_TIME, place, earliest, latest)
        limits = columns.hop_limit[hop]
        for limit in np.unique(limits).tolist() if columns.limits else ():
            if limit != NO_LIMIT:
                self._length(columns.limits[limit], np.flatnonzero(limits == limit), place, latest)
        rows = np.flatnonzero(has)
        between = wait + self._delay if place else wait
        self.hops.append(HopColumns(self._rows[rows], place, earliest[rows], latest[rows], between[rows]))
        self._came = np.where(has, earliest, self._came)
        self._until = np.where(has, np.where(columns.hop_held[hop], FOREVER_US, latest), self._until)
        self.wait(np.where(has, columns.hop_delay_us[hop], 0), place + 1)

    def _length(self, limit: LengthLimit, rows: Ints, place: int, latest: Ints) -> None:
        """Hold deaths by a length limit against the messages that can have been in the queue."""
        tolerance_us = self._tolerance_us
        came, until = self._came[rows] - tolerance_us, latest[rows] + tolerance_us
        there = arrived(self._terms.arrivals, limit, came, until)
        few, unknown = (np.zeros(len(self._rows), dtype=bool) for _ in range(2))
        few[rows], unknown[rows] = ~there.fill(limit), there.endless()
        unsized = limit.size_bytes is not None and not limit.payloads
        if not self._terms.complete or unsized:
            unknown |= few
        self._mark(self.marks.unfilled, unknown, place)
        by_length = limit.length is not None
        found = np.zeros(len(self._rows), np.int64)
        found[rows] = np.where(few[rows], there.messages if by_length else there.size_bytes, 0)
        asked = np.full(len(found), limit.length if by_length else limit.size_bytes)
        self._blame(few & ~unknown, TOO_FEW, place, asked, found)

    def delivery(self) -> None:
        """Hold the delivery itself against the TTL of its queue."""
        columns, time_us = self._columns, self._facts.time_us - self._facts.late_us
        own = columns.last_own[self._numbers]
        ttl = _smaller(columns.last_ttl_us[self._numbers], own, self._facts.expiration_us)
        known, due = ttl != NO_TTL, ttl + self._tolerance_us
        late = known & (time_us > self._until + due)
        excused = late & columns.last_overtakes[self._numbers]
        excused |= known & (self._until == FOREVER_US) & (time_us > self._came + due)
        excused |= known & ~late & (self._facts.time_us > self._until + due)
        place = columns.hops[self._numbers]
        if excused.any():
            self._mark(self.marks.late, excused, place)
        if late.any():
            self._blame(late & ~excused, TOO_LATE, place, ttl, time_us - self._until - self._tolerance_us)

    def flag(self) -> None:
        """Hold the flag of the delivery against whether it can be the first one, or another one."""
        columns, numbers, flags = self._columns, self._numbers, self._facts.redelivered
        place, copies = columns.hops[numbers], columns.copies[numbers]
        too_many = columns.not_new[numbers] | (self._firsts > copies)
        self._blame((flags == 0) & too_many, NOT_NEW, place, copies, self._firsts)
        self._blame((flags == 1) & columns.not_again[numbers], NOT_AGAIN, place, copies, self._firsts)
        unseen = (flags == 1) & (columns.earlier[numbers] == 0) & ~columns.not_new[numbers]
        unseen &= ~columns.comes_flagged[numbers]
        repeated = (flags == 0) & (self._firsts > 1) & (copies == ANY_NUMBER)
        self._mark(self.marks.flag, columns.has_flag[numbers] & (repeated | unseen), 0)

    def kept_deaths(self, source: Facts) -> None:
        """Hold the deaths that the source shows, too, against the times that they have there."""
        columns, numbers = self._columns, self._numbers
        for nth in range(int(columns.kept[numbers].max(initial=0))):
            at = np.where(columns.kept[numbers] > nth, columns.first_kept[numbers] + nth, 0)
            place = columns.kept_here[at]
            here, there = self._facts.died_us(place), source.died_us(columns.kept_there[at])
            other = (here != there) & (here != NEVER_US) & (there != NEVER_US)
            self._blame(other, OTHER_TIME, place, there, here)

    def stays(self) -> Stays:
        """Return when the messages came into the queues in which the rows show them."""
        columns, time_us = self._columns, self._facts.time_us
        sure = self._judged & ~columns.refuted[self._numbers]
        until = np.where(columns.held[self._numbers], self._until, np.minimum(self._until, time_us))
        seen_us = time_us - self._facts.late_us
        return Stays(np.where(sure, self._came, NEVER_US), np.where(sure, until, time_us), seen_us, self._firsts)

    def _mark(self, marks: Ints, rows: Flags, place: int | Ints) -> None:
        marks |= (rows & self._judged).astype(np.int64) << np.minimum(place, HOPS_MARKED_MAX)

    def _blame(self, rows: Flags, fault: int, place: int | Ints, asked: Ints, found: Ints) -> None:
        """Note what refutes these rows, unless something else has refuted them."""
        rows = rows & self._judged & (self.marks.fault == NO_FAULT)
        values = (fault, place, asked, found, self._since)
        for mark, value in zip(self.marks[len(HopMarks._fields) :], values, strict=True):
            np.copyto(mark, value, where=rows)


def _smaller(ttl_us: Ints, own: Flags, expiration_us: Ints) -> Ints:
    """Return the TTL that counts: that of the queue, or the expiration of the message where it is smaller."""
    own = own & (expiration_us != NO_TTL)
    if not own.any():
        return ttl_us
    smaller = np.where(ttl_us == NO_TTL, expiration_us, np.minimum(ttl_us, expiration_us))
    return np.where(own, smaller, ttl_us)


def _joined(stays: Stays, earlier: Stays, both: Flags) -> Stays:
    """Return stays that hold for the rows and for those that showed the same before."""
    if not both.any():
        return stays
    return Stays(
        np.where(both, np.minimum(stays.from_us, earlier.from_us), stays.from_us),
        np.where(both, np.maximum(stays.by_us, earlier.by_us), stays.by_us),
        np.where(both, np.minimum(stays.seen_us, earlier.seen_us), stays.seen_us),
        stays.firsts,
    )


def _columns(known: list[PathTimes]) -> _TimeColumns:
    lasts = [times.last for times in known]
    kept = np.array([len(times.kept) for times in known], np.int64)
    places = np.array([(NO_TIME, NO_TIME), *(pair for times in known for pair in times.kept)], np.int64)
    hops = [HopTimes(), *(hop for times in known for hop in times.hops)]
    counts = np.array([len(times.hops) for times in known], np.int64)
    limits: dict[LengthLimit, int] = {}
    for hop in hops:
        if hop.limit is not None:
            limits.setdefault(hop.limit, len(limits))
    return _TimeColumns(
        source=np.array([times.source for times in known], np.int64),
        earlier=np.array([times.earlier for times in known], np.int64),
        judged=np.array([times.judged for times in known], bool),
        refuted=np.array([times.refuted for times in known], bool),
        held=np.array([times.held for times in known], bool),
        not_new=np.array([times.not_new for times in known], bool),
        not_again=np.array([times.not_again for times in known], bool),
        copies=np.array([times.copies for times in known], np.int64),
        has_flag=np.array([times.has_flag for times in known], bool),
        comes_flagged=np.array([times.comes_flagged for times in known], bool),
        kept=kept,
        first_kept=np.cumsum(kept) - kept + 1,
        kept_here=places[:, 0],
        kept_there=places[:, 1],
        last_ttl_us=_ttl_us(lasts),
        last_own=np.array([last.own_ttl for last in lasts], bool),
        last_overtakes=np.array([last.overtakes for last in lasts], bool),
        delay_us=np.array([times.delay_ms for times in known], np.int64) * _MS_US,
        hops=counts,
        first_hop=np.cumsum(counts) - counts + 1,
        hop_expired=np.array([hop.expired for hop in hops], bool),
        hop_ttl_us=_ttl_us(hops),
        hop_own=np.array([hop.own_ttl for hop in hops], bool),
        hop_time=np.array([hop.time_index for hop in hops], np.int64),
        hop_held=np.array([hop.held for hop in hops], bool),
        hop_limit=np.array([NO_LIMIT if hop.limit is None else limits[hop.limit] for hop in hops], np.int64),
        hop_delay_us=np.array([hop.delay_ms for hop in hops], np.int64) * _MS_US,
        limits=tuple(limits),
    )


def _ttl_us(hops: list[HopTimes]) -> Ints:
    return np.array(
        [NO_TTL if hop.ttl_ms == NO_TTL else min(hop.ttl_ms, _TTL_MS_MAX) * _MS_US for hop in hops], np.int64
    )


# Runs the clock over the rows of one batch: a row after those of its message that it depends on.
#
# Messages do not depend on each other; so the first rows of all messages are judged at once, then the second ones,
# and so on.


class Bounds(NamedTuple):
    """The bounds of all deaths of a batch, row by row: those of row *n* are from ``start[n]`` to ``start[n + 1]``."""

    start: Ints
    earliest_us: Ints
    latest_us: Ints


class RowTimes:
    """What the times say of the rows of one batch.

    Attributes:
        facts: what the rows tell of times.
        numbers: the number of each row's ``PathTimes``.
        stays: the stays in which the rows show their messages.
        marks: what the times say of their paths.
    """

    def __init__(self, clock: TimeCheck, facts: Facts) -> None:
        rows = len(facts.time_us)
        self._clock = clock
        self._hops: list[HopColumns] = []
        self.facts = facts
        self.numbers = np.zeros(rows, np.int64)
        self.stays = Stays(*(np.zeros(rows, np.int64) for _ in Stays._fields))
        self.marks = Marks.none(rows)

    def judge(self, rows: Ints, numbers: Ints, place: Ints) -> None:
        """Judge the rows of whole messages; ``place`` says which row of its message each is."""
        self.numbers[rows] = numbers
        order = np.argsort(place.astype(np.min_scalar_type(place.max(initial=0))), kind="stable")  # few bits: by radix
        start = 0
        for end in np.cumsum(np.bincount(place)).tolist():
            now = rows[order[start:end]]
            source, earlier = self._clock.sources(self.numbers[now])
            source, earlier = now - source, now - earlier
            judged = self._clock.judge(
                now,
                self.numbers[now],
                self.facts.at(now),
                self.stays.at(source),
                self.facts.at(source),
                self.stays.at(earlier),
            )
            self.put(now, judged)
            start = end

    def put(self, rows: Ints, judged: Judged) -> None:
        """Take what came of rows."""
        self.stays.put(rows, judged.stays)
        self.marks.put(rows, judged.marks)
        self._hops += judged.hops

    def refuted(self, *, finally_: bool) -> Ints:
        """Return the rows whose paths the times refute: those that have no other path, or those that may have one."""
        final = self._clock.refuted(self.numbers)
        return np.flatnonzero((self.marks.fault != NO_FAULT) & (final == finally_))

    def sources(self) -> Ints:
        """Return how many rows before each its path starts; 0: none is known."""
        return self._clock.sources(self.numbers)[0]

    def bounds(self) -> Bounds:
        """Return between which moments the deaths lie; ``NEVER_US`` where nothing is known."""
        counts = self._clock.hop_counts(self.numbers)
        start = np.concatenate(([0], np.cumsum(counts)))
        earliest, latest = np.full(start[-1], NEVER_US), np.full(start[-1], NEVER_US)
        wait = np.zeros(start[-1], np.int64)
        for hop in self._hops:
            current = hop.place < counts[hop.rows]  # paths that were refuted may have been longer
            at = start[hop.rows[current]] + hop.place
            earliest[at], latest[at], wait[at] = (each[current] for each in hop[2:])
        for place in range(int(counts.max(initial=0)) - 2, -1, -1):
            at = start[np.flatnonzero(counts > place + 1)] + place
            latest[at] = np.minimum(latest[at], latest[at + 1] - wait[at + 1])
        return Bounds(start, np.minimum(earliest, latest), latest)
