"""What Spark runs on each partition to ask what would have been: reading stories, and playing them under both sides."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from dlx.releases import release
from simulator.definitions import parse_definitions
from simulator.replay.engines.gc_tuning import seldom_collecting
from simulator.replay.engines.spark import ReplayStep
from simulator.whatif.both_sides import ComparedMessage, Playbacks
from simulator.whatif.consumer_actions import read_stories
from simulator.whatif.coupling import KNOWN_MAX, Reach
from simulator.whatif.delivery_order import put_in_order
from simulator.whatif.differences import Side
from simulator.whatif.log_rows import replayed_batches, rows_of
from simulator.whatif.playback import FirstRun, LogFacts, TooManyHeldError, TypicalWaits, Unseen
from simulator.whatif.playback_broker import QueueRef
from simulator.whatif.result import SCHEMA, rows_of_case
from simulator.whatif.sides import PreparedSide, prepared
from simulator.whatif.stories import Story
from simulator.whatif.tally import Tally

BATCH = 500
_WAITS = pa.list_(pa.struct([("vhost", pa.string()), ("queue", pa.string()), ("after_us", pa.int64())]))
PASSED = pa.schema([
    ("coupled", pa.string()), ("began_us", pa.int64()), ("began_place", pa.float64()), ("reach", pa.string()),
    ("story", pa.binary()), ("waits", _WAITS), ("first", pa.binary()), ("rows", pa.list_(pa.struct(list(SCHEMA)))),
    ("tally", pa.binary()), ("problem", pa.string()),
])  # fmt: skip
"""A message between two passes: what couples it, and when it begins;
how far it comes (``reach_of``) and its story, if it is still to be played;
how long it waited in each queue that it came into, and its first run, if the second is still to be played;
or what became of it on both sides, in two rows.
Or the tally of many messages; or what makes it impossible to play those that depend on each other.
"""
IN_ORDER = ("coupled", "began_us", "began_place")
"""The order in which messages that belong together are played."""


class Asking(NamedTuple):
    """What is asked, small to ship: the definitions of both sides are JSON. ``log`` is known once the log was read."""

    before: bytes
    rules: str
    after: bytes
    against: str
    unseen: Unseen
    left: frozenset[str]
    log: LogFacts = LogFacts(0, frozenset())

    @classmethod
    def of(cls, before: Side, after: Side, unseen: Unseen, left: Iterable[str]) -> Asking:
        """Return what is asked of these sides."""
        definitions, others = before.definitions.to_json(), after.definitions.to_json()
        return cls(definitions, before.release.name, others, after.release.name, unseen, frozenset(left))

    def sides(self) -> tuple[PreparedSide, PreparedSide]:
        """Return both sides as brokers take them."""
        return _side(self.before, self.rules), _side(self.after, self.against)

    def playbacks(self, typical_waits: TypicalWaits) -> Playbacks:
        """Return what plays messages. ``typical_waits`` is known after all first runs, and empty before."""
        return _playbacks(self).knowing(typical_waits)


@lru_cache(maxsize=4)  # a worker has many partitions of the same question
def _side(definitions: bytes, rules: str) -> PreparedSide:
    return prepared(Side(parse_definitions(definitions, "definitions"), release(rules)))


@lru_cache(maxsize=2)
def _playbacks(asking: Asking) -> Playbacks:
    return Playbacks(*asking.sides(), asking.unseen, asking.log)


@lru_cache(maxsize=KNOWN_MAX)
def _written(reach: Reach) -> str:
    """Write the column ``reach``."""
    return msgspec.json.encode([sorted(reach.queues), sorted(reach.expiring), reach.is_clear]).decode()


def reach_of(text: str) -> Reach:
    """Read the column ``reach``."""
    *sets, is_clear = msgspec.json.decode(text)
    queues, expiring = (frozenset((vhost, queue) for vhost, queue in each) for each in sets)
    return Reach(queues, expiring, is_clear)


class StoriesStep(NamedTuple):
    """Replays the rows of a partition, which are together by message and in order, and reads stories from them.

    ``file_numbers`` are those of the log's files.
    """

    asking: Asking
    replay: ReplayStep
    file_numbers: Mapping[str, int]

    def read(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the stories of all messages, with how far each comes."""
        yield from _batches(self._passed(batches))

    def stories(self, batches: Iterator[pa.RecordBatch], tally: Tally) -> Iterator[Story]:
        """Yield the stories of all messages in these rows. ``tally`` takes the verdicts on them."""
        before, _ = self.asking.sides()
        rows = rows_of(tally.add_verdicts(replayed_batches(self.replay, batches)), self.file_numbers)
        return read_stories(rows, before.flows, only=before.only_vhost, left=self.asking.left)

    def _passed(self, batches: Iterator[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
        tally, reaches = Tally(), self.asking.playbacks({}).reaches
        for story in self.stories(batches, tally):
            yield {"reach": _written(reaches.of(story)), **_pickled(story)}
        yield {"tally": pickle.dumps(tally)}


def _pickled(story: Story) -> dict[str, Any]:
    began_us, began_place = story.began
    return {"story": pickle.dumps(story), "began_us": began_us, "began_place": began_place}


class PlayStep(NamedTuple):
    """Plays the messages of a partition: each by itself, or together those that share what couples them.

    Those that are played together come in the order ``IN_ORDER`` and go as soon as they are over; at most ``held_max``
    are held at one time. ``typical_waits`` is known after all first runs, and empty before.
    """

    asking: Asking
    held_max: int
    typical_waits: TypicalWaits

    def put_in_order(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Put coupled messages into the order of their queues."""
        flows = self.asking.sides()[0].flows
        yield from _batches(
            {"coupled": coupled, **_pickled(story)}
            for coupled, own in _groups(batches, "story")
            for story in put_in_order(own, flows)
        )

    def first_alone(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Play each message by itself under the log's own side; often that tells how it fares on the other side."""
        yield from _batches(self._first_alone(_unpickled(batches, "story")))

    def _first_alone(self, stories: Iterator[Story]) -> Iterator[dict[str, Any]]:
        tally, playbacks = Tally(), self._playbacks
        for first in map(playbacks.first_alone, stories):
            case = playbacks.at_once(first)
            found = {"first": pickle.dumps(first)} if case is None else _count_in(case, tally)
            yield {"waits": _waits(first.waits_us), **found}
        yield {"tally": pickle.dumps(tally)}

    def first_together(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Play all messages of a group on one broker under the log's own side."""
        first = self._playbacks.first
        yield from _batches(
            self._together(
                _groups(batches, "story"),
                lambda own: (_first_run(each.first) for each in first(own, held_max=self.held_max)),
            )
        )

    def second_alone(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Play each message by itself under the other side, and add them up."""
        yield from _batches(_all_told(map(self._playbacks.alone, _unpickled(batches, "first"))))

    def second_together(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Play all messages of a group on one broker under the other side, and add them up."""
        together = self._playbacks.together
        yield from _batches(
            self._together(
                _groups(batches, "first"),
                lambda own: _all_told(together(own, held_max=self.held_max)),
            )
        )

    @property
    def _playbacks(self) -> Playbacks:
        return self.asking.playbacks(self.typical_waits)

    def _together(
        self,
        groups: Iterable[tuple[str, Iterator[Any]]],
        play: Callable[[Iterator[Any]], Iterable[Mapping[str, Any]]],
    ) -> Iterator[dict[str, Any]]:
        """Yield what comes of groups, or that one is too many to be held."""
        for coupled, own in groups:
            try:
                for row in play(own):
                    yield {"coupled": coupled, **row}
            except TooManyHeldError as error:
                yield {"coupled": coupled, "problem": str(error)}


def _first_run(first: FirstRun) -> dict[str, Any]:
    began_us, began_place = first.story.began
    return {
        "waits": _waits(first.waits_us),
        "first": pickle.dumps(first),
        "began_us": began_us,
        "began_place": began_place,
    }


def _waits(waits_us: Mapping[QueueRef, Sequence[int]]) -> list[dict[str, Any]]:
    """Return how long messages waited in queues; ``None`` says that they came there."""
    return [
        {"vhost": vhost, "queue": queue, "after_us": after_us}
        for (vhost, queue), several in waits_us.items()
        for after_us in (None, *several)
    ]


def _all_told(cases: Iterable[ComparedMessage]) -> Iterator[dict[str, Any]]:
    """Yield what became of messages, and in the end their tally."""
    tally = Tally()
    yield from (_count_in(case, tally) for case in cases)
    yield {"tally": pickle.dumps(tally)}


def _count_in(case: ComparedMessage, tally: Tally) -> dict[str, Any]:
    """Return what became of a message, and count it in."""
    tally.add(case)
    return {"rows": list(rows_of_case(case))}


def _unpickled(batches: Iterable[pa.RecordBatch], column: str) -> Iterator[Any]:
    return (pickle.loads(each.as_py()) for batch in batches for each in batch.column(column).drop_null())


def _groups(batches: Iterable[pa.RecordBatch], column: str) -> Iterator[tuple[str, Iterator[Any]]]:
    """Yield what couples messages, and what one column holds of them, as it is read."""
    rows = (row for batch in batches for row in zip(batch.column("coupled"), batch.column(column), strict=True))
    for coupled, own in groupby(rows, key=lambda row: row[0].as_py()):
        yield coupled, (pickle.loads(each.as_py()) for _, each in own)


def _batches(rows: Iterable[Mapping[str, Any]]) -> Iterator[pa.RecordBatch]:
    """Yield a few rows at a time. Both sides are there all the time: to look for garbage among them takes long."""
    some: list[Mapping[str, Any]] = []
    with seldom_collecting():
        for each in rows:
            some.append(each)
            if len(some) == BATCH:
                yield pa.RecordBatch.from_pylist(some, schema=PASSED)
                some.clear()
        yield pa.RecordBatch.from_pylist(some, schema=PASSED)
