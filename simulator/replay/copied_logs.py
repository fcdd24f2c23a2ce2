"""Finds logs that are there twice, under one name or two: their rows would count twice, and agree with themselves.

Two logs are the same if they have as many rows, and the lines, the times and the messages of these are the same.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from simulator.capture import CaptureError


class _Log(NamedTuple):
    """One log in a capture: where it is, its name there, and what the user calls the capture, if it was given."""

    capture: str
    file: str
    given: str | None

    def __str__(self) -> str:
        return self.file if self.given is None else f"{self.given} (log '{self.file}')"


def check_no_copies(captures: Sequence[tuple[str, str | None]]) -> None:
    """Raise ``CaptureError`` for a log that is in these captures twice.

    Each has its path, and how the user named it, ``None`` for one that was made of other logs.
    """
    alike: defaultdict[tuple[int, ...], list[_Log]] = defaultdict(list)
    for capture, given in captures:
        for file, sums in _sums(capture).items():
            alike[sums].append(_Log(capture, file, given))
    for logs in alike.values():
        for place, log in enumerate(logs[1:], 1):
            for other in logs[:place]:
                if log == other or _rows(log) == _rows(other):
                    problem = f"the same log as {other}: each of its rows would count twice; leave one out"
                    raise CaptureError(str(log), problem)


def _sums(capture: str) -> dict[str, tuple[int, ...]]:
    """Return how many rows each log in a capture has, and the sums of their lines and times."""
    found: defaultdict[str, np.ndarray[tuple[int], np.dtype[np.uint64]]] = defaultdict(lambda: np.zeros(3, np.uint64))
    for batch in pq.ParquetFile(capture).iter_batches(columns=["file", "line", "time_us"]):
        for file in pc.unique(batch.column("file")).to_pylist():
            own = batch.filter(pc.equal(batch.column("file"), file))
            line, time_us = (own.column(name).to_numpy().astype(np.uint64) for name in ("line", "time_us"))
            found[file] += np.array([own.num_rows, line.sum(), time_us.sum()], np.uint64)
    return {file: tuple(sums.tolist()) for file, sums in found.items()}


def _rows(log: _Log) -> Counter[tuple[object, ...]]:
    return Counter(_rows_in(log))


def _rows_in(log: _Log) -> Iterator[tuple[object, ...]]:
    names = ["line", "time_us", "event", "vhost", "message"]
    for batch in pq.ParquetFile(log.capture).iter_batches(columns=["file", *names]):
        own = batch.filter(pc.equal(batch.column("file"), log.file))
        yield from zip(*(own.column(name).to_pylist() for name in names), strict=True)
