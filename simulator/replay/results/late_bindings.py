"""Finds queues that dead letters reached only from some moment on, though the definitions bind them all the time.

Queues deliver in order. If a queue delivers what came into it, and never delivers what should have come before, that
never came: the definitions are of a later time than the beginning of the log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from dlx.deaths import EXPIRED, REJECTED
from dlx.message import Message, PublishRefusedError
from dlx.message_flow import MessageFlow
from dlx.releases import Release
from dlx.routing import headers_looked_at
from dlx.settings import AT_LEAST_ONCE, expires_messages
from dlx.topology import STREAM, Topology
from simulator.events import Event
from simulator.replay.rows.assumptions import Assumptions
from simulator.replay.rows.row_codec import CONTENT, CONTENT_SQL, SIGNATURE, SIGNATURE_SQL, looked_at
from simulator.replay.rows.tables import Table, rows
from simulator.replay.search.graph import delaying, with_stand_ins
from simulator.replay.search.visible_state import CaptureRow, message_of, publish_of, row_of

ROWS_MAX = 100_000
"""Deaths before the first arrival in a queue that are looked at, the first ones."""
_FIRST_ARRIVALS = """
    SELECT vhost, hop.to_queue AS queue, min(coalesce(hop.earliest_us, 0)) AS at_us
    FROM (SELECT vhost, explode(hops) AS hop FROM {replayed} WHERE verdict = 'agree')
    GROUP BY 1, 2"""
_DEATHS = f"""
    SELECT vhost, time_us, hops, {SIGNATURE_SQL} AS {SIGNATURE}, {CONTENT_SQL} AS {CONTENT}
    FROM {{captured}} JOIN (
        SELECT vhost, message, file, line, time_us, hops FROM {{replayed}}
        WHERE time_us < %d AND (
            (last AND event IN ('{Event.PUBLISHED.value}', '{Event.REJECTED.value}'))
            OR (verdict = 'agree' AND new_hops > 0)
        )
        ORDER BY time_us LIMIT {ROWS_MAX}
    ) died USING (vhost, message, file, line, time_us)"""


class LateBinding(msgspec.Struct, frozen=True, kw_only=True):
    """A queue that messages did not reach before some moment, though the definitions send their dead letters there.

    Attributes:
        vhost, queue: which queue.
        messages: how many copies did not reach it.
        at_us: when the first dead letter that reached it died, at the earliest; microseconds since 1970.
    """

    vhost: str
    queue: str
    messages: int
    at_us: int


def late_bindings(
    replayed: Table,
    captured: Table,
    topologies: Mapping[str | None, Topology],
    rules: Release,
    assumptions: Assumptions,
) -> tuple[LateBinding, ...]:
    """Return the queues that dead letters reached only from some moment on, most messages first.

    ``captured`` are the rows that were replayed.
    """
    flows = {vhost: MessageFlow(with_stand_ins(topology), rules) for vhost, topology in topologies.items()}
    keeping = frozenset[str]().union(*(delaying(topology, rules) for topology in topologies.values()))
    names = frozenset[str]().union(*(headers_looked_at(topology) for topology in topologies.values()))
    first_us = {
        (row["vhost"], row["queue"]): row["at_us"]
        for row in rows(_FIRST_ARRIVALS, replayed=replayed)
        if (flow := flows.get(row["vhost"], flows.get(None))) is not None and _delivers_in_order(flow, row["queue"])
    }
    latest_us = max(first_us.values(), default=0)
    missing: Counter[tuple[str, str]] = Counter()
    for row in rows(_DEATHS % latest_us, replayed=replayed, captured=captured) if latest_us else ():
        vhost, flow = row["vhost"], flows.get(row["vhost"], flows.get(None))
        if flow is None:
            continue
        shown, headers = row_of(row[SIGNATURE]), looked_at(row[CONTENT], names)
        for exchange, queue, died_us in _arrivals(flow, shown, headers, row):
            if exchange not in keeping and died_us + assumptions.slack_us < first_us.get((vhost, queue), 0):
                missing[vhost, queue] += 1
    return tuple(
        LateBinding(vhost=vhost, queue=queue, messages=messages, at_us=first_us[vhost, queue])
        for (vhost, queue), messages in missing.most_common()
    )


def _delivers_in_order(flow: MessageFlow, queue: str) -> bool:
    """Return whether the queue delivers all that comes into it, in order."""
    if queue not in flow.topology.queues:
        return False
    settings = flow.settings(queue)
    limits = (settings.message_ttl_ms, settings.expires_ms, settings.max_length, settings.max_length_bytes)
    ordered = settings.queue.type != STREAM and "x-max-priority" not in settings.queue.arguments
    return ordered and all(limit is None for limit in limits)


def _arrivals(
    flow: MessageFlow, shown: CaptureRow, headers: Mapping[str, Any], row: Mapping[str, Any]
) -> Iterator[tuple[str, str, int]]:
    """Yield by which exchange a death that a row shows leads to which queue, and when it happened at the latest."""
    try:
        if shown.event == Event.DELIVERED:
            last = row["hops"][-1]
            if last["latest_us"] is not None and _sends_once(flow, last["queue"]):
                message = message_of(shown, None, headers, flow.release)
                yield from ((last["exchange"], queue, last["latest_us"]) for queue in flow.entries(message))
        elif shown.event == Event.REJECTED:
            message = message_of(shown, None, headers, flow.release)
            yield from _sent_on(flow, shown.queue or "", message, REJECTED, row["time_us"])
        else:
            message = publish_of(shown, headers, flow.release)
            for queue in flow.entries(message) if message.expiration is None else ():
                settings = flow.settings(queue)
                if settings.message_ttl_ms is not None and expires_messages(settings.queue.type, flow.release):
                    died_us = row["time_us"] + 1_000 * settings.message_ttl_ms
                    yield from _sent_on(flow, queue, message, EXPIRED, died_us)
    except PublishRefusedError:
        return


def _sent_on(
    flow: MessageFlow, queue: str, message: Message, reason: str, died_us: int
) -> Iterator[tuple[str, str, int]]:
    if _sends_once(flow, queue):
        yield from ((hop.exchange, hop.to_queue, died_us) for hop, _ in flow.hops(flow.state(queue, message), reason))


def _sends_once(flow: MessageFlow, queue: str) -> bool:
    """Return whether the queue does not send dead letters again that reached no queue."""
    return queue in flow.topology.queues and flow.settings(queue).dead_letter_strategy != AT_LEAST_ONCE
