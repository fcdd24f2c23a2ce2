"""What Spark runs on each partition to ask what would have been: reading stories, and playing them under both sides."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import groupby, islice
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from dlx.releases import release
from simulator.definitions import parse_definitions
from simulator.replay.spark_step import ReplayStep
from simulator.replay.whatif.case_rows import SCHEMA, rows_of
from simulator.replay.whatif.coupling import Reach, Reaches
from simulator.replay.whatif.differences import Side
from simulator.replay.whatif.log_rows import replayed_rows
from simulator.replay.whatif.outcomes import read_stories
from simulator.replay.whatif.queue_order import put_in_order
from simulator.replay.whatif.rerun import NO_HABITS, First, Habits, Log, TooManyHeldError, Unseen
from simulator.replay.whatif.stories import Story
from simulator.replay.whatif.tally import Tally
from simulator.replay.whatif.what_if import Case, Prepared, Runs, prepared

BATCH = 500
_QUEUES = pa.list_(pa.struct([("vhost", pa.string()), ("queue", pa.string())]))
_WAITS = pa.list_(pa.struct([("vhost", pa.string()), ("queue", pa.string()), ("after_us", pa.int64())]))
_BEGAN = (("began_us", pa.int64()), ("began_place", pa.float64()))
STORIES = pa.schema([
    ("vhost", pa.string()), ("message", pa.string()), ("reach", pa.string()), ("end_us", pa.int64()),
    ("consumed", _QUEUES), ("story", pa.binary()), *_BEGAN,
])  # fmt: skip
"""A message: how far it comes (``reach_of``), its latest moment, what delivered it, its story, when that begins."""
ORDERED = pa.schema([("coupled", pa.string()), ("story", pa.binary()), *_BEGAN])
"""A message that is coupled with others, when what consumers did is in the order of the queues (``put_in_order``)."""
FIRST_RUNS = pa.schema([
    ("coupled", pa.string()), ("message", pa.string()), ("waits", _WAITS), ("first", pa.binary()), *_BEGAN,
    ("problem", pa.string()),
])  # fmt: skip
"""A message: what couples it, how long it waited in each queue that it came into, its first run; or only a problem."""
CASES = pa.schema([*SCHEMA, ("coupled", pa.string()), ("tally", pa.binary()), ("problem", pa.string())])
"""A row per message and side; or a tally, and nothing else but what couples its messages; or a problem with these."""
IN_ORDER = ("coupled", "began_us", "began_place")
"""The order in which messages that belong together are played."""


class Asking(NamedTuple):
    """What is asked, small to ship: the definitions of both sides are JSON."""

    before: bytes
    rules: str
    after: bytes
    against: str
    unseen: Unseen
    left: frozenset[str]

    @classmethod
    def of(cls, before: Side, after: Side, unseen: Unseen, left: Iterable[str]) -> Asking:
        """Return what is asked of these sides."""
        definitions, others = before.definitions.to_json(), after.definitions.to_json()
        return cls(definitions, before.release.name, others, after.release.name, unseen, frozenset(left))

    def sides(self) -> tuple[Prepared, Prepared]:
        """Return both sides as brokers take them."""
        return _side(self.before, self.rules), _side(self.after, self.against)

    def runs(self, log: Log, habits: Habits = NO_HABITS) -> Runs:
        """Return what plays messages."""
        return Runs(*self.sides(), self.unseen, log, habits)


@lru_cache(maxsize=4)  # a worker has many partitions of the same question
def _side(definitions: bytes, rules: str) -> Prepared:
    return prepared(Side(parse_definitions(definitions, "definitions"), release(rules)))


def reach_of(text: str) -> Reach:
    """Read the column ``reach``."""
    return Reach(*(frozenset((vhost, queue) for vhost, queue in queues) for queues in msgspec.json.decode(text)))


class StoriesStep:
    """Replays the rows of a partition, which are together by message and in order, and reads stories from them."""

    def __init__(self, asking: Asking, replay: ReplayStep, numbers: Mapping[str, int]) -> None:
        self._asking, self._replay, self._numbers = asking, replay, numbers

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        before, after = self._asking.sides()
        reaches = Reaches((before.flows, after.flows))
        rows = replayed_rows(self._replay, batches, self._numbers)
        stories = read_stories(rows, before.flows, only=before.only_vhost, left=self._asking.left)
        while some := list(islice(stories, BATCH)):
            yield pa.RecordBatch.from_pylist([_as_row(story, reaches) for story in some], schema=STORIES)


def _as_row(story: Story, reaches: Reaches) -> dict[str, Any]:
    log = Log.of([story])
    return {
        "vhost": story.vhost,
        "message": story.message,
        "reach": msgspec.json.encode([sorted(queues) for queues in reaches.of(story)]).decode(),
        "end_us": log.end_us,
        "consumed": [{"vhost": vhost, "queue": queue} for vhost, queue in sorted(log.consumed)],
        **_pickled(story),
    }


def _pickled(story: Story) -> dict[str, Any]:
    began_us, began_place = story.began
    return {"story": pickle.dumps(story), "began_us": began_us, "began_place": began_place}


class OrderStep:
    """Puts coupled messages into the order of their queues: they come, group by group, in the order ``IN_ORDER``."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        flows = self._asking.sides()[0].flows
        found = (
            {"coupled": coupled, **_pickled(story)}
            for coupled, own in _groups(batches, "story")
            for story in put_in_order(own, flows)
        )
        yield from _batches(found, ORDERED)


