"""Opens a log of any format."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from simulator.capture.capture_errors import Broken, CaptureError, NothingReadable, OnBroken, refuse
from simulator.capture.journal import ROW_START, read_row_lines
from simulator.capture.schema import to_batches
from simulator.capture.sources import UNREADABLE, open_source
from simulator.capture.trace_logs import HEADER, read_trace_json, read_trace_text
from simulator.json_reading import UTF8_MARK, why_not_utf8

if TYPE_CHECKING:
    import pyarrow as pa

_HEAD_BYTES = 1024 * 1024
_NOT_A_LOG = (
    "not a trace log: expected JSON or text of RabbitMQ's tracing plugin (.gz too), "
    "or Parquet or JSON lines written by `dlx capture` or `dlx convert`"
)
_JSON_LIST = re.compile(rb"\s*\[\s*\{")
_ONE_LIST = "a JSON list; expected one object a line, as the tracing plugin writes: `jq -c '.[]' FILE` converts it"


def open_log(
    path: str | os.PathLike[str],
    *,
    on_broken: OnBroken = refuse,
    file: str | None = None,
    on_late: Callable[[int], None] = lambda late_us: None,
) -> Iterator[pa.RecordBatch]:
    """Read a log of any format. The content decides which it is.

    Args:
        path: JSON or text log of the tracing plugin (may be gzip-compressed), or a capture in Parquet.
        on_broken: gets every record that cannot be read; by default the first one raises.
        file: value of the column ``file``; default: base name of the path.
        on_late: gets how late rows arrived, in microseconds, where a capture measured that.

    Raises:
        CaptureError: no such file, not a log, or nothing readable in it.
    """
    rows = broken = 0
    last_reason = ""

    def count(record: Broken) -> None:
        nonlocal broken, last_reason
        broken += 1
        last_reason = f"line {record.line}: {record.reason}"
        on_broken(record)

    for batch in _batches(path, file or Path(path).name, count, on_late):
        rows += batch.num_rows
        yield batch
    if not rows:
        problem = f"all {broken} records are broken; the last: {last_reason}" if broken else "no record in it"
        raise NothingReadable(os.fspath(path), problem)


def is_log(path: str | os.PathLike[str]) -> bool:
    """Return whether a file begins as a log does: a trace of either format, or a capture."""
    from simulator.capture.parquet import MAGIC

    try:
        with open_source(path) as stream:
            head = stream.read(_HEAD_BYTES)
    except (CaptureError, OSError, *UNREADABLE):
        return False
    first = head.removeprefix(UTF8_MARK).lstrip().partition(b"\n")[0]
    is_trace = first.startswith(b"{") and b'"routing_keys"' in first and b'"node"' in first
    return head.startswith(MAGIC) or is_trace or HEADER.search(head) is not None


def _batches(
    path: str | os.PathLike[str], file: str, on_broken: OnBroken, on_late: Callable[[int], None]
) -> Iterator[pa.RecordBatch]:
    """Read with the reader for the content of the file."""
    from simulator.capture.parquet import MAGIC, read_capture, stored_late_us  # as in simulator.capture.convert

    with open_source(path) as stream:
        try:
            head = stream.read(_HEAD_BYTES)
            start = len(UTF8_MARK) if head.startswith(UTF8_MARK) else 0
            stream.seek(start)
        except UNREADABLE as error:
            raise CaptureError(os.fspath(path), f"the gzip stream is damaged: {error}") from error
        head = head[start:]
        if head.startswith(MAGIC):
            yield from read_capture(path)
            if (late_us := stored_late_us(path)) is not None:
                on_late(late_us)
        elif why := why_not_utf8(head):
            raise CaptureError(os.fspath(path), why)
        elif _JSON_LIST.match(head):
            raise CaptureError(os.fspath(path), _ONE_LIST)
        elif head.startswith(ROW_START):
            yield from to_batches(read_row_lines(stream, file, on_broken, on_late))
        elif HEADER.search(head):
            yield from to_batches(read_trace_text(stream, file, on_broken))
        elif head.lstrip().startswith(b"{") or b"\n{" in head:
            yield from to_batches(read_trace_json(stream, file, on_broken))
        elif head.strip():
            raise CaptureError(os.fspath(path), _NOT_A_LOG)
