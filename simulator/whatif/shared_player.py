"""Plays each message by itself, and of those that are alike, only one.

Messages are alike when their rows are, but for times and for keys that no exchange tells apart (``row_numbers``), and
their moments have the same order: then their logs show the same story. One of them is played, and the others fare as it
does for whom all that was planned in its play has the same order, too (``time_constraints``); of the rest the next one
is played. What consumers do, and a TTL, are all that looks at a clock; where something else does, or chance decides,
each message is played.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa

from simulator.replay.alike import places_of
from simulator.replay.assumptions import TOLERANCE_MS
from simulator.replay.row_codec import LINEAGE, read_messages
from simulator.whatif.log_rows import Replayed, places_in_log
from simulator.whatif.outcomes import FourTimes
from simulator.whatif.plain_player import FirstLook, Members, PlainPlayer, SharedFirstRun, Waiting, WeightedCase
from simulator.whatif.playback import FirstRun
from simulator.whatif.playback_broker import QueueRef
from simulator.whatif.row_numbers import RowNumbers
from simulator.whatif.runs import Case, Plan, Runs
from simulator.whatif.stories import Story

KNOWN_MAX = 30_000
"""Plays that are remembered, of some kilobytes each."""
VARIANTS_MAX = 20
"""Plays that are remembered of messages whose moments have the same order."""

Key = tuple[bytes, bytes]
"""What is equal for messages whose rows are alike, and for those whose moments have the same order."""


class SharedSecondRun(NamedTuple):
    """The second play of a message, which others may share.

    Attributes:
        case: the message under both sides.
        plans: what was planned on the other side, in all plays there; none if the message must stay by itself.
    """

    case: Case
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
        runs: Runs,
        coupling: frozenset[QueueRef],
        left: Collection[str],
        file_numbers: Mapping[str, int],
    ) -> None:
        super().__init__(runs, coupling, left, file_numbers)
        self.rows = RowNumbers(runs.reaches, runs.before.only_vhost, left)
        self._seconds: dict[Any, list[SharedSecondRun]] = {}
        self._begin()

    def _begin(self) -> None:
        self.known: dict[Key, list[SharedFirstRun]] = {}
        self.singles: set[Key] = set()
        self._count, self._id = 0, uuid4()

    def first(self, batch: Replayed) -> FirstLook:
        """Play the messages of a batch under the log's own side."""
        if self.rows.forget() or max(self._count, len(self.singles)) > KNOWN_MAX:
            self._begin()
        return _Batch(self, batch).look()

    def must_be_single(self, story: Story) -> bool:
        """Tell whether messages like this one must be looked at one by one.

        One that an exchange sends somewhere at random must not even be played as an example: the next one would be
        sent elsewhere.
        """
        runs = self.runs
        at_random = any(story.vhost in side.clocks.at_random for side in (runs.before, runs.after))
        return at_random or not story.publications or runs.meets(story, self._coupling)

    def learn(self, key: Key, story: Story, moments_us: Sequence[int], delivered: Sequence[int]) -> FirstRun | None:
        """Play a message, and remember the play for those with the same key.

        Return what it gave if others cannot share it.
        """
        first, plan = self.runs.first_planned(story, moments_us)
        known = self.known.setdefault(key, [])
        times_us = None if plan is None or len(known) >= VARIANTS_MAX else plan.timetable.times(moments_us)
        if plan is None or times_us is None:
            if not self.runs.before.clocks.is_held_too_long(story):
                self.singles.add(key)
            return first
        traced = (each for each in story.deliveries if each.traced)
        last = [row for row, each in zip(delivered, traced, strict=True) if each.may_be_hidden]
        self._count += 1
        known.append(SharedFirstRun(
            first, plan, times_us, len(moments_us), self.runs.at_once(first), last, (self._id, self._count)
        ))  # fmt: skip
        return None

    def second(self, waiting: Waiting) -> Iterator[WeightedCase]:
        """Play messages that are alike under the other side."""
        play = waiting.play
        if play is None:
            yield from super().second(waiting)
            return
        if len(self._seconds) > KNOWN_MAX:
            self._seconds.clear()
        known = self._seconds.setdefault(play.origin, [])
        found: dict[int, tuple[SharedSecondRun, list[int], list[FourTimes]]] = {}
        for place, times_us in enumerate(waiting.times_us):
            second, ends_us = self._second(known, play, times_us)
            _, places, all_us = found.setdefault(id(second), (second, [], []))
            places.append(place)
            all_us.append(ends_us)
        for second, places, all_us in found.values():
            yield WeightedCase(second.case, waiting.members.only(places), all_us)

    def _second(
        self, known: list[SharedSecondRun], play: SharedFirstRun, times_us: Sequence[int]
    ) -> tuple[SharedSecondRun, FourTimes]:
        """Return the play of a message with these times, and when it begins and ends."""
        for second in known:
            if (ends_us := second.ends_us(play.plan, times_us)) is not None:
                return second, ends_us
        second = SharedSecondRun(*self.runs.second_planned(play.at(times_us), play.plan, times_us, play.moments))
        if second.plans and len(known) < VARIANTS_MAX:
            known.append(second)
        return second, second.case.ends_us