class FirstRunsStep:
    """Plays messages under the log's own side: each by itself, or together those that share what couples them.

    Those that are played together come in the order ``IN_ORDER`` and go as soon as they are over; at most ``held_max``
    are held at one time.
    """

    def __init__(self, asking: Asking, log: Log, held_max: int) -> None:
        self._asking, self._log, self._held_max = asking, log, held_max

    def alone(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Play each message of a partition by itself."""
        runs = self._asking.runs(self._log)
        played = (each for story in _unpickled(batches, "story") for each in runs.first([story]))
        yield from _batches((_first_run(each.first, None) for each in played), FIRST_RUNS)

    def together(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Play all messages of a group on one stage."""
        yield from _batches(self._together(batches), FIRST_RUNS)

    def _together(self, batches: Iterator[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
        runs = self._asking.runs(self._log)
        for coupled, own in _groups(batches, "story"):
            try:
                for each in runs.first(own, held_max=self._held_max):
                    yield _first_run(each.first, coupled)
            except TooManyHeldError as error:
                yield {"coupled": coupled, "problem": str(error)}


def _first_run(first: First, coupled: str | None) -> dict[str, Any]:
    waits = [
        {"vhost": first.story.vhost, "queue": queue, "after_us": stay.after_us if stay.end == "delivered" else None}
        for queue, some in first.stays.items()
        for stay in some
    ]
    began_us, began_place = first.story.began
    return {
        "coupled": coupled,
        "message": first.story.message,
        "waits": waits,
        "first": pickle.dumps(first),
        "began_us": began_us,
        "began_place": began_place,
    }


class CasesStep:
    """Plays messages under the other side, and adds them up."""

    def __init__(self, asking: Asking, log: Log, habits: Habits, held_max: int) -> None:
        self._asking, self._log, self._habits, self._held_max = asking, log, habits, held_max

    def alone(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Play each message of a partition by itself."""
        runs = self._asking.runs(self._log, self._habits)
        yield from _told(map(runs.alone, _unpickled(batches, "first")), None)

    def together(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Play all messages of a group on one stage; they come as in a first run."""
        runs = self._asking.runs(self._log, self._habits)
        for coupled, own in _groups(batches, "first"):
            try:
                yield from _told(runs.together(own, held_max=self._held_max), coupled)
            except TooManyHeldError as error:
                yield pa.RecordBatch.from_pylist([{"coupled": coupled, "problem": str(error)}], schema=CASES)


def _told(cases: Iterable[Case], coupled: str | None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of cases, and in the end their tally."""
    tally, left = Tally(), iter(cases)
    while some := list(islice(left, BATCH)):
        for case in some:
            tally.add(case)
        found = rows_of(some)
        nothing = (pa.nulls(len(found), field.type) for field in CASES if field.name not in SCHEMA.names)
        yield pa.RecordBatch.from_arrays([*found.columns, *nothing], schema=CASES)
    yield pa.RecordBatch.from_pylist([{"coupled": coupled, "tally": pickle.dumps(tally)}], schema=CASES)


def _unpickled(batches: Iterable[pa.RecordBatch], column: str) -> Iterator[Any]:
    return (pickle.loads(each.as_py()) for batch in batches for each in batch.column(column))


def _groups(batches: Iterable[pa.RecordBatch], column: str) -> Iterator[tuple[str, Iterator[Any]]]:
    """Yield what couples messages, and what one column holds of them, as it is read."""
    rows = (row for batch in batches for row in zip(batch.column("coupled"), batch.column(column), strict=True))
    for coupled, own in groupby(rows, key=lambda row: row[0].as_py()):
        yield coupled, (pickle.loads(each.as_py()) for _, each in own)


def _batches(rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    left = iter(rows)
    while some := list(islice(left, BATCH)):
        yield pa.RecordBatch.from_pylist(some, schema=schema)
