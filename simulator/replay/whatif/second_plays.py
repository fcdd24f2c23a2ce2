"""Plays messages under the other side that were looked at together: of those that are alike, one."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from simulator.replay.whatif.alike_plays import Timed
from simulator.replay.whatif.both_ends import Way
from simulator.replay.whatif.kind_times import times_of_kind
from simulator.replay.whatif.kinds import (
    KINDS_MAX,
    SINGLE,
    FirstOf,
    Found,
    Kind,
    Kinds,
    OfOneSize,
    Unknown,
    told_apart,
)
from simulator.replay.whatif.other_keys import AnyKey
from simulator.replay.whatif.rerun import First
from simulator.replay.whatif.stories import Story
from simulator.replay.whatif.timetable import Timetable
from simulator.replay.whatif.together import Alike, Named, Waiting, alike_of
from simulator.replay.whatif.what_if import Runs

EXAMPLES_MAX = 3
"""So many messages are named for each way of change: the first ones."""


class SecondLook(NamedTuple):
    """What became of messages on both sides, and the first plays of some that are examples for ways of change."""

    alike: Alike
    examples: Sequence[First]


class SecondPlays:
    """Plays messages under the other side. What it knows holds for all batches.

    Args:
        runs: plays them; it knows how long messages usually wait.

    Attributes:
        kinds: the kinds of messages that are known.
    """

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        self._examples: dict[Way, list[Named]] = {}
        self.kinds = Kinds()

    def play(self, waiting: Waiting) -> SecondLook:
        """Return what becomes of messages of a batch."""
        if len(self.kinds) > KINDS_MAX:
            self.kinds = Kinds()
        return _Batch(self, waiting).look()

    def is_example(self, way: Way, name: Named) -> bool:
        """Tell whether a message is needed as an example for a way of change: the answer names the first ones."""
        known = self._examples.setdefault(way, [])
        if len(known) >= EXAMPLES_MAX and name > known[-1]:
            return False
        known[:] = sorted({*known, name})[:EXAMPLES_MAX]
        return True


class _Batch:
    """The messages of one batch, of which the first plays are known."""

    def __init__(self, known: SecondPlays, waiting: Waiting) -> None:
        self._known, self._runs, self._waiting = known, known.runs, waiting
        self._keys = [kind.origin for kind in waiting.kinds]
        self._lengths = np.array([len(kind.timed.moments) for kind in waiting.kinds])[waiting.which]
        self._starts = np.cumsum(self._lengths) - self._lengths
        self._kinds = known.kinds
        self._which = np.full(len(waiting.which), SINGLE)
        self._times_us = np.zeros((len(waiting.which), 4), np.int64)

    def look(self) -> SecondLook:
        """Play one message of each kind, and return all."""
        for messages, kinds, times_us in told_apart(self._sizes(), self._kinds, self._learn):
            self._which[messages] = kinds
            self._times_us[messages] = np.take_along_axis(times_us, self._kinds.times(kinds), axis=1)
        for message in np.flatnonzero(self._which == SINGLE).tolist():
            self._play_by_itself(message)
        examples = [*self._examples()]
        members = self._waiting.members
        return SecondLook(
            alike_of(self._kinds, self._which, self._times_us, members, [(way, name) for way, name, _ in examples]),
            [first for *_, first in examples],
        )

    def _sizes(self) -> Iterator[OfOneSize[Hashable]]:
        """Yield together messages whose plays were told as many moments."""
        for length in np.unique(self._lengths).tolist():
            own = np.flatnonzero(self._lengths == length)
            moments_us = self._waiting.moments_us[self._starts[own][:, None] + np.arange(length)]
            ends_us = np.full((len(own), 1), self._runs.log.end_us)
            kinds, which = np.unique(self._waiting.which[own], return_inverse=True)
            keys = [self._keys[kind] for kind in kinds.tolist()]
            yield OfOneSize(own, np.concatenate((moments_us, ends_us), axis=1), keys, which)

    def _learn(self, unknown: Unknown[Hashable]) -> None:
        """Play a message for each key: it stands for a kind."""
        for key, (message, _) in unknown.items():
            kind = self._kind(message)
            if kind is None:
                self._kinds.add_single(key)
            else:
                self._kinds.add(key, kind)

    def _first_of(self, message: int) -> FirstOf:
        """Return the first play of those that are alike."""
        found: FirstOf = self._waiting.kinds[self._waiting.which[message]]
        return found

    def _kind(self, message: int) -> Kind | None:
        """Return what messages have that fare as this one does; ``None`` if not only their moments decide."""
        first, timed = self._first(message)
        case, others = self._runs.second_timed(first)
        known = [each for each in others if each is not None]
        if len(known) < len(others):
            return None
        times = times_of_kind((*timed.moments, self._runs.log.end_us), timed, known)
        if times is None:
            return None
        return Kind(times.timetable, Found.of(case, times.ends))

    def _play_by_itself(self, message: int) -> None:
        case = self._runs.alone(self._first(message)[0])
        self._kinds.add(("by itself", message), Kind(Timetable(), Found.of(case, (0, 0, 0, 0))))
        self._which[message] = len(self._kinds.values) - 1
        before, after = case.before, case.after
        self._times_us[message] = before.first_us, before.last_us, after.first_us, after.last_us

    def _first(self, message: int) -> tuple[First, Timed]:
        """Return the first play of a message."""
        waiting, start = self._waiting, self._starts[message]
        kind = self._first_of(message)
        moments: list[int] = waiting.moments_us[start : start + self._lengths[message]].tolist()
        play = kind.timed.play
        story = _of_message(kind.first.story, waiting, message, dict(zip(kind.timed.moments, moments, strict=True)))
        times = play.timetable.times((*moments, self._runs.log.end_us))
        assert times is not None, "it was compared with the play"
        return play.at(story, times), Timed(moments, times, play)

    def _examples(self) -> Iterator[tuple[Way, Named, First]]:
        """Yield messages that are needed as examples."""
        numbers, which = np.unique(self._which, return_inverse=True)
        ways = [self._kinds.found(number).ends.way for number in numbers.tolist()]
        changes = np.array([way is not None for way in ways], bool)[which]
        for message in np.flatnonzero(changes).tolist():
            way = ways[which[message]]
            name = self._first_of(message).first.story.vhost, self._waiting.members.names[message]
            if way is not None and self._known.is_example(way, name):
                yield way, name, self._first(message)[0]


def _of_message(story: Story, waiting: Waiting, message: int, times_us: Mapping[int, int]) -> Story:
    """Return the story of a message that is alike: with its own moments and key, and under its own name."""
    replace, own_id = msgspec.structs.replace, waiting.message_ids[message]
    shown = [each.shown for each in story.deliveries]
    publications = [
        replace(each, at_us=times_us[each.at_us], properties=_with_id(each.properties, own_id))
        for each in story.publications
    ]
    if len(publications) == 1:  # else all have the same keys
        (published,) = publications
        own_key = waiting.routing_keys[message]
        shown = [*AnyKey(tuple(shown), published.routing_key).at(own_key)]
        publications = [replace(published, routing_key=own_key)]
    deliveries = [
        replace(each, shown=seen, at_us=times_us[each.at_us], until_us=times_us[each.until_us])
        for each, seen in zip(story.deliveries, shown, strict=True)
    ]
    return Story(story.vhost, waiting.members.names[message], publications, deliveries)


def _with_id(properties: Mapping[str, Any], own_id: str | None) -> Mapping[str, Any]:
    return properties if own_id is None else {**properties, "message_id": own_id}
