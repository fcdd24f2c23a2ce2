"""Sums up a replay: its totals, and the differences that occur most often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from simulator.definitions import Definitions
from simulator.replay.verdicts import VERDICTS

FINDINGS_MAX = 20


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of a replay.

    Attributes:
        messages, deliveries: how many there were; each delivery has one of the four verdicts.
        dead_letters: how many deaths were reconstructed.
        agree, differ, ambiguous, unexplained: how many deliveries have that verdict.
        broken_lines: how many lines of the log could not be read.
    """

    messages: int
    deliveries: int
    dead_letters: int
    agree: int
    differ: int
    ambiguous: int
    unexplained: int
    broken_lines: int

    @property
    def explained(self) -> bool:
        """Whether the rules explain every delivery."""
        return self.differ + self.unexplained == 0

    @property
    def agreement_percent(self) -> float:
        """The share of deliveries that agree, rounded down to 0.01; 100.0 for a log without deliveries."""
        return self.agree * 10_000 // self.deliveries / 100 if self.deliveries else 100.0


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Deliveries that differ, or are unexplained, in the same way.

    Attributes:
        verdict: ``differ`` or ``unexplained``.
        what: the field that differs, or why the delivery is unexplained.
        behaviours: the rows of the release table that cause it.
        count, queues: how many such differences there are, in how many queues.
        queue, message, file, line, expected, seen: the first of them.
    """

    verdict: str
    what: str
    behaviours: tuple[str, ...]
    count: int
    queues: int
    queue: str
    message: str
    file: str
    line: int
    expected: str
    seen: str


class MatchesNothingError(ValueError):
    """The definitions and the log have nothing in common; the text says what each has."""


def summarize(replayed: DataFrame, definitions: Definitions, broken_lines: int = 0) -> Summary:
    """Return the totals of ``replay``'s result.

    Raises:
        MatchesNothingError: the definitions are those of other virtual hosts or queues.
    """
    parts = (
        replayed.groupBy("vhost", "queue", "verdict")
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.sum(F.col("first").cast("long")).alias("messages"),
            F.sum("new_deaths").alias("deaths"),
        )
        .toArrow()
        .to_pylist()
    )
    _check_match(parts, definitions)
    verdicts: Counter[str] = Counter()
    for part in parts:
        if part["verdict"] is not None:
            verdicts[part["verdict"]] += part["rows"]
    return Summary(
        messages=sum(part["messages"] or 0 for part in parts),
        deliveries=sum(verdicts.values()),
        dead_letters=sum(part["deaths"] or 0 for part in parts),
        broken_lines=broken_lines,
        **{name: verdicts[name] for name in VERDICTS},
    )


def _check_match(parts: list[dict[str, Any]], definitions: Definitions) -> None:
    source = definitions.source
    seen = {part["vhost"] for part in parts}
    known = seen if not definitions.vhost_named else seen & set(definitions.vhosts)
    if not known:
        raise MatchesNothingError(
            f"{source}: has virtual host {_names(definitions.vhosts)}, the log has {_names(seen)};"
            " export the definitions of the virtual host that was traced"
        )
    queues = {(part["vhost"], part["queue"]) for part in parts if part["queue"] is not None}
    if queues and not any(queue in definitions.topology(vhost).queues for vhost, queue in queues if vhost in known):
        raise MatchesNothingError(
            f"{source}: has none of the queues that the log delivers from, such as"
            f" {_names({queue for _, queue in queues})}"
        )


def _names(names: Iterable[str]) -> str:
    ordered = sorted(names)
    shown = ", ".join(repr(name) for name in ordered[:3])
    return shown + (f" and {len(ordered) - 3} more" if len(ordered) > 3 else "")


def findings(replayed: DataFrame, most: int = FINDINGS_MAX) -> list[Finding]:
    """Return what differs or is unexplained, by field and cause, the most frequent first."""
    bad = replayed.where(F.col("verdict").isin("differ", "unexplained"))
    one = F.explode_outer("differences").alias("difference")
    grouped = (
        bad.select("verdict", "queue", "why", "message", "file", "line", "time_us", one)
        .withColumn("what", F.coalesce("why", "difference.field"))
        .groupBy("verdict", "what", F.col("difference.behaviours").alias("behaviours"))
        .agg(
            F.count(F.lit(1)).alias("count"),
            F.count_distinct("queue").alias("queues"),
            F.min_by(
                F.struct("queue", "message", "file", "line", "difference.expected", "difference.seen"),
                F.struct("time_us", "file", "line"),
            ).alias("example"),
        )
        .orderBy(F.desc("count"), "verdict", "what", "behaviours")
        .limit(most)
    )
    return [_finding(row) for row in grouped.toArrow().to_pylist()]


def _finding(row: dict[str, Any]) -> Finding:
    example = row["example"]
    return Finding(
        verdict=row["verdict"],
        what=row["what"],
        behaviours=tuple(row["behaviours"] or ()),
        count=row["count"],
        queues=row["queues"],
        queue=example["queue"],
        message=example["message"],
        file=example["file"],
        line=example["line"],
        expected=example["expected"] or "",
        seen=example["seen"] or "",
    )


def hops(replayed: DataFrame) -> DataFrame:
    """Return the dead letters that were reconstructed, one row for each copy.

    A death that put copies into several queues has a row for each; ``first_copy`` is true
    in one of them. ``time_us`` is the time of the delivery that showed the death.
    """
    new = F.expr("slice(hops, -new_hops, new_hops)")
    first_copy = (F.col("step") > 0) | (F.col("new_deaths") == F.col("new_hops"))
    return (
        replayed.where(F.col("new_hops") > 0)
        .select("*", F.posexplode(new).alias("step", "hop"))
        .select("message", "vhost", "time_us", "verdict", "step", first_copy.alias("first_copy"), "hop.*")
    )
