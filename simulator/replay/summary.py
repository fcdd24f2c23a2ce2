"""Sums up a replay: its totals, and the differences that occur most often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from simulator.definitions import Definitions
from simulator.events import Event
from simulator.replay.assumptions import DEFAULT_ASSUMPTIONS, Assumptions
from simulator.replay.unchecked import MEANINGS, What
from simulator.replay.verdicts import VERDICTS

FINDINGS_MAX = 20


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of a replay.

    Attributes:
        messages, deliveries: how many there were; each delivery has one of the four verdicts.
        dead_letters: how many deaths were reconstructed.
        agree, differ, ambiguous, unexplained: how many deliveries have that verdict.
        broken_lines: how many lines of the log could not be read.
        unchecked: how many deliveries leave something unchecked, by the words of ``simulator.replay.unchecked``.
        lost: how many messages died, by the rules, where no dead letter reaches a queue, and were not seen again.
        may_be_lost: how many were delivered last where they are lost like that if they were rejected.
        misrouted: how many publishes the broker routed to other queues than the rules and definitions do.
    """

    messages: int
    deliveries: int
    dead_letters: int
    agree: int
    differ: int
    ambiguous: int
    unexplained: int
    broken_lines: int
    unchecked: dict[What, int] = {}
    lost: int = 0
    may_be_lost: int = 0
    misrouted: int = 0

    @property
    def explained(self) -> bool:
        """Whether the rules explain every delivery, and where every publish went."""
        return self.differ + self.unexplained + self.misrouted == 0

    @property
    def agreement_percent(self) -> float:
        """The share of deliveries that agree, rounded down to 0.01; 100.0 for a log without deliveries."""
        return self.agree * 10_000 // self.deliveries / 100 if self.deliveries else 100.0


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Deliveries that differ, or are unexplained, in the same way, or publishes that were routed elsewhere.

    Attributes:
        verdict: ``differ`` or ``unexplained``.
        what: the field that differs, or why the delivery is unexplained.
        behaviours: the rows of the release table that cause it.
        count, queues: how many such differences there are, in how many queues; publishes are in none.
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


class UncheckedFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Deliveries of which the same was not checked.

    Attributes:
        what, name, why: as in ``simulator.replay.unchecked.Unchecked``.
        count: how many deliveries there are.
        file, line: where the first of them stands.
    """

    what: What
    name: str
    why: str
    count: int
    file: str
    line: int


class LostMessages(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that are lost in one queue, or may be.

    Attributes:
        vhost, queue: where they died for the last time.
        why: the rule by which their dead letters reach no queue.
        lost, may_be_lost: as in ``Summary``.
        file, line: where the first of them was last seen.
    """

    vhost: str
    queue: str
    why: str
    lost: int
    may_be_lost: int
    file: str
    line: int


class MatchesNothingError(ValueError):
    """The definitions and the log have nothing in common; the text says what each has."""


def summarize(
    replayed: DataFrame,
    definitions: Definitions,
    broken_lines: int = 0,
    assumptions: Assumptions = DEFAULT_ASSUMPTIONS,
) -> Summary:
    """Return the totals of ``replay``'s result.

    Raises:
        MatchesNothingError: the definitions are those of other virtual hosts or queues.
    """
    parts = (
        replayed.withColumn("unchecked", F.array_distinct(F.col("unchecked.what")))
        .groupBy("event", "vhost", "queue", "verdict", "unchecked")
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.sum(F.col("first").cast("long")).alias("messages"),
            F.sum("new_deaths").alias("deaths"),
            F.count_if(F.col("last") & (F.size("dead_ends") > 0)).alias("ended"),
            F.max("time_us").alias("until_us"),
        )
        .toArrow()
        .to_pylist()
    )
    _check_match(parts, definitions)
    verdicts: Counter[str] = Counter()
    unchecked: Counter[What] = Counter()
    for part in parts:
        if part["event"] == Event.DELIVERED:
            verdicts[part["verdict"]] += part["rows"]
            unchecked.update(dict.fromkeys(part["unchecked"], part["rows"]))
    lost, may_be_lost = 0, 0
    if any(part["ended"] for part in parts):
        until_us = max(part["until_us"] for part in parts)
        lost, may_be_lost = _lost(replayed, until_us - _tolerance_us(assumptions))
    return Summary(
        messages=sum(part["messages"] or 0 for part in parts),
        deliveries=sum(verdicts.values()),
        dead_letters=sum(part["deaths"] or 0 for part in parts),
        broken_lines=broken_lines,
        lost=lost,
        may_be_lost=may_be_lost,
        misrouted=sum(part["rows"] for part in parts if part["event"] == Event.PUBLISHED and part["verdict"]),
        unchecked={what: unchecked[what] for what in MEANINGS if unchecked[what]},
        **{name: verdicts[name] for name in VERDICTS},
    )


