"""What Spark runs on each partition to ask what would have been: reading stories, and playing them under both sides."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby, islice
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from dlx.releases import release
from simulator.definitions import parse_definitions
from simulator.replay.engines.gc_tuning import seldom_collecting
from simulator.replay.engines.spark import ReplayStep
from simulator.whatif.both_sides import Playbacks
from simulator.whatif.coupling import KNOWN_MAX, Reach
from simulator.whatif.delivery_order import put_in_order
from simulator.whatif.differences import Side
from simulator.whatif.log_rows import replayed_batches
from simulator.whatif.outcomes import Fates
from simulator.whatif.plain_player import WeightedCase
from simulator.whatif.playback import FirstRun, LogFacts, TooManyHeldError, TypicalWaits, Unseen
from simulator.whatif.playback_broker import QueueRef
from simulator.whatif.result import rows_of
from simulator.whatif.shared_player import SharedPlayer
from simulator.whatif.sides import PreparedSide, prepared
from simulator.whatif.stories import Story
from simulator.whatif.tally import Tally

BATCH = 500
STORIES = 5_000
"""Messages that are played for the first time before what came of them is given on."""
_FATES = msgspec.msgpack.Decoder(Fates)
_WAITS = pa.list_(pa.struct([("vhost", pa.string()), ("queue", pa.string()), ("after_us", pa.int64())]))
PASSED = pa.schema([
    ("coupled", pa.string()), ("began_us", pa.int64()), ("began_place", pa.float64()), ("message", pa.string()),
    ("reach", pa.string()), ("story", pa.binary()), ("waits", _WAITS), ("first", pa.binary()), ("fates", pa.binary()),
    ("waiting", pa.binary()), ("tally", pa.binary()), ("problem", pa.string()),
])  # fmt: skip
"""A message between two passes: what couples it, and when it begins;
how far it comes (``reach_of``) and its story, if it is still to be played;
how long it waited in each queue that it came into, and its first run, if the second is still to be played.
Or messages that nothing couples, those that fare alike in one row: how they wait for their second play, or what became
of them on both sides (``read_fates``); or the tally of many; or what makes it impossible to play those that depend on
each other.
"""
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

    def sides(self) -> tuple[PreparedSide, PreparedSide]:
        """Return both sides as brokers take them."""
        return _side(self.before, self.rules), _side(self.after, self.against)

    def playbacks(self, log: LogFacts, typical_waits: TypicalWaits) -> Playbacks:
        """Return what plays messages."""
        return _playbacks(self, log).knowing(typical_waits)


@lru_cache(maxsize=4)  # a worker has many partitions of the same question
def _side(definitions: bytes, rules: str) -> PreparedSide:
    return prepared(Side(parse_definitions(definitions, "definitions"), release(rules)))


@lru_cache(maxsize=2)
def _playbacks(asking: Asking, log: LogFacts) -> Playbacks:
    return Playbacks(*asking.sides(), asking.unseen, log)


@lru_cache(maxsize=2)
def _player(
    asking: Asking, log: LogFacts, coupling: frozenset[QueueRef], numbers: tuple[tuple[str, int], ...]
) -> SharedPlayer:
    return SharedPlayer(_playbacks(asking, log), coupling, asking.left, dict(numbers))


@lru_cache(maxsize=KNOWN_MAX)
def _written(reach: Reach) -> str:
    """Write the column ``reach``."""
    return msgspec.json.encode([sorted(reach.queues), sorted(reach.expiring), reach.is_clear]).decode()


def reach_of(text: str) -> Reach:
    """Read the column ``reach``."""
    *sets, is_clear = msgspec.json.decode(text)
    queues, expiring = (frozenset((vhost, queue) for vhost, queue in each) for each in sets)
    return Reach(queues, expiring, is_clear)


def read_fates(batch: pa.RecordBatch) -> Iterator[Fates]:
    """Read the column ``fates``."""
    yield from map(_FATES.decode, batch.column("fates").drop_null().to_pylist())


class StoriesStep:
    """Replays the rows of a partition, which are together by message and in order, and reads stories from them.

    Messages that come to no queue which couples them with others are played at once; the rest are given on.
    """

    def __init__(
        self,
        asking: Asking,
        log: LogFacts,
        coupling: frozenset[QueueRef],
        replay: ReplayStep,
        numbers: Mapping[str, int],
    ) -> None:
        self._asking, self._log, self._coupling = asking, log, coupling
        self._replay, self._numbers = replay, numbers

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from _batches(self._passed(batches))

    def stories(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Story]:
        """Yield the stories of all messages in these rows."""
        return self._player().stories(replayed_batches(self._replay, batches))

    def _player(self) -> SharedPlayer:
        return _player(self._asking, self._log, self._coupling, tuple(self._numbers.items()))

    def _passed(self, batches: Iterator[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
        tally, player = Tally(), self._player()
        stories = player.stories(tally.add_verdicts(replayed_batches(self._replay, batches)))
        while some := list(islice(stories, STORIES)):
            look = player.first(some)
            for story in look.coupled:
                reach = _written(player.playbacks.reaches.of(story))
                yield {"message": story.message, "reach": reach, **_pickled(story)}
            yield {"waits": _waits(look.waits_us)}
            yield from (_count_in(each, tally) for each in look.found)
            yield from ({"waiting": pickle.dumps(each)} for each in look.waiting)
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
    log: LogFacts
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
        """Play each message by itself under the log's own side."""
        firsts = map(self._playbacks.first_alone, _unpickled(batches, "story"))
        yield from _batches({"waits": _waits(first.waits_us), "waiting": pickle.dumps(first)} for first in firsts)

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
        """Play each message by itself, or together those that are alike, under the other side, and add them up."""
        player = SharedPlayer(self._playbacks, frozenset(), (), {})
        waiting = _unpickled(batches, "waiting")
        yield from _batches(_all_told(case for each in waiting for case in player.second(each)))

    def second_together(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Play all messages of a group on one broker under the other side, and add them up."""
        together = self._playbacks.together
        yield from _batches(
            self._together(
                _groups(batches, "first"),
                lambda own: _all_told(map(WeightedCase.of, together(own, held_max=self.held_max))),
            )
        )

    @property
    def _playbacks(self) -> Playbacks:
        return self.asking.playbacks(self.log, self.typical_waits)

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
        "message": first.story.message,
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


def _all_told(cases: Iterable[WeightedCase]) -> Iterator[dict[str, Any]]:
    """Yield what became of messages, and in the end their tally."""
    tally = Tally()
    yield from (_count_in(case, tally) for case in cases)
    yield {"tally": pickle.dumps(tally)}


def _count_in(weighted: WeightedCase, tally: Tally) -> dict[str, Any]:
    """Return what became of messages, and count them in."""
    tally.add(weighted)
    return {"fates": msgspec.msgpack.encode(weighted.fates)}


def rows_step(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write what became of messages as rows per message and side (``case_rows.SCHEMA``)."""
    for batch in batches:
        yield rows_of(read_fates(batch))


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
