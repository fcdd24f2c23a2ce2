"""What a replay takes for granted of a log."""

from __future__ import annotations

import msgspec

TOLERANCE_MS = 100.0


class Assumptions(msgspec.Struct, frozen=True):
    """What a replay takes for granted of a log.

    Attributes:
        tolerance_ms: how far two times of the log may be apart that stand for the same moment:
            the delay with which traces are written, and the differences between clocks.
        complete: whether the log has every publish since the queues were empty, with its whole payload.
    """

    tolerance_ms: float = TOLERANCE_MS
    complete: bool = False


DEFAULT_ASSUMPTIONS = Assumptions()
