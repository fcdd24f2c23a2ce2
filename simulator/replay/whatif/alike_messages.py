"""Looks at the messages of a log in columns: of those that are alike, it reads and plays one.

Messages are alike when their rows are, but for times and for keys that no exchange tells apart (``row_numbers``), and
their moments have the same order (``moments``). Where one of them comes to no queue where messages meet, others fare
as it does if all that its plays on both sides planned has the same order, too (``kind_times``). Those that do not are
compared with the next one that was played. Other messages are read one by one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from simulator.replay.alike import Ints, alike_rows, alike_sequences, firsts, places_of
from simulator.replay.row_codec import LINEAGE, read_message
from simulator.replay.whatif.both_ends import BothEnds, Way
from simulator.replay.whatif.fates import AlikeFates, count
from simulator.replay.whatif.hidden_ends import LastSeen
from simulator.replay.whatif.kind_times import times_of_kind
from simulator.replay.whatif.kinds import SINGLE, Kind, Kinds, Stayed
from simulator.replay.whatif.log_rows import Replayed, places_in_log, rows_of
from simulator.replay.whatif.marks import Mark
from simulator.replay.whatif.moments import MOMENTS_MAX, Moments, MomentsOf
from simulator.replay.whatif.outcomes import read_stories
from simulator.replay.whatif.row_numbers import Bools, RowNumbers
from simulator.replay.whatif.stage import Queue
from simulator.replay.whatif.stories import Story
from simulator.replay.whatif.what_if import Runs, TimedCase

KINDS_MAX = 30_000
"""So many kinds of messages are remembered, of some kilobytes each."""
VARIANTS_MAX = 20
"""So many kinds are told apart of messages whose moments have the same order, by what follows from these."""
EXAMPLES_MAX = 3
"""So many messages are named for each way of change: the first ones."""
STAYED = -1
"""How long a message waited in a queue from which it was not delivered."""


class Waits(NamedTuple):
    """How long messages waited in queues; ``which`` of the queues, and microseconds or ``STAYED``."""

    queues: Sequence[Queue]
    which: Ints
    after_us: Ints

    def by_queue(self) -> Iterator[tuple[Queue, list[int]]]:
        """Yield the queues that they came into, and how long those waited that were delivered from there."""
        for number in np.unique(self.which).tolist():
            waits_us = self.after_us[self.which == number]
            yield self.queues[number], waits_us[waits_us != STAYED].tolist()


class Alike(NamedTuple):
    """Messages of a batch that were looked at together.

    Attributes:
        fates: what becomes of each.
        ends: how they end, and how many do so.
        took_us: how long each took that is reproduced, before and after.
        not_reproduced: the others.
        waits: how long they waited, wherever they came.
        marks, marks_of_changed: what tells from others those that are reproduced, and those that end differently, and
            how many have it.
        last_seen: their last deliveries of which no recorder tells whether they were acknowledged, and how many there
            are.
    """

    fates: AlikeFates
    ends: Mapping[BothEnds, int]
    took_us: tuple[Ints, Ints]
    not_reproduced: Sequence[str]
    waits: Waits
    marks: Mapping[Mark, int]
    marks_of_changed: Mapping[Mark, int]
    last_seen: Mapping[LastSeen, int]


class AlikeMessages:
    """Tells messages that are alike from others. What it knows holds for all batches of a log.

    Args:
        runs: plays messages.
        coupling: the queues where messages meet.
        left: the files whose rows are no deliveries, but what was found in the queues in the end.
        numbers: those of the log's files (``file_numbers``).
    """

    def __init__(
        self, runs: Runs, coupling: frozenset[Queue], left: Collection[str], numbers: Mapping[str, int]
    ) -> None:
        self.runs, self._coupling, self._left, self.file_numbers = runs, coupling, left, numbers
        self.rows = RowNumbers(runs.reaches, runs.before.only_vhost, left)
        self._shapes: dict[bytes, int] = {}
        self._single: list[bool] = []
        self.kinds = Kinds()
        self._examples: dict[Way, list[tuple[str, str]]] = {}

    def messages(self, batches: Iterable[Replayed]) -> Iterator[Story | Alike]:
        """Yield what is alike together, and the stories of other messages."""
        found: deque[Alike] = deque()
        self._examples.clear()

        def others() -> Iterator[Replayed]:
            for batch in batches:
                looked = _Batch(self, batch)
                if looked.alike is not None:
                    found.append(looked.alike)
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
            self._shapes.clear()
            self._single.clear()
            self.kinds = Kinds()

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
        timed = self.runs.timed(example.story)
        self.kinds.add(key, None if timed is None else _kind(timed, example))

    def is_example(self, way: Way, name: tuple[str, str]) -> bool:
        """Tell whether a message is needed as an example for a way of change: the answer names the first ones.

        ``name`` is its virtual host and its identity.
        """
        known = self._examples.setdefault(way, [])
        if len(known) >= EXAMPLES_MAX and name > known[-1]:
            return False
        known[:] = sorted({*known, name})[:EXAMPLES_MAX]
        return True


def _kind(timed: TimedCase, example: _Example) -> Kind | None:
    """Return what messages have that are alike, if all that happened follows from their moments."""
    case, times = timed.case, times_of_kind(example.times_us, timed.first, timed.others)
    if times is None:
        return None
    traced = [each for each in case.story.deliveries if each.traced]
    return Kind(
        fates=case.fates,
        ends=BothEnds.of(case),
        last=[row for row, each in zip(example.delivered, traced, strict=True) if each.may_be_hidden],
        timetable=times.timetable,
        times=times.ends,
        stays=[
            Stayed((case.story.vhost, queue), times.before[since], times.before[until], end == "delivered")
            for queue, some in timed.first.play.stays
            for end, since, until in some
        ],
    )


class _Example(NamedTuple):
    """A message that stands for those that are alike: its story, its moments, and which of its rows are deliveries."""

    story: Story
    times_us: Sequence[int]
    delivered: Sequence[int]


class _Batch:
    """One batch.

    Attributes:
        alike: the messages that are looked at together, if there are any.
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
        self._places = places_in_log(batch.captured, known.file_numbers)
        self._stories: dict[int, Story | None] = {}
        self._look(np.flatnonzero(~self._rows.single))
        self.alike = self._alike(np.flatnonzero(self._which != SINGLE))
        rest = pa.array(np.repeat(self._which == SINGLE, self._rows.lengths))
        self.others = Replayed(batch.captured.filter(rest), batch.replayed.filter(rest))

    def _look(self, messages: Ints) -> None:
        """Find the kinds of messages."""
        shapes = self._shapes(messages)
        looked = np.array([not self._known.is_single(shape) for shape in shapes.tolist()], bool)
        sizes = [*self._of_sizes(messages[looked], shapes[looked])]
        for nth in range(VARIANTS_MAX):
            self._know(sizes, nth)
            sizes = [left for size in sizes if len((left := self._note(size, nth)).messages)]

    def _know(self, sizes: Iterable[_OfOneSize], nth: int) -> None:
        """Play one message of each key of which there are not so many kinds yet."""
        unknown: dict[bytes, tuple[int, Sequence[int]]] = {}
        for size in sizes:
            for number, place in enumerate(firsts(size.which).tolist()):
                if len(self._kinds.numbers(key := size.keys[number])) <= nth:
                    unknown[key] = int(size.messages[place]), size.times_us[place].tolist()
        self._read([message for message, _ in unknown.values()])
        for key, (message, times_us) in unknown.items():
            self._known.know_kind(key, self._example(message, times_us))

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

    def _of_sizes(self, messages: Ints, shapes: Ints) -> Iterator[_OfOneSize]:
        """Yield together messages that have as many moments."""
        if not len(messages):
            return
        rows, known = self._rows, self._known
        hops = np.add.reduceat(rows.hops, rows.starts)[messages]
        moments = MomentsOf(
            rows,
            self._batch.captured.column("time_us").to_numpy(),
            self._places,
            known.runs.holding_us,
            known.runs.log.end_us,
        )
        sizes = alike_rows(rows.lengths[messages], hops)
        for size, first in enumerate(firsts(sizes).tolist()):
            if MomentsOf.count(int(rows.lengths[messages[first]]), int(hops[first])) <= MOMENTS_MAX:
                own = np.flatnonzero(sizes == size)
                found = moments.of(messages[own], int(hops[first]))
                yield _OfOneSize.of(messages[own], shapes[own], found)

    def _example(self, message: int, times_us: Sequence[int]) -> _Example:
        story = self._stories[message]
        assert story is not None  # else its shape would say so
        own = self._slice(message)
        delivered = self._rows.delivered[own] & ~self._rows.left[own]
        return _Example(story, times_us, np.flatnonzero(delivered).tolist())

    def _read(self, messages: Iterable[int]) -> None:
        """Read the stories of some messages; those in virtual hosts that the definitions do not have are none."""
        known, flows = self._known, self._known.runs.before.flows
        wanted = sorted({*messages} - self._stories.keys())
        self._stories |= dict.fromkeys(wanted)
        wanted = [message for message in wanted if known.rows.vhost(self._named[message]) in flows]
        if not wanted:
            return
        rows = pa.array(places_of(self._rows.starts[wanted], self._rows.lengths[wanted])[0])
        batch = Replayed(self._batch.captured.take(rows), self._batch.replayed.take(rows))
        self._stories |= zip(wanted, known.stories([batch]), strict=True)

    def _note(self, size: _OfOneSize, nth: int) -> _OfOneSize:
        """Note messages that have that kind of their key, but for examples; return those that have another one."""
        numbers = np.array([self._kinds.numbers(key)[nth] for key in size.keys], np.int64)
        kinds = numbers[size.which]
        messages, kinds = size.messages[kinds != SINGLE], kinds[kinds != SINGLE]
        times_us, fits = self._kinds.times_us(kinds, size.times_us[numbers[size.which] != SINGLE])
        self._note_of(messages[fits], kinds[fits], times_us[fits])
        return size.only(np.isin(size.messages, messages[~fits]))

    def _note_of(self, messages: Ints, kinds: Ints, times_us: Ints) -> None:
        """Note messages of these kinds, with these times."""
        shown = np.isin(np.arange(len(kinds)), self._examples(messages, kinds))
        messages, kinds, times_us = messages[~shown], kinds[~shown], times_us[~shown]
        self._which[messages] = kinds
        self._times_us[messages] = np.take_along_axis(times_us, self._kinds.times(kinds), axis=1)
        whose, queues, since, until, delivered = self._kinds.stays(kinds)
        after_us = times_us[whose, until] - times_us[whose, since]
        self._waited.append((queues, np.where(delivered, after_us, STAYED)))

    def _examples(self, messages: Ints, kinds: Ints) -> list[int]:
        """Return which of these messages are needed as examples."""
        changing = np.isin(kinds, self._kinds.changing)
        found = []
        for place in np.flatnonzero(changing).tolist():
            kind, message = self._kinds.values[kinds[place]], int(messages[place])
            way, name = kind.ends.way, (kind.fates.vhost, self._name(message))
            if way is not None and self._known.is_example(way, name):
                found.append(place)
        return found

    def _name(self, message: int) -> str:
        lineage = self._batch.captured.column(LINEAGE)[int(self._rows.starts[message])].as_py()
        return read_message(lineage, self._named[message])

    def _alike(self, messages: Ints) -> Alike | None:
        if not len(messages):
            return None
        rows, which, kinds = self._rows, self._which[messages], self._kinds
        lineages = self._batch.captured.column(LINEAGE).take(pa.array(rows.starts[messages])).to_pylist()
        named = zip(lineages, (self._named[message] for message in messages.tolist()), strict=True)
        names = [read_message(*each) for each in named]
        numbers, own = np.unique(which, return_inverse=True)
        several = [kinds.values[number] for number in numbers.tolist()]
        times_us = self._times_us[messages]
        reproduced = np.array([kind.ends.reproduced for kind in several])[own]
        changed = reproduced & np.array([kind.ends.way is not None for kind in several])[own]
        whose, last = kinds.last(which)
        queues, after_us = (np.concatenate(each) for each in zip(*self._waited, strict=True))
        return Alike(
            fates=AlikeFates([kind.fates for kind in several], own.tolist(), names, times_us.ravel().tolist()),
            ends={kinds.ends.values[number]: many for number, many in _counted(kinds.ends_of(which))},
            took_us=(
                times_us[reproduced, 1] - times_us[reproduced, 0],
                times_us[reproduced, 3] - times_us[reproduced, 2],
            ),
            not_reproduced=[names[place] for place in np.flatnonzero(~reproduced).tolist()],
            waits=Waits(kinds.queues.values, queues, after_us),
            marks=self._marks(messages[reproduced]),
            marks_of_changed=self._marks(messages[changed]),
            last_seen=self._last_seen(rows.starts[messages][whose] + last),
        )

    def _marks(self, messages: Ints) -> dict[Mark, int]:
        """Return what tells messages from others, by their first publishes, and how many have it."""
        rows, known = self._rows, self._known.rows
        every = np.arange(len(rows.published))
        first = np.minimum.reduceat(np.where(rows.published, every, len(every)), rows.starts)[messages]
        found: dict[Mark, int] = {}

        def note(marks: Iterable[Mark], many: int) -> None:
            for mark in marks:
                count(found, mark, many)

        for number, many in _counted(rows.signatures[first]):
            note(known.publish_marks(number), many)
        for number, many in _counted(rows.contents[first]):
            note(known.contents[number].marks, many)
        return found

    def _last_seen(self, rows: Ints) -> dict[LastSeen, int]:
        """Return what the last deliveries of messages showed, and how many did so."""
        found: dict[LastSeen, int] = {}
        for number, many in _counted(self._rows.signatures[rows]):
            count(found, self._known.rows.last_seen(number), many)
        return found

    def _slice(self, message: int) -> slice:
        start = int(self._rows.starts[message])
        return slice(start, start + int(self._rows.lengths[message]))

    @cached_property
    def _named(self) -> list[str]:
        """The virtual host of each message, as the log names it."""
        named: list[str] = self._batch.replayed.column("vhost").take(pa.array(self._rows.starts)).to_pylist()
        return named


