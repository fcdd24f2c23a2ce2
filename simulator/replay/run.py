"""Runs one replay, from logs to results on disk."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import msgspec
import pyarrow.parquet as pq

from dlx.releases import release
from dlx.topology import QUORUM
from simulator.capture import CaptureError, FileReport, convert, read_capture
from simulator.capture.counters import CounterReadings
from simulator.capture.parquet import MAGIC, stored_late_us
from simulator.capture.redaction import has_redacted_headers
from simulator.definitions import Definitions
from simulator.replay.coverage.totals import Coverage, coverage
from simulator.replay.repair.repair_report import NO_REPAIRS, Repairs
from simulator.replay.results.counters import Balance, as_json, balance, log_counts, readings_fit
from simulator.replay.results.full_queues import overfull_queues, unfilled_queues
from simulator.replay.results.late_rows import lateness
from simulator.replay.results.summary import (
    Finding,
    LostMessages,
    Summary,
    UncheckedFinding,
    check_match,
    findings,
    hops,
    lost_messages,
    summarize,
    unchecked_findings,
)
from simulator.replay.results.untested import untested_settings
from simulator.replay.rows.assumptions import DEFAULT_ASSUMPTIONS, NO_LOST_ROWS, Assumptions, is_gapless, lost_rows
from simulator.replay.rows.damage import Place, overview, without
from simulator.replay.rows.periods import Period, in_force, named_after_all, periods_of, wrong_in
from simulator.replay.rows.tables import Table, check_no_copies, rows, select, text
from simulator.replay.rows.topologies import left_out, topologies, without_headers_exchanges
from simulator.replay.rows.verdict_words import What

Progress = Callable[[str, int, int | None], None]
"""Called with the current stage, how many rows are done or at hand, and of how many, if known."""
SHOWN = 20
"""Rejected records that are named one by one."""
REJECTED = "rejected.jsonl"
_IF_ANY = (
    "late",
    "left_out",
    "twice",
    "undelivered",
    "tolerance_ms",
    "behind_us",
    "changed",
    "holding",
    "measured_us",
    "redacted",
)
"""Totals that only some logs have."""


def _silent(what: str, rows: int, of: int | None) -> None:
    """Show nothing."""


class ReplayResult(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a replay.

    Attributes:
        summary, findings: its results.
        unchecked: what was not judged, the most frequent first.
        files, rejected: what was in the logs.
        out: where its files are; ``None`` if none were kept.
        balance: what the broker counted against what was reconstructed, if its counters were given.
        repairs: what may be behind deliveries that are not as predicted.
        coverage: the rules that the log has exercised.
        lost: where messages are lost or held, or may be.
    """

    summary: Summary
    coverage: Coverage
    findings: tuple[Finding, ...]
    unchecked: tuple[UncheckedFinding, ...]
    lost: tuple[LostMessages, ...]
    files: tuple[FileReport, ...]
    rejected: tuple[str, ...]
    out: Path | None
    balance: Balance | None = None
    repairs: Repairs = NO_REPAIRS

    @property
    def explained(self) -> bool:
        """Whether the rules explain every delivery, and the log every dead letter that was counted."""
        return self.summary.explained and (self.balance is None or self.balance.explained)

    def as_json(self) -> bytes:
        """Return the totals as JSON."""
        document = msgspec.to_builtins(self.summary)
        for name in _IF_ANY:
            if not document[name]:
                del document[name]
        if self.lost:
            document["dead_ends"] = self.lost
        document["coverage"] = self.coverage
        if self.balance is not None:
            document["counters"] = as_json(self.balance)
        if not self.summary.explained:
            document["repairs"] = self.repairs
        return msgspec.json.encode(document)


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """Logs that were found readable: captures to scan, how much is in each file, and the rejected records.

    Attributes:
        captures: they have each row once.
        shared: how many rows two of them have alike.
        places: how many rows there are of each virtual host and queue.
        twice: how many rows stood in a log twice.
        behind_us: how long before an earlier row of its log a row was written, at most; microseconds.
        from_us, until_us: when the first and the last row were written, in microseconds since 1970.
        late_us: how late rows arrived, at most, as captures measured it; microseconds.
    """

    captures: tuple[str, ...]
    files: tuple[FileReport, ...]
    rejected: tuple[str, ...] = ()
    shared: int = 0
    places: Mapping[Place, int] = {}
    twice: int = 0
    behind_us: int = 0
    from_us: int = 0
    until_us: int = 0
    late_us: int = 0

    @property
    def rows(self) -> int:
        """All rows."""
        return sum(file.rows for file in self.files)

    @property
    def broken(self) -> int:
        """All broken records."""
        return sum(file.broken for file in self.files)


