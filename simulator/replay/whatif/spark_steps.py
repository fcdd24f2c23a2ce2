"""What Spark runs on each partition to ask what would have been: reading stories, and playing them under both sides."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from dlx.releases import release
from simulator.definitions import parse_definitions
from simulator.replay.whatif.case_rows import SCHEMA, rows_of
from simulator.replay.whatif.coupling import Reach, Reaches
from simulator.replay.whatif.differences import Side
from simulator.replay.whatif.fates import Fate
from simulator.replay.whatif.outcomes import read_stories
from simulator.replay.whatif.queue_order import put_in_order
from simulator.replay.whatif.rerun import NO_HABITS, Habits, Log, Stays, Unseen
from simulator.replay.whatif.stories import Story
from simulator.replay.whatif.tally import Tally
from simulator.replay.whatif.what_if import Case, Prepared, Runs, prepared

BATCH = 500
_QUEUES = pa.list_(pa.struct([("vhost", pa.string()), ("queue", pa.string())]))
_WAITS = pa.list_(pa.struct([("vhost", pa.string()), ("queue", pa.string()), ("after_us", pa.int64())]))
STORIES = pa.schema([
    ("vhost", pa.string()), ("message", pa.string()), ("reach", pa.string()), ("end_us", pa.int64()),
    ("consumed", _QUEUES), ("story", pa.binary()),
])  # fmt: skip
"""A message: how far it comes (``reach_of``), its latest moment, what delivered it, and its story."""
FIRST_RUNS = pa.schema([
    ("coupled", pa.string()), ("messages", pa.list_(pa.string())), ("waits", _WAITS), ("first", pa.binary()),
])  # fmt: skip
"""Messages that are played together: by which queues, how long they waited in each that they came into, the run."""
CASES = pa.schema([*SCHEMA, ("coupled", pa.string()), ("tally", pa.binary())])
"""A row per message and side; or a tally, and nothing else but what couples its messages."""


class FirstRun(NamedTuple):
    """Messages that belong together, and their first run."""

    stories: list[Story]
    fates: list[Fate]
    stays: Stays


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
    """Reads stories from the rows of a partition, which are together by message and in order (``outcomes.ROWS``)."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        before, after = self._asking.sides()
        reaches = Reaches((before.flows, after.flows))
        rows = (row for batch in batches for row in batch.to_pylist())
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
        "story": pickle.dumps(story),
    }


class FirstRunsStep:
    """Plays messages under the log's own side: each by itself, or all that share what couples them."""

    def __init__(self, asking: Asking, log: Log) -> None:
        self._asking, self._log = asking, log

    def alone(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Play each message of a partition by itself."""
        runs = self._asking.runs(self._log)
        for batch in batches:
            played = (_first_run(runs, [pickle.loads(each)], None) for each in batch.column("story").to_pylist())
            yield pa.RecordBatch.from_pylist(list(played), schema=FIRST_RUNS)

    def together(self, key: tuple[Any, ...], rows: pa.Table) -> pa.Table:
        """Play all messages of a group on one stage."""
        runs = self._asking.runs(self._log)
        ordered = rows.sort_by([("vhost", "ascending"), ("message", "ascending")])
        own = [pickle.loads(each) for each in ordered.column("story").to_pylist()]
        put_in_order(own, runs.before.flows)
        return pa.Table.from_pylist([_first_run(runs, own, key[0].as_py())], schema=FIRST_RUNS)


def _first_run(runs: Runs, own: list[Story], coupled: str | None) -> dict[str, Any]:
    run = runs.first(own)
    stays = dict(run.stays)
    waits = [
        {"vhost": own[number].vhost, "queue": queue, "after_us": stay.after_us if stay.end == "delivered" else None}
        for (number, queue), some in stays.items()
        for stay in some
    ]
    return {
        "coupled": coupled,
        "messages": [story.message for story in own],
        "waits": waits,
        "first": pickle.dumps(FirstRun(own, run.fates(), stays)),
    }


class CasesStep:
    """Plays messages under the other side, and adds them up."""

    def __init__(self, asking: Asking, log: Log, habits: Habits) -> None:
        self._asking, self._log, self._habits = asking, log, habits

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        runs = self._asking.runs(self._log, self._habits)
        alone = Tally()
        for batch in batches:
            for coupled, first in zip(batch.column("coupled"), batch.column("first"), strict=True):
                cases = cases_of(runs, first.as_py())
                if coupled.is_valid:
                    yield _tallied(Tally(cases), coupled.as_py())
                else:
                    for case in cases:
                        alone.add(case)
                yield from _rows(cases)
        yield _tallied(alone, None)


def cases_of(runs: Runs, first: bytes) -> list[Case]:
    """Return the cases of messages whose first run is over."""
    return runs.cases(*pickle.loads(first))


def _rows(cases: list[Case]) -> Iterator[pa.RecordBatch]:
    found = rows_of(cases)
    nothing = (pa.nulls(len(found), CASES.field(name).type) for name in ("coupled", "tally"))
    yield pa.RecordBatch.from_arrays([*found.columns, *nothing], schema=CASES)


def _tallied(tally: Tally, coupled: str | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"coupled": coupled, "tally": pickle.dumps(tally)}], schema=CASES)
