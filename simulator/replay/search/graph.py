"""Searches for the ways that lead from a publish to what a trace shows.

``dlx.message_flow`` says which states there are, a state being a message in a queue,
and where each death leads. Few states exist in a real log, since times and payloads
are left out, so replaying a log is looking paths up. The search adds its limits, what
consumers may have done, and what a trace shows of a state. One graph is for one virtual
host under one release.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

import msgspec

from dlx.deaths import REASONS, REJECTED, X_DEATH
from dlx.delays import X_DELAYED_TYPE, routing_type
from dlx.message_flow import Hop, MessageFlow, State
from dlx.releases import Release
from dlx.routing import EXCHANGE_TYPES
from dlx.server_plugins import DELAYED
from dlx.settings import alternate_exchange
from dlx.streams import read_from_stream
from dlx.topology import Exchange, Topology
from simulator.replay.search.visible_state import Address, Kind, Visible, addresses_in, death_in, deaths_shown, visible

STATES_MAX = 20_000
"""States that one search may look at."""
PATHS_MAX = 8
"""Different hop sequences that one search keeps."""
HIDDEN_HOPS = 4
"""Deaths looked for behind a delivery that does not show them."""


class Effort:
    """Limits searches.

    Attributes:
        states_max: states that one search may look at.
        every_way: whether a search looks for every way to a state, or for one.
        left: states that all searches together may still look at.
    """

    __slots__ = ("every_way", "left", "states_max")

    def __init__(self, states_max: int = STATES_MAX, *, every_way: bool = True, left: float = math.inf) -> None:
        self.states_max = states_max
        self.every_way = every_way
        self.left = left


class ConsumerConstraints(NamedTuple):
    """Limits what consumers may have done: they reject only where the message was delivered.

    In ``settled_in``, every delivery is known to have been acknowledged or requeued.
    A delivery limit can be reached without a delivery that a trace shows: a message on its
    way to a channel that dies counts, but is never traced.
    """

    delivered_in: frozenset[str] = frozenset()
    settled_in: frozenset[str] = frozenset()

    def why_not(self, queue: str, reason: str) -> str | None:
        """Return why no consumer can have caused the death; return ``None`` if one can."""
        if reason == REJECTED and queue not in self.delivered_in:
            return f"{reason} in '{queue}': the message was not delivered there before"
        if reason == REJECTED and queue in self.settled_in:
            return f"{reason} in '{queue}': every delivery there was acknowledged or requeued"
        return None


class DeliveredState(NamedTuple):
    """A delivered state to explain: the queue and what the row shows."""

    queue: str
    visible: Visible

    def death_counts(self) -> Mapping[Kind, int]:
        """Return how often it died, by queue and reason, as ``x-death`` of the row says."""
        return deaths_shown(self.visible.x_death).counts

    def addresses(self) -> Mapping[Kind, Address]:
        """Return exchange and routing keys of each first death of its kind, as ``x-death`` of the row says."""
        return deaths_shown(self.visible.x_death).addresses


class StatePath(NamedTuple):
    """A state that a search reached, the hops that led there, and the states in which it died on each of them."""

    state: State
    hops: tuple[Hop, ...]
    died: tuple[State, ...]


class _Trail(NamedTuple):
    """The hops so far and the state before each, newest first, sharing their tails."""

    hop: Hop
    died: State
    before: _Trail | None

    def steps(self) -> tuple[tuple[Hop, State], ...]:
        found: list[tuple[Hop, State]] = []
        trail: _Trail | None = self
        while trail is not None:
            found.append((trail.hop, trail.died))
            trail = trail.before
        return tuple(reversed(found))


_Way = tuple[State, "_Trail | None"]
"""A state that a search has come to, and the hops behind it."""


def _found(way: _Way) -> StatePath:
    state, trail = way
    steps = trail.steps() if trail else ()
    return StatePath(state, tuple(hop for hop, _ in steps), tuple(died for _, died in steps))


class StateSearch:
    """Searches the states of one virtual host under one release.

    Attributes:
        flow: says which states there are and what leads from one to the next.
        was_cut: whether the latest search for paths came to a limit, so that there may be more of them.
    """

    def __init__(self, flow: MessageFlow, effort: Effort) -> None:
        self.flow = flow
        self.was_cut = False
        self._effort = effort
        self._visible: dict[int, Visible] = {}
        self._read_back: dict[int, Visible] = {}
        self._addresses: dict[int, Mapping[Kind, Address]] = {}

    def why_not(self, state: State, reason: str, constraints: ConsumerConstraints) -> str | None:
        """Return why the message cannot die there for that reason; return ``None`` if it can."""
        return self.flow.why_not(state, reason) or constraints.why_not(state.queue, reason)

    def paths(
        self, roots: Iterable[State], target: DeliveredState, constraints: ConsumerConstraints | None
    ) -> list[StatePath]:
        """Return the paths, ``PATHS_MAX`` at most, from a root to exactly the target.

        ``constraints`` ``None`` looks past everything that rules deaths out.
        """
        self.was_cut = False
        kept = list(islice(self._matching(roots, target, constraints), PATHS_MAX))
        self.was_cut |= len(kept) == PATHS_MAX
        return kept

    def first_path(
        self, roots: Iterable[State], target: DeliveredState, constraints: ConsumerConstraints | None
    ) -> StatePath | None:
        """Return the shortest path from a root to exactly the target; ``None`` if there is none."""
        return next(self._matching(roots, target, constraints), None)

    def _matching(
        self, roots: Iterable[State], target: DeliveredState, constraints: ConsumerConstraints | None
    ) -> Iterator[StatePath]:
        ways: Iterable[_Way] = self._guided(roots, target, constraints, target.addresses())
        if target.visible.x_death is None and self._hides_deaths(target.queue):
            ways = self._within(roots, constraints, HIDDEN_HOPS)
        return (_found(way) for way in ways if self.matches(way[0], target))

    def _hides_deaths(self, queue: str) -> bool:
        return self.flow.is_stream(queue) and self.flow.release.headers_kept_in_stream == "scalar headers"

    def matches(self, state: State, target: DeliveredState) -> bool:
        """Return whether the state shows exactly what was delivered.

        Whether a stream hands out the expiration of a dead letter is not judged: it has that of the message, or none.
        """
        if state.queue != target.queue or state.message.exchange != target.visible.exchange:
            return False
        if self.flow.is_stream(state.queue):
            shown, seen = self.shown(state), target.visible
            return seen == shown._replace(expiration=seen.expiration) and seen.expiration in (None, shown.expiration)
        return target.visible in (self.visible(state), self.as_sent(state))

    def as_sent(self, state: State) -> Visible | None:
        """Return what a row shows that has the publisher's own headers; ``None`` if the queue has no others.

        Which of both a queue hands out, depends on how it keeps the message.
        """
        sent = state.message.headers_sent
        return None if sent is None else visible(msgspec.structs.replace(state.message, headers=sent))

    def visible(self, state: State) -> Visible:
        """Return what a row would show of the state's message, were it published as it is."""
        known = self._visible.get(state.number)
        if known is None:
            known = self._visible[state.number] = visible(state.message)
        return known

    def shown(self, state: State) -> Visible:
        """Return what a delivery of the state shows: of a stream, what it keeps."""
        if not self.flow.is_stream(state.queue):
            return self.visible(state)
        known = self._read_back.get(state.number)
        if known is None:
            known = visible(read_from_stream(state.message, self.flow.release))
            self._read_back[state.number] = known
        return known

    def same_deaths(
        self, roots: Iterable[State], target: DeliveredState, constraints: ConsumerConstraints
    ) -> list[StatePath]:
        """Return the ways to states in the target's queue that died as often, where and why, as the target did."""
        wanted = target.death_counts()
        ways = self._guided(roots, target, constraints)
        return [_found(way) for way in ways if way[0].queue == target.queue and way[0].counts == wanted]

    def nearby(
        self, roots: Iterable[State], queue: str, constraints: ConsumerConstraints, hops_max: int
    ) -> list[StatePath]:
        """Return the states in ``queue`` within ``hops_max`` hops, whatever the target's deaths say."""
        return [_found(way) for way in self._within(roots, constraints, hops_max) if way[0].queue == queue]

    def _within(self, roots: Iterable[State], constraints: ConsumerConstraints | None, hops_max: int) -> Iterator[_Way]:
        layer: list[_Way] = [(root, None) for root in roots]
        seen = 0
        for _ in range(hops_max + 1):
            onward: list[_Way] = []
            for state, trail in layer:
                seen += 1
                yield state, trail
                if seen >= self._effort.states_max // 20:
                    self.was_cut = True
                else:
                    onward += self._onward(state, trail, REASONS, constraints)
            layer = onward

    def why_ruled_out(
        self, roots: Iterable[State], hops: tuple[Hop, ...], constraints: ConsumerConstraints
    ) -> str | None:
        """Return what rules out the first impossible hop of a path; ``None`` if nothing does."""
        state = next((root for root in roots if hops and root.queue == hops[0].queue), None)
        for hop in hops:
            if state is None:
                return None
            why = self.why_not(state, hop.reason, constraints)
            if why is not None:
                return why
            reached = dict(self.flow.hops(state, hop.reason)).get(hop)
            if reached is None and hop in dict(self.flow.cycles(state, hop.reason)):
                dropped = f"the cycle rule drops a message that would return to '{hop.to_queue}'"
                return f"{hop.reason} in '{hop.queue}': {dropped}"
            state = reached
        return None

    def _guided(
        self,
        roots: Iterable[State],
        target: DeliveredState,
        constraints: ConsumerConstraints | None,
        addresses: Mapping[Kind, Address] | None = None,
    ) -> Iterator[_Way]:
        """Yield every state on the way, following only the deaths that the target names.

        With ``addresses``, leave out the states that have died under other ones.
        """
        shown = deaths_shown(target.visible.x_death)
        wanted, reasons_in = shown.counts, shown.reasons
        layer: list[_Way] = [(root, None) for root in roots]
        seen = 0
        passed: set[State] = set()
        hops_left = sum(wanted.values())
        while layer and hops_left >= 0:
            hops_left -= 1
            onward: list[_Way] = []
            for state, trail in layer:
                if state in passed or (addresses is not None and not self._died_there(state, addresses)):
                    continue
                if not self._effort.every_way:
                    passed.add(state)
                seen += 1
                self._effort.left -= 1
                if seen > self._effort.states_max or self._effort.left < 0:
                    self.was_cut = True
                    return
                yield state, trail
                reasons = [
                    reason
                    for reason in reasons_in.get(state.queue, ())
                    if state.counts.get((state.queue, reason), 0) < wanted[state.queue, reason]
                ]
                onward += self._onward(state, trail, reasons, constraints)
            layer = onward

    def _onward(
        self, state: State, trail: _Trail | None, reasons: Iterable[str], constraints: ConsumerConstraints | None
    ) -> Iterator[_Way]:
        for reason in reasons:
            if reason in REASONS and (constraints is None or self.why_not(state, reason, constraints) is None):
                for hop, reached in self._led(state, reason, past_cycles=constraints is None):
                    yield reached, _Trail(hop, state, trail)

    def _died_there(self, state: State, addresses: Mapping[Kind, Address]) -> bool:
        """Return whether the deaths of the state have these addresses: later deaths of a kind do not change them."""
        kept = self._addresses.get(state.number)
        if kept is None:
            kept = self._addresses[state.number] = addresses_in(_deaths_kept(state))
        return all(addresses.get(kind, at) == at for kind, at in kept.items())

    def _led(self, state: State, reason: str, *, past_cycles: bool) -> Iterable[tuple[Hop, State]]:
        """Return where the death leads, each once; with ``past_cycles``, also what the cycle rule keeps out."""
        held = self.flow.as_held(state)
        if len(held) == 1 and not past_cycles:
            return self.flow.hops(state, reason)
        led = [step for each in held for step in self.flow.hops(each, reason)]
        if past_cycles:
            led += [step for each in held for step in self.flow.cycles(each, reason)]
        return dict.fromkeys(led)


