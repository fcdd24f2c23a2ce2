"""Chooses the messages whose lives a report holds, and writes each, row by row: a bounded number of a log of any size.

Those come first that are lost or held, or may be; then those with a delivery that is not as
predicted, those that died, and the first of the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any, Literal

import msgspec

from dlx.delays import X_DELAY
from simulator.events import Event
from simulator.markup import plural
from simulator.replay.report.data import MessageLife, MessageStep
from simulator.replay.results.held_up import holding_queues, is_over, was_seen_then, with_true_ends
from simulator.replay.rows.tables import Table, rows, select
from simulator.replay.search.copies import Fate

ROWS_MAX = 4_200
STEPS_MAX = 60
"""Rows of all messages, and of one, that are kept."""
NAME_MAX = 200
FIELDS_TOLD = 3
"""Fields of a delivery that are not as predicted, and are shown."""
_ALIKE_MAX = 200
_ENDING = "last AND size(dead_ends) > 0"
_UNLIKE = "verdict IN ('differ', 'unexplained')"
_ALIKE = (
    (_ENDING, "concat_ws(' ', transform(dead_ends, end -> concat(end.queue, ' ', end.why)))"),
    (_UNLIKE, "concat_ws(' ', why, transform(differences, one -> one.field))"),
    ("size(hops) > 0", "concat_ws(' ', queue, transform(hops, hop -> concat(hop.queue, ' ', hop.reason)))"),
)
"""Rows that choose their message, the most interesting first, and what makes some alike: the first of those is kept."""
_KINDS = ((_ENDING, 400), (_UNLIKE, 400), ("size(hops) > 0", 800), ("first", 2_000))
"""Rows that choose their message besides, and how many of them do."""
_FIRST = "min(struct(time_us, file, line, message))"
_CHOOSING = [
    f"SELECT vhost, one.message, {place} AS kind FROM (SELECT vhost, {what} AS what, {_FIRST} AS one"
    f" FROM {{replayed}} WHERE {kind} GROUP BY 1, 2 ORDER BY one LIMIT {_ALIKE_MAX})"
    for place, (kind, what) in enumerate(_ALIKE)
] + [
    f"SELECT * FROM (SELECT vhost, message, {place} AS kind FROM {{replayed}} WHERE {kind}"
    f" ORDER BY time_us, file, line LIMIT {limit})"
    for place, (kind, limit) in enumerate(_KINDS)
]
_CHOSEN = f"SELECT vhost, message, min(kind) AS kind FROM ({' UNION ALL '.join(_CHOOSING)}) GROUP BY 1, 2"
_ROWS = f"""
    SELECT kind, vhost, message, time_us, file, line, event, queue, exchange, verdict, why, differences, hops, new_hops,
        dead_ends, last, place, of_it
    FROM (
        SELECT one.*, chosen.kind,
            row_number() OVER (PARTITION BY one.vhost, one.message ORDER BY time_us, file, line) AS place,
            count(*) OVER (PARTITION BY one.vhost, one.message) AS of_it
        FROM {{replayed}} AS one JOIN ({_CHOSEN}) AS chosen
            ON one.vhost = chosen.vhost AND one.message = chosen.message
    )
    WHERE place <= {STEPS_MAX} OR place = of_it
    ORDER BY kind, vhost, message, place
    LIMIT {ROWS_MAX}"""
_WITH_KEYS = f"""
    SELECT one.*, seen.routing_keys, seen.routed_queues, seen.broker_headers
    FROM {{kept}} AS one LEFT JOIN (
        SELECT time_us, file, line, message, routing_keys, routed_queues, broker_headers
        FROM {{captured}}
        WHERE event = '{Event.PUBLISHED.value}'
    ) AS seen
        ON one.time_us = seen.time_us AND one.file = seen.file AND one.line = seen.line AND one.message = seen.message
    ORDER BY kind, vhost, message, place"""

_CERTAIN = {"lost": 0, "held": 1}
"""The order in which messages come that certainly end so, before all others."""
Ending = Literal["lost", "held", "may be lost", "may be held", ""]


def message_lives(replayed: Table, captured: Table | None, until_us: int) -> tuple[MessageLife, ...]:
    """Return the lives of the chosen messages.

    ``captured`` are the rows that were replayed, for the routing keys of publishes; ``until_us`` is until when what
    dies in time is known to be gone.
    """
    kept = select(_ROWS, replayed=with_true_ends(replayed, holding_queues(replayed, until_us)))
    if captured is not None and {"routing_keys", "routed_queues", "broker_headers"} <= set(captured.columns):
        found = rows(_WITH_KEYS, kept=kept, captured=captured)
    else:
        found = rows("SELECT * FROM {kept}", kept=kept)
    by_message = groupby(found, key=lambda row: (row["vhost"], row["message"]))
    lives = [_life(vhost, message, list(own), until_us) for (vhost, message), own in by_message]
    return tuple(sorted(lives, key=lambda life: _CERTAIN.get(life.ending, len(_CERTAIN))))  # within each kind, by name


def _life(vhost: str, message: str, own: list[dict[str, Any]], until_us: int) -> MessageLife:
    steps: list[MessageStep] = []
    for place, row in enumerate(own):
        if row["place"] > place + 1:
            steps.append(_left_out(row["place"] - place - 1))
        steps += _steps(row, own[:place])
    last = own[-1]
    ending, queue, why = _end(last, until_us) if last["place"] == last["of_it"] else ("", "", "")
    if ending:
        steps += _ends(last, until_us)
    elif last["place"] < last["of_it"]:
        steps.append(_left_out(last["of_it"] - last["place"]))
    unlike = any(row["verdict"] in ("differ", "unexplained") for row in own)
    return MessageLife(vhost, message, tuple(steps), ending, queue, unlike, why)


def _left_out(count: int) -> MessageStep:
    return MessageStep(None, "gap", f"{plural(count, 'further row')} of the log not shown.")


def _steps(row: dict[str, Any], before: list[dict[str, Any]]) -> Iterator[MessageStep]:
    """Yield what a row shows: the deaths behind a delivery, which the log does not have, then the row itself."""
    at_us, line = row["time_us"], f"{row['file']}:{row['line']}"
    queue = _short(row["queue"] or "")
    if row["event"] == Event.PUBLISHED:
        yield MessageStep(at_us, "start", f"{_published(row, before)}.", line)
        return
    hops = row["hops"] or []
    for hop in hops[len(hops) - (row["new_hops"] or 0) :]:
        to = f"was dead-lettered to '{_short(hop['to_queue'])}'"
        yield MessageStep(hop["latest_us"], "letter", f"Died in '{_short(hop['queue'])}' ({hop['reason']}), and {to}.")
    if row["event"] != Event.DELIVERED:
        told = f"{row['event'].capitalize()} in '{queue}'."
        yield MessageStep(at_us, "done" if row["event"] == Event.ACKED else "", told, line)
        return
    kind, verdict = _verdict(row)
    yield MessageStep(at_us, kind, f"Delivered from '{queue}'{verdict}.", line)


def _published(row: dict[str, Any], before: list[dict[str, Any]]) -> str:
    to = f"to the exchange '{_short(row['exchange'])}'" if row["exchange"] else "to the default exchange"
    keys = row.get("routing_keys") or ()
    to += f" with the key {', '.join(repr(_short(key)) for key in keys)}" if keys else ""
    routed = row.get("routed_queues")
    if routed is not None and (row["exchange"] or list(routed) != list(keys)):  # the default one routes by the name
        to += f", which routed it to {', '.join(repr(_short(queue)) for queue in routed) or 'no queue'}"
        delay = msgspec.json.decode(row.get("broker_headers") or "{}").get(X_DELAY)
        to += f" at once ({X_DELAY} {_short(str(delay))})" if delay is not None and not routed else ""
    if not any(each["event"] == Event.PUBLISHED for each in before):
        return f"Published {to}"
    source = next((each["queue"] for each in reversed(before) if each["event"] == Event.DELIVERED), None)
    after = f" by a client after '{_short(source)}' had delivered it," if source is not None else ""
    return f"Published again{after} {to}"


def _verdict(row: dict[str, Any]) -> tuple[str, str]:
    """Return how a delivery is marked, and the rest of the sentence about it."""
    if row["verdict"] == "unexplained":
        return "loss", f", unexplained: {_short(row['why'] or '')}"
    if row["verdict"] == "differ":
        fields = row["differences"]
        told = [f"{one['field']} should be {_short(one['expected'])}, is {_short(one['seen'])}" for one in fields]
        more = [plural(len(fields) - FIELDS_TOLD, "more field")] if len(fields) > FIELDS_TOLD else []
        return "death", f", but not as predicted: {'; '.join([*told[:FIELDS_TOLD], *more])}"
    return ("death", ", by one of several paths") if row["verdict"] == "ambiguous" else ("", "")


def _ends(last: dict[str, Any], until_us: int) -> Iterator[MessageStep]:
    """Yield what no row shows: how each copy that may be lost or held went on from where it was seen last."""
    told: set[MessageStep] = set()  # copies that are lost apart may have gone a part of the way together
    for end in last["dead_ends"]:
        if is_over(end, last, until_us):
            steps = _ended(end, last["time_us"] if was_seen_then(end, last, last["of_it"]) else None)
        else:
            steps = [MessageStep(None, "death", f"Not seen again. {_may_end(end)}: {end['why']}.")]
        yield from (each for each in steps if each not in told)
        told.update(steps)


def _ended(end: dict[str, Any], seen_us: int | None) -> list[MessageStep]:
    """Return the deaths of a copy up to where it is lost or held, with their times if it is known when it was seen."""
    moments = [None if seen_us is None else seen_us + each["after_ms"] * 1_000 for each in end["way"]]
    *passed, last = zip(moments, [_short(each["queue"]) for each in end["way"]], end["way"], strict=True)
    to = [queue for _, queue, _ in [*passed, last][1:]]
    hops = [
        MessageStep(at_us, "letter", f"Died in '{queue}' ({death['reason']}), and was dead-lettered to '{onward}'.")
        for (at_us, queue, death), onward in zip(passed, to, strict=True)
    ]
    at_us, queue, death = last
    return [
        *hops,
        MessageStep(at_us, "loss", f"{_fate(end).capitalize()} in '{queue}' ({death['reason']}): {end['why']}."),
    ]


def _may_end(end: dict[str, Any]) -> str:
    fate = _fate(end)
    first, *passed = (f"'{_short(each['queue'])}'" for each in end["way"])
    if not passed:
        return f"{fate.capitalize()} in {first} if it was rejected or has expired"
    went = f"If it was rejected or has expired in {first}, it went on to {', '.join(passed)}"
    return f"{went} and was {fate} there by expiring"


def _fate(end: dict[str, Any]) -> Literal["lost", "held"]:
    return "lost" if end["fate"] == Fate.LOST else "held"


def _end(row: dict[str, Any], until_us: int) -> tuple[Ending, str, str]:
    """Return how the message ends if nothing follows its last row, in which queue, and why: the worst certain end."""
    ends = sorted(row["dead_ends"] or (), key=lambda end: (not is_over(end, row, until_us), end["fate"] != Fate.LOST))
    if not ends:
        return "", "", ""
    worst = ends[0]
    fate = _fate(worst)
    ending: Ending = fate if is_over(worst, row, until_us) else "may be lost" if fate == "lost" else "may be held"
    return ending, worst["queue"], worst["why"]


def _short(name: str) -> str:
    return name if len(name) <= NAME_MAX else f"{name[:NAME_MAX]}…"


def as_json(lives: tuple[MessageLife, ...]) -> list[Any]:
    """Return the lives as the script of the page takes them."""
    return [msgspec.to_builtins(each) for each in lives]
