"""``dlx whatif`` shows what would have happened to the messages of a log under other settings, or another release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from rich.console import Console
from rich.table import Table

from dlx.releases import release
from simulator.cli.command_parts import DataError, example
from simulator.cli.given_logs import (
    TimedDefinitions,
    changes_in,
    check_times,
    definitions_option,
    must_exist,
    prepared_logs,
    read_timed,
    taken_noted,
)
from simulator.cli.given_server import server_options
from simulator.cli.given_source import GivenSource, Source, read_source
from simulator.cli.lines import print_without_padding
from simulator.cli.options import LOG, RELEASE, GivenEngine, engine_options, given_engine, release_option
from simulator.cli.progress import progress
from simulator.cli.spark_job import run_on_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from simulator.definitions import Definitions
    from simulator.replay.rows.tables import Table as Rows
    from simulator.replay.run import Engine
    from simulator.whatif.answer import WhatIfAnswer
    from simulator.whatif.coupling import Unit
    from simulator.whatif.differences import Side
    from simulator.whatif.playback import Unseen
    from simulator.whatif.result import AnyResult

EXIT_CHANGES = 1
LOCAL_ROWS_MAX = 300_000
"""Rows that are asked about in this process unless the user says otherwise: it keeps all messages in memory."""
STYLES = {"good": "bold green", "open": "bold", "bad": "bold red"}


@click.command(
    epilog=example(
        "dlx whatif trace.log.gz --definitions definitions.json --release 3.10 --against-release 4.3",
        "dlx whatif log.parquet --definitions definitions.json --set queue:jobs.x-delivery-limit=2 --out out",
    )
)
@click.argument("logs", nargs=-1, required=True, type=LOG, metavar="LOG...")
@definitions_option(several=True)
@release_option("RabbitMQ release of the broker that wrote the log.")
@click.option("--against", "other_source", type=GivenSource(), metavar="SOURCE", help="Other definitions.")
@click.option("--against-release", "against", type=RELEASE, help="Other RabbitMQ release. [default: that of the log]")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KIND:NAME.KEY=VALUE",
    help="Another setting: queue:jobs.x-delivery-limit=2, policy:burst.max-length=5, operator-policy:all.expires=;"
    " an empty value removes it. Repeatable.",
)
@click.option(
    "--unseen",
    type=click.Choice(["ack", "repeat"]),
    default="ack",
    show_default=True,
    help="What consumers do with a delivery that the log does not have: acknowledge it, or the same as the last time.",
)
@click.option(
    "--left",
    "left",
    multiple=True,
    type=LOG,
    metavar="FILE",
    help="A capture of what the queues held at the end: shows which messages died into queues without a consumer.",
)
@engine_options(LOCAL_ROWS_MAX)
@click.option("--explain-plan", is_flag=True, help="Say which messages are played together, and why.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Directory for the HTML report, a row per message and side in Parquet, and the totals. [default: no files]",
)
@click.option(
    "--fail-on",
    type=click.Choice(["change", "lost"]),
    default="change",
    show_default=True,
    help="Exit with 1 if any message ends differently, or only if one loses more copies than before.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the totals as JSON.")
@server_options
def whatif(
    logs: tuple[Path, ...],
    given_definitions: tuple[TimedDefinitions, ...],
    rules: str | None,
    other_source: Source | None,
    against: str | None,
    settings: tuple[str, ...],
    unseen: str,
    left: tuple[Path, ...],
    engine: str,
    master: str | None,
    explain_plan: bool,
    out: Path | None,
    fail_on: str,
    as_json: bool,
) -> int:
    """Say what would have happened to the messages of a log under other settings, or another release.

    LOG is a JSON or text log of RabbitMQ's tracing plugin, plain or gzip-compressed, or a
    capture in Parquet. The messages are played twice: under the settings of the log, and under the
    others. What the first run does not reproduce of the log is left out, and counted. The
    command exits with 1 if a message ends differently.
    """
    where = given_engine(engine, master, LOCAL_ROWS_MAX)
    check_times(given_definitions)
    timed, rules = read_timed(given_definitions, rules, logs)
    asked = _asked(logs, timed, rules, other_source, against or rules, settings, unseen, left, where, out)
    answer = asked.answer
    if as_json:
        click.echo(msgspec.json.encode(answer).decode())
    else:
        console = Console(highlight=False)
        _show(console, answer, rules, against or rules)
        if explain_plan:
            _show_plan(console, asked.units)
        if out is not None:
            console.print(f"report: {out / 'report.html'}", soft_wrap=True)
    lost, changed = answer.losing or answer.undecided_losing, answer.changed or answer.undecided
    nothing = answer.messages and not answer.reproduced
    return EXIT_CHANGES if nothing or (lost if fail_on == "lost" else changed) else 0


def _asked(
    logs: tuple[Path, ...],
    timed: Mapping[TimedDefinitions, Definitions],
    rules: str,
    other_source: Source | None,
    against: str,
    settings: tuple[str, ...],
    unseen: str,
    left: tuple[Path, ...],
    where: GivenEngine,
    out: Path | None,
) -> AnyResult:
    """Ask. Raises ``DataError`` for what cannot be used, and a usage error for settings that there are not."""
    from simulator.capture import CaptureError
    from simulator.definitions import DefinitionsError
    from simulator.replay.engines.local import local_engine
    from simulator.replay.results.summary import MatchesNothingError
    from simulator.replay.rows.periods import first_seen_from, periods_of
    from simulator.replay.run import workplace
    from simulator.time_spans import moment
    from simulator.whatif.local import what_if_files
    from simulator.whatif.result import MESSAGES, write_files
    from simulator.whatif.sides import side_of

    try:
        given = None if other_source is None else taken_noted(read_source(other_source), against)

        def sides_of(definitions: Definitions) -> tuple[Side, Side]:
            other = _with(definitions if given is None else given, settings, against)
            return side_of(definitions, rules), side_of(other, against)

        first = next(iter(timed.values()))
        of_all = sides_of(first) if len(timed) == 1 else None  # what is wrong with --set is said before the log is read
        must_exist((*logs, *left))
        with workplace(out) as work, progress("reading the logs") as show:
            log = prepared_logs(logs, work, show, first)
            begun = [each for each in periods_of(first, changes_in(timed, log)) if each.from_us <= log.until_us]
            before, after = of_all or sides_of(begun[-1].definitions)
            (work / "left").mkdir()
            held = prepared_logs(left, work / "left", show).captures if left else ()
            chosen: Unseen = "repeat" if unseen == "repeat" else "ack"

            def captured(engine: Engine[Rows], rows: Rows) -> tuple[Rows, list[str]]:
                """Return the rows that the answer is about, and what of the log is left out."""
                if len(begun) == 1:
                    return rows, []
                from_us = begun[-1].from_us
                later, earlier = first_seen_from(rows, from_us)
                why = f"published before {moment(from_us)}: other definitions held then, and the answer is for the last"
                return engine.write(later, work / "last-period.parquet"), [f"{earlier:,} messages {why}"]

            def kept(asked: AnyResult, left_out: list[str]) -> AnyResult:
                asked.answer.unchecked = (*left_out, *asked.answer.unchecked)
                if out is not None:
                    asked.write_messages(work / MESSAGES)
                return asked

            def here() -> AnyResult:
                with local_engine(work) as engine:
                    rows, left_out = captured(engine, engine.read(log.captures))
                    asked = what_if_files(
                        rows,
                        before,
                        after,
                        left=engine.read(held) if held else None,
                        unseen=chosen,
                        examples=out is not None,
                        progress=show,
                    )
                return kept(asked, left_out)

            def there(spark: SparkSession) -> AnyResult:
                from simulator.replay.engines.spark import SparkEngine
                from simulator.whatif.spark import what_if_on_spark

                read = spark.read.parquet
                rows, left_out = captured(SparkEngine(spark), read(*log.captures))
                asked = what_if_on_spark(
                    rows,
                    before,
                    after,
                    left=read(*held) if held else None,
                    unseen=chosen,
                    examples=out is not None,
                    progress=lambda what, share: show(what, round(share * log.rows), log.rows),
                )
                return kept(asked, left_out)

            if where.is_spark(log.rows):
                show("starting Spark for", log.rows)
                asked = run_on_spark(where.master, "dlx whatif", there)
            else:
                asked = here()
            if out is not None:
                names = (f"log, {rules}", f"other, {against}")
                write_files(work, out, asked, names)
            return asked
    except (CaptureError, DefinitionsError, MatchesNothingError) as error:
        raise DataError(str(error)) from error


def _with(definitions: Definitions, settings: tuple[str, ...], rules: str) -> Definitions:
    """Return the definitions with the settings. Raises ``DataError`` for settings that the broker refuses."""
    from simulator.analysis.snapshot import Snapshot
    from simulator.whatif.settings_given import SettingError, read_setting, remarks, with_settings

    if not settings:
        return definitions
    try:
        given = [read_setting(each, definitions) for each in settings]
    except SettingError as error:
        raise click.UsageError(f"--set {error}") from error
    found = with_settings(definitions, given)
    names = {setting.name for setting in given}
    snapshot = Snapshot(found, release(rules))
    for refused in snapshot.refused:
        if refused.about.name in names:
            raise DataError(f"--set: RabbitMQ {rules} refuses {refused.about}: {refused.why}")
    for remark in remarks(given, snapshot):
        click.echo(f"note: --set {remark}", err=True)
    return found


def _show_plan(console: Console, units: Sequence[Unit]) -> None:
    for unit in units:
        if unit.queues:
            console.print(f"{len(unit.stories):,} messages together: {'; '.join(unit.why)}", soft_wrap=True)
        else:
            console.print(f"{len(unit.stories):,} messages one by one: nothing couples them", soft_wrap=True)


def _show(console: Console, answer: WhatIfAnswer, rules: str, against: str) -> None:
    from simulator.whatif.answer import SHOWN_MAX, headline, sureness

    for sentence in headline(answer):
        console.print(f"{sentence.text}.", style=STYLES[sentence.mood], soft_wrap=True, markup=False)
    _show_ends(console, answer, rules, against)
    if answer.changes:
        console.print("How they end differently, losses first:")
        for change in answer.changes[:SHOWN_MAX]:
            style = "red" if change.lost else "green" if change.saved else ""
            text = f"{change.messages:>8,}  {change.before} → {change.after}; such as {', '.join(change.examples)}"
            console.print(text, style=style, soft_wrap=True, markup=False)
        if len(answer.changes) > SHOWN_MAX:
            console.print(f"          and {len(answer.changes) - SHOWN_MAX} more ways")
    if answer.causes:
        console.print("Because of:")
        for cause in answer.causes:
            console.print(f"{cause.messages:>8,}  {cause.what}", soft_wrap=True, markup=False)
    if answer.over_represented:
        console.print("More common among the messages that change than among all:")
        for each in answer.over_represented:
            text = f"{each.messages:>8,}  {each.what} {each.value!r}: {each.ratio} times as often"
            console.print(text, soft_wrap=True, markup=False)
    for line in sureness(answer):
        console.print(line, soft_wrap=True, markup=False)


def _show_ends(console: Console, answer: WhatIfAnswer, rules: str, against: str) -> None:
    from simulator.whatif.answer import ends_of

    rows = [(name, one, other) for name, one, other in ends_of(answer) if one != other]
    if rows:
        table = Table(title="Copies that end elsewhere", title_justify="left")
        table.add_column("end")
        table.add_column(f"log, {rules}", justify="right")
        table.add_column(f"other, {against}", justify="right")
        table.add_column("change", justify="right")
        for name, one, other in rows:
            table.add_row(name, f"{one:,}", f"{other:,}", f"{other - one:+,}")
        print_without_padding(console, table)
    delays = (answer.delay_ms.before, answer.delay_ms.after)
    if all(each.p50 is not None for each in delays) and delays[0] != delays[1]:
        told = "; then ".join(f"{each.p50:,.0f} ms (median), {each.p95:,.0f} ms (95 %)" for each in delays)
        console.print(f"Time from the first publish to the end: {told}.", soft_wrap=True)
