"""Captures a live broker's firehose into a Parquet file, and its counters beside it."""

from __future__ import annotations

import os
import shlex
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from dlx.global_counters import PREFIX, Series, account_of
from simulator.capture.access import TLS, Access, complete, credentials, with_certificates, with_user_of
from simulator.capture.capture_errors import CaptureError, CaptureUnavailable, NothingReadable, OnBroken, refuse
from simulator.capture.counters import CounterReadings, NodeReadings, Reading, path_beside, reading, write_counters
from simulator.capture.firehose import CaptureLimits, read_firehose, vhost_of
from simulator.capture.journal import SUFFIXES, CaptureFile
from simulator.capture.management_api import (
    ManagementError,
    authorization,
    call,
    describe_refusal,
    is_refusal,
    opened,
    server_of,
)
from simulator.capture.parquet import write_capture
from simulator.capture.redaction import Redaction
from simulator.capture.schema import Observation, to_batches


class CaptureReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a live capture.

    Attributes:
        rows: how many there are.
        lost: how the connection ended, unless we ended it ourselves.
        counters: the file of what the nodes counted, if that was asked for.
        uncounted: why there is no such file although it was asked for.
        late_us: how late rows arrived, at most, as was measured: microseconds. The capture has it, too.
        unmeasured: why that was not measured to the end.
    """

    rows: int
    lost: str | None
    counters: str | None = None
    uncounted: str | None = None
    late_us: int | None = None
    unmeasured: str | None = None


def capture(
    url: str,
    out_parquet: str | os.PathLike[str],
    *,
    vhost: str | None = None,
    pattern: str = "#",
    until: CaptureLimits = CaptureLimits(),  # noqa: B008  immutable
    management_url: str | None = None,
    metrics_urls: Sequence[str] = (),
    tls: TLS = TLS(),  # noqa: B008  immutable
    bodies: bool = True,
    redact: bool = False,
    probes: bool = True,
    on_ready: Callable[[], None] = lambda: None,
    on_row: Callable[[int], None] = lambda rows: None,
    on_idle: Callable[[float], None] = lambda seconds: None,
    on_broken: OnBroken = refuse,
) -> CaptureReport:
    """Capture the firehose of one virtual host until ``until`` says so.

    A path that ends with ``.jsonl`` or ``.ndjson`` is not Parquet: it gets each row as a line, at once, and may not
    exist yet. So it can be read while it grows, and what was captured before a crash is there.

    With ``management_url``, tracing is switched on for as long as the capture runs. With
    ``metrics_urls``, one for each node, the nodes' global counters are read before and after
    it, and written beside the capture (``simulator.capture.counters``). ``tls`` has certificates for
    all these URLs. What a URL leaves out is found by ``simulator.capture.access``; a management URL
    without a user has that of ``url``, and metrics without one are read by nobody in particular.
    When the connection is lost, what came before is kept, and the report says so. Without ``bodies``, no payload
    is written; with ``redact``, what ``simulator.capture.redaction`` leaves of each row.

    How late rows arrive is measured by small messages that the capture publishes into its own queue, over a connection
    of its own (``simulator.capture.arrival_lag``); not without ``probes``, nor with ``metrics_urls``, as the nodes
    would count them.

    Raises:
        AccessError: a URL leaves out what is not found, or a file with a password or certificate cannot be used.
        CaptureUnavailable: the broker, its management API or its metrics cannot be reached.
        NothingReadable: nothing was traced; no file is written then.
        CaptureError: the file cannot be written.
    """
    access = Access(tls=tls)
    url = complete(url, access)
    if management_url is not None:
        management_url = complete(with_user_of(management_url, url), access)
    metrics_urls = [with_certificates(each, tls) for each in metrics_urls]
    vhost = vhost if vhost is not None else vhost_of(url)
    redaction = Redaction() if redact else None
    lost: list[str] = []
    late: list[int] = []
    unmeasured: list[str] = []
    before = [read_metrics(metrics_url) for metrics_url in metrics_urls]

    def rows() -> Iterator[Observation]:
        seen = 0
        try:
            for observation in read_firehose(
                url, vhost=vhost, pattern=pattern, until=until,
                on_ready=on_ready, on_idle=on_idle, on_broken=on_broken,
                on_late=late.append if probes and not metrics_urls else None, on_unmeasured=unmeasured.append,
            ):  # fmt: skip
                seen += 1
                on_row(seen)
                kept = observation if bodies else msgspec.structs.replace(observation, payload=b"")
                yield kept if redaction is None else redaction.row(kept)
        except CaptureUnavailable as error:
            if not seen:
                raise
            lost.append(str(error))

    switched = tracing(management_url, vhost) if management_url else nullcontext()
    with switched:
        nothing = NothingReadable(f"virtual host {vhost}", nothing_traced(vhost, switched_on=bool(management_url)))
        written = _write(out_parquet, rows(), late, nothing)
    report = CaptureReport(
        rows=written,
        lost=lost[0] if lost else None,
        late_us=late[-1] if late else None,
        unmeasured=unmeasured[0] if unmeasured else None,
    )
    if not before:
        return report
    cut = tuple(_cut(report, pattern, until))
    try:
        path = _write_counted(out_parquet, before, metrics_urls, vhost, cut)
    except CaptureError as error:
        return msgspec.structs.replace(report, uncounted=str(error))
    return msgspec.structs.replace(report, counters=os.fspath(path))


def _write(
    out: str | os.PathLike[str], rows: Iterator[Observation], late: Sequence[int], nothing: NothingReadable
) -> int:
    """Write rows, into Parquet or line by line as they come, and return their number.

    ``late`` grows with them: the last is how late rows have arrived so far. Raises ``nothing`` if there are none.
    """
    if Path(out).suffix in SUFFIXES:
        return _write_lines(Path(out), rows, late, nothing)
    with write_capture(out) as writer:
        for batch in to_batches(rows):
            writer.write(batch)
        if not writer.rows:
            raise nothing
        if late:
            writer.note_late(late[-1])
    return writer.rows


def _write_lines(out: Path, rows: Iterator[Observation], late: Sequence[int], nothing: NothingReadable) -> int:
    if out.exists():
        raise CaptureError(os.fspath(out), "exists; each capture line by line needs a path of its own")
    written = noted = 0
    journal = CaptureFile(out)
    try:
        for row in rows:
            journal.append(row)
            written += 1
            if len(late) > noted:
                noted = len(late)
                journal.note_late(late[-1])
        if written and len(late) > noted:
            journal.note_late(late[-1])
    except OSError as error:
        raise CaptureError(os.fspath(out), f"cannot be written: {error.strerror or error}") from error
    finally:
        journal.close()
        if not written:
            out.unlink()
    if not written:
        raise nothing
    return written


def _cut(report: CaptureReport, pattern: str, until: CaptureLimits) -> Iterator[str]:
    """Yield why the capture lacks some of what its nodes counted."""
    if report.lost is not None:
        yield f"the connection was lost: {report.lost}"
    if until.rows is not None and report.rows >= until.rows:
        yield f"it ended after {until.rows:,} rows, as requested"
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


# Turns a virtual host's firehose on through the management API, and back.


_KEPT = ("description", "tags", "default_queue_type")  # a PUT without them might reset them


@contextmanager
def tracing(management_url: str, vhost: str) -> Iterator[bool]:
    """Turn tracing on in ``vhost`` for the time of the block, then restore it. Yields whether it was on already.

    Args:
        management_url: such as ``http://guest:guest@localhost:15672``.
        vhost: name of the virtual host.

    Raises:
        CaptureUnavailable: the API does not answer, or refuses.
    """
    before = _of_vhost(management_url, vhost)
    if before.get("tracing"):
        yield True
        return
    kept = {key: before[key] for key in _KEPT if before.get(key) not in (None, "", [], "undefined")}
    if "tags" in kept:
        kept["tags"] = ",".join(kept["tags"])
    path = f"vhosts/{quote(vhost, safe='')}"
    _called(management_url, vhost, path, "PUT", {**kept, "tracing": True})
    try:
        yield False
    finally:
        _called(management_url, vhost, path, "PUT", {**kept, "tracing": False})


def _of_vhost(management_url: str, vhost: str) -> dict[str, Any]:
    """Return the virtual host, from the list of all that the user may see, which takes no administrator."""
    for each in _called(management_url, vhost, "vhosts"):
        if each["name"] == vhost:
            return dict(each)
    raise CaptureUnavailable(server_of(management_url), f"management API: no virtual host {vhost!r} for this user")


def _called(management_url: str, vhost: str, path: str, method: str = "GET", body: object = None) -> Any:
    try:
        return call(management_url, path, method=method, body=body)
    except ManagementError as error:
        problem = error.reason
        if is_refusal(error):
            problem = describe_refusal(error, management_url)
            if method == "PUT":
                command = f"rabbitmqctl trace_on -p {shlex.quote(vhost)}"
                user = credentials(management_url)[0]
                problem = (
                    f"tracing is off, and the user {user!r} may not switch it on: {error.reason}; `{command}` does,"
                    " and then leave --management-url out"
                )
        raise CaptureUnavailable(server_of(management_url), f"management API: {problem}") from error
    except OSError as error:
        raise CaptureUnavailable(server_of(management_url), f"management API: no answer: {error}") from error


# Reads the global counters of a RabbitMQ node where its Prometheus plugin shows them: ``/metrics``.


_COUNTED = "_total"
_WHERE = "expected the metrics of RabbitMQ's Prometheus plugin, such as http://localhost:15692/metrics"


class NodeReading(msgspec.Struct, frozen=True):
    """What one node has counted; ``release`` is its version."""

    node: str
    release: str
    reading: Reading

    def until(self, after: NodeReading) -> NodeReadings:
        """Return this reading and a later one together. Raises ``ValueError`` if that is of another node."""
        if (after.node, after.release) != (self.node, self.release):
            raise ValueError(
                f"first {self.node} of RabbitMQ {self.release} answered, then {after.node} of {after.release}"
            )
        return NodeReadings(node=self.node, release=self.release, before=self.reading, after=after.reading)


def read_metrics(url: str) -> NodeReading:
    """Read the global counters of the node whose metrics are at ``url``, with or without the path ``/metrics``.

    Raises:
        CaptureUnavailable: nobody answers there, or it is not a RabbitMQ that counts dead letters.
    """
    parts = urlsplit(url)
    server = f"{parts.scheme}://{parts.hostname}:{parts.port or 15692}"  # without the password
    path = parts.path.rstrip("/") or "/metrics"
    now_us = time.time_ns() // 1_000
    text = _fetched(server, path, url)
    try:
        return parsed(text, now_us)
    except ValueError as error:
        raise CaptureUnavailable(f"{server}{path}", f"{error}; {_WHERE}") from error


def _fetched(server: str, path: str, url: str) -> str:
    headers = {} if urlsplit(url).username is None else authorization(*credentials(url))
    try:
        return opened(urllib.request.Request(f"{server}{path}", headers=headers), url).decode(errors="replace")
    except urllib.error.HTTPError as error:
        with error:
            raise CaptureUnavailable(f"{server}{path}", f"{error.code} {error.reason}; {_WHERE}") from error
    except OSError as error:
        raise CaptureUnavailable(f"{server}{path}", f"no answer: {error}; is the Prometheus plugin on?") from error


def parsed(text: str, time_us: int) -> NodeReading:
    """Read Prometheus' text, as it was at ``time_us``. Raises ``ValueError`` if it does not count dead letters."""
    counted: dict[Series, int] = {}
    labels: dict[str, str] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name.startswith(PREFIX) and sample.name.endswith(_COUNTED):
                    name = sample.name.removeprefix(PREFIX).removesuffix(_COUNTED)
                    counted[Series(name, tuple(sorted(sample.labels.items())))] = int(sample.value)
                elif sample.name in ("rabbitmq_identity_info", "rabbitmq_build_info"):
                    labels |= sample.labels
    except (ValueError, KeyError, IndexError) as error:  # what its parser raises
        raise ValueError(f"not Prometheus' text ({error})") from error
    node, version = labels.get("rabbitmq_node"), labels.get("rabbitmq_version")
    if node is None or version is None:
        raise ValueError("it does not name the node and the version of RabbitMQ")
    if not any(account_of(series) for series in counted):
        raise ValueError(f"RabbitMQ {version} does not count dead letters: RabbitMQ 3.10 and later do")
    return NodeReading(node, version, reading(time_us, counted))
