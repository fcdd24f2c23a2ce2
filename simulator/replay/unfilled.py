"""Finds queues in which more messages died of a length limit than were too many.

What dies of a length limit leaves a full queue behind. So of the messages that came in, as many as
the limit cannot have died of it, whatever consumers took in between: deaths are no more than
arrivals less the limit. Arrivals are those publishes that the broker routed there, and dead letters
of the queues that can send them there; each message that comes into a queue leaves it once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf
from typing import Any, NamedTuple

import msgspec

from dlx.deaths import MAXLEN
from dlx.message_flow import MessageFlow
from dlx.releases import Release
from dlx.settings import AT_LEAST_ONCE
from dlx.topology import Topology
from simulator.events import Event
from simulator.replay.assumptions import DEFAULT_ASSUMPTIONS, Assumptions
from simulator.replay.graph import with_stand_ins
from simulator.replay.lengths import length_limit, limit_text
from simulator.replay.tables import Table, rows

_DROPPED = f"""
    SELECT vhost, queue, count_if(first_copy) AS deaths
    FROM {{hops}} WHERE reason = '{MAXLEN}' AND verdict = 'agree' GROUP BY 1, 2 ORDER BY 1, 2"""
_IS_PUBLISH = f"event = '{Event.PUBLISHED.value}'"
_ROUTED = f"""
    SELECT vhost, queue, count(*) AS messages, count(size_bytes) AS sizes, sum(size_bytes) AS size_bytes,
        min(size_bytes) AS smallest
    FROM (
        SELECT vhost, CAST(%s AS BIGINT) AS size_bytes, explode(routed_queues) AS queue
        FROM {{captured}} WHERE {_IS_PUBLISH}
    )
    GROUP BY 1, 2"""
_NOT_TOLD = f"SELECT DISTINCT vhost FROM {{captured}} WHERE {_IS_PUBLISH} AND routed_queues IS NULL"


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

    ``hops`` are those of ``simulator.replay.summary``, and ``captured`` the rows that were replayed.
    """
    dropped = rows(_DROPPED, hops=hops)
    if not dropped:
        return ()
    not_told = {row["vhost"] for row in rows(_NOT_TOLD, captured=captured)}
    size = "octet_length(payload)" if "payload" in captured.columns else "NULL"
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
