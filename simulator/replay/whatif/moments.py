"""The moments of messages in columns: of those with as many rows and hops, what has the same order is alike.

What a log tells of a message depends on the order of its moments: when its rows were written, and between which
moments it died. So two messages alike in all else have the same story when these have the same order; what happens to
one of them at a moment happens to the other at the moment that has the same place.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.replay.alike import Ints
from simulator.replay.assumptions import TOLERANCE_MS
from simulator.replay.whatif.row_numbers import NumberedRows

MOMENTS_MAX = 120
"""A message with more of them is looked at by itself: their places are bytes."""


class Moments(NamedTuple):
    """Those of some messages, in the order of their numbers.

    Attributes:
        times_us: a row for each message, and in it its moments.
        order: a row of bytes for each message: it tells the order of its moments.
    """

    times_us: Ints
    order: npt.NDArray[np.uint8]


class MomentsOf:
    """Tells the moments of the messages of a batch.

    Args:
        rows: the batch.
        time_us: when each row was written.
        places: which place each row has in the log.
        end_us: when the log ends.
    """

    def __init__(self, rows: NumberedRows, time_us: Ints, places: Ints, end_us: int) -> None:
        self._rows, self._time_us, self._places, self._end_us = rows, time_us, places, end_us
        self._first_hops = np.cumsum(rows.hops) - rows.hops

    def of(self, messages: Ints, hops: int) -> Moments:
        """Return those of messages that have as many rows, and so many hops; the last one is the end of the log."""
        rows = self._rows.starts[messages][:, None] + np.arange(self._rows.lengths[messages[0]])
        written_us, delivered = self._time_us[rows], self._rows.delivered[rows]
        own = self._first_hops[rows[:, 0]][:, None] + np.arange(hops)
        bounds_us = np.concatenate((self._rows.earliest_us[own], self._rows.latest_us[own]), axis=1)
        parts = [written_us, bounds_us]
        if hops:
            parts.append(written_us - int(TOLERANCE_MS * 1_000) * delivered)
        times_us = np.concatenate((*parts, np.full((len(messages), 1), self._end_us)), axis=1)
        unknown = (bounds_us < 0).astype(np.uint8)
        order = np.concatenate((_order(times_us), unknown, _order(self._places[rows])), axis=1)
        return Moments(times_us, order)

    @staticmethod
    def count(rows: int, hops: int) -> int:
        """Return about how many moments there are."""
        return 4 * rows + 2 * hops + 1


def _order(values: Ints) -> npt.NDArray[np.uint8]:
    """Return the place of each value among those of its row; equal ones have the same."""
    by_value = np.argsort(values, axis=1, kind="stable")
    in_order = np.take_along_axis(values, by_value, axis=1)
    places = np.zeros(values.shape, np.uint8)
    places[:, 1:] = np.cumsum(in_order[:, 1:] != in_order[:, :-1], axis=1)
    found = np.empty(values.shape, np.uint8)
    np.put_along_axis(found, by_value, places, axis=1)
    return found
