"""The sample logs: one traffic, recorded on four releases in three formats (see ``make_samples.py``)."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
from pika.spec import BasicProperties

from simulator.capture import open_log
from simulator.capture.connected import exact_values
from simulator.capture.firehose import observe_trace
from simulator.capture.schema import to_batches
from tests import real_servers

SAMPLES = Path(__file__).parent / "samples"
RELEASES = real_servers.LIVE


def trace_log(form: str, release: str) -> Path:
    return SAMPLES / f"trace-{form}-{release}.log"


def rows(path: Path) -> list[dict[str, Any]]:
    """All rows of a log."""
    return pa.Table.from_batches(open_log(path)).to_pylist()


def firehose_rows(release: str) -> list[dict[str, Any]]:
    """All rows of the recorded firehose, read as if it came live."""
    observations = []
    with exact_values():
        for line, text in enumerate((SAMPLES / f"firehose-{release}.jsonl").read_text().splitlines(), 1):
            record = json.loads(text)
            properties = BasicProperties()
            properties.decode(base64.b64decode(record["properties"]))
            payload = base64.b64decode(record["payload"])
            headers = properties.headers or {}
            observations.append(
                observe_trace(record["routing_key"], headers, payload, file="live", line=line, time_us=0)
            )
    return pa.Table.from_batches(to_batches(observations)).to_pylist()
