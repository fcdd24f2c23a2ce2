"""``dlx replay --form histories``: logs in the neutral event schema against the rules of the system they come from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from simulator.cli.command_parts import DataError
from simulator.cli.progress import progress
from simulator.cli.spark_job import run_on_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXIT_FINDINGS = 1
SHOWN = 10


def replay_histories(
    logs: tuple[Path, ...], *, tolerance_ms: float = 0, master: str | None = None, as_json: bool = False
) -> int:
    """Replay recorded histories of any simulated system on Spark, print what differs, and return the exit code.

    Each log has one history a line: JSON with system, scenario and events (docs/how-to/replay.md).

    Raises ``DataError`` for a line that cannot be read.
    """
    with progress("replaying"):
        report = _replayed(logs, tolerance_ms, master or "local[*]")
    if as_json:
        click.echo(msgspec.json.encode(report).decode())
    else:
        _show(Console(), report)
    if report["unreadable"]:
        raise DataError(f"{report['unreadable'][0]['problem']}")
    return EXIT_FINDINGS if report["differs"] else 0


def _replayed(logs: tuple[Path, ...], tolerance_ms: float, master: str) -> dict[str, Any]:
    """Return the counts by system, and the first histories that differ or cannot be read."""
    return run_on_spark(master, "dlx replay", lambda spark: _counted(spark, logs, tolerance_ms))


def _counted(spark: SparkSession, logs: tuple[Path, ...], tolerance_ms: float) -> dict[str, Any]:
    from pyspark.sql import functions as F

    from simulator.replay.histories import DIFFERS, UNREADABLE
    from simulator.replay.histories import replay_histories as run

    verdicts = run(spark.read.text([str(path.resolve()) for path in logs]), tolerance_ms=tolerance_ms).cache()
    sums = F.count("*").alias("histories"), F.sum("events").alias("events")
    counts = verdicts.groupBy("system", "verdict").agg(*sums)
    some = {
        kind: [row.asDict() for row in verdicts.where(F.col("verdict") == kind).limit(SHOWN).toLocalIterator()]
        for kind in (DIFFERS, UNREADABLE)
    }
    return {"counts": [row.asDict() for row in counts.orderBy("system", "verdict").toLocalIterator()], **some}


def _show(console: Console, report: dict[str, Any]) -> None:
    table = Table("system", "verdict", "histories", "events", box=None, pad_edge=False)
    for row in report["counts"]:
        table.add_row(row["system"], row["verdict"], f"{row['histories']:,}", f"{row['events']:,}")
    console.print(table)
    for row in report["differs"]:
        told = f"{row['history'] or 'a history'} of {row['system']}, event {row['at']}: "
        console.print(Text(f"{told}expected {row['expected'] or 'nothing'}, seen {row['seen'] or 'nothing'}"))