class _Batch:
    """One batch of rows, and what is found out about its messages."""

    def __init__(self, player: SharedPlayer, batch: Replayed) -> None:
        self._player, self._batch = player, batch
        self._rows = player.rows.of(batch)
        self._starts, self._lengths = self._rows.starts.tolist(), self._rows.lengths.tolist()
        self._numbers = np.ascontiguousarray(self._rows.numbers.T)
        self._moments = _Moments(self._rows, batch, player)
        self._shared: dict[int, tuple[SharedFirstRun, list[int], list[Sequence[int]]]] = {}
        self._last_seen: Counter[int] = Counter()

    def look(self) -> FirstLook:
        """Play one message of each kind, and return all."""
        singles = np.flatnonzero(self._rows.single).tolist()
        left: dict[Key, list[int]] = {}
        for message in np.flatnonzero(~self._rows.single).tolist():
            key = self._key(message)
            if key in self._player.singles:
                singles.append(message)
            elif not self._share(key, message):
                left.setdefault(key, []).append(message)
        alone: list[FirstRun] = []
        while left:
            played = self._learn({key: own[0] for key, own in left.items()})
            alone += filter(None, played.values())
            others: dict[Key, list[int]] = {}
            for key, own in left.items():
                rest = own[1:] if key in played else own
                if key in self._player.singles:
                    singles += rest
                elif more := [message for message in rest if not self._share(key, message)]:
                    others[key] = more
            left = others
        look = self._player.look_at(self._player.stories([self._only(sorted(singles))]), alone)
        for play, messages, times_us in self._shared.values():
            look.add(play, self._members(messages), times_us)
        for number, many in self._last_seen.items():
            look.last_seen[self._player.rows.last_seen(number)] += many
        return look

    def _learn(self, unknown: Mapping[Key, int]) -> dict[Key, FirstRun | None]:
        """Play a message for each key, unless such messages must be looked at one by one; return what is not shared."""
        found: dict[Key, FirstRun | None] = {}
        for (key, message), story in zip(unknown.items(), self._read(unknown.values()), strict=True):
            if story is None or self._player.must_be_single(story):
                self._player.singles.add(key)
                continue
            rows = slice(self._starts[message], self._starts[message] + self._lengths[message])
            delivered = np.flatnonzero(self._rows.delivered[rows] & ~self._rows.left[rows]).tolist()
            found[key] = self._player.learn(key, story, self._moments.of(message), delivered)
            if found[key] is None:
                self._share(key, message)
        return found

    def _share(self, key: Key, message: int) -> bool:
        """Let a message share a known play, if there is one that it can share."""
        known = self._player.known.get(key)
        if known:
            moments_us = self._moments.of(message)
            for play in known:
                if (times_us := play.plan.timetable.times(moments_us)) is not None:
                    _, messages, all_us = self._shared.setdefault(id(play), (play, [], []))
                    messages.append(message)
                    all_us.append(times_us)
                    start = self._starts[message]
                    self._last_seen.update(int(self._rows.signatures[start + row]) for row in play.last)
                    return True
        return False

    def _key(self, message: int) -> Key:
        """Return what is equal for messages whose rows are alike, and whose moments have the same order."""
        start = self._starts[message]
        return self._numbers[start : start + self._lengths[message]].tobytes(), self._moments.order(message)

    def _only(self, messages: Sequence[int]) -> Replayed:
        """Return the rows of some messages."""
        rows = pa.array(places_of(self._rows.starts[messages], self._rows.lengths[messages])[0])
        return Replayed(self._batch.captured.take(rows), self._batch.replayed.take(rows))

    def _read(self, messages: Iterable[int]) -> list[Story | None]:
        """Read the stories of some messages; those in virtual hosts that the definitions do not have are none."""
        flows, rows, own = self._player.runs.before.flows, self._player.rows, [*messages]
        known = [rows.vhost(self._vhosts[message].as_py()) in flows for message in own]
        stories = self._player.stories([self._only([each for each, has in zip(own, known, strict=True) if has])])
        return [next(stories) if has else None for has in known]

    def _members(self, messages: Sequence[int]) -> Members:
        """Return what identifies messages, and what tells them from others: their first publishes."""
        pairs = [(self._signatures[message], self._contents[message]) for message in messages]
        places = {pair: place for place, pair in enumerate(dict.fromkeys(pairs))}
        rows = self._player.rows
        marks = [(*rows.publish_marks(signature), *rows.contents[content].marks) for signature, content in places]
        return Members([self._names[message] for message in messages], marks, [places[pair] for pair in pairs])

    @cached_property
    def _names(self) -> list[str]:
        return read_messages(self._batch.captured.column(LINEAGE).take(pa.array(self._rows.starts)), self._vhosts)

    @cached_property
    def _published(self) -> Any:
        """The row in which each message was published first; any row for one that was not."""
        every = np.arange(len(self._rows.published))
        first = np.minimum.reduceat(np.where(self._rows.published, every, len(every)), self._rows.starts)
        return np.minimum(first, len(every) - 1)

    @cached_property
    def _signatures(self) -> list[int]:
        found: list[int] = self._rows.signatures[self._published].tolist()
        return found

    @cached_property
    def _contents(self) -> list[int]:
        found: list[int] = self._rows.contents[self._published].tolist()
        return found

    @cached_property
    def _vhosts(self) -> pa.Array:
        """The virtual host of each message, as the log names it."""
        return self._batch.replayed.column("vhost").take(pa.array(self._rows.starts))


