"""What a replay takes for granted of a log: how late its rows are, where it lacks rows, and what it holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from simulator.events import Event
from simulator.replay.rows.tables import Table, rows
from simulator.replay.rows.verdict_words import BAD, IS_LACKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    Ints = npt.NDArray[np.int64]

# How late the rows of a log may have been written.
#
# A row has the time at which the tracer wrote it. A tracer that falls behind writes rows late, in their order. So
# whatever a row shows did not happen before the latest death that a row before it shows: that is the broker's own
# clock.


class BrokerClock(NamedTuple):
    """What one file shows of the broker's clock: by the row of ``shown_us``, it had come to ``reached_us``.

    Both rise, in microseconds since 1970.
    """

    shown_us: Ints
    reached_us: Ints

    def late_us(self, times_us: Ints) -> Ints:
        """Return how late rows of these times may have been written, at most."""
        import numpy as np

        if not len(self.shown_us):
            return np.zeros(len(times_us), np.int64)
        before = np.searchsorted(self.shown_us, times_us) - 1
        late = times_us - self.reached_us[np.maximum(before, 0)]
        # Before the first death that the file shows, rows are taken to be as late as that one.
        return np.maximum(np.where(before < 0, self.shown_us[0] - self.reached_us[0], late), 0)


class LateStretch(msgspec.Struct, frozen=True):
    """A time of which some rows are late: some by ``least_us``, as the log proves, and none by more than ``most_us``.

    All are in microseconds, the moments since 1970.
    """

    from_us: int
    until_us: int
    least_us: int
    most_us: int


class Lateness(NamedTuple):
    """How late the rows of a log may have been written: not at all outside of some stretches."""

    stretches: tuple[LateStretch, ...] = ()
    clocks: Mapping[str, BrokerClock] = {}

    @property
    def most_us(self) -> int:
        """How late a row is at most."""
        return max((stretch.most_us for stretch in self.stretches), default=0)

    def of(self, files: pa.Array, times_us: Ints) -> Ints:
        """Return how late rows of these files and times may have been written, in microseconds."""
        import numpy as np

        late = np.zeros(len(times_us), np.int64)
        if not self.stretches:
            return late
        begins, ends = (np.array(each) for each in zip(*((s.from_us, s.until_us) for s in self.stretches), strict=True))
        stretch = np.searchsorted(begins, times_us, side="right") - 1
        inside = (stretch >= 0) & (times_us <= ends[stretch])
        names = files.dictionary_encode()
        numbers = names.indices.to_numpy()
        for number, name in enumerate(names.dictionary.to_pylist()):
            if name in self.clocks:
                rows = np.flatnonzero(inside & (numbers == number))
                late[rows] = self.clocks[name].late_us(times_us[rows])
        return late


NOT_LATE = Lateness()


# Finds where a log lacks rows: messages turn up without a publish, or without a delivery before a rejection.
#
# Where a file of a rotated log is missing, or the tracer stopped for a while, that shows soon after. Where single rows
# get lost all along, more deliveries prove that than are wrong. A client's own publish may be among the missing rows,
# and the rules do not predict the result of an unknown publish.


SEVERAL = 3
"""How many deliveries show a gap; fewer may belong to one message that is odd for another reason."""
SOON_US = 1_000_000
"""How soon after a gap messages show that they lack rows, however short the time between their own rows."""
_LACKING = """
    SELECT time_us FROM {replayed} LATERAL VIEW explode(unchecked) AS one
    WHERE one.what = 'rejection' OR (one.what = 'publish' AND first)
    ORDER BY time_us"""
_ANY_LACKING = """
    SELECT 1 FROM {replayed} LATERAL VIEW explode(unchecked) AS one
    WHERE one.what IN ('rejection', 'publish') LIMIT 1"""
_ANY_UNDELIVERED = """
    SELECT 1 FROM {replayed} LATERAL VIEW explode(unchecked) AS one
    WHERE one.what = 'rejection' AND NOT first LIMIT 1"""
_BAD_DELIVERY = f"event = '{Event.DELIVERED.value}' AND verdict IN {BAD}"
_ANY_BAD = f"SELECT 1 FROM {{replayed}} WHERE {_BAD_DELIVERY} LIMIT 1"
_WRONG = f"SELECT count(*) AS deliveries FROM {{replayed}} WHERE {_BAD_DELIVERY} AND misfit IS NULL"
_NO_DELIVERY = f"""
    SELECT count(*) AS deliveries
    FROM (SELECT vhost, explode(unchecked) AS one FROM {{replayed}}) lacking
    JOIN (SELECT DISTINCT vhost, queue FROM {{replayed}} WHERE event = '{Event.DELIVERED.value}') delivering
    ON lacking.vhost = delivering.vhost AND lacking.one.name = delivering.queue
    WHERE lacking.one.what = 'rejection'"""
_NO_PUBLISH = f"""
    SELECT count(*) AS deliveries
    FROM (
        SELECT r.vhost, r.queue, r.time_us FROM {{replayed}} r JOIN {{captured}} c
        ON r.file = c.file AND r.line = c.line AND r.time_us = c.time_us
        WHERE r.first AND r.event = '{Event.DELIVERED.value}' AND c.x_death IS NULL AND {IS_LACKING}
    ) lacking
    JOIN (
        SELECT d.vhost, d.queue, min(d.time_us) AS complete_us FROM {{replayed}} d JOIN {{replayed}} p
        ON d.vhost = p.vhost AND d.message = p.message
        WHERE d.event = '{Event.DELIVERED.value}' AND p.first AND p.event = '{Event.PUBLISHED.value}'
        GROUP BY d.vhost, d.queue
    ) complete
    ON lacking.vhost = complete.vhost AND lacking.queue = complete.queue
    WHERE lacking.time_us > complete.complete_us"""


class LostRows(NamedTuple):
    """Where the log lacks rows.

    Attributes:
        found_us: when deliveries showed that, in microseconds since 1970, in order.
        all_along: whether rows get lost all along.
        disordered: whether rows are out of order, and so those of one moment in any.
    """

    found_us: tuple[int, ...] = ()
    all_along: bool = False
    disordered: bool = False

    def between(self, since_us: Ints, until_us: Ints) -> npt.NDArray[np.bool_]:
        """Return where the log may lack rows between two moments.

        That shows in that time, or as long before or after it, and not before that: then rows get lost all along.
        """
        import numpy as np

        if self.all_along:
            return np.ones(len(since_us), np.bool_)
        found_us = np.array(self.found_us, np.int64)
        long_us = np.maximum(until_us - since_us, SOON_US)
        before, at, after = (
            np.searchsorted(found_us, moment, side="right")
            for moment in (since_us - 2 * long_us, since_us - long_us, until_us + long_us)
        )
        lacking: npt.NDArray[np.bool_] = (after - at >= SEVERAL) & (before == at)
        return lacking


NO_LOST_ROWS = LostRows()


def lost_rows(replayed: Table, captured: Table, *, disordered: bool = False) -> LostRows:
    """Return where a log lacks rows; nowhere if every delivery is as predicted. ``disordered`` goes along.

    Where more deliveries are wrong than show that rows are missing, missing rows are not the reason.
    It lacks some all along if there are more proofs of that than wrong deliveries: rejections without a delivery, in
    queues that the log has deliveries from, and first deliveries without a publish, from queues that had delivered
    messages with one before.
    """
    if not rows(_ANY_BAD, replayed=replayed):
        return NO_LOST_ROWS
    found_us = tuple(row["time_us"] for row in rows(_LACKING, replayed=replayed))
    (wrong,) = rows(_WRONG, replayed=replayed)
    if len(found_us) < max(SEVERAL, wrong["deliveries"]):
        return LostRows(disordered=disordered)
    (rejected,) = rows(_NO_DELIVERY, replayed=replayed)
    (unpublished,) = rows(_NO_PUBLISH, replayed=replayed, captured=captured)
    proofs = rejected["deliveries"] + unpublished["deliveries"]
    return LostRows(found_us, proofs >= max(SEVERAL, wrong["deliveries"]), disordered)


def is_gapless(replayed: Table, captured: Table) -> bool:
    """Return whether nothing proves that rows are missing after the first of the log.

    What proves it is a rejection of a message that the log had before, without its delivery, or several first
    deliveries without a publish, from queues that had delivered messages with one before.
    """
    if not rows(_ANY_LACKING, replayed=replayed):
        return True
    if rows(_ANY_UNDELIVERED, replayed=replayed):
        return False
    (unpublished,) = rows(_NO_PUBLISH, replayed=replayed, captured=captured)
    return bool(unpublished["deliveries"] < SEVERAL)


# What a replay assumes of a log.


TOLERANCE_MS = 100.0


class Assumptions(msgspec.Struct, frozen=True):
    """What a replay assumes of a log.

    Attributes:
        tolerance_ms: how far two times of the log may be apart that stand for the same moment:
            the delay with which traces are written, and the differences between clocks.
        complete: whether the log has every publish since the queues were empty, with its whole payload.
        until_us: until when the trace went on, where something tells that besides its last row.
        lateness: how late rows may have been written, beyond the tolerance.
        lost_rows: where the log lacks rows.
        gapless: whether nothing proves that the log lacks rows after its first.
    """

    tolerance_ms: float = TOLERANCE_MS
    complete: bool = False
    until_us: int = 0
    lateness: Lateness = NOT_LATE
    lost_rows: LostRows = NO_LOST_ROWS
    gapless: bool = True

    @property
    def tolerance_us(self) -> int:
        """The tolerance in microseconds."""
        return round(self.tolerance_ms * 1_000)

    @property
    def slack_us(self) -> int:
        """How long before its time a row may have happened, anywhere in the log, in microseconds."""
        return self.tolerance_us + self.lateness.most_us

    def traced_until_us(self, last_row_us: int) -> int:
        """Return until when the log would certainly show what became of a message: at no time, if it lacks rows."""
        return max(last_row_us, self.until_us) - self.slack_us if self.gapless else 0


DEFAULT_ASSUMPTIONS = Assumptions()