class _OfOneSize(NamedTuple):
    """Messages that have as many moments.

    Attributes:
        messages: which of the batch.
        times_us: their moments.
        keys: what those have whose rows are alike, and whose moments have the same order.
        which: the key of each message.
    """

    messages: Ints
    times_us: Ints
    keys: Sequence[bytes]
    which: Ints

    @classmethod
    def of(cls, messages: Ints, shapes: Ints, moments: Moments) -> _OfOneSize:
        """Return messages of these shapes with these moments."""
        own = np.concatenate((shapes.astype(np.int32)[:, None].view(np.uint8), moments.order), axis=1)
        _, first, which = np.unique(own.view(f"V{own.shape[1]}").ravel(), return_index=True, return_inverse=True)
        return cls(messages, moments.times_us, [own[place].tobytes() for place in first.tolist()], which)

    def only(self, chosen: Bools) -> _OfOneSize:
        """Return some of them."""
        used, which = np.unique(self.which[chosen], return_inverse=True)
        keys = [self.keys[number] for number in used.tolist()]
        return _OfOneSize(self.messages[chosen], self.times_us[chosen], keys, which)


def _counted(numbers: npt.NDArray[np.signedinteger[Any]]) -> Iterator[tuple[int, int]]:
    """Yield numbers, and how often each is there."""
    values, counts = np.unique(numbers, return_counts=True)
    return zip(values.tolist(), counts.tolist(), strict=True)
