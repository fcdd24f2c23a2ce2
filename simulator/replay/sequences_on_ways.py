"""What is found out about a message serves others whose rows are the same but for the names on their ways.

Sixty ladders that differ in names alone need one example of each sequence of rows, not sixty. Who asks for no details
may say which sequences these are; what names a queue in words, or rests on what came into it, holds only where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from dlx.message_flow import Hop
from simulator.replay.path_times import PathTimes
from simulator.replay.signatures import Signatures
from simulator.replay.verdicts import Verdict

Found = npt.NDArray[np.int32]
"""What is found out about the rows of a message: the numbers of their verdicts; below them of what they ask of the
times, of their dead ends, and of the deliveries whose rules they may show."""


class RowsOnWay(NamedTuple):
    """The rows of a message.

    Attributes:
        rows: equal for messages whose rows are the same but for the names on their ways.
        names: these, in the same order.
    """

    rows: Hashable
    names: tuple[str, ...]


class OnWays(Protocol):
    """Tells which sequences of rows are the same but for names."""

    def sequence(self, numbers: Sequence[int], templates: Sequence[int]) -> RowsOnWay | None:
        """Return the rows with these signatures and templates; ``None`` if more than their way decides.

        No exchange of their virtual host compares their headers, keeps messages, or routes as nobody knows.
        """


OnWaysOf = Callable[[Signatures], OnWays]
"""Returns what tells it by the numbers of these signatures."""


class SequencesOnWays:
    """Remembers what was found out, and gives it other names.

    Args:
        verdict: returns the verdict with a number, ``None`` for that of none.
        number: returns the number of a verdict.
        path_times: returns what a row asks of the times, by number.
    """

    def __init__(
        self,
        verdict: Callable[[int], Verdict | None],
        number: Callable[[Verdict | None], int],
        path_times: Callable[[int], PathTimes],
    ) -> None:
        self._verdict, self._number, self._path_times = verdict, number, path_times
        self._known: dict[Hashable, tuple[Found, tuple[str, ...]]] = {}
        self._renamed: dict[tuple[int, tuple[str, ...], tuple[str, ...]], int] = {}

    def add(self, sequence: RowsOnWay, found: Found) -> None:
        """Take note of what was found out about a sequence, if that holds elsewhere, too."""
        verdicts, asked, dead_ends, deliveries = found.tolist()
        if any(dead_ends) or any(deliveries):
            return
        if all(self._holds_elsewhere(*both, sequence.names) for both in zip(verdicts, asked, strict=True)):
            self._known[sequence.rows] = found, sequence.names

    def of(self, sequence: RowsOnWay) -> Found | None:
        """Return what is known of a sequence, under its own names; ``None`` if nothing is."""
        known = self._known.get(sequence.rows)
        if known is None:
            return None
        found, names = known
        if names == sequence.names:
            return found
        renamed = found.copy()
        renamed[0] = [self._under(number, names, sequence.names) for number in found[0].tolist()]
        return renamed

    def _holds_elsewhere(self, number: int, asked: int, names: tuple[str, ...]) -> bool:
        if any(hop.limit is not None for hop in self._path_times(asked).hops):
            return False
        verdict = self._verdict(number)
        if verdict is None:
            return True
        plain = Verdict("agree", hops=verdict.hops, new_hops=verdict.new_hops, new_deaths=verdict.new_deaths)
        named = {name for hop in verdict.hops for name in (hop.queue, hop.exchange, hop.to_queue) if name}
        return verdict == plain and named.issubset(names)

    def _under(self, number: int, names: tuple[str, ...], others: tuple[str, ...]) -> int:
        """Return the number of a verdict under other names."""
        key = number, names, others
        if key not in self._renamed:
            verdict = self._verdict(number)
            if verdict is not None:
                other = dict(zip(names, others, strict=True))
                hops = tuple([
                    Hop(other[hop.queue], hop.reason, other.get(hop.exchange, ""), other[hop.to_queue])
                    for hop in verdict.hops
                ])  # fmt: skip
                verdict = msgspec.structs.replace(verdict, hops=hops)
            self._renamed[key] = self._number(verdict)
        return self._renamed[key]
