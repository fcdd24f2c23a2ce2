"""Turns the rows of a replay into the tables of a report: its engine counts, Python gets bounded results.

Every query ends in a group-by and a limit, so that a replay of any size becomes
the same few thousand rows. Ties are ordered by name: the same replay gives the
same report.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

from dlx.releases import release
from simulator.capture import FileReport
from simulator.definitions import Definitions
from simulator.events import Event
from simulator.replay.report.data import (
    REPUBLISHED,
    Ambiguous,
    DeadLetterFlow,
    DeathPath,
    Deaths,
    DifferenceCause,
    Example,
    FieldDiffers,
    MessageLife,
    Published,
    QueueDeliveries,
    ReportData,
    Unexplained,
)
from simulator.replay.report.message_lives import message_lives
from simulator.replay.results.summary import Summary, hops, lost_messages, unchecked_findings
from simulator.replay.rows.assumptions import DEFAULT_ASSUMPTIONS, Assumptions
from simulator.replay.rows.tables import Table, rows, select, text
from simulator.replay.rows.topologies import topologies
from simulator.replay.search.losses import find_losses

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


_EXAMPLE = "min(struct(time_us, file, line, vhost, queue, message%s)) AS example"  # the first of the group in the log
_CUT = f"CASE WHEN length(%s) > {TEXT_MAX} THEN concat(substring(%s, 1, {TEXT_MAX}), '…') ELSE %s END AS %s"
_PUBLISHES = f"""
    SELECT vhost, exchange, queue, count(*) AS count
    FROM (
        SELECT vhost, exchange,
            explode(CASE WHEN size(routed_queues) > 0 THEN routed_queues ELSE array(NULL) END) AS queue
        FROM {{captured}}
        WHERE event = '{Event.PUBLISHED.value}' AND routed_queues IS NOT NULL
    )
    GROUP BY 1, 2, 3"""
_DEAD_LETTERS = """
    SELECT vhost, queue, reason, exchange, to_queue, count(*) AS count, count_if(first_copy) AS deaths
    FROM {hops}
    GROUP BY 1, 2, 3, 4, 5"""
_DELIVERIES = f"""
    SELECT vhost, queue, count(*) AS count, count_if(verdict IN ('differ', 'unexplained')) AS unlike
    FROM {{replayed}}
    WHERE event = '{Event.DELIVERED.value}'
    GROUP BY 1, 2"""
_PATHS = """
    SELECT vhost, deaths, queue, count(*) AS count, count(DISTINCT message) AS messages
    FROM {paths}
    GROUP BY 1, 2, 3"""
_DIFFERENCES = f"""
    SELECT vhost, queue, field, behaviours, count(*) AS count, {_EXAMPLE % ", expected, seen"}
    FROM (
        SELECT *, one.field, one.behaviours, {_CUT % (("one.expected",) * 3 + ("expected",))},
            {_CUT % (("one.seen",) * 3 + ("seen",))}
        FROM (SELECT *, explode(differences) AS one FROM {{replayed}} WHERE verdict = 'differ')
    )
    GROUP BY 1, 2, 3, 4"""
_CAUSES = """
    SELECT behaviours, count(*) AS count
    FROM (
        SELECT explode(array_distinct(transform(differences, one -> one.behaviours))) AS behaviours
        FROM {replayed}
        WHERE verdict = 'differ'
    )
    GROUP BY 1"""
_UNEXPLAINED = f"""
    SELECT why, behaviours, count(*) AS count, {_EXAMPLE % ""}
    FROM (
        SELECT *, array_sort(array_distinct(flatten(transform(differences, one -> one.behaviours)))) AS behaviours
        FROM {{replayed}}
        WHERE verdict = 'unexplained' AND event = '{Event.DELIVERED.value}'
    )
    GROUP BY 1, 2"""
_AMBIGUOUS = f"""
    SELECT alternatives, count(*) AS count, {_EXAMPLE % ""}
    FROM {{replayed}}
    WHERE verdict = 'ambiguous' AND event = '{Event.DELIVERED.value}'
    GROUP BY 1"""
_DEATHS = """
    SELECT start_us, vhost, queue, reason, count(*) AS count
    FROM (
        SELECT CAST(floor((coalesce(latest_us, time_us) - %(start)d) / %(bucket)d) AS BIGINT) * %(bucket)d + %(start)d
                AS start_us,
            CASE WHEN named THEN vhost END AS vhost, CASE WHEN named THEN queue END AS queue, reason
        FROM (SELECT *, concat_ws('\n', vhost, queue, reason) IN (%(named)s) AS named FROM {hops} WHERE first_copy)
    )
    GROUP BY 1, 2, 3, 4
    ORDER BY 1, 2, 3, 4"""


def aggregate(
    replayed: Table,
    definitions: Definitions,
    rules: str,
    summary: Summary,
    files: Iterable[FileReport],
    captured: Table | None = None,
    assumptions: Assumptions = DEFAULT_ASSUMPTIONS,
) -> ReportData:
    """Return the tables of a report on what ``simulator.replay.replay`` returned.

    ``captured`` are the rows that were replayed; with their column
    ``routed_queues`` the report knows where publishes went.
    """
    tables = _Tables()
    new = hops(replayed)
    dead_letters = tables.dead_letters(new)
    span_us = _span(replayed)
    bucket_us = bucket(span_us)
    differ = bool(summary.differ + summary.misrouted)
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
        deliveries=tables.deliveries(replayed),
        bucket_us=bucket_us,
        deaths=_deaths(new, dead_letters, span_us, bucket_us),
        paths=tables.paths(replayed),
        differences=tables.differences(replayed) if differ else (),
        causes=tables.causes(replayed) if differ else (),
        unexplained=tables.unexplained(replayed) if summary.unexplained else (),
        ambiguous=tables.ambiguous(replayed) if summary.ambiguous else (),
        losses=find_losses(topologies(definitions), release(rules)),
        unchecked=tuple(unchecked_findings(replayed) if summary.unchecked else ()),
        lost=tuple(lost_messages(replayed, assumptions) if summary.has_dead_ends else ()),
        messages=_lives(replayed, captured, span_us, assumptions),
        cut=frozenset(tables.cut),
    )


def _lives(
    replayed: Table, captured: Table | None, span_us: tuple[int, int] | None, assumptions: Assumptions
) -> tuple[MessageLife, ...]:
    if span_us is None:
        return ()
    return message_lives(replayed, captured, assumptions.traced_until_us(span_us[1]))


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

    def _top(self, name: str, most: int, query: str, by: str, **tables: Table) -> list[dict[str, Any]]:
        """Return the most frequent rows; ``by`` are the columns that break ties."""
        found = rows(f"{query} ORDER BY count DESC, {by} LIMIT {most + 1}", **tables)
        if len(found) > most:
            self.cut.add(name)
        return found[:most]

    def publishes(self, captured: Table | None) -> tuple[Published, ...] | None:
        """Return the copies that publishes put into queues; ``None`` if the capture does not tell."""
        if captured is None or "routed_queues" not in captured.columns:
            return None
        by = "vhost, exchange, queue"
        found = self._top("publishes", FLOWS_MAX, _PUBLISHES, by, captured=captured)
        return tuple(Published(**row) for row in found)

    def dead_letters(self, new: Table) -> tuple[DeadLetterFlow, ...]:
        """Return the copies of dead letters by route and reason, and the deaths that made them."""
        by = "vhost, queue, reason, exchange, to_queue"
        return tuple(DeadLetterFlow(**row) for row in self._top("dead_letters", FLOWS_MAX, _DEAD_LETTERS, by, hops=new))

    def deliveries(self, replayed: Table) -> tuple[QueueDeliveries, ...]:
        """Return the deliveries of each queue, and how many differ or are unexplained."""
        found = self._top("deliveries", FLOWS_MAX, _DELIVERIES, "vhost, queue", replayed=replayed)
        return tuple(QueueDeliveries(**row) for row in found)

    def paths(self, replayed: Table) -> tuple[DeathPath, ...]:
        """Return the deaths that led to deliveries, with the numbers of deliveries and messages."""
        found = self._top("paths", GROUPS_MAX, _PATHS, "vhost, deaths, queue", paths=_paths_of_deliveries(replayed))
        return tuple(
            DeathPath(
                vhost=row["vhost"],
                deaths=tuple((death["queue"], death["reason"]) for death in row["deaths"]),
                queue=row["queue"],
                deliveries=row["count"],
                messages=row["messages"],
            )
            for row in found
        )

    def differences(self, replayed: Table) -> tuple[FieldDiffers, ...]:
        """Return the fields that differ, by queue and cause, each with an example."""
        by = "vhost, queue, field, behaviours"
        found = self._top("differences", GROUPS_MAX, _DIFFERENCES, by, replayed=replayed)
        return tuple(
            FieldDiffers(
                field=row["field"],
                behaviours=tuple(row["behaviours"]),
                count=row["count"],
                expected=row["example"]["expected"],
                seen=row["example"]["seen"],
                example=_example_of(row["example"]),
            )
            for row in found
        )

    def causes(self, replayed: Table) -> tuple[DifferenceCause, ...]:
        """Return the sets of behaviours that differences come from, each with its number of deliveries."""
        found = self._top("causes", GROUPS_MAX, _CAUSES, "behaviours", replayed=replayed)
        return tuple(DifferenceCause(tuple(row["behaviours"]), row["count"]) for row in found)

    def unexplained(self, replayed: Table) -> tuple[Unexplained, ...]:
        """Return the unexplained deliveries by reason and cause, each with an example."""
        found = self._top("unexplained", GROUPS_MAX, _UNEXPLAINED, "why, behaviours", replayed=replayed)
        return tuple(
            Unexplained(row["why"], row["count"], _example_of(row["example"]), tuple(row["behaviours"] or ()))
            for row in found
        )

    def ambiguous(self, replayed: Table) -> tuple[Ambiguous, ...]:
        """Return the ambiguous deliveries by the paths that explain them, each with an example."""
        found = self._top("ambiguous", GROUPS_MAX, _AMBIGUOUS, "alternatives", replayed=replayed)
        return tuple(Ambiguous(tuple(row["alternatives"]), row["count"], _example_of(row["example"])) for row in found)


def _deaths(
    new: Table, kinds: tuple[DeadLetterFlow, ...], span_us: tuple[int, int] | None, bucket_us: int
) -> tuple[Deaths, ...]:
    """Return the dead letters over time of the queues and reasons with the most; the other queues are one."""
    if span_us is None:
        return ()
    totals: dict[tuple[str, str, str], int] = {}
    for kind in kinds:
        key = (kind.vhost, kind.queue, kind.reason)
        totals[key] = totals.get(key, 0) + kind.deaths
    busiest = sorted(totals, key=lambda key: (-totals[key], key))[:SERIES_MAX]
    named = ", ".join(text("\n".join(key)) for key in busiest) or "NULL"
    start_us = span_us[0] - span_us[0] % bucket_us
    query = _DEATHS % {"start": start_us, "bucket": bucket_us, "named": named}
    return tuple(Deaths(**row) for row in rows(query, hops=new))


def _span(replayed: Table) -> tuple[int, int] | None:
    (row,) = rows("SELECT min(time_us) AS first, max(time_us) AS last FROM {replayed}", replayed=replayed)
    return None if row["first"] is None else (row["first"], row["last"])


def _example_of(row: dict[str, Any]) -> Example:
    return Example(row["vhost"], row["queue"], row["message"], row["file"], row["line"])


# Joins what consumers publish again by themselves to the path: which deaths and republishing led to each delivery.


_PUBLISHED, _DELIVERED = (f"event = '{event.value}'" for event in (Event.PUBLISHED, Event.DELIVERED))
_PATH_DEATHS = "transform(hops, hop -> struct(hop.queue AS queue, hop.reason AS reason))"
_WITHOUT = f"""
    SELECT vhost, queue, message, {_PATH_DEATHS} AS deaths
    FROM {{replayed}}
    WHERE {_DELIVERED} AND size(hops) > 0"""
_AGAIN = f"{_PUBLISHED} AND NOT first"
_ORDERED = "(PARTITION BY vhost, message ORDER BY time_us, file, line"
_NUMBERED = f"""
    SELECT vhost, message, file, line, event, source, row_number() OVER {_ORDERED}) AS place,
        last_value(CASE WHEN {_DELIVERED} THEN queue END) IGNORE NULLS
            OVER {_ORDERED} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS after
    FROM {{replayed}}
    WHERE message IN (SELECT message FROM {{replayed}} WHERE {_AGAIN})"""
_JOINED = f"""
    SELECT one.vhost, one.queue, one.message,
        CASE WHEN again.after IS NULL THEN {_PATH_DEATHS}
            ELSE concat(array(struct(again.after AS queue, '{REPUBLISHED}' AS reason)), {_PATH_DEATHS}) END AS deaths
    FROM {{replayed}} AS one LEFT JOIN (
        SELECT delivery.vhost, delivery.message, delivery.file, delivery.line, publish.after
        FROM {{numbered}} AS delivery JOIN {{numbered}} AS publish
            ON delivery.vhost = publish.vhost AND delivery.message = publish.message
                AND delivery.place - delivery.source = publish.place
        WHERE delivery.{_DELIVERED} AND delivery.source > 0 AND publish.{_PUBLISHED} AND publish.after IS NOT NULL
    ) AS again
        ON one.vhost = again.vhost AND one.message = again.message AND one.file = again.file AND one.line = again.line
    WHERE one.{_DELIVERED} AND (size(one.hops) > 0 OR again.after IS NOT NULL)"""


def _paths_of_deliveries(replayed: Table) -> Table:
    """Return deliveries with the ``deaths`` that led to them, each a ``queue`` and a ``reason``.

    The first of them has the reason ``REPUBLISHED`` where the path starts at a client's own publish of a message that
    a queue had delivered before.
    """
    (again,) = rows(f"SELECT count(*) AS count FROM {{replayed}} WHERE {_AGAIN}", replayed=replayed)
    if not again["count"]:  # few logs need the joins
        return select(_WITHOUT, replayed=replayed)
    return select(_JOINED, replayed=replayed, numbered=select(_NUMBERED, replayed=replayed))
