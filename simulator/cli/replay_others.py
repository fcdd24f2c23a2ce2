"""``dlx replay --form histories``, ``zaqar`` and ``activemq``: logs that are not traces of RabbitMQ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from simulator.capture.sources import UNREADABLE, open_source
from simulator.cli.command_parts import DataError
from simulator.cli.given_logs import must_exist
from simulator.cli.lines import print_without_padding
from simulator.cli.options import MASTER
from simulator.cli.progress import progress
from simulator.cli.spark_job import run_on_spark
from simulator.scenario.scenario_errors import in_our_words
from simulator.systems.activemq.activemq_xml import ConfigurationError, broker_settings
from simulator.systems.activemq.broker_log import CheckedBrokerLog, check_broker_log, read_log
from simulator.systems.activemq.settings import BrokerSettings
from simulator.systems.checked_log import Checked
from simulator.systems.zaqar.request_log import CheckedRequests, LoggedRequest, WrongLine, check_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXIT_FINDINGS = 1
HISTORIES_SHOWN = 10

# Histories in the neutral event schema, against the rules of the system they come from.


def replay_histories(
    logs: tuple[Path, ...], *, tolerance_ms: float = 0, master: str | None = None, as_json: bool = False
) -> int:
    """Replay recorded histories of any simulated system on Spark, print what differs, and return the exit code.

    Each log has one history a line: JSON with system, scenario and events (docs/how-to/replay.md).

    Raises ``DataError`` for a line that cannot be read.
    """
    with progress("replaying"):
        report = run_on_spark(master or MASTER, "dlx replay", lambda spark: _count_histories(spark, logs, tolerance_ms))
    if as_json:
        click.echo(msgspec.json.encode(report).decode())
    else:
        _show_histories(Console(), report)
    if report["unreadable"]:
        raise DataError(f"{report['unreadable'][0]['problem']}")
    return EXIT_FINDINGS if report["differs"] else 0


def _count_histories(spark: SparkSession, logs: tuple[Path, ...], tolerance_ms: float) -> dict[str, Any]:
    """Return the counts by system, and the first histories that differ or cannot be read."""
    from pyspark.sql import functions as F

    from simulator.replay.histories import DIFFERS, UNREADABLE
    from simulator.replay.histories import replay_histories as run

    verdicts = run(spark.read.text([str(path.resolve()) for path in logs]), tolerance_ms=tolerance_ms).cache()
    sums = F.count("*").alias("histories"), F.sum("events").alias("events")
    counts = verdicts.groupBy("system", "verdict").agg(*sums)
    some = {
        kind: [
            row.asDict() for row in verdicts.where(F.col("verdict") == kind).limit(HISTORIES_SHOWN).toLocalIterator()
        ]
        for kind in (DIFFERS, UNREADABLE)
    }
    return {"counts": [row.asDict() for row in counts.orderBy("system", "verdict").toLocalIterator()], **some}


def _show_histories(console: Console, report: dict[str, Any]) -> None:
    table = Table("system", "verdict", "histories", "events", box=None, pad_edge=False)
    for row in report["counts"]:
        table.add_row(row["system"], row["verdict"], f"{row['histories']:,}", f"{row['events']:,}")
    print_without_padding(console, table)
    for row in report["differs"]:
        told = f"{row['history'] or 'a history'} of {row['system']}, event {row['at']}: "
        console.print(Text(f"{told}expected {row['expected'] or 'nothing'}, seen {row['seen'] or 'nothing'}"))


# Requests to Zaqar and its answers, against what its rules rule out.


_OF_ZAQAR = "Zaqar on redis, and requests of one project, in the order in which it answered them"


def replay_zaqar(logs: tuple[Path, ...], *, as_json: bool = False) -> int:
    """Check logs, print what cannot be, and return the exit code. Raises ``DataError`` for a line that is wrong."""
    checked = [(path, _checked_requests(path)) for path in logs]
    return _show_checked(
        [(path, each, f"{each.requests} requests") for path, each in checked], _OF_ZAQAR, as_json=as_json
    )


def _checked_requests(path: Path) -> CheckedRequests:
    try:
        return check_log(_requests(path))
    except WrongLine as error:
        raise DataError(f"{path}: {in_our_words(str(error))}") from error


def _requests(path: Path) -> Iterator[LoggedRequest | None]:
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if not line.strip():
            yield None
            continue
        try:
            yield msgspec.json.decode(line, type=LoggedRequest)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            expected = "expected an object with method, path, status, request, response and t_s"
            raise DataError(f"{path}: line {number}: {in_our_words(str(error))}; {expected}") from error


# The log of an ActiveMQ broker, against what its rules rule out.


_OF_ACTIVEMQ = "ActiveMQ Classic 5.17, a log from one broker, and no dead letters before it begins"
_PLUGIN = '<plugins><loggingBrokerPlugin logAll="true"/></plugins>'


def replay_activemq(logs: tuple[Path, ...], *, definitions_path: Path | None = None, as_json: bool = False) -> int:
    """Check logs, print the findings, and return the exit code.

    Args:
        logs: of brokers with the loggingBrokerPlugin, plain or gzip-compressed.
        definitions_path: the broker's ``activemq.xml``, by which destinations are checked.
        as_json: for machines.

    Raises:
        DataError: a log without a line of the plugin, or a configuration that is missing or that no broker starts with.
    """
    settings = None if definitions_path is None else _settings(definitions_path)
    checked = [(path, _checked_log(path, settings)) for path in logs]
    read = [(path, each, f"{each.messages} lines of messages") for path, each in checked]
    return _show_checked(read, _OF_ACTIVEMQ, as_json=as_json)


def _checked_log(path: Path, settings: BrokerSettings | None) -> CheckedBrokerLog:
    try:
        with TextIOWrapper(open_source(path), encoding="utf-8", errors="replace") as lines:
            checked = check_broker_log(read_log(lines), settings)
    except UNREADABLE as error:
        raise DataError(f"{path}: the gzip stream is damaged: {error}") from error
    if not checked.messages and checked.first_unread:
        raise DataError(
            f"{path}: line {checked.first_unread}: expected the date and time as 2026-11-24 13:42:20,645, and a whole "
            "message as ActiveMQ 5.17 writes it; no line about a message can be read"
        )
    if not checked.messages:
        raise DataError(
            f"{path}: the loggingBrokerPlugin wrote no line about a message; expected a broker with {_PLUGIN}"
        )
    return checked


def _settings(path: Path) -> BrokerSettings:
    must_exist([path])
    try:
        return broker_settings(path.read_bytes())
    except ConfigurationError as error:
        raise DataError(f"{path}: {error}") from error


# What the check of logs of another system found, for people and as JSON.


def _show_checked(checked: Sequence[tuple[Path, Checked, str]], assumed: str, *, as_json: bool) -> int:
    """Print the findings, and return the exit code.

    Args:
        checked: each log, what was found in it, and what was read in words (``6 requests``).
        assumed: what the answer rests on.
        as_json: for machines.
    """
    if as_json:
        documents = [{"log": str(path), **msgspec.to_builtins(each)} for path, each, _ in checked]
        click.echo(msgspec.json.encode(documents).decode())
    else:
        for path, each, read in checked:
            _show_log(path, each, read, assumed)
    return EXIT_FINDINGS if any(each.found for _, each, _ in checked) else 0


def _show_log(path: Path, checked: Checked, read: str, assumed: str) -> None:
    for found in checked.found:
        click.echo(f"{path}: line {found.line}: message {found.message}: {found.problem}")
    counts = ", ".join(f"{count} {what}" for what, count in sorted(checked.looked_at.items())) or "nothing"
    number = len(checked.found)
    click.echo(f"{path}: {read}; checked {counts}; impossible: {number or 'none'}")
    for what, count in checked.not_checked.items():
        click.echo(f"Not checked: {what} ({count} times)")
    click.echo(f"Assumed: {assumed}")
