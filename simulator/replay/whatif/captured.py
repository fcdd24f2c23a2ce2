"""A captured log, and what was left in the queues in the end, in tables of either engine."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from simulator.capture import CaptureError
from simulator.definitions import Definitions
from simulator.replay.summary import check_match
from simulator.replay.tables import Table, rows, select, text
from simulator.replay.whatif.differences import Side
from simulator.replay.whatif.log_rows import files_of
from simulator.replay.whatif.rerun import Log
from simulator.replay.whatif.stage import Queue
from simulator.replay.whatif.what_if import Prepared


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
    own = select(
        f"SELECT time_us, vhost, queue, {delivered} AS delivered FROM {{captured}}"
        f" WHERE {hosts} AND (event = 'published' OR {delivered})",
        captured=captured,
    )
    (last,) = rows("SELECT coalesce(max(time_us), 0) AS end_us FROM {own}", own=own)
    consumed = rows("SELECT DISTINCT vhost, queue FROM {own} WHERE delivered", own=own)
    return Log(
        max(0, last["end_us"]), frozenset((side.only_vhost or each["vhost"], each["queue"]) for each in consumed)
    )


def _is_one_of(column: str, values: Iterable[str]) -> str:
    listed = ", ".join(map(text, values))
    return f"({column} IN ({listed}))" if listed else "(false)"


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


def not_looked_at(captured: Table, stories: int) -> list[str]:
    """Say how many messages of the log are none of the stories, and why."""
    (counted,) = rows("SELECT count(DISTINCT (vhost, message)) AS messages FROM {captured}", captured=captured)
    missing = counted["messages"] - stories
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
