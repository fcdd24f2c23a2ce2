"""Finds queues that held more messages at once than the definitions allow.

A message that came into a queue, and died there or was delivered later, waited in between; and
what waits counts against the limit. Only stays that are certain are counted: of messages that
were published once, shortened by the tolerance at both ends, one for each message and queue.
What came back from a consumer is left out, and what an exchange or an at-least-once queue may
have kept on its way. So more stays at once than the limit are impossible under these
definitions, and fewer prove nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from dlx.releases import Release
from dlx.settings import AT_LEAST_ONCE, Settings, effective_settings
from dlx.topology import CLASSIC, QUORUM, Topology
from simulator.events import Event
from simulator.replay.assumptions import DEFAULT_ASSUMPTIONS, Assumptions
from simulator.replay.graph import delaying
from simulator.replay.lengths import limit_text
from simulator.replay.tables import Table, rows, text

_PUBLISHED = f"event = '{Event.PUBLISHED.value}'"
_MOST = f"""
    WITH placed AS (
        SELECT *, row_number() OVER (PARTITION BY vhost, message ORDER BY time_us, file, line) AS place
        FROM {{replayed}}
    ), known AS (
        SELECT *, count_if({_PUBLISHED}) OVER of_message AS publishes,
            min(CASE WHEN {_PUBLISHED} THEN place END) OVER of_message AS first_publish,
            min(CASE WHEN {_PUBLISHED} AND NOT coalesce(exchange IN (%(delaying)s), FALSE)
                THEN time_us END) OVER of_message AS came_us
        FROM placed
        WINDOW of_message AS (PARTITION BY vhost, message)
    ), left_behind AS (
        SELECT vhost, message, hops, place - source = first_publish AS from_publish, came_us,
            concat(
                transform(hops, hop -> struct(hop.queue AS queue, hop.earliest_us AS until_us)),
                array(struct(queue AS queue, time_us AS until_us))
            ) AS stays
        FROM known
        WHERE verdict = 'agree' AND source > 0 AND publishes = 1
    ), stays AS (
        SELECT vhost, message, stay.queue AS queue, stay.until_us - %(tolerance_us)d AS until_us,
            %(tolerance_us)d + CASE
                WHEN nth = 0 AND from_publish THEN came_us
                WHEN nth > 0 AND NOT coalesce(element_at(hops, nth).exchange IN (%(delaying)s), FALSE)
                    AND NOT coalesce(element_at(hops, nth).queue IN (%(keeping)s), FALSE)
                    THEN element_at(hops, nth).latest_us
            END AS from_us
        FROM left_behind LATERAL VIEW posexplode(stays) AS nth, stay
        WHERE stay.queue IN (%(limited)s)
    ), first_ends AS (
        SELECT vhost, message, queue, from_us, min(until_us) AS until_us FROM stays
        WHERE from_us IS NOT NULL GROUP BY 1, 2, 3, 4
    ), longest AS (
        SELECT vhost, queue, max_by(struct(from_us, until_us), until_us - from_us) AS stay
        FROM first_ends WHERE until_us > from_us GROUP BY vhost, queue, message
    ), moments AS (
        SELECT vhost, queue, stay.from_us AS at_us, 1 AS more FROM longest
        UNION ALL
        SELECT vhost, queue, stay.until_us AS at_us, -1 AS more FROM longest
    ), counted AS (
        SELECT vhost, queue, at_us, sum(more) OVER (
            PARTITION BY vhost, queue ORDER BY at_us, more ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS messages
        FROM moments
    )
    SELECT vhost, queue, max(messages) AS messages, max_by(at_us, messages) AS at_us
    FROM counted GROUP BY 1, 2 ORDER BY 1, 2"""


class OverfullQueue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue in which more messages waited at once than the definitions allow.

    Attributes:
        vhost, queue: which one.
        messages: how many there were, at least.
        at_us: when, in microseconds since 1970.
        limit: the setting that they exceed, with its origin.
    """

    vhost: str
    queue: str
    messages: int
    at_us: int
    limit: str


def overfull_queues(
    replayed: Table,
    topologies: Mapping[str | None, Topology],
    release: Release,
    assumptions: Assumptions = DEFAULT_ASSUMPTIONS,
) -> tuple[OverfullQueue, ...]:
    """Return the queues that held more messages than their ``max-length``, of what ``replay`` returned."""
    limited = {
        (vhost, queue): settings
        for vhost, topology in topologies.items()
        for queue, settings in _limited(topology, release)
    }
    if not limited:
        return ()
    named = {
        "limited": _texts(queue for _, queue in limited),
        "delaying": _texts(name for topology in topologies.values() for name in delaying(topology, release)),
        "keeping": _texts(name for topology in topologies.values() for name in _keeping(topology, release)),
    }
    return tuple(
        OverfullQueue(**row, limit=limit_text(settings))
        for row in rows(_MOST % {**named, "tolerance_us": assumptions.slack_us}, replayed=replayed)
        if (settings := limited.get((row["vhost"], row["queue"]), limited.get((None, row["queue"]))))
        and settings.max_length is not None
        and row["messages"] > settings.max_length
    )


def _limited(topology: Topology, release: Release) -> Iterator[tuple[str, Settings]]:
    """Yield the queues that never hold more than their limit: all but quorum queues that refuse, which tell it late."""
    for name, queue in topology.queues.items():
        settings = effective_settings(queue, topology, release)
        strict = queue.type == CLASSIC or (queue.type == QUORUM and not settings.refuses_when_full)
        if strict and settings.max_length is not None:
            yield name, settings


def _keeping(topology: Topology, release: Release) -> Iterator[str]:
    """Yield the queues that may keep a dead letter before they send it."""
    for name, queue in topology.queues.items():
        if effective_settings(queue, topology, release).dead_letter_strategy == AT_LEAST_ONCE:
            yield name


def _texts(names: Iterable[str]) -> str:
    """Return names as a list for ``IN``, which must not be empty."""
    return ", ".join(map(text, sorted(set(names)))) or "NULL"