class _Moments:
    """The moments of the messages of a batch: when their rows were written, and between which moments they died.

    What a log tells of a message depends on the order of these.
    """

    def __init__(self, rows: Any, batch: Replayed, player: SharedPlayer) -> None:
        self._end_us = player.runs.log.end_us
        written_us = batch.captured.column("time_us").to_numpy()
        self._written_us = written_us.tolist()
        self._seen_us = (written_us - int(TOLERANCE_MS * 1_000) * rows.delivered).tolist()
        self._places = places_in_log(batch.captured, player.file_numbers).tolist()
        self._earliest_us, self._latest_us = rows.earliest_us.tolist(), rows.latest_us.tolist()
        ends = np.cumsum(rows.hops)
        self._hops = [0, *ends[rows.starts + rows.lengths - 1].tolist()]
        self._starts = [*rows.starts.tolist(), len(written_us)]

    def of(self, message: int) -> list[int]:
        """Return those of a message; the last one is the end of the log."""
        rows = slice(self._starts[message], self._starts[message + 1])
        hops = slice(self._hops[message], self._hops[message + 1])
        found = [*self._written_us[rows], *self._earliest_us[hops], *self._latest_us[hops]]
        if hops.start < hops.stop:
            found += self._seen_us[rows]
        return [*found, self._end_us]

    def order(self, message: int) -> bytes:
        """Return what tells the order of a message's moments, and that of its rows in the log."""
        rows = slice(self._starts[message], self._starts[message + 1])
        return _order(self.of(message)) + _order(self._places[rows])


def _order(values: Sequence[int]) -> bytes:
    """Return the place of each value among all; equal ones have the same. Where a moment is not known it is negative.

    Negative ones have a place of their own.
    """
    places = {value: place for place, value in enumerate(sorted({*values, -1}))}
    return np.array([places[value] for value in values], np.uint16).tobytes()
