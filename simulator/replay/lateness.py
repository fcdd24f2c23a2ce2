"""How late the rows of a log may have been written.

A row has the time at which the tracer wrote it. A tracer that falls behind writes rows late, in their order. So
whatever a row shows did not happen before the latest death that a row before it shows: that is the broker's own clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:  # `dlx replay --help` needs no extra
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    Ints = npt.NDArray[np.int64]


class BrokerClock(NamedTuple):
    """What one file tells of the broker's clock: by the row of ``shown_us``, it had come to ``reached_us``.

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
