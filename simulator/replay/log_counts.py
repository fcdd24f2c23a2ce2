"""Counts, queue by queue, what a replayed log shows: copies that came in, deliveries, and deaths reconstructed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from simulator.events import Event
from simulator.replay.coverage.totals import Place
from simulator.replay.summary import hops
from simulator.replay.tables import Table, rows
from simulator.replay.unchecked import IS_LACKING, LACKING


class LogCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What a replayed log shows of each queue.

    Attributes:
        published: how many publishes the log has.
        arrived: copies that publishes and dead letters put into a queue.
        expiring: copies that publishes put into a queue with an expiration of their own.
        delivered: deliveries from a queue.
        deaths: deaths in a queue, by reason, that the replay reconstructed.
        unexplained: deliveries from a queue that the replay does not explain, or of which the log lacks the beginning.
        ambiguous: deliveries with several explanations; ``deaths`` are those of the first.
        vhosts: the virtual hosts that the log names.
        first_us, last_us: the times of its first and last rows, ``None`` without rows.
    """

    published: int = 0
    arrived: Mapping[Place, int] = {}
    expiring: Mapping[Place, int] = {}
    delivered: Mapping[Place, int] = {}
    deaths: Mapping[tuple[str, str, str], int] = {}
    unexplained: Mapping[Place, int] = {}
    ambiguous: int = 0
    vhosts: frozenset[str] = frozenset()
    first_us: int | None = None
    last_us: int | None = None


_BY_QUEUE = f"""
    SELECT vhost, queue, count(*) AS count, count(expiration) AS expiring
    FROM (
        SELECT vhost, expiration, explode(routed_queues) AS queue
        FROM {{captured}} WHERE event = '{Event.PUBLISHED.value}'
    )
    GROUP BY 1, 2"""
_BY_VERDICT = f"""
    SELECT vhost, queue, event, CASE WHEN {IS_LACKING} THEN 'unexplained' ELSE verdict END AS verdict,
        count(*) AS count, min(time_us) AS first_us, max(time_us) AS last_us
    FROM {{replayed}} GROUP BY 1, 2, 3, 4"""
_BY_DEATH = """
    SELECT vhost, queue, reason, to_queue, count(*) AS count, count_if(first_copy) AS deaths
    FROM {hops} GROUP BY 1, 2, 3, 4"""


def log_counts(replayed: Table, captured: Table) -> LogCounts:
    """Count; ``captured`` are the rows of which ``replayed`` is the replay."""
    by_queue, by_verdict = rows(_BY_QUEUE, captured=captured), rows(_BY_VERDICT, replayed=replayed)
    return _added_up(by_queue, by_verdict, rows(_BY_DEATH, hops=hops(replayed)))


def log_counts_of_tables(replayed: pa.Table, captured: Iterable[pa.RecordBatch]) -> LogCounts:
    """Count in this process, for logs that fit into memory."""
    routed: Counter[tuple[Any, ...]] = Counter()
    expiring: Counter[tuple[Any, ...]] = Counter()
    for batch in captured:
        for row in batch.select(["event", "vhost", "expiration", "routed_queues"]).to_pylist():
            for queue in row["routed_queues"] or () if row["event"] == Event.PUBLISHED else ():
                routed[row["vhost"], queue] += 1
                expiring[row["vhost"], queue] += row["expiration"] is not None
    verdicts: Counter[tuple[Any, ...]] = Counter()
    times = pc.min_max(replayed.column("time_us")).as_py()
    copies: Counter[tuple[Any, ...]] = Counter()
    deaths: Counter[tuple[Any, ...]] = Counter()
    names = ["vhost", "queue", "event", "verdict", "hops", "new_hops", "new_deaths", "unchecked"]
    for row in replayed.select(names).to_pylist():
        lacking = any(each["what"] in LACKING for each in row["unchecked"] or ())
        verdicts[row["vhost"], row["queue"], row["event"], "unexplained" if lacking else row["verdict"]] += 1
        for step, hop in enumerate((row["hops"] or [])[-row["new_hops"] :] if row["new_hops"] else ()):
            death = row["vhost"], hop["queue"], hop["reason"], hop["to_queue"]
            copies[death] += 1
            deaths[death] += step > 0 or row["new_deaths"] == row["new_hops"]
    ends = {"first_us": times["min"], "last_us": times["max"]}
    return _added_up(
        _rows(("vhost", "queue"), routed, expiring=expiring),
        [row | ends for row in _rows(("vhost", "queue", "event", "verdict"), verdicts)],
        _rows(("vhost", "queue", "reason", "to_queue"), copies, deaths=deaths),
    )


def _rows(names: tuple[str, ...], counts: Counter[Any], **more: Counter[Any]) -> list[dict[str, Any]]:
    """Return counts as the rows of a ``groupBy``."""
    return [
        dict(zip((*names, "count", *more), (*key, count, *(other[key] for other in more.values())), strict=True))
        for key, count in counts.items()
    ]


def _added_up(
    by_queue: list[dict[str, Any]], by_verdict: list[dict[str, Any]], by_death: list[dict[str, Any]]
) -> LogCounts:
    arrived: Counter[Place] = Counter()
    delivered: Counter[Place] = Counter()
    deaths: Counter[tuple[str, str, str]] = Counter()
    unexplained: Counter[Place] = Counter()
    for row in by_queue:
        arrived[row["vhost"], row["queue"]] += row["count"]
    for row in by_death:
        arrived[row["vhost"], row["to_queue"]] += row["count"]
        deaths[row["vhost"], row["queue"], row["reason"]] += row["deaths"]
    deliveries = [row for row in by_verdict if row["event"] == Event.DELIVERED]
    for row in deliveries:
        delivered[row["vhost"], row["queue"]] += row["count"]
        unexplained[row["vhost"], row["queue"]] += row["count"] * (row["verdict"] == "unexplained")
    return LogCounts(
        published=sum(row["count"] for row in by_verdict if row["event"] == Event.PUBLISHED),
        arrived=arrived,
        expiring={(row["vhost"], row["queue"]): row["expiring"] for row in by_queue},
        delivered=delivered,
        deaths=deaths,
        unexplained=+unexplained,
        ambiguous=sum(row["count"] for row in deliveries if row["verdict"] == "ambiguous"),
        vhosts=frozenset(row["vhost"] for row in by_verdict),
        first_us=min((row["first_us"] for row in by_verdict), default=None),
        last_us=max((row["last_us"] for row in by_verdict), default=None),
    )
