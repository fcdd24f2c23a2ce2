"""Plays each message by itself, and of those that are alike, only one.

Messages are alike when their rows are, but for times (``likeness``), and their moments have the same order: then their
logs show the same story. One of them is played, and the others fare as it
does for whom all that was planned in its play has the same order, too (``time_constraints``); of the rest the next one
is played. What consumers do, and a TTL, are all that looks at a clock; where something else does, or chance decides,
each message is played.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa

from dlx.bounded_cache import BoundedCache
from simulator.replay.rows.row_codec import LINEAGE, read_messages
from simulator.whatif.both_sides import ComparedMessage, Plan, Playbacks
from simulator.whatif.likeness import SINGLE, Likeness, MessageInLog
from simulator.whatif.log_rows import ReplayedRows
from simulator.whatif.outcomes import FourTimes
from simulator.whatif.plain_player import FirstLook, Member, PlainPlayer, SecondPlay, SharedFirstRun, WeightedCase
from simulator.whatif.playback import FirstRun
from simulator.whatif.playback_broker import QueueRef
from simulator.whatif.stories import Story

KNOWN_MAX = 30_000
"""Plays that are remembered, of some kilobytes each."""
VARIANTS_MAX = 20
"""Plays that are remembered of messages whose moments have the same order."""


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
    """Plays messages, and remembers plays that others may share. What it knows holds for all batches of a log.

    Takes what ``PlainPlayer`` takes.
    """

    def __init__(
        self,
        playbacks: Playbacks,
        coupling: frozenset[QueueRef],
        left: Collection[str],
        file_numbers: Mapping[str, int],
    ) -> None:
        super().__init__(playbacks, coupling, left, file_numbers)
        self.likeness = Likeness(
            playbacks.reaches, playbacks.before.only_vhost, left, file_numbers, playbacks.log.end_us
        )
        self._seconds: BoundedCache[Any, list[SharedSecondRun]] = BoundedCache(KNOWN_MAX)
        self._begin()

    def _begin(self) -> None:
        self.known: dict[int, list[SharedFirstRun]] = {}
        self.singles = {SINGLE}
        self._count, self._id = 0, uuid4()

    def first(self, batch: ReplayedRows) -> FirstLook:
        """Play the messages of a batch under the log's own side."""
        if self.likeness.forget() or max(self._count, len(self.singles)) > KNOWN_MAX:
            self._begin()
        return _Batch(self, batch).look()

    def must_be_single(self, story: Story) -> bool:
        """Tell whether messages like this one must be looked at one by one.

        One that an exchange sends somewhere at random must not even be played as an example: the next one would be
        sent elsewhere.
        """
        playbacks = self.playbacks
        at_random = any(story.vhost in side.clocks.at_random for side in (playbacks.before, playbacks.after))
        return at_random or not story.publications or playbacks.meets(story, self._coupling)

    def learn(self, message: MessageInLog, story: Story) -> FirstRun | None:
        """Play a message, and remember the play for those like it. Return what it gave if others cannot share it."""
        moments_us = message.moments_us
        first, plan = self.playbacks.first_planned(story, moments_us)
        known = self.known.setdefault(message.key, [])
        times_us = None if plan is None or len(known) >= VARIANTS_MAX else plan.timetable.times(moments_us)
        if plan is None or times_us is None:
            if not self.playbacks.before.clocks.is_held_too_long(story):
                self.singles.add(message.key)
            return first
        self._count += 1
        known.append(SharedFirstRun(
            first, plan, times_us, len(moments_us), self.playbacks.at_once(first), (self._id, self._count)
        ))  # fmt: skip
        return None

    def second(self, waiting: SecondPlay) -> Iterator[WeightedCase]:
        """Play messages that are alike under the other side."""
        play = waiting.play
        if play is None:
            yield from super().second(waiting)
            return
        known = self._seconds.get(play.origin)
        if known is None:
            known = self._seconds[play.origin] = []
        found: dict[int, tuple[SharedSecondRun, list[int], list[FourTimes]]] = {}
        for place, times_us in enumerate(waiting.times_us):
            second, ends_us = self._second(known, play, times_us)
            _, places, all_us = found.setdefault(id(second), (second, [], []))
            places.append(place)
            all_us.append(ends_us)
        for second, places, all_us in found.values():
            yield WeightedCase(second.case, [waiting.members[place] for place in places], all_us)

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


