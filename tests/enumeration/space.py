"""The space: every topology of one to three queues that the dead-letter rules tell apart.

A queue is a ``Kind`` (its type and limits) and a target: where its dead letters go.
Queues are numbered; two topologies that differ only in the numbers are one, and
``topologies`` gives one of them, the canonical form. Topologies that fall into
unconnected parts are left out: what happens in them happens in their parts.

Why other values cannot matter:

- Times to live and lengths are numbers that are reached or not. One second and one
  message are reached as any others are.
- A delivery limit of 1 is reached as any other is. No limit at all and the default are
  values of their own, since what they mean differs between releases.
- Bindings, policies and expirations decide which queue and which settings a message
  meets. Here each queue has its settings as arguments, its target by name, and is
  published to directly, which reaches all that any of those could reach.
- reject-publish-dlx is for classic queues; quorum queues take it for drop-head.
- Streams never dead-letter, priorities only change who is first.
- At-least-once without a dead-letter exchange is at-most-once.

A topology has three limits at most, such as a time to live, a length and a delivery
limit in one queue, or two in one and one in the other. What breaks a promise takes one
limit of each queue on its way, and where a pause must be left at once, one more.

With three queues a queue has at most one limit, a delivery limit is 1 or none, and an
exchange without a binding is not told from a missing one. With one or two queues, where
all of these are enumerated, they made no difference but in the reason that is named.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product
from typing import Any

import msgspec

from dlx.releases import Release
from dlx.settings import AT_LEAST_ONCE, DROP_HEAD, REJECT_PUBLISH, REJECT_PUBLISH_DLX
from dlx.topology import CLASSIC, QUORUM

TTL_MS = 1_000
LENGTH = 1
TTLS = (None, TTL_MS)
OVERFLOWS = {CLASSIC: (None, DROP_HEAD, REJECT_PUBLISH, REJECT_PUBLISH_DLX), QUORUM: (None, DROP_HEAD, REJECT_PUBLISH)}
"""What a queue of ``LENGTH`` does when it is full; ``None`` is a queue of any length."""
DEFAULT_LIMIT, NO_LIMIT, LIMIT = None, -1, 1
DELIVERY_LIMITS = (DEFAULT_LIMIT, NO_LIMIT, LIMIT)
LIMITS_MAX = 3
"""So many limits a topology has in all."""

NOWHERE, MISSING, UNBOUND = -1, -2, -3
"""Targets that are no queue: no dead-letter exchange, one that does not exist, one without a binding."""
NAMES = "abc"


class Kind(msgspec.Struct, frozen=True, order=True):
    """The type and limits of a queue. ``overflow``: what it does when full, ``None`` where it never is."""

    type: str
    ttl_ms: int | None = None
    overflow: str | None = None
    delivery_limit: int | None = DEFAULT_LIMIT
    at_least_once: bool = False

    def limits_deliveries(self, release: Release) -> bool:
        """Whether it has a delivery limit. -1 says that it has none, but early releases take it for 0."""
        if self.type == CLASSIC:
            return False
        if self.delivery_limit is DEFAULT_LIMIT:
            return release.quorum_default_delivery_limit is not None
        return self.delivery_limit != NO_LIMIT or release.quorum_negative_delivery_limit == "zero"

    def limits(self, release: Release) -> int:
        """How many limits it has."""
        return (self.ttl_ms is not None) + (self.overflow is not None) + self.limits_deliveries(release)

    def arguments(self) -> dict[str, Any]:
        """The arguments of its declaration."""
        arguments: dict[str, Any] = {"x-queue-type": self.type}
        if self.ttl_ms is not None:
            arguments["x-message-ttl"] = self.ttl_ms
        if self.overflow is not None:
            arguments["x-max-length"] = LENGTH
        if self.overflow in (REJECT_PUBLISH, REJECT_PUBLISH_DLX):
            arguments["x-overflow"] = self.overflow
        if self.delivery_limit is not None:
            arguments["x-delivery-limit"] = self.delivery_limit
        if self.at_least_once:  # which needs reject-publish, but no length
            arguments |= {"x-overflow": REJECT_PUBLISH, "x-dead-letter-strategy": AT_LEAST_ONCE}
        return arguments


Topology = tuple[tuple[int, int], ...]
"""For each queue the number of its kind, and its target: the number of a queue or one of the others."""


class Space:
    """The topologies of so many queues in a release.

    Attributes:
        kinds: what a queue can be, where the release can declare it.
    """

    def __init__(self, queues: int, release: Release) -> None:
        if not 1 <= queues <= len(NAMES):
            raise ValueError(f"{queues} queues; expected 1 to {len(NAMES)}")
        self.queues, self.release = queues, release
        self.kinds = [kind for kind in _kinds() if _declarable(kind, release) and (queues < 3 or _few(kind, release))]
        self.targets = (NOWHERE, MISSING, *([UNBOUND] if queues < 3 else []), *range(queues))
        self._limits = [kind.limits(release) for kind in self.kinds]

    def all(self) -> int:
        """How many topologies there are, before any is left out."""
        return len(self._choices()) ** self.queues

    def topologies(self) -> Iterator[Topology]:
        """Each connected topology once, in its canonical form."""
        for topology in product(self._choices(), repeat=self.queues):
            few = sum(self._limits[kind] for kind, _ in topology) <= LIMITS_MAX
            if few and connected(topology) and canonical(topology) == topology:
                yield topology

    def _choices(self) -> list[tuple[int, int]]:
        return [
            (number, target)
            for number, kind in enumerate(self.kinds)
            for target in self.targets
            if not (kind.at_least_once and target == NOWHERE)
        ]

    def definitions(self, topology: Topology) -> dict[str, Any]:
        """The topology as RabbitMQ exports it."""
        queues = [
            {"name": NAMES[index], "vhost": "/", "durable": True, "auto_delete": False,
             "arguments": self.kinds[kind].arguments() | _leading_to(target)}
            for index, (kind, target) in enumerate(topology)
        ]  # fmt: skip
        unbound = {"name": "unbound", "vhost": "/", "type": "fanout", "durable": True, "auto_delete": False,
                   "internal": False, "arguments": {}}  # fmt: skip
        return {"vhosts": [{"name": "/"}], "exchanges": [unbound], "queues": queues}


def _kinds() -> Iterator[Kind]:
    for ttl_ms, overflow in product(TTLS, OVERFLOWS[CLASSIC]):
        yield Kind(CLASSIC, ttl_ms, overflow)
    for ttl_ms, overflow, limit in product(TTLS, OVERFLOWS[QUORUM], DELIVERY_LIMITS):
        yield Kind(QUORUM, ttl_ms, overflow, limit)
        if overflow != DROP_HEAD:
            yield Kind(QUORUM, ttl_ms, overflow, limit, at_least_once=True)


def _declarable(kind: Kind, release: Release) -> bool:
    """Whether the release has such queues: early ones refuse arguments that their quorum queues do not know."""
    if kind.type == CLASSIC:
        return True
    known = release.quorum_message_ttl or kind.ttl_ms is None
    known = known and (release.quorum_overflow or kind.overflow in (None, DROP_HEAD))
    return known and (release.quorum_at_least_once or not kind.at_least_once)


def _few(kind: Kind, release: Release) -> bool:
    """Whether it is among the kinds that three queues are made of."""
    other_than_one = kind.delivery_limit != LIMIT and kind.limits_deliveries(release)
    same_as_none = kind.delivery_limit == NO_LIMIT and release.quorum_default_delivery_limit is None
    return kind.limits(release) <= 1 and not other_than_one and not same_as_none


def _leading_to(target: int) -> dict[str, str]:
    if target == NOWHERE:
        return {}
    if target in (MISSING, UNBOUND):
        return {"x-dead-letter-exchange": "missing" if target == MISSING else "unbound"}
    return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": NAMES[target]}


def canonical(topology: Topology) -> Topology:
    """The least of all topologies that differ from this one only in the numbers of their queues."""
    return min(renumbered(topology, order) for order in permutations(range(len(topology))))


def renumbered(topology: Topology, order: tuple[int, ...]) -> Topology:
    """The same topology; its queue number ``order[i]`` is now number ``i``."""
    new = {old: number for number, old in enumerate(order)}
    return tuple((topology[old][0], new.get(topology[old][1], topology[old][1])) for old in order)


def connected(topology: Topology) -> bool:
    """Whether dead letters join all the queues into one, whichever way they go."""
    joined = {0}
    for _ in topology:
        for queue, (_, target) in enumerate(topology):
            if target >= 0 and (queue in joined or target in joined):
                joined |= {queue, target}
    return len(joined) == len(topology)
