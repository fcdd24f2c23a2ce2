"""Turns the rows of a replay into the tables of a report: Spark counts, the driver gets bounded results.

Every query ends in a group-by and a limit, so that a replay of any size becomes
the same few thousand rows. Ties are ordered by name: the same replay gives the
same report.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dlx.releases import release
from simulator.capture import FileReport
from simulator.definitions import Definitions
from simulator.events import Event
from simulator.replay.assumptions import DEFAULT_ASSUMPTIONS, Assumptions
from simulator.replay.definitions import topologies
from simulator.replay.losses import find_losses
from simulator.replay.report.data import (
    Ambiguous,
    Cause,
    DeadLetters,
    Deaths,
    Delivered,
    Example,
    FieldDiffers,
    Path,
    Published,
    ReportData,
    Unexplained,
)
from simulator.replay.summary import Summary, hops, lost_messages, unchecked_findings

FLOWS_MAX = 5_000
"""Kinds of publish, dead letter and delivery that are kept."""
GROUPS_MAX = 300
"""Paths, kinds of difference and the like that are kept."""
SERIES_MAX = 25
"""Queues and reasons that have a time series of their own."""
BUCKETS_MAX = 60
TEXT_MAX = 2_000
"""Characters kept of an expected or seen value."""
_MS, _S = 1_000, 1_000_000
BUCKETS_US = (
    *(_MS * n for n in (1, 2, 5, 10, 20, 50, 100, 200, 500)),
    *(_S * n for n in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 43_200)),
    *(_S * 86_400 * n for n in (1, 2, 7, 14, 28)),
)


def aggregate(
    replayed: DataFrame,
    definitions: Definitions,
    rules: str,
    summary: Summary,
    files: Iterable[FileReport],
    captured: DataFrame | None = None,
    assumptions: Assumptions = DEFAULT_ASSUMPTIONS,
) -> ReportData:
    """Return the tables of a report on what ``simulator.replay.replay`` returned.

    ``captured`` are the rows that were replayed; with their column
    ``routed_queues`` the report knows where publishes went.
    """
    tables = _Tables()
    deliveries = replayed.where(F.col("event") == Event.DELIVERED)
    new = hops(replayed)
    dead_letters = tables.dead_letters(new)
    span_us = _span(replayed)
    bucket_us = bucket(span_us)
    differing = replayed.where(F.col("verdict") == "differ") if summary.differ + summary.misrouted else None
    version = definitions.rabbitmq_version
    return ReportData(
        rules=release(rules).name,
        captured_on=version,
        definitions=PurePath(definitions.source).name,
        summary=summary,
        files=tuple(files),
        span_us=span_us,
        publishes=tables.publishes(captured),
        dead_letters=dead_letters,
        deliveries=tables.deliveries(deliveries),
        bucket_us=bucket_us,
        deaths=_deaths(new, dead_letters, span_us, bucket_us),
        paths=tables.paths(deliveries),
        differences=() if differing is None else tables.differences(differing),
        causes=() if differing is None else tables.causes(differing),
        unexplained=tables.unexplained(deliveries) if summary.unexplained else (),
        ambiguous=tables.ambiguous(deliveries) if summary.ambiguous else (),
        losses=find_losses(topologies(definitions), release(rules)),
        unchecked=tuple(unchecked_findings(replayed) if summary.unchecked else ()),
        lost=tuple(lost_messages(replayed, assumptions) if summary.lost or summary.may_be_lost else ()),
        cut=frozenset(tables.cut),
    )


def bucket(span_us: tuple[int, int] | None) -> int:
    """Return the smallest round interval, in microseconds, that divides the time span into few enough."""
    if span_us is None:
        return BUCKETS_US[0]
    length = span_us[1] - span_us[0] + 1
    return next((size for size in BUCKETS_US if length <= size * BUCKETS_MAX), BUCKETS_US[-1])


class _Tables:
    """The bounded tables, and which of them had more rows than are kept."""

    def __init__(self) -> None:
        self.cut: set[str] = set()

    def _top(self, name: str, counted: DataFrame, most: int, *, by: Sequence[str]) -> list[dict[str, Any]]:
        """Return the most frequent rows; ``by`` are the columns that break ties."""
        rows: list[dict[str, Any]] = counted.orderBy(F.desc("count"), *by).limit(most + 1).toArrow().to_pylist()
        if len(rows) > most:
            self.cut.add(name)
        return rows[:most]

    def publishes(self, captured: DataFrame | None) -> tuple[Published, ...] | None:
        """Return the copies that publishes put into queues; ``None`` if the capture does not tell."""
        if captured is None or "routed_queues" not in captured.columns:
            return None
        by = ["vhost", "exchange", "queue"]
        routed = captured.where((F.col("event") == Event.PUBLISHED) & F.col("routed_queues").isNotNull())
        copies = routed.select("vhost", "exchange", F.explode_outer("routed_queues").alias("queue"))
        rows = self._top("publishes", _counted(copies, by), FLOWS_MAX, by=by)
        return tuple(Published(**row) for row in rows)

    def dead_letters(self, new: DataFrame) -> tuple[DeadLetters, ...]:
        """Return the copies of dead letters by route and reason, and the deaths that made them."""
        by = ["vhost", "queue", "reason", "exchange", "to_queue"]
        counted = new.groupBy(*by).agg(_count(), F.count_if("first_copy").alias("deaths"))
        rows = self._top("dead_letters", counted, FLOWS_MAX, by=by)
        return tuple(DeadLetters(**row) for row in rows)

    def deliveries(self, deliveries: DataFrame) -> tuple[Delivered, ...]:
        """Return the deliveries of each queue, and how many differ or are unexplained."""
        by = ["vhost", "queue"]
        unlike = F.col("verdict").isin("differ", "unexplained")
        counted = deliveries.groupBy(*by).agg(_count(), F.count_if(unlike).alias("unlike"))
        rows = self._top("deliveries", counted, FLOWS_MAX, by=by)
        return tuple(Delivered(**row) for row in rows)

    def paths(self, deliveries: DataFrame) -> tuple[Path, ...]:
        """Return the deaths that led to deliveries, with the numbers of deliveries and messages."""
        deaths = F.transform("hops", lambda hop: F.struct(hop["queue"].alias("queue"), hop["reason"].alias("reason")))
        by = ["vhost", "deaths", "queue"]
        counted = (
            deliveries.where(F.size("hops") > 0)
            .select("vhost", "message", "queue", deaths.alias("deaths"))
            .groupBy(*by)
            .agg(_count(), F.count_distinct("message").alias("messages"))
        )
        rows = self._top("paths", counted, GROUPS_MAX, by=by)
        return tuple(
            Path(
                vhost=row["vhost"],
                deaths=tuple((death["queue"], death["reason"]) for death in row["deaths"]),
                queue=row["queue"],
                deliveries=row["count"],
                messages=row["messages"],
            )
            for row in rows
        )

    def differences(self, differing: DataFrame) -> tuple[FieldDiffers, ...]:
        """Return the fields that differ, by queue and cause, each with an example."""
        by = ["vhost", "queue", "field", "behaviours"]
        counted = (
            differing.withColumn("difference", F.explode("differences"))
            .select("*", "difference.field", "difference.behaviours")
            .groupBy(*by)
            .agg(_count(), _example(_text("difference.expected"), _text("difference.seen")))
        )
        rows = self._top("differences", counted, GROUPS_MAX, by=by)
        return tuple(
            FieldDiffers(
                field=row["field"],
                behaviours=tuple(row["behaviours"]),
                count=row["count"],
                expected=row["example"]["expected"],
                seen=row["example"]["seen"],
                example=_example_of(row["example"]),
            )
            for row in rows
        )

    def causes(self, differing: DataFrame) -> tuple[Cause, ...]:
        """Return the sets of behaviours that differences come from, each with its number of deliveries."""
        behaviours = F.array_distinct(F.transform("differences", lambda each: each["behaviours"]))
        counted = _counted(differing.select(F.explode(behaviours).alias("behaviours")), ["behaviours"])
        rows = self._top("causes", counted, GROUPS_MAX, by=["behaviours"])
        return tuple(Cause(tuple(row["behaviours"]), row["count"]) for row in rows)

    def unexplained(self, deliveries: DataFrame) -> tuple[Unexplained, ...]:
        """Return the unexplained deliveries by reason and cause, each with an example."""
        chosen = deliveries.where(F.col("verdict") == "unexplained")
        causes = F.flatten(F.transform("differences", lambda each: each["behaviours"]))
        by = ["why", "behaviours"]
        chosen = chosen.withColumn("behaviours", F.array_distinct(causes))
        rows = self._top("unexplained", chosen.groupBy(*by).agg(_count(), _example()), GROUPS_MAX, by=by)
        return tuple(
            Unexplained(row["why"], row["count"], _example_of(row["example"]), tuple(row["behaviours"] or ()))
            for row in rows
        )

    def ambiguous(self, deliveries: DataFrame) -> tuple[Ambiguous, ...]:
        """Return the ambiguous deliveries by the paths that explain them, each with an example."""
        chosen = deliveries.where(F.col("verdict") == "ambiguous")
        counted = chosen.groupBy("alternatives").agg(_count(), _example())
        rows = self._top("ambiguous", counted, GROUPS_MAX, by=["alternatives"])
        return tuple(Ambiguous(tuple(row["alternatives"]), row["count"], _example_of(row["example"])) for row in rows)


def _deaths(
    new: DataFrame, kinds: tuple[DeadLetters, ...], span_us: tuple[int, int] | None, bucket_us: int
) -> tuple[Deaths, ...]:
    """Return the dead letters over time of the queues and reasons with the most; the other queues are one."""
    if span_us is None:
        return ()
    totals: dict[tuple[str, str, str], int] = {}
    for kind in kinds:
        key = (kind.vhost, kind.queue, kind.reason)
        totals[key] = totals.get(key, 0) + kind.deaths
    busiest = sorted(totals, key=lambda key: (-totals[key], key))[:SERIES_MAX]
    named = F.concat_ws("\n", "vhost", "queue", "reason").isin(["\n".join(key) for key in busiest])
    start_us = span_us[0] - span_us[0] % bucket_us
    by = ["start_us", "vhost", "queue", "reason"]
    timed = new.where("first_copy").select(
        (F.floor((F.coalesce("latest_us", "time_us") - start_us) / bucket_us) * bucket_us + start_us).alias("start_us"),
        F.when(named, F.col("vhost")).alias("vhost"),
        F.when(named, F.col("queue")).alias("queue"),
        "reason",
    )
    return tuple(Deaths(**row) for row in _counted(timed, by).orderBy(*by).toArrow().to_pylist())


def _span(replayed: DataFrame) -> tuple[int, int] | None:
    ends = replayed.agg(F.min("time_us").alias("first"), F.max("time_us").alias("last"))
    row = ends.toArrow().to_pylist()[0]
    return None if row["first"] is None else (row["first"], row["last"])


def _count() -> Column:
    return F.count(F.lit(1)).alias("count")


def _counted(rows: DataFrame, by: list[str]) -> DataFrame:
    return rows.groupBy(*by).agg(_count())


def _text(name: str) -> Column:
    cut = F.concat(F.substring(name, 1, TEXT_MAX), F.lit("…"))
    return F.when(F.length(name) > TEXT_MAX, cut).otherwise(F.col(name)).alias(name.rpartition(".")[2])


def _example(*more: Column) -> Column:
    """Return the first of the group in the log."""
    return F.min(F.struct("time_us", "file", "line", "vhost", "queue", "message", *more)).alias("example")


def _example_of(row: dict[str, Any]) -> Example:
    return Example(row["vhost"], row["queue"], row["message"], row["file"], row["line"])