class _Batch:
    """One batch of rows, and what is found out about its messages."""

    def __init__(self, player: SharedPlayer, batch: ReplayedRows) -> None:
        self._player, self._batch = player, batch
        self._shared: dict[int, tuple[SharedFirstRun, list[MessageInLog], list[Sequence[int]]]] = {}

    def look(self) -> FirstLook:
        """Play one message of each kind, and return all."""
        singles: list[MessageInLog] = []
        left: dict[int, list[MessageInLog]] = {}
        for message in self._player.likeness.messages(self._batch):
            if message.key in self._player.singles:
                singles.append(message)
            elif not self._share(message):
                left.setdefault(message.key, []).append(message)
        alone: list[FirstRun] = []
        while left:
            played = self._learn([own[0] for own in left.values()])
            alone += filter(None, played.values())
            others: dict[int, list[MessageInLog]] = {}
            for key, own in left.items():
                rest = own[1:] if key in played else own
                if key in self._player.singles:
                    singles += rest
                elif more := [message for message in rest if not self._share(message)]:
                    others[key] = more
            left = others
        singles.sort(key=lambda message: message.rows.start)
        look = self._player.look_at(self._player.stories([self._only(singles)]), alone)
        for play, messages, times_us in self._shared.values():
            look.add(play, self._members(messages), times_us)
        return look

    def _learn(self, unknown: Sequence[MessageInLog]) -> dict[int, FirstRun | None]:
        """Play messages, unless those like them must be looked at one by one; return what others cannot share."""
        found: dict[int, FirstRun | None] = {}
        for message, story in zip(unknown, self._read(unknown), strict=True):
            if story is None or self._player.must_be_single(story):
                self._player.singles.add(message.key)
                continue
            found[message.key] = self._player.learn(message, story)
            if found[message.key] is None:
                self._share(message)
        return found

    def _share(self, message: MessageInLog) -> bool:
        """Let a message share a known play, if there is one that it can share."""
        for play in self._player.known.get(message.key, ()):
            if (times_us := play.plan.timetable.times(message.moments_us)) is not None:
                _, messages, all_us = self._shared.setdefault(id(play), (play, [], []))
                messages.append(message)
                all_us.append(times_us)
                return True
        return False

    def _only(self, messages: Iterable[MessageInLog]) -> ReplayedRows:
        """Return the rows of some messages."""
        rows = pa.array([row for message in messages for row in message.rows], pa.int64())
        return ReplayedRows(self._batch.captured.take(rows), self._batch.replayed.take(rows))

    def _read(self, messages: Sequence[MessageInLog]) -> list[Story | None]:
        """Read the stories of some messages; those in virtual hosts that the definitions do not have are none."""
        flows, likeness = self._player.playbacks.before.flows, self._player.likeness
        known = [likeness.vhost(self._vhosts[message.rows.start].as_py()) in flows for message in messages]
        own = (message for message, has in zip(messages, known, strict=True) if has)
        stories = self._player.stories([self._only(own)])
        return [next(stories) if has else None for has in known]

    def _members(self, messages: Sequence[MessageInLog]) -> list[Member]:
        """Return what identifies messages, and what tells them from others: their first publishes."""
        starts = pa.array([message.rows.start for message in messages])
        names = read_messages(self._batch.captured.column(LINEAGE).take(starts), self._vhosts.take(starts))
        published = [message.published for message in messages if message.published is not None]
        marks = {each: self._player.likeness.marks(each) for each in dict.fromkeys(published)}
        return [(name, marks[each]) for name, each in zip(names, published, strict=True)]

    @property
    def _vhosts(self) -> pa.Array:
        """The virtual host of each row, as the log names it."""
        return self._batch.replayed.column("vhost")
