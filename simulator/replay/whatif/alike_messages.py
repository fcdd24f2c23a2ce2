"""Looks at the messages of a log in columns: of those that are alike, it reads and plays one.

Messages are alike when their rows are, but for times and for keys that no exchange tells apart (``row_numbers``), and
their moments have the same order (``moments``). Where one of them comes to no queue where messages meet, others fare
as it does if all that was planned in its play has the same order, too (``kind_times``). Those that do not are compared
with the next one that was played. Other messages are read one by one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from typing import NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa

from simulator.replay.alike import Ints, alike_rows, alike_sequences, firsts, places_of
from simulator.replay.row_codec import LINEAGE, read_messages
from simulator.replay.signatures import Signatures
from simulator.replay.whatif.alike_plays import Timed
from simulator.replay.whatif.fates import count
from simulator.replay.whatif.hidden_ends import LastSeen
from simulator.replay.whatif.kind_times import times_of_kind
from simulator.replay.whatif.kinds import (
    KINDS_MAX,
    SINGLE,
    FirstOf,
    Found,
    Kind,
    Kinds,
    OfKinds,
    OfOneSize,
    Stayed,
    Unknown,
    told_apart,
)
from simulator.replay.whatif.log_rows import Replayed, places_in_log, rows_of
from simulator.replay.whatif.moments import MOMENTS_MAX, Moments, MomentsOf
from simulator.replay.whatif.outcomes import read_stories
from simulator.replay.whatif.rerun import First
from simulator.replay.whatif.row_numbers import RowNumbers
from simulator.replay.whatif.stage import Queue
from simulator.replay.whatif.stories import Story
from simulator.replay.whatif.together import STAYED, FirstLook, Members, Waiting, Waits, alike_of, counted
from simulator.replay.whatif.what_if import Runs


class AlikeMessages:
    """Tells messages that are alike from others. What it knows holds for all batches of a log.

    Args:
        runs: plays messages.
        coupling: the queues where messages meet.
        left: the files whose rows are no deliveries, but what was found in the queues in the end.
        numbers: those of the log's files (``file_numbers``).
        signatures_of: as ``RowNumbers`` takes it.
    """

    def __init__(
        self,
        runs: Runs,
        coupling: frozenset[Queue],
        left: Collection[str],
        numbers: Mapping[str, int],
        signatures_of: Callable[[], Signatures] | None = None,
    ) -> None:
        self.runs, self._coupling, self._left, self.file_numbers = runs, coupling, left, numbers
        self.rows = RowNumbers(runs.reaches, runs.before.only_vhost, left, signatures_of)
        self._begin()

    def _begin(self) -> None:
        self._shapes: dict[bytes, int] = {}
        self._single: list[bool] = []
        self.kinds = Kinds()
        self._origin = uuid4()

    def messages(self, batches: Iterable[Replayed]) -> Iterator[Story | FirstLook]:
        """Yield what is alike together, and the stories of other messages."""
        found: deque[FirstLook] = deque()

        def others() -> Iterator[Replayed]:
            for batch in batches:
                looked = _Batch(self, batch)
                if looked.found is not None:
                    found.append(looked.found)
                yield looked.others

        for story in self.stories(others()):
            while found:
                yield found.popleft()
            yield story
        yield from found

    def stories(self, batches: Iterable[Replayed]) -> Iterator[Story]:
        """Yield the stories of all messages in these rows."""
        before = self.runs.before
        rows = rows_of(batches, self.file_numbers)
        return read_stories(rows, before.flows, only=before.only_vhost, left=self._left)

    def forget(self) -> None:
        """Keep memory bounded where little is alike."""
        if self.rows.forget() or max(len(self._shapes), len(self.kinds)) > KINDS_MAX:
            self._begin()

    def know_shape(self, key: bytes, example: Story | None) -> None:
        """Take note of what messages have whose rows are alike."""
        self._shapes[key] = len(self._single)
        self._single.append(example is None or self._must_be_single(example))

    def _must_be_single(self, story: Story) -> bool:
        """Tell whether messages of its shape must be looked at one by one.

        One that an exchange sends somewhere at random must not even be played as an example: the next one would be
        sent elsewhere.
        """
        runs = self.runs
        at_random = any(story.vhost in side.clocks.at_random for side in (runs.before, runs.after))
        return at_random or not story.publications or runs.meets(story, self._coupling)

    def shape(self, key: bytes) -> int | None:
        """Return the number of what they have; ``None`` if it is not known."""
        return self._shapes.get(key)

    def is_single(self, shape: int) -> bool:
        """Tell whether messages of that shape must be looked at one by one."""
        return self._single[shape]

    def know_kind(self, key: bytes, example: _Example) -> None:
        """Take note of what messages have that are alike."""
        first, timed = self.runs.first_timed(example.story)
        kind = None if timed is None else self._kind(first, timed, example)
        if kind is None:
            too_long = self.runs.before.clocks.is_held_too_long(example.story)
            self.kinds.add_single(key, tells_of_others=not too_long)
        else:
            self.kinds.add(key, kind)

    def _kind(self, first: First, timed: Timed, example: _Example) -> Kind | None:
        """Return what messages have that are alike, if all that happened follows from their moments."""
        times = times_of_kind(example.moments_us, timed, held=self.runs.held(example.story))
        case = self.runs.at_once(first)
        if times is None:
            return None
        told: Found | FirstOf
        if case is None:
            told = FirstOf(first, timed, times.before[: len(timed.moments)], (self._origin, len(self.kinds.values)))
        else:
            told = Found.of(case, times.ends)
        story = first.story
        traced = [each for each in story.deliveries if each.traced]
        return Kind(
            times.timetable,
            told,
            last=[row for row, each in zip(example.delivered, traced, strict=True) if each.may_be_hidden],
            stays=[
                Stayed((story.vhost, queue), times.before[since], times.before[until], end == "delivered")
                for queue, some in timed.play.stays
                for end, since, until in some
            ],
        )


class _Example(NamedTuple):
    """A message that stands for those that are alike: its story, its moments, and which of its rows are deliveries."""

    story: Story
    moments_us: Sequence[int]
    delivered: Sequence[int]


class _Batch:
    """One batch.

    Attributes:
        found: the messages that are looked at together, if there are any.
        others: the rows of all others.
    """

    def __init__(self, known: AlikeMessages, batch: Replayed) -> None:
        known.forget()
        self._known, self._batch = known, batch
        self._rows = known.rows.of(batch)
        self._kinds = known.kinds
        self._which = np.full(len(self._rows.starts), SINGLE)
        self._times_us = np.zeros((len(self._which), 4), np.int64)
        self._waited: list[tuple[Ints, Ints]] = []
        self._moments_us: list[tuple[Ints, Ints]] = []
        self._places = places_in_log(batch.captured, known.file_numbers)
        self._stories: dict[int, Story | None] = {}
        self._look(np.flatnonzero(~self._rows.single))
        self.found = self._found(np.flatnonzero(self._which != SINGLE))
        rest = pa.array(np.repeat(self._which == SINGLE, self._rows.lengths))
        self.others = Replayed(batch.captured.filter(rest), batch.replayed.filter(rest))

    def _look(self, messages: Ints) -> None:
        """Find the kinds of messages."""
        shapes = self._shapes(messages)
        looked = np.array([not self._known.is_single(shape) for shape in shapes.tolist()], bool)
        sizes = self._of_sizes(messages[looked], shapes[looked])
        for some in told_apart(sizes, self._kinds, self._learn):
            self._note(some)

    def _learn(self, unknown: Unknown[bytes]) -> None:
        self._read(message for message, _ in unknown.values())
        for key, (message, moments_us) in unknown.items():
            self._known.know_kind(key, self._example(message, moments_us))

    def _shapes(self, messages: Ints) -> Ints:
        """Return a number for each message: those whose rows are alike have the same."""
        rows, known = self._rows, self._known
        lengths = rows.lengths[messages]
        places, _ = places_of(rows.starts[messages], lengths)
        which = alike_sequences(alike_rows(*rows.numbers[:, places]), lengths)
        first = messages[firsts(which)].tolist()
        keys = [blake2b(rows.numbers[:, self._slice(message)].tobytes(), digest_size=16).digest() for message in first]
        unknown = {key: message for key, message in zip(keys, first, strict=True) if known.shape(key) is None}
        self._read(unknown.values())
        for key, message in unknown.items():
            known.know_shape(key, self._stories[message])
        return np.array([known.shape(key) for key in keys], np.int64)[which]

    def _of_sizes(self, messages: Ints, shapes: Ints) -> Iterator[OfOneSize[bytes]]:
        """Yield together messages that have as many moments."""
        if not len(messages):
            return
        rows, known = self._rows, self._known
        hops = np.add.reduceat(rows.hops, rows.starts)[messages]
        moments = MomentsOf(
            rows,
            self._batch.captured.column("time_us").to_numpy(),
            self._places,
            known.runs.log.end_us,
        )
        sizes = alike_rows(rows.lengths[messages], hops)
        for size, first in enumerate(firsts(sizes).tolist()):
            if MomentsOf.count(int(rows.lengths[messages[first]]), int(hops[first])) <= MOMENTS_MAX:
                own = np.flatnonzero(sizes == size)
                found = moments.of(messages[own], int(hops[first]))
                yield _of_one_size(messages[own], shapes[own], found)

    def _example(self, message: int, moments_us: Sequence[int]) -> _Example:
        story = self._stories[message]
        assert story is not None  # else its shape would say so
        own = self._slice(message)
        delivered = self._rows.delivered[own] & ~self._rows.left[own]
        return _Example(story, moments_us, np.flatnonzero(delivered).tolist())

    def _read(self, messages: Iterable[int]) -> None:
        """Read the stories of some messages; those in virtual hosts that the definitions do not have are none."""
        known, flows = self._known, self._known.runs.before.flows
        wanted = sorted({*messages} - self._stories.keys())
        self._stories |= dict.fromkeys(wanted)
        wanted = [message for message in wanted if known.rows.vhost(self._vhosts[message].as_py()) in flows]
        if not wanted:
            return
        rows = pa.array(places_of(self._rows.starts[wanted], self._rows.lengths[wanted])[0])
        batch = Replayed(self._batch.captured.take(rows), self._batch.replayed.take(rows))
        self._stories |= zip(wanted, known.stories([batch]), strict=True)

    def _note(self, some: OfKinds) -> None:
        """Note the kinds of messages, and what follows from their times."""
        messages, numbers, times_us = some
        kinds, found = self._kinds, self._kinds.are_found(numbers)
        self._which[messages] = numbers
        self._times_us[messages[found]] = np.take_along_axis(times_us[found], kinds.times(numbers[found]), axis=1)
        whose, queues, since, until, delivered = kinds.stays(numbers)
        after_us = times_us[whose, until] - times_us[whose, since]
        self._waited.append((queues, np.where(delivered, after_us, STAYED)))
        whose, moments = kinds.moments(numbers)
        self._moments_us.append((messages[whose], times_us[whose, moments]))

    def _found(self, messages: Ints) -> FirstLook | None:
        if not len(messages):
            return None
        rows, which = self._rows, self._which[messages]
        members, found = self._members(messages), self._kinds.are_found(which)
        whose, last = self._kinds.last(which)
        queues, after_us = (np.concatenate(each) for each in zip(*self._waited, strict=True))
        alike = None
        if found.any():
            alike = alike_of(self._kinds, which[found], self._times_us[messages[found]], members.only(found))
        return FirstLook(
            alike,
            None if found.all() else self._waiting(messages[~found], members.only(~found)),
            Waits(self._kinds.queues.values, queues, after_us),
            self._last_seen(rows.starts[messages][whose] + last),
        )

    def _waiting(self, messages: Ints, members: Members) -> Waiting:
        numbers, which = np.unique(self._which[messages], return_inverse=True)
        whose, moments_us = (np.concatenate(each) for each in zip(*self._moments_us, strict=True))
        published = self._published[messages]
        keys = {
            number: (*self._known.rows.signatures.signature(number).routing_keys, "")[0]
            for number in set(self._rows.signatures[published].tolist())
        }
        return Waiting(
            [self._kinds.first_of(number) for number in numbers.tolist()],
            which,
            moments_us[np.argsort(whose, kind="stable")],
            members,
            [keys[number] for number in self._rows.signatures[published].tolist()],
            self._batch.captured.column("message_id").take(pa.array(published)).to_pylist(),
        )

    def _members(self, messages: Ints) -> Members:
        """Return what identifies messages, and what tells them from others: their first publishes."""
        rows, known = self._rows, self._known.rows
        lineages = self._batch.captured.column(LINEAGE).take(pa.array(rows.starts[messages]))
        vhosts, published = self._vhosts.take(pa.array(messages)), self._published[messages]
        signatures, contents = rows.signatures[published].astype(np.int64), rows.contents[published]
        marked = alike_rows(signatures, contents)
        first = firsts(marked)
        marks = [
            [*known.publish_marks(signature), *known.contents[content].marks]
            for signature, content in zip(signatures[first].tolist(), contents[first].tolist(), strict=True)
        ]
        return Members(read_messages(lineages, vhosts), marks, marked)

    @cached_property
    def _published(self) -> Ints:
        """The row in which each message was published first."""
        every = np.arange(len(self._rows.published))
        published: Ints = np.minimum.reduceat(np.where(self._rows.published, every, len(every)), self._rows.starts)
        return published

    def _last_seen(self, rows: Ints) -> dict[LastSeen, int]:
        """Return what the last deliveries of messages showed, and how many did so."""
        found: dict[LastSeen, int] = {}
        for number, many in counted(self._rows.signatures[rows]):
            count(found, self._known.rows.last_seen(number), many)
        return found

    def _slice(self, message: int) -> slice:
        start = int(self._rows.starts[message])
        return slice(start, start + int(self._rows.lengths[message]))

    @cached_property
    def _vhosts(self) -> pa.Array:
        """The virtual host of each message, as the log names it."""
        return self._batch.replayed.column("vhost").take(pa.array(self._rows.starts))


def _of_one_size(messages: Ints, shapes: Ints, moments: Moments) -> OfOneSize[bytes]:
    """Return messages of these shapes with these moments, as many each."""
    own = np.concatenate((shapes.astype(np.int32)[:, None].view(np.uint8), moments.order), axis=1)
    _, first, which = np.unique(own.view(f"V{own.shape[1]}").ravel(), return_index=True, return_inverse=True)
    return OfOneSize(messages, moments.times_us, [own[place].tobytes() for place in first.tolist()], which)
