"""Sources: the observed states of a message from which its later deliveries descend."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from dlx.message_flow import Hop, State
from simulator.events import Event
from simulator.replay.graph import Target
from simulator.replay.states import Row


class Source:
    """A state that was observed: a publish (several entry states) or a delivery (one).

    Equal observations of different copies are one source with a number of
    ``instances``. ``claims`` counts the deliveries of each target that descend from
    it, so that a copy is not used twice: what is delivered once more than there are
    instances is a redelivery. ``latest`` is the row of the message, from 0, in which it
    was last observed. ``may_carry``: a dead letter may have brought its delivery count
    along; ``reached`` is the highest count seen that the delivery limit reads.
    """

    __slots__ = (
        "claims",
        "content",
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
        row: Row,
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
        self.claims: Counter[Target] = Counter()
        self.taken: dict[tuple[int, Hop], int] = {}
        self.died: set[tuple[int, str, str]] = set()

    def is_used_up(self, target: Target) -> bool:
        """Tell whether every copy that was observed here has already become such a delivery."""
        return self.claims[target] >= self.instances

    def claim(self, target: Target, hops: tuple[Hop, ...]) -> tuple[int, int]:
        """Take one copy for a delivery; return how many hops, and how many deaths, no other had before."""
        instance = self.claims[target]
        source: Source | None = self
        while source is not None:
            source.claims[target] += 1
            source = source.parent
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
