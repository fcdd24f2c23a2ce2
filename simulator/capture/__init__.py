"""Captures of a RabbitMQ's publishes and deliveries: read its trace logs, its firehose, and Parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlx._lazy import lazy
from simulator.capture.capture_errors import Broken, CaptureError, CaptureUnavailable, NothingReadable
from simulator.capture.convert import ConversionReport, FileReport, convert
from simulator.capture.read import open_log
from simulator.capture.schema import COLUMNS, SCHEMA_VERSION, Observation, to_batches
from simulator.extras import importing

if TYPE_CHECKING:
    from simulator.capture.parquet import read_capture, write_capture
    from simulator.capture.schema import SCHEMA
else:
    # These need pyarrow as soon as they are loaded. A consumer that records itself does without.
    _, __getattr__, __dir__ = lazy(
        __name__,
        {
            "simulator.capture.parquet": ("read_capture", "write_capture"),
            "simulator.capture.schema": ("SCHEMA",),
        },
        load=importing("capture"),
    )

# The firehose is in simulator.capture.live and needs pika; its users import it.
__all__ = [
    "COLUMNS",
    "SCHEMA",
    "SCHEMA_VERSION",
    "Broken",
    "CaptureError",
    "CaptureUnavailable",
    "ConversionReport",
    "FileReport",
    "NothingReadable",
    "Observation",
    "convert",
    "open_log",
    "read_capture",
    "to_batches",
    "write_capture",
]
