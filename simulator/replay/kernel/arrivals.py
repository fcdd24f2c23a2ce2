"""Counts how many messages can have come into queues with a length limit, by the publishes of the whole log."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from math import inf
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from dlx.bounded_cache import BoundedCache
from dlx.deaths import MAXLEN, REASONS
from dlx.message import PublishRefusedError
from dlx.message_flow import MessageFlow, State
from dlx.releases import Release
from dlx.routing import headers_looked_at
from dlx.topology import Topology
from simulator.replay.checks.explain import Explainer
from simulator.replay.checks.lengths import SECOND_US, Arrivals, QueueArrivals
from simulator.replay.kernel.signatures import Signatures
from simulator.replay.rows.columns import AlikeKeys, Ints
from simulator.replay.rows.row_codec import CONTENT, SIGNATURE, looked_at
from simulator.replay.search.visible_state import CaptureRow

# Counts how many messages one publish can put into the queues that have a length limit.
#
# An upper bound: a message enters the queues it is routed to, and any queue that its dead letters may reach, however
# often and for whatever reason it dies on the way. A dead letter that is copied to several queues makes several
# messages; where it may do so again and again, there is no bound.


SITUATIONS_MAX = 500
"""Situations of one message to examine; for a message with more there is no bound."""


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


# How many messages can have been in a queue with a length limit, by the publishes of the whole log.
#
# A death of ``maxlen`` needs more messages in its queue than the limit. One message does not tell how many others
# there were; so a first pass over all publishes counts, by second, what each can have put into such queues. The kernel
# then asks for the number up to the moment of a death (``simulator.replay.checks.lengths``).


REMEMBERED_MAX = 200_000
"""Kinds of publishes that are remembered."""

NUMBER = "publishes"
SIZE = "size_bytes"
PUBLISHES = pa.schema(
    [
        (SIGNATURE, pa.string()),
        (CONTENT, pa.string()),
        *((name, pa.int64()) for name in ("time_us", NUMBER, SIZE)),
    ]
)
"""What the pass takes of publishes, of one or of several of the same second that are alike.

