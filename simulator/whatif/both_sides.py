"""Asks what would have happened to the messages of a log under other settings, or under another release.

The messages are played twice: under the settings of the log, which must give what the log
shows, and under the others. What the first run does not reproduce is left out of the answer.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, tee
from operator import attrgetter
from typing import NamedTuple

import msgspec

from simulator.message_history import MessageHistory
from simulator.whatif.consumer_actions import tells_requeues
from simulator.whatif.coupling import Reaches, Unit, units
from simulator.whatif.delivery_order import put_in_order
from simulator.whatif.differences import differing_queues
from simulator.whatif.outcomes import Ends, Fate, FourTimes, told
from simulator.whatif.playback import (
    End,
    FirstRun,
    LogFacts,
    Playback,
    Played,
    QueueStay,
    Stays,
    TypicalWaits,
    Unseen,
    in_order,
    typical_waits,
)
from simulator.whatif.playback_broker import PlaybackBroker, QueueRef
from simulator.whatif.sides import Clocks, PreparedSide
from simulator.whatif.stories import Named, Story
from simulator.whatif.time_constraints import TimePlanner, Timetable

Done = Callable[[int], object]
STAYS_MAX = 200
"""A message that was more often in a queue is played by itself."""
BODY_MAX = 2**20
"""Messages with more bytes are played by themselves: a broker may refuse them."""
RETURNED = (
    "consumers returned it (basic.nack), and did not fail it (basic.reject, a lost channel): a trace cannot show which"
)


class ComparedMessage(msgspec.Struct, frozen=True, gc=False):
    """One message under both settings.

    Attributes:
        story: what the log shows of it.
        before, after: what becomes of it under the log's own settings, and under the others.
        reproduced: whether ``before`` has the deliveries of the log.
        or_else: how it ends on the other side if its consumers did not return it, but failed it: where that
            is another end, and the release of the log does not tell the two apart.
    """

    story: Story
    before: Fate
    after: Fate
    reproduced: bool
    or_else: Ends | None = None

    @property
    def named(self) -> Named:
        """Which message it is."""
        return self.story.vhost, self.story.message

    @property
    def changed(self) -> bool:
        """Whether it ends differently."""
        return self.before.ends != self.after.ends

    @property
    def ends_us(self) -> FourTimes:
        """When it begins and ends, before and after."""
        return self.before.first_us, self.before.last_us, self.after.first_us, self.after.last_us

    @property
    def assumed(self) -> tuple[str, ...]:
        """What the comparison rests on that the log does not have."""
        return tuple(dict.fromkeys((*self.before.assumed, *self.after.assumed)))


class Plan(NamedTuple):
    """What a play planned, for any times that have the same order.

    Attributes:
        timetable: how its times follow from those given.
        first, last: the places of its beginning and its end among them.
        stays: by queue, how each stay ended, and the places of the times at which it began and ended.
    """

    timetable: Timetable
    first: int
    last: int
    stays: Sequence[tuple[str, Sequence[tuple[End, int, int]]]]

    def ends_us(self, times_us: Sequence[int]) -> tuple[int, int]:
        """Return when a message with these times begins and ends."""
        return times_us[self.first], times_us[self.last]

    def stays_at(self, times_us: Sequence[int]) -> Stays:
        """Return the stays of a message with these times."""
        return {
            queue: [QueueStay(times_us[since], end, times_us[until] - times_us[since]) for end, since, until in some]
            for queue, some in self.stays
        }


def _plan(found: FirstRun, planner: TimePlanner, clocks: Clocks, seen: Mapping[int, int]) -> Plan | None:
    """Return what a play planned; ``None`` if something else decides, too. ``seen`` must have the order that it has.

    Of very many copies some may rest for a while.
    """
    story, fate, stays = found.story, found.fate, found.stays
    if sum(map(len, stays.values())) > STAYS_MAX or any((story.vhost, queue) in clocks.others for queue in stays):
        return None
    if story.vhost in clocks.at_random:
        return None
    if any(len(each.body) > BODY_MAX or "expiration" in each.properties for each in story.publications):
        return None
    first, last = planner.place(fate.first_us), planner.place(fate.last_us)

    def in_places(stay: QueueStay) -> tuple[End, int, int]:
        return stay.end, planner.place(stay.since_us), planner.place(stay.since_us + stay.after_us)

    by_queue = [(queue, [in_places(stay) for stay in some]) for queue, some in stays.items()]
    return Plan(planner.timetable(seen), first, last, by_queue) if planner.sure else None


def times_of(story: Story) -> Iterator[int]:
    """Yield when clients do something."""
    yield from story.moments_us()
    yield from (each.until_us for each in story.deliveries)


class Playbacks:
    """Plays messages that belong together, under both sides.

    Args:
        before, after: the log's own side, and the other.
        unseen: what consumers do with deliveries that the log does not have.
        log: what all messages of the log show.

    Attributes:
        reaches: how far messages may come on either side.
    """

    def __init__(self, before: PreparedSide, after: PreparedSide, unseen: Unseen, log: LogFacts) -> None:
        self.before, self.after = before, after
        self.reaches = Reaches((before.flows, after.flows))
        self._unseen: Unseen = unseen
        self.log = log
        self._typical_waits: TypicalWaits = {}

    def knowing(self, typical_waits: TypicalWaits) -> Playbacks:
        """Return the same, with what the first runs have found."""
        found = copy.copy(self)
        found._typical_waits = typical_waits
        return found

    @cached_property
    def differing(self) -> frozenset[QueueRef] | None:
        """The queues that are not the same on both sides; ``None`` where that tells nothing."""
        return differing_queues(self.before.flows, self.after.flows)

    def first(
        self, own: Iterable[Story], watched: Collection[int] = (), held_max: int | None = None
    ) -> Iterator[Played]:
        """Play messages under the log's own side, in the order in which they begin, and yield each when it is over.

        Raises ``TooManyHeldError`` where more than ``held_max`` are not over at one time.
        """
        run = Playback(self.before.broker, self.log, self._unseen, watched=watched, held_max=held_max)
        return run.play(FirstRun(story) for story in own)

    def may_be_held_too_long(self, story: Story) -> bool:
        """Tell whether a consumer held the message so long that a timeout of a side may have ended that."""
        held_us = max((each.until_us - each.at_us for each in story.deliveries), default=0)
        limits_us = (self.before.clocks.holding_us, self.after.clocks.holding_us)
        return any(may_us is not None and held_us >= may_us for may_us in limits_us)

    def meets(self, story: Story, coupling: frozenset[QueueRef]) -> bool:
        """Tell whether the message may come to one of these queues."""
        return not coupling.isdisjoint(self.reaches.of(story).queues)

    def first_alone(self, story: Story) -> FirstRun:
        """Play a message by itself under the log's own side."""
        (played,) = self.first([story])
        return played.first

    def first_planned(self, story: Story, given_us: Sequence[int]) -> tuple[FirstRun, Plan | None]:
        """Play a message by itself under the log's own side, and return how its times follow from those given.

        These are the moments of its rows, and the end of the log. There is no plan if something else decides, too.
        """
        clocks, end = self.before.clocks, len(given_us) - 1
        moments = {time_us: place for place, time_us in reversed([*enumerate(given_us)])}
        planner = TimePlanner(given_us, moments, end, clocks.ttls_us)
        (played,) = Playback(self.before.broker, self.log, self._unseen, planner=planner).play([FirstRun(story)])
        return played.first, _plan(played.first, planner, clocks, {})

    def second_planned(
        self, first: FirstRun, plan: Plan, times_us: Sequence[int], moments: int
    ) -> tuple[ComparedMessage, Sequence[Plan]]:
        """Play a message by itself under the other side, and return how its times follow from those of its first play.

        ``moments`` says how many of these are the moments of its rows, and the end of the log. There are no plans if
        something else decides, too.
        """
        own = {time_us: place for place, time_us in reversed([*enumerate(times_us[:moments])])}
        seen = {own[time_us]: time_us for time_us in times_of(first.story)}
        seen |= {place: times_us[place] for _, stays in plan.stays for _, *ends in stays for place in ends}
        places, clocks = {time_us: place for place, time_us in sorted(seen.items())}, self.after.clocks

        def play(given: FirstRun) -> tuple[FirstRun, Plan | None]:
            planner = TimePlanner(times_us, places, moments - 1, clocks.ttls_us)
            rerun = Playback(
                self.after.broker, self.log, self._unseen, typical_waits=self._typical_waits, planner=planner
            )
            (played,) = rerun.play([given])
            return played.first, _plan(played.first, planner, clocks, seen)

        (other, other_plan), failed = play(first), self._failed(first)
        or_else, or_plan = (other, other_plan) if failed is None else play(failed)
        case = _case(first, other.fate, or_else.fate.ends)
        return case, () if other_plan is None or or_plan is None else (other_plan, or_plan)

    def other(
        self,
        own: Iterable[FirstRun],
        broker: PlaybackBroker | None = None,
        watched: Collection[int] = (),
        held_max: int | None = None,
    ) -> Iterator[Played]:
        """Play them again under the other side, or on another broker."""
        broker = broker or self.after.broker
        return Playback(
            broker, self.log, self._unseen, typical_waits=self._typical_waits, watched=watched, held_max=held_max
        ).play(own)

    def at_once(self, first: FirstRun) -> ComparedMessage | None:
        """Return a message that is played by itself, if its first run tells how it fares on the other side."""
        return _case(first, first.fate, first.fate.ends) if self._fares_the_same(first) else None

    def alone(self, first: FirstRun) -> ComparedMessage:
        """Return a message that is played by itself under both sides."""
        if (known := self.at_once(first)) is not None:
            return known
        (other,), failed = self.other([first]), self._failed(first)
        (or_else,) = (other,) if failed is None else self.other([failed])
        return _case(first, other.fate, or_else.fate.ends)

    def all_alone(self, stories: Iterable[Story], wanted: Collection[Named]) -> list[ComparedMessage]:
        """Return the messages that are wanted, each played by itself, in the order in which they begin."""
        own = [story for story in stories if (story.vhost, story.message) in wanted]
        return sorted((self.alone(self.first_alone(story)) for story in own), key=began)

    def _failed(self, first: FirstRun) -> FirstRun | None:
        """Return a message as if its consumers had failed it, where that may decide and they may have."""
        failed = _with_failures(first) if self._failures_decide else first
        return None if failed.story is first.story else failed

    def together(self, own: Iterable[FirstRun], held_max: int | None = None) -> Iterator[ComparedMessage]:
        """Yield messages that belong together under both sides, each when it is over.

        They come in the order in which they begin. Raises ``TooManyHeldError`` where more than ``held_max`` are not
        over at one time.
        """
        played: Iterable[tuple[Played, Played]]
        if not self._failures_decide:
            played = ((each, each) for each in self.other(own, held_max=held_max))
        else:
            own, failed = tee(own)
            other = self.other(map(_with_failures, failed), self.after.second_broker, held_max=held_max)
            played = _side_by_side(self.other(own, held_max=held_max), other)
        for one, or_else in played:
            found = _case(one.given, one.fate, or_else.fate.ends)  # if it goes round, nobody knows which do
            yield msgspec.structs.replace(found, reproduced=False) if one.fate.ends.endless else found

    def cases(self, own: Sequence[FirstRun], *, coupled: bool) -> list[ComparedMessage]:
        """Return messages under both sides in the order in which they begin, played together if they are coupled."""
        return sorted(self.together(own), key=began) if coupled else [self.alone(each) for each in own]

    @cached_property
    def _failures_decide(self) -> bool:
        """Whether the delivery limits of the other side count failed deliveries alone, and the log does not tell them.

        It tells neither requeues from lost channels then, nor how a delivery was rejected.
        """
        return tells_requeues(self.after.side.release) and not tells_requeues(self.before.side.release)

    def _fares_the_same(self, first: FirstRun) -> bool:
        """Tell whether the second run of a message must give what its first run gave, so that nobody need play it.

        It must where the sides are the same wherever the message may come; unless the first run assumed something,
        which the second may assume otherwise, or did not come out as the log.
        """
        if self.differing is None or first.fate.assumed or not reproduces(first.story, first.fate):
            return False
        return self.differing.isdisjoint(self.reaches.of(first.story).queues)