def prepare(
    logs: Sequence[Path], work: Path, progress: Progress = _silent, definitions: Definitions | None = None
) -> Prepared:
    """Prepare logs for a replay: take captures where they are, and convert other logs into ``work``.

    A row that stands in a log twice is left out once; ``definitions`` tell more of them apart from redeliveries.
    Raises ``CaptureError`` for a log that cannot be used, or is given twice.
    """
    captures = [log for log in logs if _is_parquet(log)]
    others = [log for log in logs if log not in captures]
    files = [_checked(capture) for capture in captures]
    paths = [os.fspath(capture.resolve()) for capture in captures]
    rejected: tuple[str, ...] = ()
    if others:
        report = convert(others, work / "captured.parquet", progress=lambda log, rows: progress(log, rows, None))
        for file in report.files:
            if file.broken and not file.rows:
                raise CaptureError(file.file, f"all of its {file.broken} records are broken; leave it out")
        files += report.files
        paths.append(os.fspath(work / "captured.parquet"))
        if report.rejected_path is not None:
            kept = Path(report.rejected_path).rename(work / REJECTED)
            with kept.open(encoding="utf-8") as lines:
                rejected = tuple(_described(line) for line, _ in zip(lines, range(SHOWN), strict=False))
    given = [*map(str, captures), *(None for _ in paths[len(captures) :])]
    hosts = {} if definitions is None else topologies(definitions)
    counting = {each.name for host in hosts.values() for each in host.queues.values() if each.type == QUORUM}
    late_us = max(stored_late_us(path) or 0 for path in paths)
    seen = [overview(path, work, counting) for path in paths]
    for number, each in enumerate(seen):
        if len(each.again):
            paths[number] = without(paths[number], each.again, work / f"once-{number}.parquet")
    return Prepared(
        captures=tuple(paths),
        files=tuple(files),
        rejected=rejected,
        shared=check_no_copies([*zip(paths, given, strict=True)], work),
        places=sum((each.places for each in seen), Counter()),
        twice=sum(len(each.again) for each in seen),
        behind_us=max(each.behind_us for each in seen),
        from_us=min(each.from_us for each in seen),
        until_us=max(each.until_us for each in seen),
        late_us=late_us,
    )


class Engine(Protocol[Table]):
    """What replays: ``local_engine.LocalEngine`` or ``spark_engine.SparkEngine``."""

    def read(self, captures: Sequence[str]) -> Table: ...

    def replay(
        self,
        captured: Table,
        definitions: Definitions,
        rules: str,
        assumptions: Assumptions,
        folder: Path,
        done: Callable[[float], object],
    ) -> Table: ...

    def repair(self, captured: Table, replayed: Table, definitions: Definitions, rules: str) -> Repairs: ...

    def write(self, table: Table, folder: Path) -> Table: ...


