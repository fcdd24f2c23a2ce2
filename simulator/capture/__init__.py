"""Captures of what a RabbitMQ published and delivered: read its trace logs, its firehose, and Parquet."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from simulator.capture.capture_errors import Broken, CaptureError, CaptureUnavailable, NothingReadable
from simulator.capture.convert import ConversionReport, FileReport, convert
from simulator.capture.read import open_log
from simulator.capture.schema import COLUMNS, SCHEMA_VERSION, Observation, to_batches

if TYPE_CHECKING:
    from simulator.capture.parquet import read_capture, write_capture
    from simulator.capture.schema import SCHEMA

# These need pyarrow as soon as they are loaded. A consumer that records itself does without.
_HOME = {"SCHEMA": "schema", "read_capture": "parquet", "write_capture": "parquet"}

# The firehose is in simulator.capture.live and needs pika; importing it is left to those who use it.
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


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