def _deaths_kept(state: State) -> list[tuple[Kind, Address]]:
    """Return the deaths, with their addresses, that the next one keeps in the history."""
    message = state.message
    if message.deaths is not None:
        return [(death.key, (death.exchange, death.routing_keys)) for death in message.deaths]
    if not state.counts:  # what a client wrote there is not taken over
        return []
    deaths = (message.headers or {}).get(X_DEATH)
    return [death_in(entry) for entry in deaths if isinstance(entry, Mapping)] if isinstance(deaths, list) else []


def with_stand_ins(topology: Topology) -> Topology:
    """Return the topology with a stand-in for each exchange whose routing is not known.

    RabbitMQ does not export internal exchanges, only their bindings; and exchanges
    of a plugin's type choose as the plugin does. Both are taken as exchanges that
    may use every binding they have. A delayed exchange delays, and routes as the type it names.
    """
    unknown = {name: Exchange(name=name, internal=True, type="?") for name in topology.bindings}
    exchanges = {**unknown, **topology.exchanges}
    for name, exchange in exchanges.items():
        if routing_type(exchange) in EXCHANGE_TYPES:
            continue
        if exchange.type == DELAYED:
            arguments = {**exchange.arguments, X_DELAYED_TYPE: "fanout"}
            exchanges[name] = msgspec.structs.replace(exchange, arguments=arguments)
        else:
            exchanges[name] = msgspec.structs.replace(exchange, type="fanout")
    return topology if exchanges == topology.exchanges else msgspec.structs.replace(topology, exchanges=exchanges)