def run_replay(
    engine: Engine[Table],
    prepared: Prepared,
    definitions: Definitions,
    work: Path,
    *,
    rules: str,
    assumptions: Assumptions = DEFAULT_ASSUMPTIONS,
    as_measured: bool = False,
    out: Path | None = None,
    progress: Progress = _silent,
    counters: CounterReadings | None = None,
    changes: Sequence[tuple[int, Definitions]] = (),
    otlp: Path | None = None,
) -> ReplayResult:
    """Replay prepared logs under the rules of a release; with ``out``, keep verdicts, hops and report there.

    ``changes``: other definitions, each with the moment from which they hold, in microseconds since 1970. What adds up
    a queue over the whole log, against one set of settings, is left out then.

    With ``as_measured``, the tolerance is not below the lag that captures measured.
    ``otlp``: a file for the lives of the messages as OpenTelemetry traces.
    ``counters``, read before and after the log, are balanced with what the replay reconstructs.

    ``work`` is a folder from ``workplace(out)``. Raises ``MatchesNothingError`` for
    definitions that match nothing in the log, and ``UnknownReleaseError``.
    """

    def done(share: float) -> None:
        progress("replaying", round(share * prepared.rows), prepared.rows)

    done(0)
    measured = as_measured and prepared.late_us > assumptions.tolerance_us
    if measured:
        assumptions = msgspec.structs.replace(assumptions, tolerance_ms=prepared.late_us / 1_000)
    given = [definitions, *(each for _, each in changes)]
    by_any_binding = [without_headers_exchanges(each, release(rules)) for each in given]
    compares = any(new is not each for new, each in zip(by_any_binding, given, strict=True))
    redacted = compares and has_redacted_headers(prepared.captures)
    if redacted:
        definitions, *later = by_any_binding
        changes = [(at_us, each) for (at_us, _), each in zip(changes, later, strict=True)]
    captured = engine.read(prepared.captures)
    periods = periods_of(definitions, changes)
    others = _left_out(prepared, periods)
    if others:
        hosts_of_others = ", ".join(map(text, others))
        captured = select(f"SELECT * FROM {{captured}} WHERE vhost NOT IN ({hosts_of_others})", captured=captured)
    folder = work / "verdicts.parquet"
    parts, replayed = _replayed(engine, captured, periods, rules, assumptions, folder, done)
    late = lateness(captured, replayed)
    lost = lost_rows(replayed, captured, disordered=prepared.behind_us > 0)
    if late.stretches or lost != NO_LOST_ROWS:
        progress("allowing for late rows, and for lost ones", prepared.rows, None)
        assumptions = msgspec.structs.replace(assumptions, lateness=late, lost_rows=lost)
        parts, replayed = _replayed(engine, captured, periods, rules, assumptions, folder, done)
    progress("adding up", prepared.rows, None)
    assumptions = msgspec.structs.replace(assumptions, gapless=is_gapless(replayed, captured))
    hosts, judge = topologies(definitions), release(rules)
    books = None
    if counters is not None:
        counts = log_counts(replayed, captured)
        fit = readings_fit(counters, counts, judge, assumptions.tolerance_us)
        books = balance(counters, counts, hosts, judge, fit)
        assumptions = msgspec.structs.replace(assumptions, until_us=fit.until_us)
    for _, each in changes:
        check_match(rows("SELECT DISTINCT vhost, queue FROM {replayed}", replayed=replayed), each)
    if changes:
        summary = summarize(replayed, definitions, prepared.broken, assumptions)
    else:
        overfull = overfull_queues(replayed, hosts, judge, assumptions)
        unfilled = unfilled_queues(hops(replayed), captured, hosts, judge, assumptions)
        untested = untested_settings(replayed, captured, hosts, judge, assumptions, counters=books is not None)
        summary = summarize(replayed, definitions, prepared.broken, assumptions, overfull, unfilled, untested)
    if prepared.shared:
        unchecked: dict[What, int] = {**summary.unchecked, "shared-rows": prepared.shared}
        summary = msgspec.structs.replace(summary, unchecked=unchecked)
    summary = msgspec.structs.replace(
        summary,
        left_out=others,
        twice=prepared.twice,
        measured_us=prepared.late_us if measured else 0,
        redacted=redacted,
        behind_us=prepared.behind_us if prepared.behind_us > assumptions.tolerance_us else 0,
    )
    found = tuple(() if summary.explained else findings(replayed))
    repairs = NO_REPAIRS
    if not summary.explained:
        progress("looking for explanations", summary.differ + summary.unexplained, None)
        repairs = _repairs(engine, captured, replayed, periods, rules)
    result = ReplayResult(
        summary=summary,
        coverage=coverage(parts, periods[-1].definitions, rules),
        findings=found,
        unchecked=tuple(unchecked_findings(replayed) if summary.unchecked else ()),
        lost=tuple(lost_messages(replayed, assumptions) if summary.has_dead_ends else ()),
        files=prepared.files,
        rejected=prepared.rejected,
        out=out,
        balance=books,
        repairs=repairs,
    )
    if otlp is not None:
        progress("writing the traces", summary.deliveries, None)
        from simulator.replay.traces import write_traces  # which needs an extra of its own

        try:
            write_traces(otlp, folder, prepared.captures, periods, rules, assumptions, work)
        except OSError as error:
            raise CaptureError(str(otlp), f"cannot be written: {error.strerror or error}") from error
    if out is not None:
        progress("writing the report", summary.deliveries, None)
        engine.write(hops(replayed), work / "hops.parquet")
        (work / "summary.json").write_bytes(result.as_json())
        from simulator.replay.report import write_report  # plotly is only needed here

        write_report(
            work / "report.html",
            replayed,
            named_after_all(periods),
            rules,
            summary,
            prepared.files,
            captured,
            assumptions,
            books,
            repairs,
            result.coverage,
        )
        publish(work, out, ("verdicts.parquet", "hops.parquet", "summary.json", "report.html", REJECTED))
    return result


