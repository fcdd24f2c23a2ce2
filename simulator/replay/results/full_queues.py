"""Finds queues that held more messages than they may, or in which more died of a limit than can have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import Any, NamedTuple

import msgspec

from dlx.deaths import MAXLEN
from dlx.message_flow import MessageFlow
from dlx.releases import Release
from dlx.settings import AT_LEAST_ONCE, Settings, effective_settings
from dlx.topology import CLASSIC, QUORUM, Topology
from simulator.events import Event
from simulator.replay.checks.lengths import length_limit, limit_text
from simulator.replay.rows.assumptions import DEFAULT_ASSUMPTIONS, Assumptions
from simulator.replay.rows.tables import Table, rows, text
from simulator.replay.search.graph import delaying, with_stand_ins

# Finds queues that held more messages at once than the definitions allow.
#
# A message that came into a queue, and died there or was delivered later, waited in between; and what waits counts
# against the limit. Only stays that are certain are counted: of messages that were published once, shortened by the
# tolerance at both ends, one for each message and queue. What came back from a consumer is left out, and what an
# exchange or an at-least-once queue may have kept on its way. So more stays at once than the limit are impossible
# under these definitions, and fewer prove nothing.


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


# Finds queues in which more messages died of a length limit than were too many.
#
# What dies of a length limit leaves a full queue behind. So of the messages that came in, as many as the limit cannot
# have died of it, whatever consumers took in between: deaths are no more than arrivals less the limit. Arrivals are
# those publishes that the broker routed there, and dead letters of the queues that can send them there; each message
# that comes into a queue leaves it once.


_DROPPED = f"""
    SELECT vhost, queue, count_if(first_copy) AS deaths
    FROM {{hops}} WHERE reason = '{MAXLEN}' AND verdict = 'agree' GROUP BY 1, 2 ORDER BY 1, 2"""
_ROUTED = f"""
    SELECT vhost, queue, count(*) AS messages, count(size_bytes) AS sizes, sum(size_bytes) AS size_bytes,
        min(size_bytes) AS smallest
    FROM (
        SELECT vhost, CAST(%s AS BIGINT) AS size_bytes, explode(routed_queues) AS queue
        FROM {{captured}} WHERE {_PUBLISHED}
    )
    GROUP BY 1, 2"""
_NOT_TOLD = f"SELECT DISTINCT vhost FROM {{captured}} WHERE {_PUBLISHED} AND routed_queues IS NULL"


class UnfilledQueue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue in which more messages died of its length limit than can have been too many.

    Attributes:
        vhost, queue: which one.
        deaths: how many died of it.
        most: how many of those that the log shows can have died of it.
        limit: the setting, with its origin.
        certain: whether the log has all messages, so that these are not the settings of the broker.
    """

    vhost: str
    queue: str
    deaths: int
    most: int
    limit: str
    certain: bool


class _Came(NamedTuple):
    """What came into a queue, or can have: messages, their bytes, and those of the smallest."""

    messages: float = 0
    size_bytes: float = 0
    smallest: float = inf

    def and_(self, other: _Came) -> _Came:
        return _Came(
            self.messages + other.messages, self.size_bytes + other.size_bytes, min(self.smallest, other.smallest)
        )


def _came(row: Mapping[str, Any]) -> _Came:
    known = row["sizes"] == row["messages"]
    return _Came(row["messages"], row["size_bytes"] if known else inf, row["smallest"] if known else 0)


_ENDLESS = _Came(inf, inf, 0)
_Routed = Mapping[tuple[str, str], _Came]


def unfilled_queues(
    hops: Table,
    captured: Table,
    topologies: Mapping[str | None, Topology],
    release: Release,
    assumptions: Assumptions = DEFAULT_ASSUMPTIONS,
) -> tuple[UnfilledQueue, ...]:
    """Return the queues in which too many died of a length limit.

    ``hops`` are those of ``simulator.replay.results.summary``, and ``captured`` the rows that were replayed.
    """
    dropped = rows(_DROPPED, hops=hops)
    if not dropped:
        return ()
    not_told = {row["vhost"] for row in rows(_NOT_TOLD, captured=captured)}
    # An empty payload may be one that the log does not have.
    size = "nullif(octet_length(payload), 0)" if "payload" in captured.columns else "NULL"
    routed = {(row["vhost"], row["queue"]): _came(row) for row in rows(_ROUTED % size, captured=captured)}
    flows: dict[str, MessageFlow] = {}
    found: list[UnfilledQueue] = []
    for row in dropped:
        vhost = row["vhost"]
        topology = topologies.get(vhost, topologies.get(None))
        if topology is not None and vhost not in not_told and row["queue"] in topology.queues:
            flow = flows.setdefault(vhost, MessageFlow(with_stand_ins(topology), release))
            found += _unfilled(flow, vhost, row["queue"], row["deaths"], routed, complete=assumptions.complete)
    return tuple(found)


def _unfilled(
    flow: MessageFlow, vhost: str, queue: str, deaths: int, routed: _Routed, *, complete: bool
) -> Iterator[UnfilledQueue]:
    settings = flow.settings(queue)
    limit = length_limit(settings, vhost)
    came = _Arrivals(flow, vhost, routed).into(queue)
    by_length = -inf if limit.length is None else came.messages - limit.length
    by_size = -inf if limit.size_bytes is None else _too_many_bytes(came, limit.size_bytes)
    by_size = inf if limit.size_bytes is not None and not limit.payloads else by_size
    most = max(by_length, by_size, 0)
    if deaths > most:
        text = limit_text(settings)
        yield UnfilledQueue(vhost=vhost, queue=queue, deaths=deaths, most=int(most), limit=text, certain=complete)


def _too_many_bytes(came: _Came, limit: int) -> float:
    """Return how many messages can have died: before the last one there was more than the limit."""
    over = came.size_bytes - limit
    if over <= 0:
        return 0
    return (over - 1) // came.smallest + 1 if came.smallest and over < inf else inf


class _Arrivals:
    """Bounds what can have come into the queues of a virtual host."""

    def __init__(self, flow: MessageFlow, vhost: str, routed: _Routed) -> None:
        self._flow = flow
        self._vhost = vhost
        self._routed = routed

    def into(self, queue: str, behind: frozenset[str] = frozenset()) -> _Came:
        """Return the bound for a queue; there is none where a message may come back to it."""
        if queue in behind:
            return _ENDLESS
        found = self._routed.get((self._vhost, queue), _Came())
        for source in self._flow.topology.queues:
            if queue in self._flow.possible_targets(source):
                at_least_once = self._flow.settings(source).dead_letter_strategy == AT_LEAST_ONCE
                found = found.and_(_ENDLESS if at_least_once else self.into(source, behind | {queue}))
        return found.and_(self._unknown())

    def _unknown(self) -> _Came:
        """Return what came into queues that the definitions lack, whose dead letters may go anywhere."""
        found = _Came()
        for (vhost, queue), came in self._routed.items():
            if vhost == self._vhost and queue not in self._flow.topology.queues:
                found = found.and_(came)
        return found
