"""Messages that were looked at together, and what became of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.replay.alike import Ints
from simulator.replay.whatif.both_ends import BothEnds, Way
from simulator.replay.whatif.fates import AlikeFates, count
from simulator.replay.whatif.hidden_ends import LastSeen
from simulator.replay.whatif.kinds import FirstOf, Kinds
from simulator.replay.whatif.marks import Mark
from simulator.replay.whatif.row_numbers import Bools
from simulator.replay.whatif.stage import Queue

Named = tuple[str, str]
"""A virtual host, and a message in it."""
STAYED = -1
"""How long a message waited in a queue from which it was not delivered."""


class Waits(NamedTuple):
    """How long messages waited in queues; ``which`` of the queues, and microseconds or ``STAYED``."""

    queues: Sequence[Queue]
    which: Ints
    after_us: Ints

    def by_queue(self) -> Iterator[tuple[Queue, list[int]]]:
        """Yield the queues that they came into, and how long those waited that were delivered from there."""
        for number in np.unique(self.which).tolist():
            waits_us = self.after_us[self.which == number]
            yield self.queues[number], waits_us[waits_us != STAYED].tolist()


class Members(NamedTuple):
    """Messages of a batch.

    Attributes:
        names: what identifies each.
        marks: what tells some of them from others.
        marked: which of ``marks`` each has.
    """

    names: Sequence[str]
    marks: Sequence[Sequence[Mark]]
    marked: Ints

    def only(self, chosen: Bools) -> Members:
        """Return some of them."""
        names = [self.names[place] for place in np.flatnonzero(chosen).tolist()]
        return Members(names, self.marks, self.marked[chosen])

    def counted_marks(self, chosen: Bools) -> dict[Mark, int]:
        """Return what tells some of them from others, and how many have it."""
        found: dict[Mark, int] = {}
        for number, many in counted(self.marked[chosen]):
            for mark in self.marks[number]:
                count(found, mark, many)
        return found


class Alike(NamedTuple):
    """Messages of a batch that were looked at together.

    Attributes:
        fates: what becomes of each.
        ends: how they end, and how many do so.
        took_us: how long each took that is reproduced, before and after.
        not_reproduced: the others.
        marks, marks_of_changed: what tells from others those that are reproduced, and those that end differently, and
            how many have it.
        examples: for ways of change, some messages.
    """

    fates: AlikeFates
    ends: Mapping[BothEnds, int]
    took_us: tuple[Ints, Ints]
    not_reproduced: Sequence[str]
    marks: Mapping[Mark, int]
    marks_of_changed: Mapping[Mark, int]
    examples: Sequence[tuple[Way, Named]]


class Waiting(NamedTuple):
    """Messages of a batch whose second play is still to come.

    Attributes:
        kinds: the first plays of one of each kind.
        which: the kind of each message.
        moments_us: the moments of each message that its first play was told, one message after the other.
        members: the messages.
        routing_keys, message_ids: how each was published.
    """

    kinds: Sequence[FirstOf]
    which: Ints
    moments_us: Ints
    members: Members
    routing_keys: Sequence[str]
    message_ids: Sequence[str | None]


class FirstLook(NamedTuple):
    """What the first plays tell of messages of a batch that were looked at together.

    Attributes:
        alike: those that fare the same on the other side, if there are any.
        waiting: the others.
        waits: how long all of them waited, wherever they came.
        last_seen: their last deliveries of which no recorder tells whether they were acknowledged, and how many there
            are.
    """

    alike: Alike | None
    waiting: Waiting | None
    waits: Waits
    last_seen: Mapping[LastSeen, int]


def alike_of(
    kinds: Kinds, which: Ints, times_us: Ints, members: Members, examples: Sequence[tuple[Way, Named]] = ()
) -> Alike:
    """Return messages of these kinds; ``times_us`` has a row of times for each: those of its fates."""
    numbers, own = np.unique(which, return_inverse=True)
    several = [kinds.found(number) for number in numbers.tolist()]
    reproduced = np.array([each.ends.reproduced for each in several], bool)[own]
    changes = np.array([each.ends.way is not None for each in several], bool)
    return Alike(
        fates=AlikeFates([each.fates for each in several], members.names, own.tobytes(), times_us.tobytes()),
        ends={kinds.ends.values[number]: many for number, many in counted(kinds.ends_of(which))},
        took_us=(times_us[reproduced, 1] - times_us[reproduced, 0], times_us[reproduced, 3] - times_us[reproduced, 2]),
        not_reproduced=[members.names[place] for place in np.flatnonzero(~reproduced).tolist()],
        marks=members.counted_marks(reproduced),
        marks_of_changed=members.counted_marks(changes[own]),
        examples=examples,
    )


def counted(numbers: npt.NDArray[np.signedinteger[Any]]) -> Iterator[tuple[int, int]]:
    """Yield numbers, and how often each is there."""
    values, counts = np.unique(numbers, return_counts=True)
    return zip(values.tolist(), counts.tolist(), strict=True)
