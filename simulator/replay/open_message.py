"""A message whose rows are taken one by one: its next ones may come in another batch, or it has very many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from simulator.replay.bodies import Bodies
from simulator.replay.memory import Memory
from simulator.replay.message_rows import Step
from simulator.replay.path_times import PathTimes
from simulator.replay.row_times import RowTimes
from simulator.replay.times import NO_FAULT, Facts, Judged, Stays


class OpenMessage:
    """A message and what its rows so far have shown.

    Attributes:
        key: the lineage that its rows have.
        bodies: what its bodies have been so far.
    """

    def __init__(self, key: str, vhost: str, memory: Memory) -> None:
        self.key = key
        self.bodies = Bodies()
        self._memory = memory
        self._lineage = memory.lineage(vhost)
        self._stays: list[tuple[int, ...]] = []
        self._facts: list[tuple[int, int, tuple[int, ...]]] = []  # small: there may be very many

    def step(self, times: RowTimes, row: int, number: int, content: str, headers: Mapping[str, Any]) -> Step:
        """Take a row of a batch, and put what its times say into ``times``."""
        memory = self._memory

        def fits(_number: int, asked: PathTimes) -> bool:
            return bool(self._judged(times, row, asked).marks.fault[0] == NO_FAULT)

        step = memory.step(self._lineage, number, content, headers, fits)
        judged = self._judged(times, row, step.times)
        times.put(np.array([row]), judged)
        times.numbers[row] = memory.clock.number(step.times)
        self._stays.append(tuple(int(each[0]) for each in judged.stays))
        self._facts.append(times.facts.kept(row))
        return step

    def _judged(self, times: RowTimes, row: int, asked: PathTimes) -> Judged:
        rows, clock = np.array([row]), self._memory.clock
        numbers = np.array([clock.number(asked)])
        source, earlier = self._stay(asked.source), self._stay(asked.earlier)
        of_source = Facts.of_kept(*(self._facts[-asked.source] if asked.source else times.facts.kept(row)))
        return clock.judge(rows, numbers, times.facts.at(rows), source, of_source, earlier)

    def _stay(self, back: int) -> Stays:
        """Return the stay that a row showed, counted backwards from this one; any if ``back`` is 0."""
        stay = self._stays[-back] if back else (0,) * len(Stays._fields)
        return Stays(*(np.array([moment]) for moment in stay))
