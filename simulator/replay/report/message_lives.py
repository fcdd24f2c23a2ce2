"""Chooses the messages whose lives a report holds, and tells each, row by row: a bounded number of a log of any size.

Those come first that are lost, or may be; then those with a delivery that is not as
predicted, those that died, and the first of the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any, Literal

import msgspec

from simulator.events import Event
from simulator.replay.report.data import MessageLife, MessageStep
from simulator.replay.tables import Table, rows

ROWS_MAX = 8_000
STEPS_MAX = 60
"""Rows of all messages, and of one, that are kept."""
NAME_MAX = 200
_LIMITS = (400, 400, 800, 2_000)
_KINDS = (
    "last AND size(dead_ends) > 0",
    "verdict IN ('differ', 'unexplained')",
    "size(hops) > 0",
    "first",
)
"""Which rows choose their message, the most interesting first, and how many of them do."""
_CHOOSING = " UNION ALL ".join(
    f"SELECT * FROM (SELECT vhost, message, {place} AS kind FROM {{replayed}} WHERE {kind}"
    f" ORDER BY time_us, file, line LIMIT {limit})"
    for place, (kind, limit) in enumerate(zip(_KINDS, _LIMITS, strict=True))
)
_CHOSEN = f"SELECT vhost, message, min(kind) AS kind FROM ({_CHOOSING}) GROUP BY 1, 2"
_ROWS = f"""
    SELECT kind, vhost, message, time_us, file, line, event, queue, exchange, verdict, why, hops, new_hops, dead_ends,
        last, place, of_it
    FROM (
        SELECT one.*, chosen.kind,
            row_number() OVER (PARTITION BY one.vhost, one.message ORDER BY time_us, file, line) AS place,
            count(*) OVER (PARTITION BY one.vhost, one.message) AS of_it
        FROM {{replayed}} AS one JOIN ({_CHOSEN}) AS chosen
            ON one.vhost = chosen.vhost AND one.message = chosen.message
    )
    WHERE place <= {STEPS_MAX}
    ORDER BY kind, vhost, message, place
    LIMIT {ROWS_MAX}"""

Ending = Literal["lost", "may be lost", ""]


def message_lives(replayed: Table, until_us: int) -> tuple[MessageLife, ...]:
    """Return the lives of the chosen messages; ``until_us`` is until when what dies in time is known to be gone."""
    found = rows(_ROWS, replayed=replayed)
    by_message = groupby(found, key=lambda row: (row["vhost"], row["message"]))
    lives = [_life(vhost, message, list(own), until_us) for (vhost, message), own in by_message]
    return tuple(sorted(lives, key=lambda life: life.ending != "lost"))  # within each kind, by name


def _life(vhost: str, message: str, own: list[dict[str, Any]], until_us: int) -> MessageLife:
    steps = [step for place, row in enumerate(own) for step in _steps(row, again=_again(own[:place]))]
    ending: Ending = ""
    queue = ""
    left_out = own[0]["of_it"] - len(own)
    if not left_out:
        ending, queue, told = _end(own[-1], until_us)
        steps += [MessageStep(None, "loss" if ending == "lost" else "death", told)] if ending else []
    unlike = any(row["verdict"] in ("differ", "unexplained") for row in own)
    return MessageLife(vhost, message, tuple(steps), ending, queue, unlike, left_out)


def _again(before: list[dict[str, Any]]) -> bool:
    return any(row["event"] == Event.PUBLISHED for row in before)


def _steps(row: dict[str, Any], *, again: bool) -> Iterator[MessageStep]:
    """Yield what a row tells: the deaths behind a delivery, which the log does not have, then the row itself."""
    at_us, line = row["time_us"], f"{row['file']}:{row['line']}"
    queue = _short(row["queue"] or "")
    if row["event"] == Event.PUBLISHED:
        exchange = f"exchange '{_short(row['exchange'])}'" if row["exchange"] else "default exchange"
        how = f"Published again to the {exchange}, by a consumer or another client" if again else ""
        yield MessageStep(at_us, "start", f"{how or f'Published to the {exchange}'}.", line)
        return
    hops = row["hops"] or []
    for hop in hops[len(hops) - (row["new_hops"] or 0) :]:
        to = f"was dead-lettered to '{_short(hop['to_queue'])}'"
        yield MessageStep(hop["latest_us"], "letter", f"Died in '{_short(hop['queue'])}' ({hop['reason']}), and {to}.")
    if row["event"] != Event.DELIVERED:
        told = f"{row['event'].capitalize()} in '{queue}'."
        yield MessageStep(at_us, "done" if row["event"] == Event.ACKED else "", told, line)
    elif row["verdict"] == "unexplained":
        yield MessageStep(at_us, "loss", f"Delivered from '{queue}', unexplained: {_short(row['why'] or '')}.", line)
    else:
        remark = {"differ": ", but not as predicted", "ambiguous": ", by one of several paths"}.get(row["verdict"], "")
        yield MessageStep(at_us, "death" if remark else "", f"Delivered from '{queue}'{remark}.", line)


def _end(row: dict[str, Any], until_us: int) -> tuple[Ending, str, str]:
    """Tell whether the message is lost if nothing follows its last row, in which queue, and why."""
    for end in row["dead_ends"] or ():
        if end["certain"] and row["time_us"] + end["after_ms"] * 1_000 < until_us:
            return "lost", end["queue"], f"Lost in '{_short(end['queue'])}': {end['why']}."
    for end in row["dead_ends"] or ():
        if not end["certain"]:
            told = f"Not seen again. Lost in '{_short(end['queue'])}' if it was rejected or has expired: {end['why']}."
            return "may be lost", end["queue"], told
    return "", "", ""


def _short(name: str) -> str:
    return name if len(name) <= NAME_MAX else f"{name[:NAME_MAX]}…"


def as_json(lives: tuple[MessageLife, ...]) -> list[Any]:
    """Return the lives as the script of the page takes them."""
    return [msgspec.to_builtins(each) for each in lives]