def _with_failures(first: FirstRun) -> FirstRun:
    return first._replace(story=first.story.with_failures())


def _side_by_side(one: Iterator[Played], other: Iterator[Played]) -> Iterator[tuple[Played, Played]]:
    """Yield what two runs of the same stories tell of each, as soon as both have told it."""
    found: tuple[dict[int, Played], dict[int, Played]] = {}, {}
    for both in zip(one, other, strict=True):
        for known, played in zip(found, both, strict=True):
            known[played.number] = played
        for number in {played.number for played in both}:
            if all(number in known for known in found):
                yield found[0].pop(number), found[1].pop(number)


def _case(first: FirstRun, after: Fate, or_else: Ends) -> ComparedMessage:
    story, before = first.story, first.fate
    reproduced = reproduces(story, before)
    if or_else == after.ends:
        return ComparedMessage(story, before, after, reproduced)
    assumed = f"{RETURNED}; if they failed it: {told(or_else)}"
    after = msgspec.structs.replace(after, assumed=(*after.assumed, assumed))
    return ComparedMessage(story, before, after, reproduced, or_else)


def compare(
    stories: Sequence[Story], playbacks: Playbacks, waits_us: Mapping[QueueRef, Sequence[int]], done: Done = int
) -> tuple[Playbacks, list[tuple[Unit, list[ComparedMessage]]]]:
    """Play messages of a log under both sides.

    Args:
        stories: the messages.
        playbacks: plays them.
        waits_us: how long the other messages of the log waited to be delivered, in each queue that they came into.
        done: is told how many have been played.

    Returns:
        What plays other messages, as it is known now how long they wait; and which are played together, and why.
    """
    together = units(stories, playbacks.reaches)
    firsts: list[list[FirstRun]] = []
    count = 0
    for unit in together:
        firsts.append(_first_runs([stories[number] for number in unit.stories], unit, playbacks))
        count += len(unit.stories)
        done(count // 2)
    playbacks = playbacks.knowing(typical_waits(chain.from_iterable(firsts), waits_us))
    found = []
    for unit, own in zip(together, firsts, strict=True):
        found.append((unit, playbacks.cases(own, coupled=bool(unit.queues))))
        count += len(own)
        done(count // 2)
    return playbacks, found


def _first_runs(own: list[Story], unit: Unit, playbacks: Playbacks) -> list[FirstRun]:
    if not unit.queues:
        return [playbacks.first_alone(story) for story in own]
    own.sort(key=attrgetter("began"))
    deque(put_in_order(own, playbacks.before.flows), maxlen=0)  # it changes them where they are
    return [played.first for played in in_order(playbacks.first(own))]


def began(case: ComparedMessage) -> tuple[int, float]:
    """Return when the first row was written that is seen of a message, and which place it has in the log."""
    return case.story.began


def reproduces(story: Story, fate: Fate) -> bool:
    """Tell whether a run under the log's own settings has the deliveries of the log."""
    if fate.ends.endless:
        return False
    shown = [each.shown for each in story.deliveries if each.traced]
    return shown == [*fate.deliveries] or sorted(shown) == sorted(fate.deliveries)


BothHistories = tuple[MessageHistory, MessageHistory]
"""What happens to one message under the log's own settings, and under the others."""


def lives(
    playbacks: Playbacks, groups: Iterable[Sequence[ComparedMessage]], wanted: Collection[str]
) -> dict[str, BothHistories]:
    """Return the lives of messages with these identities that end differently, the first of each.

    ``groups`` belong together, and are in the order in which they begin.
    """
    found: dict[str, BothHistories] = {}
    for group in groups:
        own = [case.story for case in group]
        places = (place for place in reversed(range(len(own))) if group[place].changed)
        here = {own[place].message: place for place in places if own[place].message in wanted}
        if here.keys() <= found.keys():
            continue
        watched = set(here.values())
        first = in_order(playbacks.first(own, watched))
        sides = first, in_order(playbacks.other((each.first for each in first), watched=watched))
        for message, place in here.items():
            one, other = (MessageHistory(uid=1, vhost=own[place].vhost, events=[*side[place].seen]) for side in sides)
            found.setdefault(message, (one, other))
    return found
