"""The graph of states that rules and definitions allow, explored forward and remembered.

A state is a message in a queue. Its edges are deaths: (queue, reason) leads to one
state for each queue that the dead letter reaches. Few states exist in a real log,
since times and payloads are left out, so every edge is computed once; replaying a
log then is looking paths up. One graph is for one virtual host under one release.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from dlx.dead_lettering import dead_letter
from dlx.death_headers import QueueCrashError
from dlx.deaths import REASONS, REJECTED, X_DEATH
from dlx.message import Message, PublishRefusedError
from dlx.possible_deaths import why_impossible
from dlx.releases import Release
from dlx.routing import EXCHANGE_TYPES, route
from dlx.settings import Settings, effective_settings
from dlx.streams import read_from_stream
from dlx.topology import STREAM, Exchange, Topology
from simulator.replay.states import Visible, counts_in_header, death_counts, state_key, visible

STATES_MAX = 20_000
"""States that one search may look at."""
PATHS_MAX = 8
"""Different hop sequences that one search keeps."""
HIDDEN_HOPS = 4
"""Deaths looked for behind a delivery that does not show them."""


class Hop(NamedTuple):
    """One death: where, why, through which dead-letter exchange, and to which queue."""

    queue: str
    reason: str
    exchange: str
    to_queue: str


class ConsumerConstraints(NamedTuple):
    """What consumers may have done: they reject only where the message was delivered.

    In ``settled_in``, every delivery is known to have been acknowledged or requeued.
    A delivery limit needs no delivery that a trace shows: what is on its way to a
    channel that dies counts, and was never traced.
    """

    delivered_in: frozenset[str] = frozenset()
    settled_in: frozenset[str] = frozenset()

    def why_not(self, queue: str, reason: str) -> str | None:
        """Why no consumer can have caused the death; ``None`` when one can."""
        if reason == REJECTED and queue not in self.delivered_in:
            return f"{reason} in '{queue}': the message was not delivered there before"
        if reason == REJECTED and queue in self.settled_in:
            return f"{reason} in '{queue}': every delivery there was acknowledged or requeued"
        return None


class State:
    """A message in a queue. ``counts`` are its deaths, ``total`` their sum."""

    __slots__ = ("counts", "message", "number", "queue", "total", "visible")

    def __init__(self, number: int, queue: str, message: Message, release: Release) -> None:
        self.number = number
        self.queue = queue
        self.message = message
        self.visible = visible(message)
        self.counts = death_counts(message, release)
        self.total = sum(self.counts.values())


class Target(NamedTuple):
    """A delivered state to explain: the queue and what the row shows."""

    queue: str
    visible: Visible

    def death_counts(self) -> dict[tuple[str, str], int]:
        """The deaths that ``x-death`` of the row names."""
        if self.visible.x_death is None:
            return {}
        return counts_in_header(msgspec.json.decode(self.visible.x_death))


class Found(NamedTuple):
    """A state that a search reached, and the hops that led there."""

    state: State
    hops: tuple[Hop, ...]


class _Trail(NamedTuple):
    """The hops so far, newest first, sharing their tails."""

    hop: Hop
    before: _Trail | None

    def hops(self) -> tuple[Hop, ...]:
        found: list[Hop] = []
        trail: _Trail | None = self
        while trail is not None:
            found.append(trail.hop)
            trail = trail.before
        return tuple(reversed(found))


_Way = tuple[State, "_Trail | None"]
"""A state that a search has come to, and the hops behind it."""


def _found(way: _Way) -> Found:
    state, trail = way
    return Found(state, trail.hops() if trail else ())


class Graph:
    """States and hops of one virtual host under one release."""

    def __init__(self, topology: Topology, release: Release) -> None:
        self.topology = topology
        self.release = release
        self._states: dict[tuple[Any, ...], State] = {}
        self._settings: dict[str, Settings] = {}
        self._read_back: dict[int, Visible] = {}
        self._hops: dict[tuple[int, str], tuple[tuple[Hop, State], ...]] = {}
        self._cycles: dict[tuple[int, str], tuple[tuple[Hop, State], ...]] = {}
        self._impossible: dict[tuple[str, str, bool], str | None] = {}

    def state(self, queue: str, message: Message) -> State:
        """The state of ``message`` in ``queue``; equal ones are the same object."""
        key = state_key(queue, message)
        known = self._states.get(key)
        if known is None:
            known = self._states[key] = State(len(self._states), queue, message, self.release)
        return known

    @property
    def size(self) -> int:
        """How many states it remembers."""
        return len(self._states)

    def entries(self, message: Message) -> tuple[State, ...]:
        """The states into which a published message is routed."""
        return tuple(self.state(queue, message) for queue in route(message, self.topology, self.release))

    def settings(self, queue: str) -> Settings:
        """The effective settings of a queue that the topology has."""
        known = self._settings.get(queue)
        if known is None:
            known = effective_settings(self.topology.queues[queue], self.topology, self.release)
            self._settings[queue] = known
        return known

    def hops(self, state: State, reason: str) -> tuple[tuple[Hop, State], ...]:
        """Where a death for that reason leads, whether or not the settings allow it."""
        key = (state.number, reason)
        known = self._hops.get(key)
        if known is None:
            self._die(state, reason)
            known = self._hops[key]
        return known

    def cycles(self, state: State, reason: str) -> tuple[tuple[Hop, State], ...]:
        """Where the death would lead but for the cycle rule."""
        self.hops(state, reason)
        return self._cycles[state.number, reason]

    def _die(self, state: State, reason: str) -> None:
        key = (state.number, reason)
        self._hops[key] = self._cycles[key] = ()
        try:
            letter = dead_letter(state.message, reason, self.settings(state.queue), self.topology, self.release)
        except (QueueCrashError, PublishRefusedError):  # only a forged header leads here
            return
        if letter.message is not None:
            self._hops[key] = self._copies(state, reason, letter.message, letter.queues)
            self._cycles[key] = self._copies(state, reason, letter.message, letter.cycles)

    def _copies(
        self, state: State, reason: str, letter: Message, queues: Iterable[str]
    ) -> tuple[tuple[Hop, State], ...]:
        return tuple((Hop(state.queue, reason, letter.exchange, queue), self.state(queue, letter)) for queue in queues)

    def why_not(self, state: State, reason: str, freedom: ConsumerConstraints) -> str | None:
        """Why the message cannot die there for that reason; ``None`` when it can."""
        has_expiration = state.message.expiration is not None
        key = (state.queue, reason, has_expiration)
        if key not in self._impossible:
            settings = self.settings(state.queue)
            self._impossible[key] = why_impossible(reason, settings, self.release, has_expiration=has_expiration)
        return self._impossible[key] or freedom.why_not(state.queue, reason)

    def paths(self, roots: Iterable[State], target: Target, freedom: ConsumerConstraints | None) -> list[Found]:
        """All ways, up to ``PATHS_MAX``, from a root to exactly the target.

        ``freedom`` ``None`` looks past everything that rules deaths out.
        """
        ways: Iterable[_Way] = self._guided(roots, target, freedom)
        if target.visible.x_death is None and self._hides_deaths(target.queue):
            ways = self._within(roots, freedom, HIDDEN_HOPS)
        found = (_found(way) for way in ways if self.matches(way[0], target))
        return [each for each, _ in zip(found, range(PATHS_MAX), strict=False)]

    def _hides_deaths(self, queue: str) -> bool:
        is_stream = self.topology.queues[queue].type == STREAM
        return is_stream and self.release.stream_keeps == "scalar headers"

    def matches(self, state: State, target: Target) -> bool:
        """Whether the state shows exactly what was delivered.

        Whether a stream hands out the expiration of a dead letter is not judged.
        """
        if state.queue != target.queue:
            return False
        if self.topology.queues[state.queue].type == STREAM:
            return self.shown(state)._replace(expiration=None) == target.visible._replace(expiration=None)
        return state.visible == target.visible

    def shown(self, state: State) -> Visible:
        """What a delivery of the state shows: of a stream, what it keeps."""
        if self.topology.queues[state.queue].type != STREAM:
            return state.visible
        known = self._read_back.get(state.number)
        if known is None:
            known = visible(read_from_stream(state.message, self.release))
            self._read_back[state.number] = known
        return known

    def same_deaths(self, roots: Iterable[State], target: Target, freedom: ConsumerConstraints) -> list[Found]:
        """The ways to states in the target's queue that died as often, where and why, as the target."""
        wanted = target.death_counts()
        ways = self._guided(roots, target, freedom)
        return [_found(way) for way in ways if way[0].queue == target.queue and way[0].counts == wanted]

    def nearby(self, roots: Iterable[State], queue: str, freedom: ConsumerConstraints, hops_max: int) -> list[Found]:
        """The states in ``queue`` within ``hops_max`` hops, whatever the target's deaths say."""
        return [_found(way) for way in self._within(roots, freedom, hops_max) if way[0].queue == queue]

    def _within(self, roots: Iterable[State], freedom: ConsumerConstraints | None, hops_max: int) -> Iterator[_Way]:
        layer: list[_Way] = [(root, None) for root in roots]
        seen = 0
        for _ in range(hops_max + 1):
            onward: list[_Way] = []
            for state, trail in layer:
                seen += 1
                yield state, trail
                if seen < STATES_MAX // 20:
                    onward += self._onward(state, trail, REASONS, freedom)
            layer = onward

    def why_ruled_out(self, roots: Iterable[State], hops: tuple[Hop, ...], freedom: ConsumerConstraints) -> str | None:
        """What rules out the first impossible hop of a path; ``None`` when nothing does."""
        state = next((root for root in roots if hops and root.queue == hops[0].queue), None)
        for hop in hops:
            if state is None:
                return None
            why = self.why_not(state, hop.reason, freedom)
            if why is not None:
                return why
            reached = dict(self.hops(state, hop.reason)).get(hop)
            if reached is None and hop in dict(self.cycles(state, hop.reason)):
                dropped = f"the cycle rule drops what would return to '{hop.to_queue}'"
                return f"{hop.reason} in '{hop.queue}': {dropped}"
            state = reached
        return None

    def _guided(self, roots: Iterable[State], target: Target, freedom: ConsumerConstraints | None) -> Iterator[_Way]:
        """Every state on the way, where only deaths that the target names are followed."""
        wanted = target.death_counts()
        by_queue: dict[str, list[str]] = {}
        for queue, reason in wanted:
            by_queue.setdefault(queue, []).append(reason)
        layer: list[_Way] = [(root, None) for root in roots]
        hops_max = sum(wanted.values())
        seen = 0
        for _ in range(hops_max + 1):
            onward: list[_Way] = []
            for state, trail in layer:
                seen += 1
                if seen > STATES_MAX:
                    return
                yield state, trail
                reasons = [
                    reason
                    for reason in by_queue.get(state.queue, ())
                    if state.counts.get((state.queue, reason), 0) < wanted[state.queue, reason]
                ]
                onward += self._onward(state, trail, reasons, freedom)
            layer = onward

    def _onward(
        self, state: State, trail: _Trail | None, reasons: Iterable[str], freedom: ConsumerConstraints | None
    ) -> Iterator[_Way]:
        for reason in reasons:
            if reason in REASONS and (freedom is None or self.why_not(state, reason, freedom) is None):
                led = self.hops(state, reason)
                for hop, reached in led if freedom is not None else (*led, *self.cycles(state, reason)):
                    yield reached, _Trail(hop, trail)


def with_stand_ins(topology: Topology) -> Topology:
    """The topology with a stand-in for each exchange whose routing is not known.

    RabbitMQ does not export internal exchanges, only their bindings; and exchanges
    of a plugin's type choose as the plugin does. Both are taken as exchanges that
    may use every binding they have. A delayed exchange routes as the type it names.
    """
    unknown = {name: Exchange(name=name, internal=True, type="?") for name in topology.bindings}
    exchanges = {**unknown, **topology.exchanges}
    for name, exchange in exchanges.items():
        kind = exchange.arguments.get("x-delayed-type", exchange.type)
        if kind not in EXCHANGE_TYPES:
            kind = "fanout"
        exchanges[name] = msgspec.structs.replace(exchange, type=kind)
    return msgspec.structs.replace(topology, exchanges=exchanges)


def headers_looked_at(topology: Topology) -> frozenset[str]:
    """The user headers that headers exchanges of the topology compare; routing depends on no others."""
    names: set[str] = set()
    for source, bindings in topology.bindings.items():
        exchange = topology.exchanges.get(source)
        if exchange is not None and exchange.type == "headers":
            for binding in bindings:
                names.update(binding.arguments)
    return frozenset(names - {"x-match", X_DEATH})
