"""Merges a broker's trace and the recordings of its consumers into one capture."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from simulator.capture.parquet import write_capture
from simulator.capture.read import open_log


def merge_captures(
    trace: str | os.PathLike[str],
    recordings: Sequence[str | os.PathLike[str]],
    out_parquet: str | os.PathLike[str],
) -> int:
    """Add to a trace the rows that only recordings have, and return the number of rows.

    The trace and the recordings may both have a publish or a delivery. From the recordings,
    take only the rows of events that do not occur in the trace at all: beside a whole trace,
    the outcomes of deliveries; beside a trace of publishes (pattern ``publish.#``), deliveries too.

    Args:
        trace: a log of the tracing plugin, or a capture of the firehose.
        recordings: captures that ``simulator.capture.recorder.Recorder`` made at the same time.
        out_parquet: the capture to write, whole or not at all.

    Raises:
        CaptureError: a log cannot be read, or the capture cannot be written.
    """
    with write_capture(out_parquet) as writer:
        traced: set[str] = set()
        for batch in open_log(trace, on_late=writer.note_late):
            traced.update(batch.column("event").unique().to_pylist())
            writer.write(batch)
        known = pa.array(sorted(traced), pa.string())
        for recording in recordings:
            for batch in open_log(recording, on_late=writer.note_late):
                writer.write(batch.filter(pc.invert(pc.is_in(batch.column("event"), value_set=known))))
    return writer.rows


combine = merge_captures
"""The name of ``merge_captures`` in older versions."""
