"""What a replay takes for granted of a log."""

from __future__ import annotations

import msgspec

from simulator.replay.lateness import NOT_LATE, Lateness
from simulator.replay.lost_rows import NO_LOST_ROWS, LostRows

TOLERANCE_MS = 100.0


class Assumptions(msgspec.Struct, frozen=True):
    """What a replay takes for granted of a log.

    Attributes:
        tolerance_ms: how far two times of the log may be apart that stand for the same moment:
            the delay with which traces are written, and the differences between clocks.
        complete: whether the log has every publish since the queues were empty, with its whole payload.
        until_us: until when the trace went on, where something tells that besides its last row.
        lateness: how late rows may have been written, beyond the tolerance.
        lost_rows: where the log lacks rows.
    """

    tolerance_ms: float = TOLERANCE_MS
    complete: bool = False
    until_us: int = 0
    lateness: Lateness = NOT_LATE
    lost_rows: LostRows = NO_LOST_ROWS

    @property
    def tolerance_us(self) -> int:
        """The tolerance in microseconds."""
        return round(self.tolerance_ms * 1_000)

    @property
    def slack_us(self) -> int:
        """How long before its time a row may have happened, anywhere in the log, in microseconds."""
        return self.tolerance_us + self.lateness.most_us

    def traced_until_us(self, last_row_us: int) -> int:
        """Return until when the log would certainly show what became of a message."""
        return max(last_row_us, self.until_us) - self.slack_us


DEFAULT_ASSUMPTIONS = Assumptions()