def unknown_routing(topology: Topology, release: Release) -> frozenset[str]:
    """Return the exchanges whose routing is unknown, and those that lead to one."""
    known = {name for name, exchange in topology.exchanges.items() if routing_type(exchange) in EXCHANGE_TYPES}
    return _leading_to({*topology.exchanges, *topology.bindings} - known, topology, release)


def delaying(topology: Topology, release: Release, known_types: Container[str] = EXCHANGE_TYPES) -> frozenset[str]:
    """Return the exchanges that may keep messages for a while, as those of a plugin may, and those that lead to one.

    ``known_types``: those of exchanges that keep none, or for a time that is known.
    """
    known = {name for name, exchange in topology.exchanges.items() if exchange.type in known_types}
    return _leading_to({*topology.exchanges, *topology.bindings} - known, topology, release)


def _leading_to(found: set[str], topology: Topology, release: Release) -> frozenset[str]:
    onward = {name: _onward_exchanges(name, topology, release) for name in topology.exchanges} if found else {}
    while more := {name for name, targets in onward.items() if targets & found} - found:
        found = found | more
    return frozenset(found)


def _onward_exchanges(name: str, topology: Topology, release: Release) -> set[str]:
    """Return the exchanges that an exchange may pass messages on to."""
    bindings = topology.bindings.get(name, ())
    targets = {binding.destination for binding in bindings if binding.destination_type == "exchange"}
    exchange = topology.exchanges.get(name)
    alternate = None if exchange is None else alternate_exchange(exchange, topology, release)
    return targets if alternate is None else {*targets, alternate}
