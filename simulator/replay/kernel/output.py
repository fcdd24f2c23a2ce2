"""Makes the columns that a replay adds to the rows: each delivery with its verdict, and the times of its deaths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from simulator.replay.checks.times import DIED_EARLY, TOO_EARLY, TOO_LATE, WRONG_TIME, Bounds, Refutation
from simulator.replay.coverage.shown import RuleAtQueue
from simulator.replay.rows.columns import alike_rows, firsts
from simulator.replay.rows.schema import DEAD_END, MISFIT, SHOWN, TIMED_HOP, VERDICT
from simulator.replay.rows.verdict_words import Verdict
from simulator.replay.search.copies import DeadEnd

_MISFITS = {TOO_EARLY: "early", DIED_EARLY: "x-death", WRONG_TIME: "x-death", TOO_LATE: "late"}


def verdict_columns(
    verdicts: Sequence[Verdict | None], number: npt.NDArray[np.int64], bounds: Bounds
) -> dict[str, Any]:
    """Return the columns of ``schema.VERDICT``, and the hops with their bounds.

    ``number`` says which of the verdicts each row has; rows without one have null in all columns.
    """
    found = pa.array([None if verdict is None else _as_struct(verdict) for verdict in verdicts], VERDICT)
    taken = found.take(pa.array(number))
    # flatten, not field: a row without a verdict has null in all of its columns.
    columns = dict(zip((field.name for field in found.type), taken.flatten(), strict=True))
    columns["hops"] = _timed_hops(found.field("hops"), number, bounds, np.array([each is None for each in verdicts]))
    return columns


def _as_struct(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as a value of ``VERDICT``."""
    return {
        "verdict": verdict.name,
        "why": verdict.why or None,
        "hops": [hop._asdict() for hop in verdict.hops],
        "new_hops": verdict.new_hops,
        "new_deaths": verdict.new_deaths,
        "alternatives": list(verdict.alternatives),
        "differences": [
            {"field": d.field, "expected": d.expected, "seen": d.seen, "behaviours": list(d.behaviours)}
            for d in verdict.differences
        ],
        "unchecked": [msgspec.structs.asdict(each) for each in verdict.unchecked],
    }


def _timed_hops(hops: Any, number: npt.NDArray[np.int64], bounds: Bounds, missing: npt.NDArray[np.bool_]) -> Any:
    start = bounds.start
    counts = np.diff(start)
    first = hops.offsets.to_numpy()[:-1][number]
    at = np.repeat(first - start[:-1], counts) + np.arange(start[-1])
    names = hops.values.take(pa.array(at)).flatten()
    moments = [_moments(bounds.earliest_us), _moments(bounds.latest_us)]
    values = pa.StructArray.from_arrays([*names, *moments], fields=list(TIMED_HOP))
    return pa.ListArray.from_arrays(pa.array(start, pa.int32()), values, mask=pa.array(missing[number]))


def _moments(time_us: npt.NDArray[np.int64]) -> Any:
    """Return times in microseconds since 1970; null where nothing is known."""
    return pa.array(time_us, pa.int64(), mask=time_us < 0)


def dead_end_column(values: Sequence[tuple[DeadEnd, ...]], number: npt.NDArray[np.int32]) -> Any:
    """Return the column of dead ends. ``number`` says which of the values each row has."""
    which = alike_rows(number)
    found = [[_dead_end(end) for end in values[each]] for each in number[firsts(which)].tolist()]
    return pa.array(found, pa.list_(DEAD_END)).take(pa.array(which))


def _dead_end(end: DeadEnd) -> dict[str, Any]:
    return {**end._asdict(), "way": [death._asdict() for death in end.way]}


def misfit_column(found: Mapping[int, tuple[Refutation, str]], rows: int) -> Any:
    """Return the column of what times refute, from each fault and its queue; few rows have one."""
    values: list[dict[str, Any] | None] = [None] * rows
    for row, (fault, queue) in found.items():
        if fault.kind in _MISFITS:
            by_us = abs(fault.asked - fault.found)
            values[row] = {"kind": _MISFITS[fault.kind], "queue": queue, "by_us": by_us, "since_us": fault.since_us}
    return pa.array(values, MISFIT) if found else pa.nulls(rows, MISFIT)


def shown_column(found: Mapping[int, Sequence[RuleAtQueue]], rows: int) -> Any:
    """Return the column of the rules shown, which few rows have."""
    counts = np.zeros(rows + 1, dtype=np.int32)
    for row, shown in found.items():
        counts[row + 1] = len(shown)
    values = pa.array([each._asdict() for row in sorted(found) for each in found[row]], SHOWN)
    return pa.ListArray.from_arrays(pa.array(np.cumsum(counts, dtype=np.int32)), values).cast(pa.list_(SHOWN))
