"""Finds the queues whose held messages hold up what dies there later, and which dead ends messages really have then.

RabbitMQ's dead-letter worker takes only some messages of a queue at a time. As long as no queue takes those, it sends
no other: what dies there later is held as well, and gets to no dead end beyond that queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dlx.deaths import REJECTED
from simulator.broker import WORKER_PREFETCH
from simulator.replay.rows.tables import Table, rows, select, text
from simulator.replay.search.copies import Fate

_HELD = f"""
    SELECT vhost, queue, fate, died_us, row_number() OVER (PARTITION BY vhost, queue, fate ORDER BY died_us) AS place
    FROM (
        SELECT vhost, ending.queue AS queue, ending.fate AS fate, time_us + ending.after_ms * 1000 AS died_us
        FROM (SELECT vhost, time_us, explode(dead_ends) AS ending FROM {{ended}} WHERE last)
        WHERE ending.certain AND ending.fate <> '{Fate.LOST}'
    )
    WHERE died_us < %d"""
_HOLDING = f"""
    SELECT vhost, queue, min(CASE WHEN fate = '{Fate.HELD}' AND place = {WORKER_PREFETCH} THEN died_us END) AS since_us,
        count(*) - {WORKER_PREFETCH} AS held_up
    FROM ({_HELD})
    GROUP BY 1, 2
    ORDER BY since_us, vhost, queue"""


class HoldingQueue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue that holds as many dead letters as RabbitMQ has in hand, so that they hold up all others.

    Attributes:
        vhost, queue: which queue.
        since_us: when the last of those in hand died, in microseconds since 1970.
        held_up: how many messages have died there since.
    """

    vhost: str
    queue: str
    since_us: int
    held_up: int


def holding_queues(replayed: Table, until_us: int) -> tuple[HoldingQueue, ...]:
    """Return the queues that hold up what dies there, by when that began.

    ``until_us``: until when what dies in time is known to be dead.
    """
    found: tuple[HoldingQueue, ...] = ()
    while True:  # what one queue holds up, from its time on, gets to no other
        ended = with_true_ends(replayed, found)
        held = rows(_HOLDING % until_us, ended=ended)
        now = [HoldingQueue(**row) for row in held if row["since_us"] is not None]
        known = {(each.vhost, each.queue) for each in found}
        new = [each for each in now if (each.vhost, each.queue) not in known]
        if not new:
            return tuple(now)
        found = (*found, new[0])


def with_true_ends(replayed: Table, holding: Sequence[HoldingQueue]) -> Table:
    """Return the rows of a replay with the dead ends that are left where those queues hold up what dies there."""
    stopped = " OR ".join(map(_stops, holding)) or "false"
    before = f"size(filter(ending.way, death -> {stopped.format(death='death')}))"
    own = f"({stopped.format(death='ending')})"
    left = f"{before} <= CASE WHEN {own} THEN 1 ELSE 0 END AND (ending.fate <> '{Fate.HELD_UP}' OR {own})"
    columns = [name for name in replayed.columns if name != "dead_ends"]
    kept = f"filter(dead_ends, ending -> {left}) AS dead_ends"
    return select(f"SELECT {', '.join(columns)}, {kept} FROM {{replayed}}", replayed=replayed)


def is_over(end: Mapping[str, Any], last: Mapping[str, Any], until_us: int) -> bool:
    """Return whether a message is certainly at that dead end by then, if ``last`` is its last row."""
    return bool(end["certain"] and last["time_us"] + end["after_ms"] * 1_000 < until_us)


def was_seen_then(end: Mapping[str, Any], last: Mapping[str, Any], of_it: int) -> bool:
    """Return whether the copy was seen in the last of ``of_it`` rows: its deaths have their times from there."""
    first = end["way"][0]
    return of_it == 1 or bool(first["queue"] == last["queue"] and first["reason"] == last["event"] == REJECTED)


def _stops(each: HoldingQueue) -> str:
    """Return the condition in SQL under which a queue holds up a message that dies there."""
    there = f"vhost = {_escaped(each.vhost)} AND {{death}}.queue = {_escaped(each.queue)}"
    return f"({there} AND time_us + {{death}}.after_ms * 1000 > {each.since_us})"


def _escaped(name: str) -> str:
    """Return a name as a literal that is formatted once more than ``text`` expects."""
    return text(name).replace("{", "{{").replace("}", "}}")


def hold_up_text(holding: Sequence[HoldingQueue]) -> list[str]:
    """Say of each queue what its held messages hold up."""
    return [
        f"{WORKER_PREFETCH} messages held in '{each.queue}' hold up"
        f" {f'{each.held_up:,} more that died there' if each.held_up else 'all that will die there'}"
        for each in holding
    ]
