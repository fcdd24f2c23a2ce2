"""``dlx replay`` compares the deliveries in a log with the predictions of the rules."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource
from rich.console import Console
from rich.table import Table

from dlx.releases import TABLE
from simulator.cli.command_parts import DataError, FiniteRange, example
from simulator.cli.given_logs import (
    TimedDefinitions,
    changes_in,
    check_times,
    definitions_option,
    must_exist,
    prepared_logs,
    read_timed,
)
from simulator.cli.given_server import server_options
from simulator.cli.lines import print_without_padding
from simulator.cli.options import COUNTERS, LOG, GivenEngine, engine_options, given_engine, otlp_option, release_option
from simulator.cli.progress import progress
from simulator.cli.spark_job import run_on_spark
from simulator.extras import check_installed
from simulator.replay.rows.assumptions import TOLERANCE_MS, Assumptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from simulator.definitions import Definitions
    from simulator.replay.coverage.totals import Coverage
    from simulator.replay.repair.repair_report import Repair, Repairs, ShownRow
    from simulator.replay.results.counters import Balance
    from simulator.replay.results.summary import Finding, LostMessages
    from simulator.replay.rows.tables import Table as Rows
    from simulator.replay.run import Engine, ReplayResult


EXIT_FINDINGS = 1
# What logs may be, and the options that go with each besides.
FORMS: dict[str, tuple[str, ...]] = {
    "rabbitmq": (),
    "histories": ("tolerance_ms", "master", "as_json"),
    "zaqar": ("as_json",),
    "activemq": ("given_definitions", "as_json"),
}
STYLES = {"good": "bold green", "open": "bold yellow", "bad": "bold red"}
SHORT = 90
LOCAL_ROWS_MAX = 2_000_000
"""Rows that are replayed in this process unless the user says otherwise: of more, Spark is faster."""


@click.command(epilog=example("dlx replay trace.log.gz --definitions definitions.json --release 4.3 --out out"))
@click.argument("logs", nargs=-1, required=True, type=LOG, metavar="LOG...")
@definitions_option(required=False, several=True)
@click.option(
    "--form",
    type=click.Choice(list(FORMS)),
    default="rabbitmq",
    show_default=True,
    help="What LOG is: rabbitmq, traces; histories, a scenario and its events a line, of any system;"
    " zaqar, requests to Zaqar and its answers; activemq, a broker's log, for which --definitions is its activemq.xml."
    " The others take no other options but --tolerance-ms, --master, --json.",
)
@release_option("RabbitMQ release whose rules make the predictions.")
@click.option(
    "--counters",
    "counters_path",
    type=COUNTERS,
    metavar="FILE",
    help="The broker's counters for the same time (from dlx capture --metrics-url), to balance with the log.",
)
@click.option(
    "--tolerance-ms",
    type=FiniteRange(min=0),
    show_default=f"{TOLERANCE_MS:g}, or the lag that dlx capture measured, if that is more",
    help="Largest difference in milliseconds between two times of the log for the same moment:"
    " how late the broker writes its trace, and how far clocks are apart.",
)
@click.option(
    "--complete",
    is_flag=True,
    help="The log has every publish since the queues were empty, with its whole payload: a queue that was full was"
    " full of messages in the log.",
)
@engine_options(LOCAL_ROWS_MAX)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Directory for the HTML report and the verdicts and hops in Parquet. [default: keep no files]",
)
@otlp_option("the life of each message, with the deaths that no row shows,")
@click.option(
    "--require-deaths",
    is_flag=True,
    help="Exit with 1 if no delivery shows that a message died: such a log proves nothing about dead letters.",
)
@click.option("--explain", is_flag=True, help="Show the rows around each explanation of what is not as predicted.")
@click.option("--coverage", is_flag=True, help="List the rules, and by queue the deaths, that the log did not show.")
@click.option("--json", "as_json", is_flag=True, help="Print the totals and the explanations as JSON.")
@server_options
@click.pass_context
def replay(
    context: click.Context,
    logs: tuple[Path, ...],
    given_definitions: tuple[TimedDefinitions, ...],
    form: str,
    rules: str | None,
    counters_path: Path | None,
    tolerance_ms: float | None,
    complete: bool,
    engine: str,
    master: str | None,
    out: Path | None,
    otlp: Path | None,
    require_deaths: bool,
    explain: bool,
    coverage: bool,
    as_json: bool,
) -> None:
    """Replay captured logs through the dead-letter rules, and compare with what the broker delivered.

    LOG is a JSON or text log of RabbitMQ's tracing plugin, plain or gzip-compressed, or a
    capture in Parquet. The command exits with 1 if a delivery differs from the prediction
    or cannot be explained, if a publish was routed to other queues, or if a queue held more
    messages than it may. With --complete, also if more messages died of a length limit than it
    allows. With --counters, also if the broker counted dead letters that nothing in the log
    explains, or counted at another time. It names what it
    could not check, which alone does not make it exit with 1.
    """
    if form != "rabbitmq":
        _of_another_form(context, form, logs)
        return
    if not given_definitions:
        raise click.MissingParameter(ctx=context, param_hint="'--definitions'", param_type="option")
    where = given_engine(engine, master, LOCAL_ROWS_MAX)
    assumptions = Assumptions(TOLERANCE_MS if tolerance_ms is None else tolerance_ms, complete)
    _check_several(given_definitions, counters_path, complete=complete)
    timed, rules = read_timed(given_definitions, rules, logs)
    result = _replayed(
        logs, timed, rules, counters_path, assumptions, where, out, otlp, as_measured=tolerance_ms is None
    )
    if as_json:
        click.echo(result.as_json().decode())
    else:
        _show(result, rules, explain=explain, coverage=coverage)
    if require_deaths and not result.summary.dead_letters:
        click.echo("dlx replay: no delivery shows that a message died, and --require-deaths asks for one", err=True)
        raise click.exceptions.Exit(EXIT_FINDINGS)
    if not result.explained:
        raise click.exceptions.Exit(EXIT_FINDINGS)


def _check_several(given: tuple[TimedDefinitions, ...], counters: Path | None, *, complete: bool) -> None:
    """Fail with a usage error for times that do not fit, and for options that several definitions do not go with."""
    check_times(given)
    foreign = [name for name, is_given in (("--counters", counters is not None), ("--complete", complete)) if is_given]
    if len(given) > 1 and foreign:
        raise click.UsageError(
            f"{foreign[0]}: not for several --definitions; it adds up the whole log against one set of settings"
        )


def _of_another_form(context: click.Context, form: str, logs: tuple[Path, ...]) -> None:
    """Check logs that are not traces of RabbitMQ. Fails with a usage error for an option that is only for traces."""
    given = {name for name in context.params if context.get_parameter_source(name) == ParameterSource.COMMANDLINE}
    foreign = sorted(given - {"logs", "form", *FORMS[form]})
    if foreign:
        names = [param.opts[0] for param in context.command.params if param.name in foreign]
        raise click.UsageError(f"{', '.join(names)}: not for --form {form}")
    check_installed("spark" if form == "histories" else "replay")
    must_exist(logs)
    options = {name: context.params[name] for name in FORMS[form] if name in given}
    from simulator.cli import replay_others  # with all that it needs, for those who ask for it

    if form == "histories":
        status = replay_others.replay_histories(logs, **options)
    elif form == "activemq":
        given_files = options.pop("given_definitions", ())
        files = [each.source for each in given_files if each.since is None and isinstance(each.source, Path)]
        if len(given_files) > 1 or len(files) < len(given_files):
            raise click.UsageError("--definitions: --form activemq takes one activemq.xml, for the whole log")
        status = replay_others.replay_activemq(logs, definitions_path=files[0] if files else None, **options)
    else:
        status = replay_others.replay_zaqar(logs, **options)
    if status:
        raise click.exceptions.Exit(status)


def _replayed(
    logs: tuple[Path, ...],
    timed: dict[TimedDefinitions, Definitions],
    rules: str,
    counters_path: Path | None,
    assumptions: Assumptions,
    where: GivenEngine,
    out: Path | None,
    otlp: Path | None,
    *,
    as_measured: bool,
) -> ReplayResult:
    from simulator.capture import CaptureError
    from simulator.capture.counters import read_counters
    from simulator.definitions import DefinitionsError
    from simulator.replay.engines.gc_tuning import seldom_collecting
    from simulator.replay.engines.local import local_engine
    from simulator.replay.results.summary import MatchesNothingError
    from simulator.replay.run import run_replay, workplace

    try:
        counters = None if counters_path is None else read_counters(counters_path)
        must_exist(logs)
        with workplace(out) as work, progress("reading the logs") as show:
            definitions = next(iter(timed.values()))
            prepared = prepared_logs(logs, work, show, definitions)
            changes = changes_in(timed, prepared)

            def job(engine: Engine[Rows]) -> ReplayResult:
                return run_replay(
                    engine,
                    prepared,
                    definitions,
                    work,
                    rules=rules,
                    assumptions=assumptions,
                    as_measured=as_measured,
                    out=out,
                    progress=show,
                    counters=counters,
                    changes=changes,
                    otlp=otlp,
                )

            if where.is_spark(prepared.rows):
                show("starting Spark for", prepared.rows)
                return run_on_spark(where.master, "dlx replay", lambda spark: job(_spark_engine(spark)))
            with local_engine(work) as here, seldom_collecting():
                return job(here)
    except MatchesNothingError as error:
        raise DataError(str(error)) from error
    except (CaptureError, DefinitionsError) as error:
        raise DataError(str(error)) from error


def _spark_engine(spark: SparkSession) -> Engine[DataFrame]:
    from simulator.replay.engines.spark import SparkEngine

    return SparkEngine(spark)


def _say(console: Console, *lines: str) -> None:
    """Print lines as they are, and whole, however long they are."""
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False, markup=False)


def _show(result: ReplayResult, rules: str, *, explain: bool, coverage: bool) -> None:
    from simulator.replay.results.headline import headline

    console = Console()
    summary = result.summary
    found = headline(summary, rules, result.balance, result.lost)
    console.print(f"{found.text}.", style=STYLES[found.tone], soft_wrap=True, highlight=False, markup=False)
    _say(console, *(f"  {more}" for more in found.more))
    table = Table(title=f"Replayed under RabbitMQ {rules}", title_justify="left", show_header=False)
    table.add_column(justify="left")
    table.add_column(justify="right")
    table.add_row("messages", f"{summary.messages:,}")
    table.add_row("deliveries observed", f"{summary.deliveries:,}")
    table.add_row("dead letters reconstructed", f"{summary.dead_letters:,}")
    table.add_section()
    for name in ("agree", "ambiguous", "differ", "unexplained"):
        table.add_row(name, f"{getattr(summary, name):,}")
    share = f"{summary.agreement_percent:.2f} %" if summary.deliveries else "no delivery"
    table.add_row("simulator and broker agree on", share)
    if summary.broken_lines:
        table.add_row("broken lines", f"{summary.broken_lines:,}")
    print_without_padding(console, table)
    if result.balance is not None:
        show_balance(console, result.balance)
    if result.findings:
        _show_findings(console, result)
    show_repairs(console, result.repairs, explain=explain)
    if result.lost:
        _show_lost(console, result)
    if result.unchecked:
        _show_unchecked(console, result)
    _show_untested(console, result)
    _show_coverage(console, result.coverage, every=coverage)
    if result.out is not None:
        console.print(f"report: {result.out / 'report.html'}", soft_wrap=True, highlight=False)


def _show_findings(console: Console, result: ReplayResult) -> None:
    console.print("Disagreements, most frequent first:")
    _say(console, *map(_described, result.findings))
    named = {name for finding in result.findings for name in finding.behaviours}
    if named:
        console.print("These behaviours of the release table explain them:")
    for row in TABLE:
        if row.name in named:
            console.print(f"  {row.name}: {row.meaning}", highlight=False, markup=False)


def _show_lost(console: Console, result: ReplayResult) -> None:
    ends: dict[str, list[tuple[int, int, LostMessages]]] = {
        "lost": [(each.lost, each.may_be_lost, each) for each in result.lost],
        "held": [(each.held, each.may_be_held, each) for each in result.lost],
    }
    for end, found in ends.items():
        told = [each for each in found if each[0] or each[1]]
        lines = [f"{end.capitalize()}, or {end} if they died:"] if told else []
        for certain, perhaps, each in told:
            counts = f"{certain:>8,} {end}, {perhaps:,} may be"
            lines.append(f"{counts}  in queue {each.queue}: {each.why}; first at {each.file}:{each.line}")
        _say(console, *lines)


def _show_unchecked(console: Console, result: ReplayResult) -> None:
    console.print("Not checked, most frequent first:")
    for each in result.unchecked:
        text = f"{each.count:>8,}  {each.what} of {each.name}: {each.why}; first at {each.file}:{each.line}"
        _say(console, text)


def _show_untested(console: Console, result: ReplayResult) -> None:
    from simulator.replay.results.untested import sentence

    told = sentence(result.summary.untested or {}, result.summary.untested_more)
    if told:
        _say(console, f"{told}.")


def _show_coverage(console: Console, found: Coverage, *, every: bool) -> None:
    from simulator.replay.coverage.catalogue import RULE_MEANINGS
    from simulator.replay.coverage.totals import headline, queue_line, rules_untried

    more = "" if every or not found.missing else " (--coverage lists the others)"
    lines = [f"{headline(found)}{more}.{rules_untried(found)}"]
    if every:
        lines += [f"  not exercised: {name}: {RULE_MEANINGS[name]}" for name in found.missing]
        told = ((each, queue_line(each)[1]) for each in found.by_queue)
        lines += [f"  not seen in queue {each.queue}: {missing}" for each, missing in told if missing]
    _say(console, *lines)


def _described(finding: Finding) -> str:
    what = f"{finding.count:>8,}  {finding.what}"
    if finding.verdict == "differ":
        what += f": expected {_short(finding.expected)}, seen {_short(finding.seen)}"
    where = f"queue {finding.queue}" if finding.queue else "publishes"
    where += f" and {finding.queues - 1} more" if finding.queues > 1 else ""
    cause = f" [{', '.join(finding.behaviours)}]" if finding.behaviours else ""
    return f"{what}{cause}; {where}, first at {finding.file}:{finding.line}"


def _short(text: str) -> str:
    return text if len(text) <= SHORT else f"{text[:SHORT]}…"


# Shows what the broker counted beside what a replay found.


def show_balance(console: Console, balance: Balance) -> None:
    """Print the accounts, losses first, a sentence for each residual, and what was not checked."""
    from simulator.replay.results.counters import remarks, sentences

    table = Table(title="Dead letters that the broker counted", title_justify="left")
    for name in ("died", "in", "strategy"):
        table.add_column(name)
    for name in ("counted", "found", "residual"):
        table.add_column(name, justify="right")
    for entry in balance.entries:
        numbers = (f"{number:,}" for number in (entry.counted, entry.reconstructed, entry.residual))
        table.add_row(entry.reason, f"{entry.queue_type} queues", entry.strategy.replace("_", " "), *numbers)
    print_without_padding(console, table if balance.entries else "The broker counted no dead letters.")
    for entry in balance.entries:
        if entry.residual:
            _say(console, *(f"* {sentence}" for sentence in sentences(entry, balance)))
    console.print("Not checked:")
    _say(console, *(f"* {remark}" for remark in remarks(balance)))


# Shows what may be behind the deliveries of a replay that are not as predicted.


REPAIRS_SHOWN = 20
"""Hypotheses that are printed; JSON has all."""


def show_repairs(console: Console, repairs: Repairs, *, explain: bool) -> None:
    """Print the hypotheses, most deliveries first; with ``explain``, the rows around an example of each."""
    if not repairs.found and not repairs.unexplained:
        return
    lines = ["What may be behind them, most deliveries first:"]
    for repair in repairs.found[:REPAIRS_SHOWN]:
        lines += _repair_lines(repair)
        lines += [_shown_row(row) for row in repair.rows] if explain else []
    lines += _repairs_left(repairs, explain=explain)
    _say(console, *lines)


def _repair_lines(repair: Repair) -> list[str]:
    first, *others = repair.likely
    lines = [f"{repair.deliveries:>8,}  {'either: ' if others else ''}{first.text}"]
    lines += [f"{'':8}  or: {other.text}" for other in others]
    return [*lines, f"{'':8}  The trace does not show which."] if others else lines


def _shown_row(row: ShownRow) -> str:
    deaths = f"; deaths: {row.deaths}" if row.deaths else ""
    place = f"{row.file}:{row.line}"
    return f"{'':8}    {row.role + ':':13}{place} {row.moment} {row.where}, by {row.address}{deaths}"


def _repairs_left(repairs: Repairs, *, explain: bool) -> list[str]:
    lines = []
    if len(repairs.found) > REPAIRS_SHOWN:
        lines.append(f"{len(repairs.found) - REPAIRS_SHOWN:>8,}  more such explanations; --json has all of them.")
    if repairs.unexplained:
        lines.append(f"{repairs.unexplained:>8,}  deliveries without an explanation.")
    if repairs.left_out:
        lines.append(f"{repairs.left_out:>8,}  messages were not examined: too many, or with too many rows.")
    if repairs.found and not explain:
        lines.append("With --explain, each shows the rows around its first example.")
    return lines
