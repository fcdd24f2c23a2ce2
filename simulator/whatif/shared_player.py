"""Plays each message by itself, and of those that are alike, only one.

Messages are alike when the log shows the same of them, but for times (``likeness``). One of them is played, and the
others fare as it does for whom all that was planned in its play has the same order, too (``time_constraints``); of the
rest the next one is played. What consumers do, and a TTL, are all that looks at a clock; where something else does, or
chance decides, each message is played.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import msgspec

from dlx.bounded_cache import BoundedCache
from simulator.whatif.both_sides import ComparedMessage, Plan, times_of
from simulator.whatif.likeness import likeness
from simulator.whatif.outcomes import Fate, FourTimes
from simulator.whatif.plain_player import FirstLook, Member, PlainPlayer, WeightedCase, member_of
from simulator.whatif.playback import FirstRun
from simulator.whatif.stories import Story

KNOWN_MAX = 30_000
"""Kinds of messages whose plays are remembered, of some kilobytes each."""
VARIANTS_MAX = 20
"""Plays that are remembered of messages that are alike."""


class SharedFirstRun(NamedTuple):
    """The first play of a message, which others may share.

    Attributes:
        first: the message, and what became of it.
        plan: what was planned.
        times_us: all its times: its moments, the end of the log, and what was planned.
        moments: how many of them are its moments, the last of which is the end of the log.
        case: the message under both sides, if the first play tells that.
    """

    first: FirstRun
    plan: Plan
    times_us: Sequence[int]
    moments: int
    case: ComparedMessage | None

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


class AlikeMessages(NamedTuple):
    """Messages that share a first play: all of them, and the times of each."""

    play: SharedFirstRun
    members: list[Member]
    times_us: list[Sequence[int]]


class SharedSecondRun(NamedTuple):
    """The second play of a message, which others may share.

    Attributes:
        case: the message under both sides.
        plans: what was planned on the other side, in all plays there; none if the message must stay by itself.
    """

    case: ComparedMessage
    plans: Sequence[Plan]

    def ends_us(self, first: Plan, times_us: Sequence[int]) -> FourTimes | None:
        """Return when a message with these times begins and ends, before and after; ``None`` if its play may differ."""
        found = [plan.timetable.times(times_us) for plan in self.plans]
        if not found or found[0] is None or None in found:
            return None
        return (*first.ends_us(times_us), *self.plans[0].ends_us(found[0]))


class SharedPlayer(PlainPlayer):
    """Plays messages, and remembers plays that others may share. What it knows holds for a whole log."""

    @cached_property
    def _known(self) -> BoundedCache[Hashable, list[SharedFirstRun]]:
        return BoundedCache(KNOWN_MAX)

    def first(self, stories: Iterable[Story]) -> FirstLook:
        """Play messages under the log's own side, but for those that may meet others."""
        self._alike: dict[int, AlikeMessages] = {}
        look = super().first(stories)
        for alike in self._alike.values():
            self._add(alike, look)
        return look

    def _play(self, story: Story, look: FirstLook) -> None:
        moments_us = [*times_of(story), self.playbacks.log.end_us]
        key = likeness(story, moments_us, self.playbacks)
        if key is None:
            super()._play(story, look)
            return
        known = self._known.get(key, [])
        for play in known:
            if (times_us := play.plan.timetable.times(moments_us)) is not None:
                self._share(play, story, times_us)
                return
        first, plan = self.playbacks.first_planned(story, moments_us)
        case = self.playbacks.at_once(first)
        if plan is None or len(known) >= VARIANTS_MAX or (own_us := plan.timetable.times(moments_us)) is None:
            look.add(first, case)
            return
        play = SharedFirstRun(first, plan, own_us, len(moments_us), case)
        self._known[key] = [*known, play]
        self._share(play, story, own_us)

    def _share(self, play: SharedFirstRun, story: Story, times_us: Sequence[int]) -> None:
        _, members, all_us = self._alike.setdefault(id(play), AlikeMessages(play, [], []))
        members.append(member_of(story))
        all_us.append(times_us)

    def _add(self, alike: AlikeMessages, look: FirstLook) -> None:
        """Add messages that share a play."""
        play, members, times_us = alike
        if play.case is None:
            look.waiting.append(alike)
        else:
            ends_us = [2 * play.plan.ends_us(each) for each in times_us]
            look.found.append(WeightedCase(play.case, members, [(a, b, c, d) for a, b, c, d in ends_us]))
        for queue, stays in play.plan.stays:
            delivered = [(since, until) for end, since, until in stays if end == "delivered"]
            waits_us = (each[until] - each[since] for since, until in delivered for each in times_us)
            look.add_waits((play.first.story.vhost, queue), waits_us)

    def second(self, waiting: FirstRun | AlikeMessages) -> Iterator[WeightedCase]:
        """Play messages that are alike under the other side."""
        if not isinstance(waiting, AlikeMessages):
            yield from super().second(waiting)
            return
        known: list[SharedSecondRun] = []
        found: dict[int, WeightedCase] = {}
        for member, times_us in zip(waiting.members, waiting.times_us, strict=True):
            second, ends_us = self._second(known, waiting.play, times_us)
            one = found.setdefault(id(second.case), WeightedCase(second.case, [], []))
            one.members.append(member)
            one.ends_us.append(ends_us)
        yield from found.values()

    def _second(
        self, known: list[SharedSecondRun], play: SharedFirstRun, times_us: Sequence[int]
    ) -> tuple[SharedSecondRun, FourTimes]:
        """Return the play of a message with these times, and when it begins and ends."""
        for second in known:
            if (ends_us := second.ends_us(play.plan, times_us)) is not None:
                return second, ends_us
        second = SharedSecondRun(*self.playbacks.second_planned(play.at(times_us), play.plan, times_us, play.moments))
        if second.plans and len(known) < VARIANTS_MAX:
            known.append(second)
        return second, second.case.ends_us
