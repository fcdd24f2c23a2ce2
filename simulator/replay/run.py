"""Runs one replay, from logs to results on disk."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, NamedTuple, Protocol

import msgspec
import pyarrow.parquet as pq

from dlx.releases import release
from simulator.capture import CaptureError, FileReport, convert, read_capture
from simulator.capture.counters import CounterReadings
from simulator.capture.parquet import MAGIC, stored_late_us
from simulator.capture.redaction import has_redacted_headers
from simulator.definitions import Definitions
from simulator.files import write_whole
from simulator.replay.coverage.totals import Coverage, coverage
from simulator.replay.repair.repair_report import NO_REPAIRS, Repairs
from simulator.replay.results.counters import Balance, as_json, balance, log_counts, readings_fit
from simulator.replay.results.full_queues import overfull_queues, unfilled_queues
from simulator.replay.results.late_bindings import late_bindings
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
from simulator.replay.rows.damage import Place, check_no_copies, counting_queues, overview, without
from simulator.replay.rows.periods import Period, in_force, named_after_all, periods_of, wrong_in
from simulator.replay.rows.tables import Table, rows, select, text
from simulator.replay.rows.topologies import left_out, topologies, without_headers_exchanges
from simulator.replay.rows.verdict_words import What

Progress = Callable[[str, int, int | None], None]
"""Called with the current stage, how many rows are done or at hand, and of how many, if known."""
SHOWN = 20
"""Rejected records that are named one by one."""
VERDICTS, HOPS, SUMMARY, REPORT = "verdicts.parquet", "hops.parquet", "summary.json", "report.html"
REJECTED = "rejected.jsonl"
_IF_ANY = (
    "late",
    "left_out",
    "twice",
    "undelivered",
    "tolerance_ms",
    "behind_us",
    "changed",
    "bound_later",
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
    counting = set() if definitions is None else counting_queues(topologies(definitions))
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
    """What replays: ``LocalEngine`` or ``SparkEngine`` (``simulator.replay.engines``)."""

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
    progress("replaying", 0, prepared.rows)
    measured = as_measured and prepared.late_us > assumptions.tolerance_us
    if measured:
        assumptions = msgspec.structs.replace(assumptions, tolerance_ms=prepared.late_us / 1_000)
    given = periods_of(definitions, changes)
    periods = _by_any_binding(prepared, given, rules)
    others = _left_out(prepared, periods)
    captured = _without(engine.read(prepared.captures), others)
    run = _Run(engine, prepared, periods, rules, work, progress, captured)
    found, assumptions = run.replay_as_late(assumptions)
    progress("adding up", prepared.rows, None)
    assumptions = msgspec.structs.replace(assumptions, gapless=is_gapless(found.in_force, captured))
    books, assumptions = run.balance(found, assumptions, counters)
    summary = msgspec.structs.replace(
        run.summarize(found, assumptions, counted=books is not None),
        left_out=others,
        twice=prepared.twice,
        measured_us=prepared.late_us if measured else 0,
        redacted=periods is not given,
        behind_us=prepared.behind_us if prepared.behind_us > assumptions.tolerance_us else 0,
    )
    result = ReplayResult(
        summary=summary,
        findings=tuple(() if summary.explained else findings(found.in_force)),
        repairs=NO_REPAIRS if summary.explained else run.repair(found, summary),
        coverage=coverage(found.parts, periods[-1].definitions, rules),
        unchecked=tuple(unchecked_findings(found.in_force) if summary.unchecked else ()),
        lost=tuple(lost_messages(found.in_force, assumptions) if summary.has_dead_ends else ()),
        files=prepared.files,
        rejected=prepared.rejected,
        out=out,
        balance=books,
    )
    if otlp is not None:
        progress("writing the traces", summary.deliveries, None)
        from simulator.replay.traces import write_traces  # which needs an extra of its own

        try:
            write_traces(otlp, work / VERDICTS, prepared.captures, periods, rules, assumptions, work)
        except OSError as error:
            raise CaptureError(str(otlp), f"cannot be written: {error.strerror or error}") from error
    if out is not None:
        progress("writing the report", summary.deliveries, None)
        run.write(found.in_force, result, assumptions)
        publish(work, out, (VERDICTS, HOPS, SUMMARY, REPORT, REJECTED))
    return result


class _Rows(NamedTuple, Generic[Table]):
    """The rows of a replay: all of all periods, and those by the definitions in force."""

    parts: Table
    in_force: Table


@dataclass(frozen=True)
class _Run(Generic[Table]):
    """What the steps of one replay share; they stand in their order."""

    engine: Engine[Table]
    prepared: Prepared
    periods: Sequence[Period]
    rules: str
    work: Path
    progress: Progress
    captured: Table

    def replay_as_late(self, assumptions: Assumptions) -> tuple[_Rows[Table], Assumptions]:
        """Replay all rows; if some were written late, or the log lacks some, once more with what that explains."""
        found = self._replay(assumptions)
        late = lateness(self.captured, found.in_force)
        lost = lost_rows(found.in_force, self.captured, disordered=self.prepared.behind_us > 0)
        if late.stretches or lost != NO_LOST_ROWS:
            self.progress("allowing for late rows, and for lost ones", self.prepared.rows, None)
            assumptions = msgspec.structs.replace(assumptions, lateness=late, lost_rows=lost)
            found = self._replay(assumptions)
        return found, assumptions

    def _replay(self, assumptions: Assumptions) -> _Rows[Table]:
        """Replay under the definitions of each period. What an earlier replay left is removed."""
        folder, numbers = self.work / VERDICTS, range(len(self.periods))
        several = len(self.periods) > 1
        folders: list[Path] = [self.work / (f"period-{number}.parquet" if several else VERDICTS) for number in numbers]
        for each in {folder, *folders}:
            shutil.rmtree(each, ignore_errors=True)
        found = [self._replay_period(number, assumptions, folders[number]) for number in numbers]
        if not several:
            return _Rows(found[0], found[0])
        every = " UNION ALL ".join(f"SELECT * FROM {{part_{number}}}" for number in numbers)
        parts = select(every, **{f"part_{number}": each for number, each in enumerate(found)})
        return _Rows(parts, self.engine.write(in_force(found, self.periods, assumptions.slack_us), folder))

    def _replay_period(self, number: int, assumptions: Assumptions, folder: Path) -> Table:
        def done(share: float) -> None:
            rows = round((number + share) / len(self.periods) * self.prepared.rows)
            self.progress("replaying", rows, self.prepared.rows)

        definitions = self.periods[number].definitions
        return self.engine.replay(self.captured, definitions, self.rules, assumptions, folder, done)

    def balance(
        self, found: _Rows[Table], assumptions: Assumptions, counters: CounterReadings | None
    ) -> tuple[Balance | None, Assumptions]:
        """Balance with the counters of the broker, if there are any, which tell until when the trace went on."""
        if counters is None:
            return None, assumptions
        judge, counts = release(self.rules), log_counts(found.in_force, self.captured)
        fit = readings_fit(counters, counts, judge, assumptions.tolerance_us)
        books = balance(counters, counts, topologies(self.periods[0].definitions), judge, fit)
        return books, msgspec.structs.replace(assumptions, until_us=fit.until_us)

    def summarize(self, found: _Rows[Table], assumptions: Assumptions, *, counted: bool) -> Summary:
        """Add up; what goes by one set of settings is left out if there are several.

        ``counted``: the counters of the broker were balanced.
        """
        replayed, (first, *later) = found.in_force, self.periods
        broken = self.prepared.broken
        if later:
            for each in later:
                check_match(rows("SELECT DISTINCT vhost, queue FROM {replayed}", replayed=replayed), each.definitions)
            summary = summarize(replayed, first.definitions, broken, assumptions)
        else:
            hosts, judge = topologies(first.definitions), release(self.rules)
            overfull = overfull_queues(replayed, hosts, judge, assumptions)
            unfilled = unfilled_queues(hops(replayed), self.captured, hosts, judge, assumptions)
            untested = untested_settings(replayed, self.captured, hosts, judge, assumptions, counters=counted)
            summary = summarize(replayed, first.definitions, broken, assumptions, overfull, unfilled, untested)
            if assumptions.gapless:
                bound_later = late_bindings(replayed, self.captured, hosts, judge, assumptions)
                summary = msgspec.structs.replace(summary, bound_later=bound_later)
        if not self.prepared.shared:
            return summary
        unchecked: dict[What, int] = {**summary.unchecked, "shared-rows": self.prepared.shared}
        return msgspec.structs.replace(summary, unchecked=unchecked)

    def repair(self, found: _Rows[Table], summary: Summary) -> Repairs:
        """Return what may be behind deliveries that are not as predicted, under the definitions of their time."""
        self.progress("looking for explanations", summary.differ + summary.unexplained, None)
        engine, captured, replayed, rules = self.engine, self.captured, found.in_force, self.rules
        if len(self.periods) == 1:
            return engine.repair(captured, replayed, self.periods[0].definitions, rules)
        each = [
            engine.repair(captured, wrong_in(replayed, period), period.definitions, rules) for period in self.periods
        ]
        return Repairs(
            found=tuple(sorted((one for repairs in each for one in repairs.found), key=lambda one: -one.deliveries)),
            unexplained=sum(repairs.unexplained for repairs in each),
            left_out=sum(repairs.left_out for repairs in each),
        )

    def write(self, replayed: Table, result: ReplayResult, assumptions: Assumptions) -> None:
        """Write hops, totals and report; the verdicts are written."""
        self.engine.write(hops(replayed), self.work / HOPS)
        (self.work / SUMMARY).write_bytes(result.as_json())
        from simulator.replay.report import aggregate, page  # plotly is only needed here

        definitions = named_after_all(self.periods)
        data = aggregate(replayed, definitions, self.rules, result.summary, result.files, self.captured, assumptions)
        data = msgspec.structs.replace(data, balance=result.balance, repairs=result.repairs, coverage=result.coverage)
        write_whole(self.work / REPORT, page(data))


def _by_any_binding(prepared: Prepared, periods: Sequence[Period], rules: str) -> Sequence[Period]:
    """Return the periods with headers exchanges that may use any binding, if the log has redacted values of headers.

    Otherwise they are the same object.
    """
    judge = release(rules)
    found = [each._replace(definitions=without_headers_exchanges(each.definitions, judge)) for each in periods]
    compares = any(new.definitions is not each.definitions for new, each in zip(found, periods, strict=True))
    return found if compares and has_redacted_headers(prepared.captures) else periods


def _left_out(prepared: Prepared, periods: Sequence[Period]) -> dict[str, int]:
    """Return how many rows there are of each virtual host that is in none of the definitions."""
    first, *others = (left_out(prepared.places, period.definitions) for period in periods)
    return {vhost: found for vhost, found in first.items() if all(vhost in each for each in others)}


def _without(captured: Table, vhosts: Collection[str]) -> Table:
    """Return the rows of other virtual hosts than these."""
    if not vhosts:
        return captured
    return select(f"SELECT * FROM {{captured}} WHERE vhost NOT IN ({', '.join(map(text, vhosts))})", captured=captured)


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
