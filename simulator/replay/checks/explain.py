"""Explains one delivery: by the paths that fit, or by the nearest that does not, and why.

An ``Explainer`` is for one virtual host under one release. It remembers what it
found, since the same states come up again and again.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from copy import copy
from functools import lru_cache
from itertools import chain, combinations
from typing import Any, NamedTuple

import msgspec

from dlx.deaths import DELIVERY_LIMIT, EXPIRED
from dlx.field_values import plain, timestamp
from dlx.message import Message
from dlx.message_flow import Hop, MessageFlow, State
from dlx.releases import Release
from dlx.routing import EXCHANGE_TYPES, headers_looked_at
from dlx.server_plugins import AT_RANDOM, CHOOSING, DELAYED
from dlx.settings import EXPIRES
from dlx.streams import headers_kept, properties_kept
from dlx.topology import Topology
from simulator.replay.checks.counts import DeliveryCountCheck
from simulator.replay.checks.differences import content_differences, visible_differences, weight
from simulator.replay.checks.path_times import PathTimes, hop_times, kept_deaths, last_times
from simulator.replay.rows.row_codec import read_content, write_content
from simulator.replay.rows.verdict_words import Difference, Unchecked
from simulator.replay.search.copies import DeadEnds
from simulator.replay.search.graph import (
    ConsumerConstraints,
    DeliveredState,
    Effort,
    StatePath,
    StateSearch,
    delaying,
    unknown_routing,
    with_stand_ins,
)
from simulator.replay.search.sources import Source
from simulator.replay.search.visible_state import CaptureRow, Visible, message_of, publish_of

NEARBY_HOPS = 5
UNKNOWN_ROUTING = "it may use any of its bindings: its type is not known"
UNKNOWN_ORDER = "it may choose any of its queues: definitions do not show in which order they were bound"
ROUTED_QUEUES = "routed_queues"
_encode = msgspec.json.Encoder(order="deterministic", enc_hook=plain).encode


def _choosing(topology: Topology) -> Iterator[tuple[str, str]]:
    """Yield the exchanges that choose one of the queues bound to them for each message, with their types."""
    for name, exchange in topology.exchanges.items():
        bound = topology.bindings.get(name, ())
        if exchange.type in CHOOSING and bound and all(binding.destination_type == "queue" for binding in bound):
            yield name, exchange.type


def _may_be_timestamp(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**64


@lru_cache(maxsize=10_000)
def _kept_by_stream(content: str, release: Release) -> str:
    """Return the content as a delivery from a stream shows it: what streams keep of it."""
    properties, headers = map(msgspec.json.decode, read_content(content))
    parts = (properties_kept(properties, release), headers_kept(headers, release))
    return write_content(*(_encode(part).decode() for part in parts))


class Nearest(NamedTuple):
    """The explanation that fits best, and where it does not."""

    source: Source
    found: StatePath
    differences: list[Difference]


class Explainer:
    """Explains the deliveries of one virtual host by the rules of one release.

    ``flow`` answers what can become of a message, if not just the topology under the rules does.
    ``effort`` limits each search.
    """

    def __init__(
        self, topology: Topology, rules: Release, flow: MessageFlow | None = None, effort: Effort | None = None
    ) -> None:
        self.topology = with_stand_ins(topology)
        self.headers_looked_at = headers_looked_at(self.topology)
        self.unknown_routing = unknown_routing(topology, rules)
        self._choosing = dict(_choosing(topology))
        self._delaying = delaying(topology, rules)
        self._holding = delaying(topology, rules, (*EXCHANGE_TYPES, DELAYED, *CHOOSING))
        self._begin(MessageFlow(self.topology, rules) if flow is None else flow, effort)

    def _begin(self, flow: MessageFlow, effort: Effort | None) -> None:
        self.release = flow.release
        self.flow = flow
        self._graph = StateSearch(flow, Effort() if effort is None else effort)
        self.counts = DeliveryCountCheck(flow)
        self.dead_ends = DeadEnds(flow, self.unknown_routing)
        self._entering: dict[tuple[str, str], tuple[tuple[State, int], ...]] = {}
        self._paths: dict[Any, list[StatePath]] = {}
        self._cut: set[Any] = set()
        self._nearest: dict[Any, tuple[StatePath, list[Difference]] | None] = {}
        self._others: dict[Release, Explainer] = {}

    # -- what was seen -----------------------------------------------------------

    def why_unknown(self, vhost: str, queue: str) -> str | None:
        """Return why nothing can be said about the queue; return ``None`` if the definitions have it."""
        if queue in self.topology.queues:
            return None
        return f"queue '{queue}' of '{vhost}' is not in the definitions (exports omit exclusive queues)"

    def why_unknown_death(self, vhost: str, target: DeliveredState) -> str | None:
        """Return which queue the message died in that the definitions lack: it is unknown where it went from there."""
        died = sorted({queue for queue, _ in target.death_counts()})
        return next((why for queue in died if (why := self.why_unknown(vhost, queue))), None)

    def entries(self, row: CaptureRow, headers: Mapping[str, Any]) -> tuple[State, ...]:
        """Return the states into which the publish in ``row`` is routed. Raises ``PublishRefusedError``."""
        return tuple(state for state, _ in self.entering(row, headers))

    def entering(self, row: CaptureRow, headers: Mapping[str, Any]) -> tuple[tuple[State, int], ...]:
        """Return the ``entries``, and how long an exchange delays each, in ms. Raises ``PublishRefusedError``."""
        key = (row.signature, str(sorted(headers.items(), key=repr)) if headers else "")
        known = self._entering.get(key)
        if known is None:
            known = self.flow.entering(publish_of(row, headers, self.release))
            self._entering[key] = known
        return known

    def misrouted(self, row: CaptureRow, entering: tuple[tuple[State, int], ...]) -> tuple[Difference, ...]:
        """Return how the queues to which the broker routed the publish in ``row`` differ from those it enters at once.

        Nothing is said of queues that the definitions lack, nor of an exchange whose routing is unknown.
        """
        exchange = row.visible.exchange
        chooses = exchange in self._choosing
        if row.routed_queues is None or (exchange in self.unknown_routing and not chooses):
            return ()
        expected = sorted({root.queue for root, delay_ms in entering if not delay_ms})
        seen = sorted({queue for queue in row.routed_queues if queue in self.topology.queues})
        if len(row.routed_queues) == 1 and {*seen} <= {*expected} if chooses else expected == seen:
            return ()
        named = f"exchange '{exchange}'" if exchange else "the default exchange"
        text = f"{'one of ' if chooses else ''}{_encode(expected).decode()}"
        return (Difference(f"{ROUTED_QUEUES} of {named}", text, _encode(seen).decode()),)

    def with_timestamps(self, row: CaptureRow, headers: Mapping[str, Any]) -> tuple[tuple[State, int], ...] | None:
        """Return what the publish is ``entering`` if some integers in its ``headers`` are timestamps.

        ``None`` if it then goes to other queues than the broker routed it to, whichever of them are.
        """
        whole = {name: value for name, value in headers.items() if _may_be_timestamp(value)}
        for names in chain.from_iterable(combinations(whole, number) for number in range(1, min(len(whole), 3) + 1)):
            typed = {name: timestamp(whole[name]) for name in names}
            entering = self.flow.entering(publish_of(row, {**headers, **typed}, self.release))
            if not self.misrouted(row, entering):
                return entering
        return None

    def observed(self, row: CaptureRow, parent: Message | None, headers: Mapping[str, Any]) -> State:
        """Return the state that a delivery showed."""
        return self.flow.state(row.queue or "", message_of(row, parent, headers, self.release))

    def is_stream(self, queue: str) -> bool:
        """Return whether the queue is a stream."""
        return self.flow.is_stream(queue)

    def visible(self, state: State) -> Visible:
        """Return what a row would show of the state's message."""
        return self._graph.visible(state)

    def shown(self, state: State) -> DeliveredState:
        """Return the state as a delivery shows it."""
        return DeliveredState(state.queue, self._graph.shown(state))

    def was_shown(self, state: State, deliveries: Container[DeliveredState]) -> bool:
        """Return whether one of the deliveries is of the state."""
        sent = self._graph.as_sent(state)
        return self.shown(state) in deliveries or (sent is not None and DeliveredState(state.queue, sent) in deliveries)

    def same_content(self, published: str, delivered: str, queue: str) -> bool:
        """Return whether properties and user headers are the same, as far as the queue keeps them."""
        return published == delivered or self._content_shown(published, queue) == delivered

    def _content_shown(self, content: str, queue: str) -> str:
        """Return the content as a delivery from that queue shows it."""
        return _kept_by_stream(content, self.release) if self.is_stream(queue) else content

    # -- what explains it --------------------------------------------------------

    def paths(
        self, roots: tuple[State, ...], target: DeliveredState, constraints: ConsumerConstraints | None
    ) -> list[StatePath]:
        """Return the paths from a root to exactly the target (``StateSearch.paths``), and remember them."""
        key = (tuple(root.number for root in roots), target, constraints)
        known = self._paths.get(key)
        if known is None:
            known = self._paths[key] = self._graph.paths(roots, target, constraints)
            if self._graph.was_cut:
                self._cut.add(key)
        return known

    def first_path(
        self, roots: Sequence[State], target: DeliveredState, constraints: ConsumerConstraints | None
    ) -> StatePath | None:
        """Return the shortest of the ``paths``, without remembering it; ``None`` if there is none."""
        return self._graph.first_path(roots, target, constraints)

    def may_have_more(self, roots: tuple[State, ...], target: DeliveredState, constraints: ConsumerConstraints) -> bool:
        """Return whether the search for these ``paths`` came to a limit."""
        return (tuple(root.number for root in roots), target, constraints) in self._cut

    def path_times(self, source: Source, found: StatePath, row: CaptureRow, back: int) -> PathTimes:
        """Return what a path from a source, seen ``back`` rows before ``row``, asks of the times."""
        hops = hop_times(self.flow, self._holding, source, found, row)
        kept = kept_deaths(source, row)
        delay_ms = source.delays_ms.get((*found.died, found.state)[0], 0)
        return PathTimes(source=back, delay_ms=delay_ms, hops=hops, last=last_times(self.flow, found), kept=kept)

    def may_delay(self, exchange: str) -> bool:
        """Return whether the exchange may keep messages for a while, or lead to one that does."""
        return exchange in self._delaying

    def may_hold(self, exchange: str) -> bool:
        """Return whether the exchange may keep messages for a time that is not known, or lead to one that does."""
        return exchange in self._holding

    def unchecked(self, source: Source, hops: tuple[Hop, ...]) -> tuple[Unchecked, ...]:
        """Return what the rows of a message leave unchecked of a path from a source."""
        found: dict[Unchecked, None] = {}
        for place, hop in enumerate(hops):
            if hop.reason == DELIVERY_LIMIT:
                seen = None if place or source.is_publish else source.reached
                why = self.counts.why_unproved(hop.queue, seen)
                found |= {} if why is None else {why: None}
            elif hop.reason == EXPIRED:
                why = self._why_not_deleted(hop.queue)
                found |= {} if why is None else {why: None}
        published = [source.row.visible.exchange] if source.is_publish else []
        for exchange in (*published, *(hop.exchange for hop in hops)):
            unknown = self._why_routing_unknown(exchange)
            found |= {} if unknown is None else {Unchecked("routing", exchange, unknown): None}
        return tuple(found)

    def _why_routing_unknown(self, exchange: str) -> str | None:
        """Return why it is unchecked where the exchange routes; ``None`` where it may choose any of its queues."""
        kind = self._choosing.get(exchange)
        if exchange not in self.unknown_routing or kind in AT_RANDOM:
            return None
        return UNKNOWN_ROUTING if kind is None else UNKNOWN_ORDER

    def _why_not_deleted(self, queue: str) -> Unchecked | None:
        """Return what is unchecked of a stay in a queue that may have been deleted meanwhile; ``None`` if not."""
        settings = self.flow.settings(queue)
        expires_ms, ttl_ms = settings.expires_ms, settings.message_ttl_ms
        if expires_ms is None or (ttl_ms is not None and ttl_ms <= expires_ms):
            return None
        return Unchecked(
            "expires", queue, f"{settings.values[EXPIRES]}; the log does not show whether the queue was used"
        )

    def nearest(
        self, sources: Sequence[Source], target: DeliveredState, content: str, constraints: ConsumerConstraints
    ) -> Nearest | None:
        """Return the explanation with the fewest differing fields; ``None`` if no path ends in that queue."""
        best: Nearest | None = None
        for source in sources:
            found = self._nearest_from(source.roots, target, constraints)
            if found is None:
                continue
            state, differences = found
            if not self.same_content(source.content, content, target.queue):
                shown = self._content_shown(source.content, target.queue)
                differences = [*differences, *content_differences(shown, content)]
            if best is None or weight(differences) < weight(best.differences):
                best = Nearest(source, state, differences)
        return best

    def _nearest_from(
        self, roots: tuple[State, ...], target: DeliveredState, constraints: ConsumerConstraints
    ) -> tuple[StatePath, list[Difference]] | None:
        key = (tuple(root.number for root in roots), target, constraints)
        if key not in self._nearest:
            self._nearest[key] = self._search_nearest(roots, target, constraints)
        return self._nearest[key]

    def _search_nearest(
        self, roots: tuple[State, ...], target: DeliveredState, constraints: ConsumerConstraints
    ) -> tuple[StatePath, list[Difference]] | None:
        exact = self.paths(roots, target, constraints)
        if exact:
            return exact[0], []
        candidates = self._graph.same_deaths(roots, target, constraints)
        missing = sum(target.death_counts().values()) - min((root.total for root in roots), default=0)
        hops_max = min(max(missing, 0) + 1, NEARBY_HOPS)
        candidates += self._graph.nearby(roots, target.queue, constraints, hops_max)
        judged = [(each, visible_differences(self._graph.shown(each.state), target.visible)) for each in candidates]
        return min(judged, key=lambda each: (weight(each[1]), len(each[0].hops)), default=None)

    def ruled_out(
        self, sources: Sequence[Source], target: DeliveredState, content: str, constraints: ConsumerConstraints
    ) -> str | None:
        """Return why the path that would explain the delivery is ruled out; ``None`` if no path would."""
        for source in sources:
            if self.same_content(source.content, content, target.queue):
                for found in self.paths(source.roots, target, None):
                    return self._graph.why_ruled_out(source.roots, found.hops, constraints)
        return None

    @property
    def size(self) -> int:
        """How many states it remembers."""
        return self.flow.size + sum(other.size for other in self._others.values())

    def under(self, other: Release) -> Explainer:
        """Return an explainer that answers the same questions for another release."""
        if other not in self._others:
            self._others[other] = Explainer(self.topology, other)
        return self._others[other]

    def afresh(self, rules: Release, effort: Effort) -> Explainer:
        """Return an explainer for other rules that has found nothing yet, and costs little to make."""
        other = copy(self)
        other._begin(MessageFlow(self.topology, rules), effort)
        return other
