"""Puts together what a replay finds where definitions changed during the log: each row by those in force at its time.

The whole log is replayed under each of the definitions, and each row takes its verdict from those in force when it was
written. A message that was under way at a change may have gone by either, at each of its queues: of its rows after the
change, the best verdict counts, and where all are bad, the row is not checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from pathlib import PurePath
from typing import NamedTuple

from simulator.definitions import Definitions
from simulator.files import is_url
from simulator.replay.rows.tables import Table, rows, select, text
from simulator.replay.rows.verdict_words import BAD
from simulator.time_spans import moment

ALWAYS_US = 1 << 60
"""No row is so far from 1970, in microseconds."""
_KEY = "vhost, message, file, line, time_us, event, queue"
_ONE = """
    SELECT *, CAST(%d AS BIGINT) AS from_us, CAST(%d AS BIGINT) AS until_us FROM {replayed_%d}"""
_IN_FORCE = f"""
    WITH replayed AS (%(replayed)s
    ), lives AS (
        SELECT vhost, message, min(time_us) AS since_us FROM {{replayed_0}} GROUP BY 1, 2
    ), possible AS (
        SELECT replayed.*, verdict IS NOT NULL AND verdict IN {BAD} AS bad,
            size(filter(dead_ends, ending -> ending.certain)) AS certain_ends
        FROM replayed JOIN lives USING (vhost, message)
        WHERE time_us >= from_us - %(slack_us)d AND since_us < until_us + %(slack_us)d
    ), ranked AS (
        SELECT *, row_number() OVER (
                PARTITION BY {_KEY}
                ORDER BY CASE WHEN bad THEN 2 WHEN size(unchecked) > 0 THEN 1 ELSE 0 END,
                    CASE WHEN time_us >= from_us AND time_us < until_us THEN 0 ELSE 1 END
            ) AS choice,
            bad AND count(*) OVER same > 1 AS is_open, max(from_us) OVER same AS changed_us,
            min(size(dead_ends)) OVER same AS least_ends, min(certain_ends) OVER same AS least_certain
        FROM possible
        WINDOW same AS (PARTITION BY {_KEY})
    )
    SELECT %(columns)s FROM ranked WHERE choice = 1"""
_WHERE_OPEN = {
    "verdict": "'agree'",
    "why": "NULL",
    "new_hops": "CAST(0 AS INT)",
    "new_deaths": "CAST(0 AS INT)",
    "source": "CAST(0 AS INT)",
    "misfit": "NULL",
    **{name: f"filter({name}, one -> FALSE)" for name in ("hops", "alternatives", "differences", "shown")},
}
_DEAD_ENDS = """filter(dead_ends, ending -> least_ends > 0 AND (
        NOT ending.certain OR (least_certain > 0 AND time_us + ending.after_ms * 1000 < until_us - %d)
    ))"""


class Period(NamedTuple):
    """A time in which definitions hold: from a moment on, until another; microseconds since 1970."""

    definitions: Definitions
    from_us: int = -ALWAYS_US
    until_us: int = ALWAYS_US


def periods_of(definitions: Definitions, changes: Sequence[tuple[int, Definitions]]) -> tuple[Period, ...]:
    """Return the periods of definitions that hold at first, and of others that hold from their moments on."""
    begins = [(-ALWAYS_US, definitions), *sorted(changes, key=lambda change: change[0])]
    ends = [begin for begin, _ in begins[1:]] + [ALWAYS_US]
    return tuple(Period(each, begin, end) for (begin, each), end in zip(begins, ends, strict=True))


def named_after_all(periods: Sequence[Period]) -> Definitions:
    """Return the definitions of the last period, with the names of all files."""
    last = copy(periods[-1].definitions)
    sources = [period.definitions.source for period in periods]
    last.source = ", ".join(each if is_url(each) else PurePath(each).name for each in sources)
    return last


def in_force(replayed: Sequence[Table], periods: Sequence[Period], slack_us: int, *, since: bool = False) -> Table:
    """Return each row of a log once, from the replay under the definitions that were in force.

    ``replayed`` has the rows for each period. ``slack_us``: how late rows may have been written.
    With ``since``, several say in ``from_us`` since when the definitions hold that a row was judged by.
    """
    if len(periods) == 1:
        return replayed[0]
    names = [*replayed[0].columns, *(["from_us"] if since else [])]
    parts = [_ONE % (period.from_us, period.until_us, number) for number, period in enumerate(periods)]
    whys = " ".join(f"WHEN {each.from_us} THEN {text(_why(each.from_us))}" for each in periods[1:])
    why = f"CASE changed_us {whys} END"
    column = {name: f"CASE WHEN is_open THEN {value} ELSE {name} END" for name, value in _WHERE_OPEN.items()}
    column["unchecked"] = (
        f"CASE WHEN is_open THEN array(struct('definitions' AS what, coalesce(queue, exchange) AS name, {why} AS why))"
        " ELSE unchecked END"
    )
    column["dead_ends"] = _DEAD_ENDS % slack_us
    given = {
        "replayed": " UNION ALL ".join(parts),
        "slack_us": slack_us,
        "columns": ", ".join(f"{column[name]} AS {name}" if name in column else name for name in names),
    }
    return select(_IN_FORCE % given, **{f"replayed_{number}": table for number, table in enumerate(replayed)})


def _why(changed_us: int) -> str:
    return f"published before the definitions changed at {moment(changed_us)}"


def first_seen_from(captured: Table, from_us: int) -> tuple[Table, int]:
    """Return the rows of messages whose first row is from that moment or later, and the number of other messages."""
    lives = "SELECT vhost, message FROM {captured} GROUP BY 1, 2 HAVING min(time_us)"
    (earlier,) = rows(f"SELECT count(*) AS messages FROM ({lives} < {from_us})", captured=captured)
    query = f"SELECT * FROM {{captured}} LEFT SEMI JOIN ({lives} >= {from_us}) later USING (vhost, message)"
    return select(query, captured=captured), earlier["messages"]


def wrong_in(replayed: Table, period: Period) -> Table:
    """Return the rows of messages of which rows are not as predicted in that time."""
    return select(
        f"""
        SELECT * FROM {{replayed}} LEFT SEMI JOIN (
            SELECT vhost, message FROM {{replayed}}
            WHERE verdict IN {BAD} AND time_us >= {period.from_us} AND time_us < {period.until_us}
        ) wrong USING (vhost, message)""",
        replayed=replayed,
    )
