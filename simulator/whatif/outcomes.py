"""What became of a message when its story was played again."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

import msgspec

from simulator.events import DEATHS, LOSSES, Event, Happened, silent_loss
from simulator.whatif.stories import Shown

PURGED = "removed with the queue"
TELLING = DEATHS | LOSSES | {Event.PUBLISHED, Event.ACKED, Event.NACKED}
"""Events that say what becomes of a message: that it came, and where its copies end."""
_PUBLISHED, _ACKED = Event.PUBLISHED, Event.ACKED  # Python 3.11 takes long to look them up


class Ends(msgspec.Struct, frozen=True, order=True, gc=False):
    """Where the copies of a message ended; equal if the message ended the same way.

    Attributes:
        acknowledged: the number of copies by queue whose last delivery ended.
        waiting: the number of copies by queue that were left there.
        lost: the number of copies by queue and reason of death.
        refused: how many copies a full queue refused when they were published; their publisher may know it.
        unroutable: how many publishes reached no queue.
        endless: whether they go round without end, so that nobody can say where they are.
        held: the number of dead copies by queue that at-least-once dead-lettering holds in the end.
    """

    acknowledged: tuple[tuple[str, int], ...] = ()
    waiting: tuple[tuple[str, int], ...] = ()
    lost: tuple[tuple[str, str, int], ...] = ()
    refused: tuple[tuple[str, int], ...] = ()
    unroutable: int = 0
    endless: bool = False
    held: tuple[tuple[str, int], ...] = ()

    @property
    def lost_copies(self) -> int:
        """All copies that are lost, those included of which the publisher may know."""
        return sum(copies for *_, copies in self.lost) + sum(copies for _, copies in self.refused) + self.unroutable

    @property
    def held_copies(self) -> int:
        """All copies that died and did not get to another queue, and are not lost."""
        return sum(copies for _, copies in self.held)


class Fate(msgspec.Struct, frozen=True, gc=False):
    """What became of one message.

    Attributes:
        ends: where its copies ended.
        deliveries: what its deliveries showed, in order.
        deaths: the deaths of all its copies, as queue and reason, in order.
        first_us, last_us: when it was published first, and when its last copy ended; microseconds since 1970.
        assumed: what the fate rests on that the log does not have, in sentences.
    """

    ends: Ends
    deliveries: tuple[Shown, ...] = ()
    deaths: tuple[tuple[str, str], ...] = ()
    first_us: int = 0
    last_us: int = 0
    assumed: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """The deaths in words."""
        return " → ".join(f"{queue} {reason}" for queue, reason in self.deaths) or "no death"


def told(ends: Ends) -> str:
    """Say where the copies of a message ended."""
    parts = [f"lost in '{queue}' ({reason}){_times(copies)}" for queue, reason, copies in ends.lost]
    parts += [f"refused by '{queue}'{_times(copies)}" for queue, copies in ends.refused]
    parts += ["routed to no queue" + _times(ends.unroutable)] if ends.unroutable else []
    parts += [f"held in '{queue}'{_times(copies)}" for queue, copies in ends.held]
    parts += [f"waits in '{queue}'{_times(copies)}" for queue, copies in ends.waiting]
    parts += [f"acknowledged in '{queue}'{_times(copies)}" for queue, copies in ends.acknowledged]
    parts += ["goes round without end"] if ends.endless else []
    return ", ".join(parts) or "kept by no queue"


def _times(copies: int) -> str:
    return "" if copies == 1 else f", {copies} copies"


Key = TypeVar("Key", bound=Hashable)


def count(counts: dict[Key, int], key: Key, times: int = 1) -> None:
    """Count some more; a ``Counter`` for each of millions of messages costs more than all else here."""
    counts[key] = counts.get(key, 0) + times


class FateTally:
    """Takes the events of one message, and says in the end what became of it."""

    def __init__(self) -> None:
        self._acknowledged: dict[str, int] = {}
        self._lost: dict[tuple[str, str], int] = {}
        self._refused: dict[str, int] = {}
        self._unroutable = 0
        self._deaths: list[tuple[str, str]] = []
        self.deliveries: list[Shown] = []
        self.waiting: dict[str, int] = {}
        self._held: dict[str, int] = {}
        self.assumed: dict[str, None] = {}
        self._first_us: int | None = None
        self._last_us: int | None = None

    def take(self, event: Happened, before: Happened | None) -> None:
        """Take one of the ``TELLING`` events; ``before`` is what happened just before, to any message."""
        queue, kind = event.queue, event.event
        if kind == _PUBLISHED:
            if self._first_us is None:
                self._first_us = event.time_us
        elif kind in DEATHS:
            self._deaths.append((queue or "", event.reason or ""))
        elif kind == _ACKED:
            count(self._acknowledged, queue or "")
            self._last_us = event.time_us
        elif kind == Event.NACKED and event.reason is None:
            count(self._refused, queue or "")
        elif kind == Event.UNROUTABLE and queue is None:
            self._unroutable += 1
        elif silent_loss(event, before):
            count(self._lost, (queue or "", event.reason or PURGED))
            self._last_us = event.time_us

    def refused(self, time_us: int) -> None:
        """Take note of a publish that the broker refused: it reached no queue."""
        self._unroutable += 1
        self._first_us = time_us if self._first_us is None else self._first_us

    def left(self, queue: str) -> None:
        """Take note of a copy that is in the queue in the end."""
        count(self.waiting, queue)

    def held(self, queue: str) -> None:
        """Take note of a dead copy that the queue holds in the end."""
        count(self._held, queue)

    def fate(self, later_us: int) -> Fate:
        """Return what became of it, with the times of the log, which the stage's are later than by so much."""
        ends = Ends(
            _sorted(self._acknowledged),
            _sorted(self.waiting),
            tuple(sorted([(*where, count) for where, count in self._lost.items()])) if self._lost else (),
            _sorted(self._refused),
            self._unroutable,
            held=_sorted(self._held),
        )
        first_us = later_us if self._first_us is None else self._first_us
        return Fate(
            ends,
            tuple(self.deliveries),
            tuple(self._deaths),
            first_us - later_us,
            (first_us if self._last_us is None else self._last_us) - later_us,
            tuple(self.assumed),
        )


def _sorted(counts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(counts.items())) if counts else ()
