"""Walks through all that can become of a message: every situation that it can come to, by the shortest way.

A situation is a message in a queue, with what of its past decides where it can go from
there. The walk starts with the publishes of ``simulator.analysis.entries`` and
lets the message die wherever the queue's settings allow it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Iterator

from dlx.deaths import EXPIRED, REASONS
from dlx.message_flow import Hop, MessageFlow, State
from simulator.analysis.clients import NOTHING_STATED, Clients
from simulator.analysis.names import is_named_for_dead_letters, is_named_for_waiting
from simulator.analysis.slices import message_of
from simulator.scenario.steps import Publish

PLACES_MAX = 5_000
PLACES_PER_QUEUE = 5


class Place:
    """A message in a queue, and how it came there.

    Attributes:
        state: the message and its queue.
        publish: how it was published.
        before: where it was before; ``None`` where it was published to.
        hop: the death that brought it here.
        onward: the deaths that are possible here, each with where it leads.
    """

    __slots__ = ("before", "hop", "onward", "publish", "state")

    def __init__(self, state: State, publish: Publish, before: Place | None = None, hop: Hop | None = None) -> None:
        self.state, self.publish, self.before, self.hop = state, publish, before, hop
        self.onward: list[tuple[Hop, Place]] = []

    @property
    def queue(self) -> str:
        """The queue's name."""
        return self.state.queue

    @property
    def path(self) -> tuple[Hop, ...]:
        """The deaths behind the message, the first one first."""
        return () if self.before is None or self.hop is None else (*self.before.path, self.hop)


class Walk:
    """All places that messages can come to in one virtual host.

    Attributes:
        flow, vhost, clients: the rules, the virtual host's name, and what clients do.
        places: the places, those with fewer deaths first.
        complete: whether these are all; not if there are more than ``PLACES_MAX``, and than ``PLACES_PER_QUEUE`` for
            each queue.
    """

    def __init__(
        self, flow: MessageFlow, vhost: str, publishes: Iterable[Publish], clients: Clients = NOTHING_STATED
    ) -> None:
        self.flow, self.vhost, self.clients = flow, vhost, clients
        self.places: list[Place] = []
        self.complete = True
        self._most = max(PLACES_MAX, PLACES_PER_QUEUE * len(flow.topology.queues))
        self._known: dict[Hashable, Place] = {}
        ahead = deque(self._entered(publishes))
        while ahead:
            place = ahead.popleft()
            for reason in _reasons(flow, place.queue):
                habit = clients.habit(vhost, place.queue, reason)
                if (habit is None or habit.does) and flow.why_not(place.state, reason) is None:
                    ahead += self._die(place, reason)

    def _entered(self, publishes: Iterable[Publish]) -> Iterator[Place]:
        for publish in publishes:
            if publish.vhost == self.vhost:
                for state in self.flow.publish(message_of(publish, self.flow.release)):
                    if self._situation(state) not in self._known:
                        yield self._new(Place(state, publish))

    def _die(self, place: Place, reason: str) -> Iterator[Place]:
        """Note where a death leads, and yield the places that are new."""
        for hop, state in self.flow.hops(place.state, reason):
            there = self._known.get(self._situation(state))
            if there is None and len(self.places) >= self._most:
                self.complete = False
                continue
            if there is None:
                there = self._new(Place(state, place.publish, place, hop))
                yield there
            place.onward.append((hop, there))

    def usual_places(self) -> list[Place]:
        """Return the places that messages come to without a publish straight to an exchange for dead letters.

        A publish that the project states counts, whatever its exchange.
        """
        flow = self.flow
        used = {flow.settings(name).dead_letter_exchange for name in flow.topology.queues}
        kept = {name for name in used if name and (is_named_for_dead_letters(name) or is_named_for_waiting(name))}
        if self.clients.publish:  # these are what publishers do
            kept = set()
        ahead = [place for place in self.places if place.before is None and place.publish.exchange not in kept]
        seen = {id(place) for place in ahead}
        for place in ahead:  # grows on the way
            for _, there in place.onward:
                if id(there) not in seen:
                    seen.add(id(there))
                    ahead.append(there)
        return ahead

    def _situation(self, state: State) -> Hashable:
        return self.flow.situation(state.queue, state.message)

    def _new(self, place: Place) -> Place:
        self._known[self._situation(place.state)] = place
        self.places.append(place)
        return place


def _reasons(flow: MessageFlow, queue: str) -> Iterable[str]:
    """Return the reasons of death in the order to try: nobody consumes a queue in which messages wait."""
    waits = is_named_for_waiting(queue) and flow.settings(queue).message_ttl_ms is not None
    return sorted(REASONS, key=lambda reason: reason != EXPIRED) if waits else REASONS


# Recognises parking queues: they take dead letters and send none, and keep failed messages for people to look at.


def parked_in(walk: Walk) -> set[str]:
    """Return the queues that take dead letters, or are bound to do so, and send none.

    A queue to which publishers send in another way is none, nor one to which messages only come back that waited.
    """
    sources: defaultdict[str, set[str]] = defaultdict(set)
    for place in walk.places:
        for hop, there in place.onward:
            sources[there.queue].add(hop.queue)
    used: set[str] = set()
    for name in walk.flow.topology.queues:
        settings = walk.flow.settings(name)
        if settings.dead_letter_exchange or settings.dead_letter_routing_key is not None:
            used.add(settings.dead_letter_exchange or "")
            for target in walk.flow.possible_targets(name) - {name}:
                sources[target].add(name)
    published = _published(walk.flow, used)
    return {
        queue
        for queue, names in sources.items()
        if not walk.flow.settings(queue).dead_letters
        and queue not in published
        and not all(_waits_for(walk.flow, name, queue) for name in names)
    }


def _published(flow: MessageFlow, dead_letter_exchanges: set[str]) -> set[str]:
    """Return the queues behind exchanges that publishers use, and dead letters do not."""
    passed = flow.passed({"", *dead_letter_exchanges})
    public = {name for name, exchange in flow.topology.exchanges.items() if not exchange.internal} - passed
    bindings = (each for name in flow.passed(public) - passed for each in flow.topology.bindings.get(name, ()))
    return {each.destination for each in bindings if each.destination_type == "queue"}


def _waits_for(flow: MessageFlow, waiting: str, queue: str) -> bool:
    """Tell whether messages wait in one queue for their next attempt in another one, as its name says."""
    named = is_named_for_waiting(waiting) or waiting.startswith(f"{queue}.")
    return named and flow.settings(waiting).message_ttl_ms is not None and not is_named_for_dead_letters(queue)