``SIZE`` is the length of their payloads, as far as the log has it.
"""
ARRIVED = ("at_once", "later", "bytes_at_once", "bytes_later")
ARRIVALS = pa.schema(
    [
        ("vhost", pa.string()),
        ("queue", pa.string()),
        ("second", pa.int64()),
        *((name, pa.float64()) for name in ARRIVED),
    ]
)
"""What it makes of them: the messages, and their bytes, that came into a queue in one second or may come in later."""


class ArrivalsCounter:
    """Counts what publishes can have put into queues with a length limit."""

    def __init__(self, topologies: Mapping[str | None, Topology], rules: Release) -> None:
        self._topologies = topologies
        self._rules = rules
        self._explainers: dict[str, tuple[Explainer, Entrants] | None] = {}
        self._keys: dict[str, AlikeKeys] = {}
        self._signatures = Signatures(self._number_of_key_of)
        self._known: BoundedCache[Any, int] = BoundedCache(REMEMBERED_MAX)
        self._numbers: dict[tuple[str, tuple[Entrant, ...]], int] = {}
        self._entering: list[tuple[str, tuple[Entrant, ...]]] = []

    def count(self, publishes: pa.RecordBatch) -> pa.RecordBatch:
        """Return ``ARRIVALS`` for a batch of ``PUBLISHES``."""
        numbers = self._signatures.of(publishes.column(SIGNATURE))
        contents = publishes.column(CONTENT).dictionary_encode()
        places = contents.indices.to_numpy(zero_copy_only=False)
        kinds, kind = np.unique(np.stack([numbers, places]), axis=1, return_inverse=True)
        texts = contents.dictionary.to_pylist()
        several = [self._number(number, texts[content]) for number, content in kinds.T.tolist()]
        entering = np.array(several, np.int64)[kind.ravel()]
        seconds = publishes.column("time_us").to_numpy() // SECOND_US
        of_each = publishes.column(NUMBER).to_numpy()
        sizes = publishes.column(SIZE).fill_null(0).to_numpy(zero_copy_only=False)
        found = []
        for each in np.unique(entering).tolist():
            rows = np.flatnonzero(entering == each)
            vhost, entrants = self._entering[each]
            found += _by_second(vhost, entrants, seconds[rows], of_each[rows], sizes[rows])
        self._signatures.forget()
        return pa.RecordBatch.from_pylist(found, schema=ARRIVALS)

    def _number(self, number: int, content: str) -> int:
        """Return the number of what a publish can put into queues: those alike in all that matters have the same."""
        row = self._signatures.example_of(number)
        both = self._of(row.vhost)
        if both is None or not both[1].limited:
            return self._numbered(row.vhost, ())
        headers = looked_at(content, both[0].headers_looked_at)
        key = self._signatures.kind(number), repr(headers)
        if key not in self._known:
            self._known[key] = self._numbered(row.vhost, self._entrants(self._signatures.row(number), headers, *both))
        return self._known[key]

    def _numbered(self, vhost: str, entrants: tuple[Entrant, ...]) -> int:
        number = self._numbers.setdefault((vhost, entrants), len(self._entering))
        if number == len(self._entering):
            self._entering.append((vhost, entrants))
        return number

    def _entrants(
        self, row: CaptureRow, headers: Mapping[str, Any], explainer: Explainer, entrants: Entrants
    ) -> tuple[Entrant, ...]:
        try:
            roots = explainer.entries(row, headers)
        except PublishRefusedError:
            roots = ()
        return entrants.of(roots, delayed=explainer.may_delay(row.visible.exchange))

    def _number_of_key_of(self, vhost: str) -> Callable[[str], int | None] | None:
        both = self._of(vhost)
        if both is None:
            return None
        if vhost not in self._keys:
            self._keys[vhost] = AlikeKeys(both[0].flow)
        return self._keys[vhost].number

    def _of(self, vhost: str) -> tuple[Explainer, Entrants] | None:
        if vhost not in self._explainers:
            topology = self._topologies.get(vhost, self._topologies.get(None))
            explainer = None if topology is None else Explainer(topology, self._rules)
            self._explainers[vhost] = None if explainer is None else (explainer, Entrants(explainer.flow))
        return self._explainers[vhost]


def _by_second(
    vhost: str, entrants: Iterable[Entrant], seconds: Ints, numbers: Ints, sizes: Ints
) -> list[dict[str, object]]:
    several, place = np.unique(seconds, return_inverse=True)
    counts, size = np.bincount(place, weights=numbers), np.bincount(place, weights=sizes)
    return [
        {
            "vhost": vhost,
            "queue": entrant.queue,
            "second": second,
            "at_once": _times(count, entrant.at_once),
            "later": _times(count, entrant.later),
            "bytes_at_once": _times(total, entrant.at_once),
            "bytes_later": _times(total, entrant.later),
        }
        for entrant in entrants
        for second, count, total in zip(several.tolist(), counts.tolist(), size.tolist(), strict=True)
    ]


def _times(count: float, copies: float) -> float:
    return count * copies if count and copies else 0.0


def collected(counted: pa.Table) -> Arrivals:
    """Return the arrivals from all rows of ``ARRIVALS``, whichever batches they come from."""
    sums = counted.group_by(["vhost", "queue", "second"]).aggregate([(name, "sum") for name in ARRIVED])
    by_queue: defaultdict[tuple[str, str], list[list[float]]] = defaultdict(list)
    for row in sums.sort_by("second").to_pylist():
        by_queue[row["vhost"], row["queue"]].append([row["second"], *(row[f"{name}_sum"] for name in ARRIVED)])
    found: dict[tuple[str, str], QueueArrivals] = {}
    for key, rows in by_queue.items():
        seconds, *several = np.array(rows).T
        found[key] = QueueArrivals(
            seconds.astype(np.int64), *(np.concatenate(([0.0], np.cumsum(each))) for each in several)
        )
    return found


def may_matter(topologies: Mapping[str | None, Topology], rules: Release) -> bool:
    """Return whether any queue of the definitions may drop messages because it is full."""
    return any(Entrants(MessageFlow(topology, rules)).limited for topology in topologies.values())


def limits_bytes(topologies: Mapping[str | None, Topology], rules: Release) -> bool:
    """Return whether any of these queues has a limit in bytes; if not, payloads need not be read."""
    flows = [MessageFlow(topology, rules) for topology in topologies.values()]
    limited = (flow.settings(queue) for flow in flows for queue in Entrants(flow).limited)
    return any(settings.max_length_bytes is not None for settings in limited)


def names_looked_at(topologies: Mapping[str | None, Topology]) -> bool:
    """Return whether routing depends on user headers in any virtual host; if not, contents need not be read."""
    return any(headers_looked_at(topology) for topology in topologies.values())
