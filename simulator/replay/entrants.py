"""Counts how many messages one publish can put into the queues that have a length limit.

An upper bound: a message enters the queues it is routed to, and any queue that its dead
letters may reach, however often and for whatever reason it dies on the way. A dead letter
that is copied to several queues makes several messages; where it may do so again and
again, there is no bound.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable
from math import inf
from typing import NamedTuple

from dlx.deaths import MAXLEN, REASONS
from dlx.message_flow import MessageFlow, State

SITUATIONS_MAX = 500
"""Situations of one message that are looked at; for a message with more there is no bound."""


class Entrant(NamedTuple):
    """How many messages a publish can put into a queue; ``inf``: any number.

    ``at_once`` come in when it is published, and never again; ``later`` may come in at any time after that.
    """

    queue: str
    at_once: float
    later: float


class _Situation(NamedTuple):
    """A message in a queue, and for each death that is possible there the situations it leads to."""

    queue: str
    deaths: list[list[Hashable]]


_Graph = dict[Hashable, _Situation]


class Entrants:
    """Counts for the messages of one virtual host.

    Attributes:
        limited: the queues that may drop messages because they are full.
    """

    def __init__(self, flow: MessageFlow) -> None:
        self._flow = flow
        self._known: dict[Hashable, tuple[Entrant, ...]] = {}
        self.limited = tuple(queue for queue in flow.topology.queues if flow.why_impossible(queue, MAXLEN) is None)

    def of(self, roots: Iterable[State], *, delayed: bool) -> tuple[Entrant, ...]:
        """Return what a publish that enters these states can put into queues with a limit.

        ``delayed``: it may come into its queues long after it was published.
        """
        at_once: defaultdict[str, float] = defaultdict(float)
        later: defaultdict[str, float] = defaultdict(float)
        for root in roots:
            for queue, first, then in self._entrants(root):
                at_once[queue] += 0 if delayed else first
                later[queue] += then + first if delayed else then
        return tuple(Entrant(queue, at_once[queue], later[queue]) for queue in later)

    def _entrants(self, root: State) -> tuple[Entrant, ...]:
        start = self._flow.situation(root.queue, root.message)
        kind = start, root.message.expiration is not None
        known = self._known.get(kind)
        if known is None:
            graph = self._graph(root, start)
            found = (self._entrant(graph, start, queue) for queue in self.limited)
            known = self._known[kind] = tuple(each for each in found if each.at_once or each.later)
        return known

    def _entrant(self, graph: _Graph | None, start: Hashable, queue: str) -> Entrant:
        if graph is None:
            return Entrant(queue, 0, inf)
        most = _most_at_a_time(graph, queue)
        again = max((sum(most[each] for each in led) for led in graph[start].deaths), default=0)
        # What may come back later need not be there all the time.
        return Entrant(queue, 0, most[start]) if again else Entrant(queue, most[start], 0)

    def _graph(self, root: State, start: Hashable) -> _Graph | None:
        """Return the situations that a message may come into, ``None`` if they are too many."""
        graph: _Graph = {}
        seen = {start}
        ahead = deque([(start, root)])  # the nearest first: their histories are short
        while ahead:
            situation, state = ahead.popleft()
            deaths = []
            for reason in REASONS:
                if self._flow.why_not(state, reason) is None:
                    led = {self._flow.situation(s.queue, s.message): s for _, s in self._flow.hops(state, reason)}
                    deaths.append(list(led))
                    ahead += [(each, s) for each, s in led.items() if each not in seen]
                    seen.update(led)
            graph[situation] = _Situation(state.queue, deaths)
            if len(seen) > SITUATIONS_MAX:
                return None
        return graph


def _most_at_a_time(graph: _Graph, queue: str) -> dict[Hashable, float]:
    """Return how many messages one message can become that are in the queue at the same time, by its situation."""
    most: dict[Hashable, float] = dict.fromkeys(graph, 0)
    for _ in range(len(graph) + 1):
        before = dict(most)
        for situation, (own, deaths) in graph.items():
            led = max((sum(most[each] for each in onward) for onward in deaths), default=0)
            most[situation] = max(led, float(own == queue))
        if most == before:
            return most
    # It still grows: some loop copies the message each time round.
    return {situation: inf if number else 0 for situation, number in most.items()}
