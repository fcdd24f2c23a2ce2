"""Asks what would have happened to the messages of a log under other settings, or under another release.

The messages are played twice: under the settings of the log, which must give what the log
shows, and under the others. What the first run does not reproduce is left out of the answer.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, tee
from operator import attrgetter

import msgspec

from simulator.message_history import MessageHistory
from simulator.whatif.consumer_actions import tells_requeues
from simulator.whatif.coupling import Reaches, Unit, units
from simulator.whatif.delivery_order import put_in_order
from simulator.whatif.differences import differing_queues
from simulator.whatif.outcomes import Ends, Fate, told
from simulator.whatif.playback import (
    FirstRun,
    LogFacts,
    Playback,
    Played,
    TypicalWaits,
    Unseen,
    in_order,
    typical_waits,
)
from simulator.whatif.playback_broker import PlaybackBroker, QueueRef
from simulator.whatif.sides import PreparedSide
from simulator.whatif.stories import Named, Story

Done = Callable[[int], object]
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
    def assumed(self) -> tuple[str, ...]:
        """What the comparison rests on that the log does not have."""
        return tuple(dict.fromkeys((*self.before.assumed, *self.after.assumed)))


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

    def first_alone(self, story: Story) -> FirstRun:
        """Play a message by itself under the log's own side."""
        (played,) = self.first([story])
        return played.first

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
        """Return a message that is played by itself, if its second run must give what its first run gave.

        It must where the sides are the same wherever the message may come; unless the first run assumed something,
        which the second may assume otherwise, or did not come out as the log.
        """
        if self.differing is None or not self.differing.isdisjoint(self.reaches.of(first.story).queues):
            return None
        case = _case(first, first.fate, first.fate.ends)
        return case if case.reproduced and not case.assumed else None

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
    stories: Sequence[Story], playbacks: Playbacks, done: Done = int
) -> tuple[Playbacks, list[tuple[Unit, list[ComparedMessage]]]]:
    """Play messages of a log under both sides.

    Args:
        stories: the messages.
        playbacks: plays them.
        done: called with how many have been played.

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
    playbacks = playbacks.knowing(typical_waits(chain.from_iterable(firsts)))
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
