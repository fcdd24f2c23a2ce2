"""Captures a live broker's firehose into a Parquet file."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import nullcontext

import msgspec

from simulator.capture.capture_errors import CaptureUnavailable, NothingReadable, OnBroken, refuse
from simulator.capture.firehose import Until, read_firehose, vhost_of
from simulator.capture.parquet import write_capture
from simulator.capture.schema import Observation, to_batches
from simulator.capture.tracing import tracing


class CaptureReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a live capture; ``lost`` tells how the connection ended, unless we ended it ourselves."""

    rows: int
    lost: str | None


def capture(
    url: str,
    out_parquet: str | os.PathLike[str],
    *,
    vhost: str | None = None,
    pattern: str = "#",
    until: Until = Until(),  # noqa: B008  immutable
    management_url: str | None = None,
    on_ready: Callable[[], None] = lambda: None,
    on_row: Callable[[int], None] = lambda rows: None,
    on_idle: Callable[[float], None] = lambda seconds: None,
    on_broken: OnBroken = refuse,
) -> CaptureReport:
    """Capture the firehose of one virtual host until ``until`` says so.

    With ``management_url``, tracing is switched on for as long as the capture runs.
    When the connection is lost, what came before is kept, and the report says so.

    Raises:
        CaptureUnavailable: the broker or its management API cannot be reached.
        NothingReadable: nothing was traced; no file is written then.
        CaptureError: the file cannot be written.
    """
    vhost = vhost if vhost is not None else vhost_of(url)
    lost: list[str] = []

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
    with write_capture(out_parquet) as writer, switched:
        for batch in to_batches(rows()):
            writer.write(batch)
        if not writer.rows:
            raise NothingReadable(f"virtual host {vhost}", nothing_traced(vhost, switched_on=bool(management_url)))
    return CaptureReport(rows=writer.rows, lost=lost[0] if lost else None)


def nothing_traced(vhost: str, *, switched_on: bool) -> str:
    """Say what to do when no trace arrives."""
    if switched_on:
        return "nothing was published or delivered, or the pattern matches none of it"
    return (
        "no trace arrived. Is tracing on? `rabbitmqctl trace_on -p "
        f"{shlex.quote(vhost)}` switches it on, and so does the option --management-url"
    )
