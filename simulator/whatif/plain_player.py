"""Plays each message by itself, under the log's own side and then under the other: what sharing plays must come to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from simulator.whatif.both_sides import ComparedMessage, Plan, Playbacks
from simulator.whatif.consumer_actions import read_stories
from simulator.whatif.correlates import Mark, property_marks, publish_marks
from simulator.whatif.log_rows import ReplayedRows, rows_of
from simulator.whatif.outcomes import Fate, Fates, FourTimes
from simulator.whatif.playback import FirstRun
from simulator.whatif.playback_broker import QueueRef
from simulator.whatif.stories import Story

Member = tuple[str, Collection[Mark]]
"""One of the messages that fare alike: what identifies it, and what tells it from others."""


class WeightedCase(NamedTuple):
    """A message under both sides, and all that fare as it does: itself alone, or many.

    Attributes:
        case: the message.
        members: all of them.
        ends_us: when each begins and ends, before and after.
    """

    case: ComparedMessage
    members: Sequence[Member]
    ends_us: Sequence[FourTimes]

    @classmethod
    def of(cls, case: ComparedMessage) -> WeightedCase:
        """Return a message by itself."""
        story = case.story
        marks = {
            mark: None
            for first in story.publications[:1]
            for mark in (*publish_marks(first.exchange, first.routing_key), *property_marks(first.properties))
        }
        return cls(case, [(story.message, list(marks))], [case.ends_us])

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


class SharedFirstRun(NamedTuple):
    """The first play of a message, which others may share.

    Attributes:
        first: the message, and what became of it.
        plan: what was planned.
        times_us: all its times: its moments, the end of the log, and what was planned.
        moments: how many of them are its moments, the last of which is the end of the log.
        case: the message under both sides, if the first play tells that.
        origin: what tells the play apart from all others, in all processes.
    """

    first: FirstRun
    plan: Plan
    times_us: Sequence[int]
    moments: int
    case: ComparedMessage | None
    origin: tuple[Any, int]

    def at(self, times_us: Sequence[int]) -> FirstRun:
        """Return what it gives for a message with other times: under the name of this one."""
        replace, first = msgspec.structs.replace, self.first
        own_us = dict(zip(self.times_us[: self.moments], times_us, strict=False))
        publications = [replace(each, at_us=own_us[each.at_us]) for each in first.story.publications]
        deliveries = [
            replace(each, at_us=own_us[each.at_us], until_us=own_us[each.until_us]) for each in first.story.deliveries
        ]
        story, fate = Story(first.story.vhost, first.story.message, publications, deliveries), first.fate
        first_us, last_us = self.plan.ends_us(times_us)
        moved = Fate(fate.ends, fate.deliveries, fate.deaths, first_us, last_us, fate.assumed)
        return FirstRun(story, moved, self.plan.stays_at(times_us))


class SecondPlay(NamedTuple):
    """Messages whose second play is still to come.

    Attributes:
        first: the first play of one of them.
        play: the same, where others share it, with
        members: all of them, and
        times_us: the times of each.
    """

    first: FirstRun
    play: SharedFirstRun | None = None
    members: Sequence[Member] = ()
    times_us: Sequence[Sequence[int]] = ()


class FirstLook(NamedTuple):
    """What the first plays of some messages tell.

    Attributes:
        coupled: those that may meet others, which are not played yet.
        found: those that fare the same on the other side.
        waiting: the others.
        waits_us: how long messages waited to be delivered, in each queue that they came into.
    """

    coupled: list[Story]
    found: list[WeightedCase]
    waiting: list[SecondPlay]
    waits_us: dict[QueueRef, list[int]]

    @classmethod
    def empty(cls) -> FirstLook:
        """Return what is known of no messages."""
        return cls([], [], [], {})

    def add_alone(self, first: FirstRun, case: ComparedMessage | None) -> None:
        """Add a message that was played by itself, with its case if that is known."""
        if case is None:
            self.waiting.append(SecondPlay(first))
        else:
            self.found.append(WeightedCase.of(case))
        self.add_waits(first)

    def add_waits(self, first: FirstRun) -> None:
        """Add how long a message waited."""
        for queue, stays in first.stays.items():
            waits_us = self.waits_us.setdefault((first.story.vhost, queue), [])
            waits_us += [stay.after_us for stay in stays if stay.end == "delivered"]

    def add(self, play: SharedFirstRun, members: Sequence[Member], times_us: Sequence[Sequence[int]]) -> None:
        """Add messages that share a play."""
        if play.case is None:
            self.waiting.append(SecondPlay(play.first, play, members, times_us))
        else:
            ends_us = [2 * play.plan.ends_us(each) for each in times_us]
            self.found.append(WeightedCase(play.case, members, [(a, b, c, d) for a, b, c, d in ends_us]))
        for queue, stays in play.plan.stays:
            waits_us = self.waits_us.setdefault((play.first.story.vhost, queue), [])
            for end, since, until in stays:
                if end == "delivered":
                    waits_us += [each[until] - each[since] for each in times_us]


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

    def first(self, batch: ReplayedRows) -> FirstLook:
        """Play the messages of a batch under the log's own side, but for those that may meet others."""
        return self.look_at(self.stories([batch]))

    def look_at(self, stories: Iterable[Story], played: Iterable[FirstRun] = ()) -> FirstLook:
        """Play messages by themselves under the log's own side, beside those that were played already."""
        look = FirstLook.empty()
        for first in played:
            look.add_alone(first, self.playbacks.at_once(first))
        for story in stories:
            if self.playbacks.meets(story, self._coupling):
                look.coupled.append(story)
            else:
                first = self.playbacks.first_alone(story)
                look.add_alone(first, self.playbacks.at_once(first))
        return look

    def second(self, waiting: SecondPlay) -> Iterator[WeightedCase]:
        """Play them under the other side, too."""
        yield WeightedCase.of(self.playbacks.alone(waiting.first))
