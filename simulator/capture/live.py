"""Captures a live broker's firehose into a Parquet file."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

import msgspec

from simulator.capture.capture_errors import CaptureError, CaptureUnavailable, NothingReadable, OnBroken, refuse
from simulator.capture.counters import CounterReadings, path_beside, write_counters
from simulator.capture.firehose import Until, read_firehose, vhost_of
from simulator.capture.journal import SUFFIXES, Journal
from simulator.capture.metrics import NodeReading, read_metrics
from simulator.capture.parquet import write_capture
from simulator.capture.schema import Observation, to_batches
from simulator.capture.tracing import tracing


class CaptureReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a live capture.

    Attributes:
        rows: how many there are.
        lost: how the connection ended, unless we ended it ourselves.
        counters: the file of what the nodes counted, if that was asked for.
        uncounted: why there is no such file although it was asked for.
    """

    rows: int
    lost: str | None
    counters: str | None = None
    uncounted: str | None = None


def capture(
    url: str,
    out_parquet: str | os.PathLike[str],
    *,
    vhost: str | None = None,
    pattern: str = "#",
    until: Until = Until(),  # noqa: B008  immutable
    management_url: str | None = None,
    metrics_urls: Sequence[str] = (),
    on_ready: Callable[[], None] = lambda: None,
    on_row: Callable[[int], None] = lambda rows: None,
    on_idle: Callable[[float], None] = lambda seconds: None,
    on_broken: OnBroken = refuse,
) -> CaptureReport:
    """Capture the firehose of one virtual host until ``until`` says so.

    A path that ends with ``.jsonl`` or ``.ndjson`` is no Parquet: it gets each row as a line, at once, and may not
    exist yet. So it can be read while it grows, and what was captured before a crash is there.

    With ``management_url``, tracing is switched on for as long as the capture runs. With
    ``metrics_urls``, one for each node, the nodes' global counters are read before and after
    it, and written beside the capture (``simulator.capture.counters``).
    When the connection is lost, what came before is kept, and the report says so.

    Raises:
        CaptureUnavailable: the broker, its management API or its metrics cannot be reached.
        NothingReadable: nothing was traced; no file is written then.
        CaptureError: the file cannot be written.
    """
    vhost = vhost if vhost is not None else vhost_of(url)
    lost: list[str] = []
    before = [read_metrics(metrics_url) for metrics_url in metrics_urls]

    def rows() -> Iterator[Observation]:
        seen = 0
        try:
            for observation in read_firehose(
                url, vhost=vhost, pattern=pattern, until=until,
                on_ready=on_ready, on_idle=on_idle, on_broken=on_broken,
            ):  # fmt: skip
                seen += 1
                on_row(seen)
                yield observation
        except CaptureUnavailable as error:
            if not seen:
                raise
            lost.append(str(error))

    switched = tracing(management_url, vhost) if management_url else nullcontext()
    with switched:
        nothing = NothingReadable(f"virtual host {vhost}", nothing_traced(vhost, switched_on=bool(management_url)))
        written = _write(out_parquet, rows(), nothing)
    report = CaptureReport(rows=written, lost=lost[0] if lost else None)
    if not before:
        return report
    cut = tuple(_cut(report, pattern, until))
    try:
        path = _write_counted(out_parquet, before, metrics_urls, vhost, cut)
    except CaptureError as error:
        return msgspec.structs.replace(report, uncounted=str(error))
    return msgspec.structs.replace(report, counters=os.fspath(path))


def _write(out: str | os.PathLike[str], rows: Iterator[Observation], nothing: NothingReadable) -> int:
    """Write rows, into Parquet or line by line as they come, and return their number.

    Raises ``nothing`` if there are none.
    """
    if Path(out).suffix in SUFFIXES:
        return _write_lines(Path(out), rows, nothing)
    with write_capture(out) as writer:
        for batch in to_batches(rows):
            writer.write(batch)
        if not writer.rows:
            raise nothing
    return writer.rows


def _write_lines(out: Path, rows: Iterator[Observation], nothing: NothingReadable) -> int:
    if out.exists():
        raise CaptureError(os.fspath(out), "exists; each capture line by line needs a path of its own")
    written = 0
    journal = Journal(out)
    try:
        for row in rows:
            journal.append(row)
            written += 1
    except OSError as error:
        raise CaptureError(os.fspath(out), f"cannot be written: {error.strerror or error}") from error
    finally:
        journal.close()
        if not written:
            out.unlink()
    if not written:
        raise nothing
    return written


def _cut(report: CaptureReport, pattern: str, until: Until) -> Iterator[str]:
    """Yield why the capture lacks some of what its nodes counted."""
    if report.lost is not None:
        yield f"the connection was lost: {report.lost}"
    if until.rows is not None and report.rows >= until.rows:
        yield f"it ended after {until.rows:,} rows, as it was told"
    if pattern != "#":
        yield f"it has only the traces that match {pattern}"


def _write_counted(
    out_parquet: str | os.PathLike[str],
    before: Sequence[NodeReading],
    metrics_urls: Sequence[str],
    vhost: str,
    cut: tuple[str, ...],
) -> Path:
    """Read the counters once more, and write both readings beside the capture. Raises ``CaptureError``."""
    try:
        nodes = tuple(first.until(read_metrics(url)) for first, url in zip(before, metrics_urls, strict=True))
    except ValueError as error:
        raise CaptureError("the metrics", str(error)) from error
    path = path_beside(out_parquet)
    write_counters(path, CounterReadings(nodes=nodes, vhost=vhost, cut=cut))
    return path


def nothing_traced(vhost: str, *, switched_on: bool) -> str:
    """Say what to do when no trace arrives."""
    if switched_on:
        return "nothing was published or delivered, or the pattern matches none of it"
    return (
        "no trace arrived. Is tracing on? `rabbitmqctl trace_on -p "
        f"{shlex.quote(vhost)}` switches it on, and so does the option --management-url"
    )
