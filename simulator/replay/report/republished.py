"""Joins what consumers publish again by themselves to the path: which deaths and republishing led to each delivery."""

from __future__ import annotations

from simulator.events import Event
from simulator.replay.tables import Table, rows, select

REPUBLISHED = "republished"
"""Stands in a path beside the queue that had delivered a message before a client published it again."""

_PUBLISHED, _DELIVERED = (f"event = '{event.value}'" for event in (Event.PUBLISHED, Event.DELIVERED))
_DEATHS = "transform(hops, hop -> struct(hop.queue AS queue, hop.reason AS reason))"
_WITHOUT = f"""
    SELECT vhost, queue, message, {_DEATHS} AS deaths
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
        CASE WHEN again.after IS NULL THEN {_DEATHS}
            ELSE concat(array(struct(again.after AS queue, '{REPUBLISHED}' AS reason)), {_DEATHS}) END AS deaths
    FROM {{replayed}} AS one LEFT JOIN (
        SELECT delivery.vhost, delivery.message, delivery.file, delivery.line, publish.after
        FROM {{numbered}} AS delivery JOIN {{numbered}} AS publish
            ON delivery.vhost = publish.vhost AND delivery.message = publish.message
                AND delivery.place - delivery.source = publish.place
        WHERE delivery.{_DELIVERED} AND delivery.source > 0 AND publish.{_PUBLISHED} AND publish.after IS NOT NULL
    ) AS again
        ON one.vhost = again.vhost AND one.message = again.message AND one.file = again.file AND one.line = again.line
    WHERE one.{_DELIVERED} AND (size(one.hops) > 0 OR again.after IS NOT NULL)"""


def paths_of_deliveries(replayed: Table) -> Table:
    """Return deliveries with the ``deaths`` that led to them, each a ``queue`` and a ``reason``.

    The first of them has the reason ``REPUBLISHED`` where the path starts at a client's own publish of a message that
    a queue had delivered before.
    """
    (again,) = rows(f"SELECT count(*) AS count FROM {{replayed}} WHERE {_AGAIN}", replayed=replayed)
    if not again["count"]:  # few logs need the joins
        return select(_WITHOUT, replayed=replayed)
    return select(_JOINED, replayed=replayed, numbered=select(_NUMBERED, replayed=replayed))