def _left_out(prepared: Prepared, periods: Sequence[Period]) -> dict[str, int]:
    """Return how many rows there are of each virtual host that is in none of the definitions."""
    first, *others = (left_out(prepared.places, period.definitions) for period in periods)
    return {vhost: found for vhost, found in first.items() if all(vhost in each for each in others)}


def _replayed(
    engine: Engine[Table],
    captured: Table,
    periods: Sequence[Period],
    rules: str,
    assumptions: Assumptions,
    folder: Path,
    done: Callable[[float], object],
) -> tuple[Table, Table]:
    """Replay under the definitions of each period: return all rows of all, and the rows by those in force.

    The latter are in ``folder``; what an earlier replay left there is removed.
    """
    numbers = range(len(periods))
    folders: list[Path] = [folder]
    if len(periods) > 1:
        folders = [folder.with_name(f"period-{number}.parquet") for number in numbers]
    for each in (folder, *folders):
        shutil.rmtree(each, ignore_errors=True)

    def replay(number: int) -> Table:
        def part_done(share: float) -> object:
            return done((number + share) / len(periods))

        return engine.replay(captured, periods[number].definitions, rules, assumptions, folders[number], part_done)

    found = [replay(number) for number in numbers]
    if len(periods) == 1:
        return found[0], found[0]
    every = " UNION ALL ".join(f"SELECT * FROM {{part_{number}}}" for number in range(len(found)))
    parts = select(every, **{f"part_{number}": each for number, each in enumerate(found)})
    return parts, engine.write(in_force(found, periods, assumptions.slack_us), folder)


def _repairs(engine: Engine[Table], captured: Table, replayed: Table, periods: Sequence[Period], rules: str) -> Repairs:
    """Return what may be behind deliveries that are not as predicted, under the definitions of their time."""
    if len(periods) == 1:
        return engine.repair(captured, replayed, periods[0].definitions, rules)
    each = [engine.repair(captured, wrong_in(replayed, period), period.definitions, rules) for period in periods]
    return Repairs(
        found=tuple(sorted((one for repairs in each for one in repairs.found), key=lambda one: -one.deliveries)),
        unexplained=sum(repairs.unexplained for repairs in each),
        left_out=sum(repairs.left_out for repairs in each),
    )


@contextmanager
def workplace(out: Path | None) -> Iterator[Path]:
    """Yield a folder to write in: beside the results, so that they can be renamed into place.

    Folders that were made for ``out`` are removed again if no results came into them.
    """
    missing = [] if out is None else [each for each in (out, *out.parents) if not each.exists()]
    try:
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=".replay-", dir=out))
    except OSError as error:
        raise CaptureError(str(out), f"cannot be written: {error.strerror}") from error
    # Workers may run as another user.
    work.chmod(0o755)
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)
        with suppress(OSError):  # the first that holds results stays, and so do those above it
            for each in missing:
                each.rmdir()


def _is_parquet(log: Path) -> bool:
    try:
        with log.open("rb") as stream:
            return stream.read(len(MAGIC)) == MAGIC
    except OSError:
        return False  # convert says what is wrong with it


def _checked(capture: Path) -> FileReport:
    """Return the capture, once it is found readable. Raises ``CaptureError``."""
    for _ in read_capture(capture):
        break
    rows = pq.read_metadata(capture).num_rows
    if not rows:
        raise CaptureError(capture.name, "no row in it")
    return FileReport(file=capture.name, rows=rows, broken=0)


def _described(line: str) -> str:
    record = msgspec.json.decode(line)
    return f"{record['file']}:{record['line']}: {record['reason']}"


def publish(work: Path, out: Path, names: Iterable[str]) -> None:
    """Put the results with these names in their place, and remove those of an earlier run."""
    for name in names:
        made, place = work / name, out / name
        if place.is_dir():
            shutil.rmtree(place)
        elif place.exists():
            place.unlink()
        if made.exists():
            made.rename(place)
