"""Captures of what a RabbitMQ published and delivered: read its trace logs, its firehose, and Parquet."""

from __future__ import annotations

from simulator.capture.convert import ConversionReport, FileReport, convert
from simulator.capture.errors import Broken, CaptureError, CaptureUnavailable, NothingReadable
from simulator.capture.parquet import read_capture, write_capture
from simulator.capture.read import open_log
from simulator.capture.schema import COLUMNS, SCHEMA, SCHEMA_VERSION, Observation, to_batches

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
