"""Tells where a log lacks rows: messages turn up of which it has no publish, or no delivery before a rejection.

Where a file of a rotated log is missing, or the tracer stopped for a while, that shows soon after. A client's own
publish may be among the missing rows, and the rules do not predict what comes of a publish that nobody knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from simulator.events import Event
from simulator.replay.tables import Table, rows
from simulator.replay.verdicts import BAD

if TYPE_CHECKING:  # `dlx replay --help` needs no extra
    import numpy as np
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

SEVERAL = 3
"""How many deliveries show a gap; fewer may belong to one message that is odd for another reason."""
SOON_US = 1_000_000
"""How soon after a gap messages show that they lack rows, however short the time between their own rows."""
_LACKING = """
    SELECT time_us FROM {replayed} LATERAL VIEW explode(unchecked) AS one
    WHERE one.what = 'rejection' OR (one.what = 'publish' AND first)
    ORDER BY time_us"""
_ANY_BAD = f"SELECT 1 FROM {{replayed}} WHERE event = '{Event.DELIVERED.value}' AND verdict IN {BAD} LIMIT 1"


class LostRows(NamedTuple):
    """When deliveries showed that the log lacks rows before them, in microseconds since 1970, in order."""

    found_us: tuple[int, ...] = ()

    def between(self, since_us: Ints, until_us: Ints) -> npt.NDArray[np.bool_]:
        """Tell where the log may lack rows between two moments.

        That shows in that time, or as long before or after it, and not before that: then rows get lost all along.
        """
        import numpy as np

        found_us = np.array(self.found_us, np.int64)
        long_us = np.maximum(until_us - since_us, SOON_US)
        before, at, after = (
            np.searchsorted(found_us, moment, side="right")
            for moment in (since_us - 2 * long_us, since_us - long_us, until_us + long_us)
        )
        lacking: npt.NDArray[np.bool_] = (after - at >= SEVERAL) & (before == at)
        return lacking


NO_LOST_ROWS = LostRows()


def lost_rows(replayed: Table) -> LostRows:
    """Return where a log lacks rows; nowhere if every delivery is as predicted."""
    if not rows(_ANY_BAD, replayed=replayed):
        return NO_LOST_ROWS
    return LostRows(tuple(row["time_us"] for row in rows(_LACKING, replayed=replayed)))
