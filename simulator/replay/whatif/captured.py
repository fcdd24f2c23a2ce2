"""A captured log, and what was left in the queues in the end, in tables of either engine."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from simulator.capture import CaptureError
from simulator.definitions import Definitions
from simulator.events import Event
from simulator.replay.summary import check_match
from simulator.replay.tables import Table, rows, select, text
from simulator.replay.whatif.coupling import Reaches, coupling_queues
from simulator.replay.whatif.differences import Side
from simulator.replay.whatif.log_rows import files_of
from simulator.replay.whatif.outcomes import KIND, expiring_story
from simulator.replay.whatif.rerun import Log
from simulator.replay.whatif.stage import Queue
from simulator.replay.whatif.what_if import Prepared

KINDS_MAX = 10_000
"""Kinds of publishes with an expiration whose way is looked up; of more, each may come anywhere."""


def with_left(captured: Table, left: Table) -> Table:
    """Return the log and what was left in the queues, in one table.

    Raises ``CaptureError`` where a file of the same name is in both: nobody could tell their rows apart.
    """
    if both := files_of(captured) & files_of(left):
        raise CaptureError(min(both), "a file of this name is in the log, and in what was left: rename one of them")
    both_have = set(left.columns)
    columns = ", ".join(name for name in captured.columns if name in both_have)
    union = f"SELECT {columns} FROM {{captured}} UNION ALL SELECT {columns} FROM {{left}}"
    return select(union, captured=captured, left=left)


def log_of(captured: Table, side: Prepared, left: Collection[str] = ()) -> Log:
    """Return what all messages of a log show together; ``left`` are the files of what was found in the queues."""
    hosts = "true" if side.only_vhost is not None else _is_one_of("vhost", side.flows)
    delivered = f"event = 'delivered' AND NOT {_is_one_of('file', left)}"
    places = f"""
        SELECT vhost, queue, {delivered} AS delivered, max(time_us) AS last_us FROM {{captured}}
        WHERE {hosts} AND (event = 'published' OR {delivered})
        GROUP BY 1, 2, 3"""
    found: list[dict[str, Any]] = rows(places, captured=captured)
    consumed = frozenset((side.only_vhost or each["vhost"], each["queue"]) for each in found if each["delivered"])
    return Log(max((0, *(each["last_us"] for each in found))), consumed)


def _is_one_of(column: str, values: Iterable[str]) -> str:
    listed = ", ".join(map(text, values))
    return f"({column} IN ({listed}))" if listed else "(false)"


def coupling_queues_of(captured: Table, known: Reaches, side: Prepared) -> frozenset[Queue]:
    """Return the queues where the messages of a log may decide over each other; ``side`` is the log's own."""
    kinds = (
        f"SELECT DISTINCT vhost, {', '.join(KIND)} FROM {{captured}}"
        f" WHERE event = '{Event.PUBLISHED}' AND expiration IS NOT NULL LIMIT {KINDS_MAX + 1}"
    )
    found = rows(kinds, captured=captured)
    if len(found) > KINDS_MAX:
        return coupling_queues(known, None)
    reaches = (known.of(expiring_story(row, side.only_vhost)) for row in found)
    return coupling_queues(known, frozenset[Queue]().union(*(reach.expiring for reach in reaches)))


def shown_by(left: Table | None) -> frozenset[Queue]:
    """Return the queues of which it is known what was left in them."""
    if left is None:
        return frozenset()
    return frozenset(
        (row["vhost"], row["queue"]) for row in rows("SELECT DISTINCT vhost, queue FROM {left}", left=left)
    )


def of_the_log(captured: Table, before: Side, after: Side) -> tuple[Side, Side]:
    """Return both sides with the virtual host of the log, where their definitions do not name theirs.

    Raises ``MatchesNothingError`` if definitions have none of the virtual hosts, or of the queues, in the log.
    """
    places = rows("SELECT DISTINCT vhost, queue FROM {captured}", captured=captured)
    vhosts = {place["vhost"] for place in places}
    found = _named(before, vhosts), _named(after, vhosts)
    for side in found:
        check_match(places, side.definitions)
    return found


def _named(side: Side, vhosts: Collection[str]) -> Side:
    if side.definitions.vhost_named or len(vhosts) != 1:
        return side
    document = {**side.definitions.document, "original_vhost_name": next(iter(vhosts))}
    return Side(Definitions(document, side.definitions.source), side.release)


def not_looked_at(captured: Table, side: Prepared) -> list[str]:
    """Say how many messages of the log nobody played, and why; ``side`` is the log's own."""
    if side.only_vhost is not None:
        return []
    unknown = f"NOT {_is_one_of('vhost', side.flows)}"
    others = f"SELECT count(DISTINCT (vhost, message)) AS messages FROM {{captured}} WHERE {unknown}"
    (counted,) = rows(others, captured=captured)
    missing = counted["messages"]
    return [f"{missing:,} messages of virtual hosts that the definitions do not have"] if missing else []


def given_twice(captured: Table) -> list[str]:
    """Say how many rows stand in more than one file alike: whoever gives a log twice asks about double traffic."""
    if len(files_of(captured)) < 2:
        return []
    alike = """
        SELECT count(*) AS number FROM (
            SELECT vhost FROM {captured}
            GROUP BY vhost, message, event, time_us, exchange, queue, connection, x_death
            HAVING min(file) < max(file)
        )"""
    (counted,) = rows(alike, captured=captured)
    if not counted["number"]:
        return []
    return [f"whether {counted['number']:,} rows that stand alike in several files are the same: here each counts"]
