"""Plays each message by itself, under the log's own side and then under the other: what sharing plays must come to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from simulator.whatif.both_sides import ComparedMessage, Playbacks
from simulator.whatif.consumer_actions import read_stories
from simulator.whatif.correlates import Mark, property_marks, publish_marks
from simulator.whatif.log_rows import ReplayedRows, rows_of
from simulator.whatif.outcomes import Fates, FourTimes
from simulator.whatif.playback import FirstRun
from simulator.whatif.playback_broker import QueueRef
from simulator.whatif.stories import Story

Member = tuple[str, Sequence[Mark]]
"""One of the messages that fare alike: what identifies it, and what tells it from others: its first publish."""


def member_of(story: Story) -> Member:
    """Return a message as one of those that fare alike."""
    marks: dict[Mark, None] = {}
    for first in story.publications[:1]:
        marks |= dict.fromkeys(publish_marks(first.exchange, first.routing_key))
        marks |= dict.fromkeys(property_marks(first.properties))
    return story.message, list(marks)


class WeightedCase(NamedTuple):
    """A message under both sides, and all that fare as it does: itself alone, or many.

    Attributes:
        case: the message.
        members: all of them.
        ends_us: when each begins and ends, before and after.
    """

    case: ComparedMessage
    members: list[Member]
    ends_us: list[FourTimes]

    @classmethod
    def of(cls, case: ComparedMessage) -> WeightedCase:
        """Return a message by itself."""
        return cls(case, [member_of(case.story)], [case.ends_us])

    @property
    def names(self) -> list[str]:
        """What identifies each of them."""
        return [name for name, _ in self.members]

    @property
    def fates(self) -> Fates:
        """What becomes of them, and nothing else."""
        case = self.case
        other = None if case.before == case.after else case.after
        return Fates(case.story.vhost, case.reproduced, case.before, other, self.names, self.ends_us)


class FirstLook(NamedTuple):
    """What the first plays of some messages tell.

    Attributes:
        coupled: those that may meet others, which are not played yet.
        found: those that fare the same on the other side.
        waiting: the others, whose second play is still to come; the player knows what each entry is.
        waits_us: how long messages waited to be delivered, in each queue that they came into.
    """

    coupled: list[Story]
    found: list[WeightedCase]
    waiting: list[Any]
    waits_us: dict[QueueRef, list[int]]

    @classmethod
    def empty(cls) -> FirstLook:
        """Return what is known of no messages."""
        return cls([], [], [], {})

    def add(self, first: FirstRun, case: ComparedMessage | None) -> None:
        """Add a message that was played by itself, with its case if that is known."""
        if case is None:
            self.waiting.append(first)
        else:
            self.found.append(WeightedCase.of(case))
        for queue, waits_us in first.waits_us.items():
            self.add_waits(queue, waits_us)

    def add_waits(self, queue: QueueRef, waits_us: Iterable[int]) -> None:
        """Add how long messages waited in a queue."""
        self.waits_us.setdefault(queue, []).extend(waits_us)


class PlainPlayer:
    """Plays each message by itself.

    Args:
        playbacks: plays a message.
        coupling: the queues where messages meet.
        left: the files whose rows are no deliveries, but what was found in the queues in the end.
        file_numbers: those of the log's files.
    """

    def __init__(
        self,
        playbacks: Playbacks,
        coupling: frozenset[QueueRef],
        left: Collection[str],
        file_numbers: Mapping[str, int],
    ) -> None:
        self.playbacks, self._coupling, self._left, self.file_numbers = playbacks, coupling, left, file_numbers

    def stories(self, batches: Iterable[ReplayedRows]) -> Iterator[Story]:
        """Yield the stories of all messages in these rows."""
        before = self.playbacks.before
        rows = rows_of(batches, self.file_numbers)
        return read_stories(rows, before.flows, only=before.only_vhost, left=self._left)

    def first(self, stories: Iterable[Story]) -> FirstLook:
        """Play messages under the log's own side, but for those that may meet others."""
        look = FirstLook.empty()
        for story in stories:
            if self.playbacks.meets(story, self._coupling):
                look.coupled.append(story)
            else:
                self._play(story, look)
        return look

    def _play(self, story: Story, look: FirstLook) -> None:
        first = self.playbacks.first_alone(story)
        look.add(first, self.playbacks.at_once(first))

    def second(self, waiting: FirstRun) -> Iterator[WeightedCase]:
        """Play under the other side, too, what waits for that."""
        yield WeightedCase.of(self.playbacks.alone(waiting))