def _tolerance_us(assumptions: Assumptions) -> int:
    return round(assumptions.tolerance_ms * 1000)


def _lost(replayed: DataFrame, until_us: int) -> tuple[int, int]:
    """Return how many messages are lost by then, and how many others may be."""
    ended = replayed.where("last").select(
        F.exists("dead_ends", lambda end: _is_over(end, until_us)).alias("lost"),
        F.exists("dead_ends", lambda end: ~end["certain"]).alias("may_be_lost"),
    )
    others = ~F.col("lost") & F.col("may_be_lost")
    counts = ended.agg(F.count_if("lost").alias("lost"), F.count_if(others).alias("may_be_lost"))
    (row,) = counts.toArrow().to_pylist()
    return row["lost"], row["may_be_lost"]


def _is_over(end: Column, until_us: int) -> Column:
    return end["certain"] & (F.col("time_us") + end["after_ms"] * 1000 < until_us)


def lost_messages(
    replayed: DataFrame, assumptions: Assumptions = DEFAULT_ASSUMPTIONS, most: int = FINDINGS_MAX
) -> list[LostMessages]:
    """Return where messages are lost, or may be, by queue and rule, the most frequent first."""
    (ends,) = replayed.agg(F.max("time_us").alias("until_us")).toArrow().to_pylist()
    if ends["until_us"] is None:
        return []
    is_over = _is_over(F.col("end"), ends["until_us"] - _tolerance_us(assumptions))
    grouped = (
        replayed.where("last")
        .select("vhost", "file", "line", "time_us", F.explode("dead_ends").alias("end"))
        .withColumn("over", is_over)
        .where("over or not end.certain")
        .groupBy("vhost", "end.queue", "end.why")
        .agg(
            F.count_if("over").alias("lost"),
            F.count_if(~F.col("over")).alias("may_be_lost"),
            F.min(F.struct("time_us", "file", "line")).alias("first"),
        )
        .orderBy(F.desc("lost"), F.desc("may_be_lost"), "vhost", "queue", "why")
        .limit(most)
        .select("vhost", "queue", "why", "lost", "may_be_lost", "first.file", "first.line")
    )
    return [LostMessages(**row) for row in grouped.toArrow().to_pylist()]


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


def unchecked_findings(replayed: DataFrame, most: int = FINDINGS_MAX) -> list[UncheckedFinding]:
    """Return what was not checked, by queue and setting, the most frequent first."""
    grouped = (
        replayed.select("file", "line", "time_us", F.explode("unchecked").alias("one"))
        .groupBy("one.what", "one.name", "one.why")
        .agg(F.count(F.lit(1)).alias("count"), F.min(F.struct("time_us", "file", "line")).alias("first"))
        .orderBy(F.desc("count"), "what", "name", "why")
        .limit(most)
        .select("what", "name", "why", "count", "first.file", "first.line")
    )
    return [UncheckedFinding(**row) for row in grouped.toArrow().to_pylist()]


def _finding(row: dict[str, Any]) -> Finding:
    example = row["example"]
    return Finding(
        verdict=row["verdict"],
        what=row["what"],
        behaviours=tuple(row["behaviours"] or ()),
        count=row["count"],
        queues=row["queues"],
        queue=example["queue"] or "",
        message=example["message"],
        file=example["file"],
        line=example["line"],
        expected=example["expected"] or "",
        seen=example["seen"] or "",
    )


def hops(replayed: DataFrame) -> DataFrame:
    """Return the dead letters that were reconstructed, one row for each copy.

    A death that put copies into several queues has a row for each; ``first_copy`` is true
    in one of them. The message died between ``earliest_us`` and ``latest_us`` (null where
    nothing is known); ``time_us`` is the time of the delivery that showed the death.
    """
    new = F.expr("slice(hops, -new_hops, new_hops)")
    first_copy = (F.col("step") > 0) | (F.col("new_deaths") == F.col("new_hops"))
    return (
        replayed.where(F.col("new_hops") > 0)
        .select("*", F.posexplode(new).alias("step", "hop"))
        .select("message", "vhost", "time_us", "verdict", "step", first_copy.alias("first_copy"), "hop.*")
    )
