"""Sources: the observed states of a message from which its later deliveries descend."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from dlx.message_flow import Hop, State
from simulator.events import Event
from simulator.replay.search.graph import DeliveredState
from simulator.replay.search.visible_state import CaptureRow

LOOKED_AT_MAX = 500
"""Sources of one message that a delivery is searched for from, the latest first."""
ANCESTORS_MAX = 2 * LOOKED_AT_MAX
"""Sources in a line of descent that know of a delivery; those farther back are hardly among the latest."""


class Source:
    """A state that was observed: a publish (several entry states) or a delivery (one).

    Equal observations of different copies are one source with a number of
    ``instances``. ``latest`` is the row of the message, from 0, in which it was last
    observed. ``may_carry``: a dead letter may have brought its delivery count along;
    ``reached`` is the highest count seen that the delivery limit reads. ``delays_ms`` are the entry states of a
    publish that it enters only after a delay.
    """

    __slots__ = (
        "content",
        "delays_ms",
        "died",
        "headers",
        "instances",
        "is_publish",
        "latest",
        "may_carry",
        "parent",
        "reached",
        "roots",
        "row",
        "taken",
    )

    def __init__(
        self,
        row: CaptureRow,
        content: str,
        headers: Mapping[str, Any],
        roots: tuple[State, ...],
        parent: Source | None,
    ) -> None:
        self.row = row
        self.content = content
        self.headers = headers
        self.roots = roots
        self.parent = parent
        self.is_publish = row.event == Event.PUBLISHED
        self.instances = 0
        self.latest = 0
        self.may_carry = False
        self.reached = 0
        self.delays_ms: Mapping[State, int] = {}
        self.taken: dict[tuple[int, Hop], int] = {}
        self.died: set[tuple[int, str, str]] = set()

    def line(self) -> Iterator[Source]:
        """Yield this source and those from which it descends."""
        source: Source | None = self
        while source is not None:
            yield source
            source = source.parent

    def take(self, instance: int, hops: tuple[Hop, ...]) -> tuple[int, int]:
        """Take a path for one instance; return how many hops, and how many deaths, no other had before."""
        new = known = 0
        place = -1 - instance  # the paths taken so far are a tree; each instance has a root of its own
        for hop in hops:
            onward = self.taken.get((place, hop))
            if onward is None:
                onward = self.taken[place, hop] = len(self.taken)
                new += 1
                # A death is the same whichever queue its copies went to.
                death = (place, hop.queue, hop.reason)
                known += death in self.died
                self.died.add(death)
            place = onward
        return new, new - known


class Claims:
    """The sources from which deliveries came, so that a copy is not used twice.

    What is delivered once more than there are instances of its source is a redelivery.
    """

    def __init__(self) -> None:
        self._claimed: defaultdict[DeliveredState, Counter[Source]] = defaultdict(Counter)

    def claim(self, source: Source, target: DeliveredState, hops: tuple[Hop, ...]) -> tuple[int, int]:
        """Take one copy for a delivery; return how many hops, and how many deaths, no other had before."""
        instance = self.of(target)[source]
        self._claimed[target][source] += 1
        return source.take(instance, hops)

    def of(self, target: DeliveredState) -> Counter[Source]:
        """Return how many of these deliveries descend from each source, ``ANCESTORS_MAX`` steps back at most."""
        found: Counter[Source] = Counter()
        for claimed, times in self._claimed.get(target, {}).items():
            for source in islice(claimed.line(), ANCESTORS_MAX):
                found[source] += times
        return found
