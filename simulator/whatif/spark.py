"""Asks a log on Spark: messages are read and played where their rows are, and only totals come to the driver.

One shuffle brings the rows of a message together. Then there are three passes. The first reads the stories of all
messages. The second plays them under the log's own side, by themselves or together with those that queues couple them
with; often that tells how a message by itself fares on the other side, too. The third plays the rest under the other
side, since it is known by then how long messages usually wait.

Messages that queues couple are brought together once more and sorted by time, which Spark does on the disk, and
played as they come: a task holds those of them that wait somewhere, however long the log is.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager

import msgspec
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from simulator.capture import CaptureError
from simulator.replay.engines.spark import arranged, replay_step
from simulator.replay.engines.spark_sessions import telling
from simulator.replay.kernel.kernel_input import kernel_rows
from simulator.replay.rows.row_codec import LINEAGE, LINEAGE_SQL
from simulator.replay.rows.tables import rows, select
from simulator.whatif.both_sides import ComparedMessage, Playbacks
from simulator.whatif.causes import TOGETHER_MAX, PlayedGroup
from simulator.whatif.coupling import Coupling, Reaches, Unit
from simulator.whatif.differences import Side
from simulator.whatif.log import Captured, of_the_log
from simulator.whatif.log_rows import BESIDE
from simulator.whatif.playback import TypicalWaits, Unseen
from simulator.whatif.playback_broker import QueueRef
from simulator.whatif.result import SparkResult, conclusion
from simulator.whatif.spark_steps import (
    IN_ORDER,
    PASSED,
    Asking,
    PlayStep,
    StoriesStep,
    reach_of,
)
from simulator.whatif.tally import Tally

Progress = Callable[[str, float], object]
_SCHEMA = from_arrow_schema(PASSED)
HELD_MAX = 1_000_000
"""Messages that queues couple and that wait at one time: one task holds all of them in memory."""


def what_if_on_spark(
    captured: DataFrame,
    before: Side,
    after: Side,
    *,
    left: DataFrame | None = None,
    unseen: Unseen = "ack",
    examples: bool = False,
    progress: Progress = lambda what, share: None,
) -> SparkResult:
    """Return what would have become of the messages of a capture, as ``local.what_if_files`` does.

    ``progress`` is called with what is being done, and which share of it is done.

    Raises:
        CaptureError: files of ``left`` have the names of files in the log, or more messages than ``HELD_MAX`` that
            depend on each other wait at one time.
        DefinitionsError: the broker refuses the definitions of a side.
        MatchesNothingError: those of a side are of other virtual hosts or queues.
    """
    given = Captured.of(captured, left)
    asking = Asking.of(*of_the_log(given.overview, before, after), unseen, given.left_files)
    one, _ = asking.sides()
    asking = asking._replace(log=given.overview.log(one, given.left))

    def telling_of(what: str, stages: int) -> AbstractContextManager[None]:
        return telling(captured.sparkSession, stages, lambda share: progress(what, share))

    replayed = replay_step(given.rows, one.side.definitions, one.side.release.name, details=False)
    step = StoriesStep(asking, replayed, given.file_numbers)
    with ExitStack() as kept:
        stories = kept.enter_context(_kept(_read(given.rows).mapInArrow(step.read, _SCHEMA)))
        with telling_of("reading messages", 2):
            coupling, coupled_by = _coupling(stories, asking.playbacks({}).reaches)
        first_step = PlayStep(asking, HELD_MAX, {})
        first_runs = kept.enter_context(_kept(_first_runs(stories, coupled_by, first_step)))
        with telling_of("playing under the log's own settings", 3):
            _check_held(first_runs, coupling)
        typical_waits = _typical_waits(first_runs)
        playbacks = asking.playbacks(typical_waits)
        known, waiting = first_runs.filter("first IS NULL"), first_runs.filter("first IS NOT NULL")
        second = kept.enter_context(_kept(_second_runs(waiting, first_step._replace(typical_waits=typical_waits))))
        with telling_of("playing under the other settings", 2):
            _check_held(second, coupling)
        cases = known.unionAll(second)

        def cases_of(coupled: str | None, tally: Tally) -> list[ComparedMessage]:
            """Return one message for each way of change; of coupled ones all, if they are not too many."""
            if coupled is None:
                wanted = tally.examples()
                batches = _read(given.of_messages(wanted)).toArrow().to_batches()
                return playbacks.all_alone(step.stories(iter(batches), Tally()), wanted)
            return _coupled_cases(first_runs, coupled, playbacks) if tally.messages <= TOGETHER_MAX else []

        groups = [
            PlayedGroup(_unit(coupled, tally, coupling), tally, cases_of(coupled, tally) if tally.changed else [])
            for coupled, tally in _tallies(cases)
            if tally.messages
        ]
        read = Tally.whole(tally for _, tally in _tallies(stories))
        answer, tally, shown = conclusion(read, groups, playbacks, given, examples=examples)
        kept.pop_all()  # what became of messages stays there until the session ends
    units = tuple(group.unit for group in groups)
    return SparkResult(answer=answer, tally=tally, units=units, lives=shown, messages=cases.select(F.inline("rows")))


@contextmanager
def _kept(table: DataFrame) -> Iterator[DataFrame]:
    """Yield a table that is made only once."""
    kept = table.persist(StorageLevel.DISK_ONLY)
    try:
        yield kept
    finally:
        kept.unpersist()


def _read(captured: DataFrame) -> DataFrame:
    """Return what the kernel takes, the rows of a message together."""
    return kernel_rows(arranged(captured.withColumn(LINEAGE, F.expr(LINEAGE_SQL))), BESIDE)


def _coupling(stories: DataFrame, known: Reaches) -> tuple[Coupling, dict[str, str | None]]:
    """Return what couples the messages that are still to be played, and what stands for it by how far they come."""
    distinct = rows("SELECT DISTINCT reach FROM {stories} WHERE reach IS NOT NULL", stories=stories)
    reaches = {each["reach"]: reach_of(each["reach"]) for each in distinct}
    coupling = Coupling(reaches.values(), known.sides)
    return coupling, {text: _written(coupling.group(reach)) for text, reach in reaches.items()}


def _written(group: QueueRef | None) -> str | None:
    return None if group is None else msgspec.json.encode(group).decode()


def _first_runs(stories: DataFrame, coupled_by: Mapping[str, str | None], step: PlayStep) -> DataFrame:
    """Play messages under the log's own side."""
    waiting = stories.filter("story IS NOT NULL").drop("coupled")
    known = stories.sparkSession.createDataFrame(list(coupled_by.items()), "reach string, coupled string")
    marked = waiting.join(F.broadcast(known), "reach").select(*PASSED.names)
    alone = marked.filter("coupled IS NULL").mapInArrow(step.first_alone, _SCHEMA)
    ordered = _in_order(_in_order(marked.filter("coupled IS NOT NULL")).mapInArrow(step.put_in_order, _SCHEMA))
    return alone.unionAll(ordered.mapInArrow(step.first_together, _SCHEMA))


def _second_runs(first_runs: DataFrame, step: PlayStep) -> DataFrame:
    """Play messages under the other side."""
    alone = first_runs.filter("coupled IS NULL").mapInArrow(step.second_alone, _SCHEMA)
    coupled = _in_order(first_runs.filter("coupled IS NOT NULL")).mapInArrow(step.second_together, _SCHEMA)
    return alone.unionAll(coupled)


def _in_order(coupled: DataFrame) -> DataFrame:
    """Bring together what is played together, in its order: Spark sorts it on the disk, and hands it on bit by bit."""
    return coupled.repartition("coupled").sortWithinPartitions(*IN_ORDER)


def _check_held(played: DataFrame, coupling: Coupling) -> None:
    """Raise ``CaptureError`` where a task would have had to hold too many messages."""
    for each in rows("SELECT coupled, problem FROM {played} WHERE problem IS NOT NULL ORDER BY 1", played=played):
        why = "; ".join(coupling.unit(_queue(each["coupled"]), ()).why)
        problem = f"of messages that depend on each other ({why}), more than {HELD_MAX:,} wait at one time"
        problem += f" ({each['problem']}), and all of them are held in memory: ask about a shorter part of the log"
        raise CaptureError("the log", problem)


def _queue(coupled: str) -> QueueRef:
    vhost, queue = msgspec.json.decode(coupled)
    return vhost, queue


def _typical_waits(first_runs: DataFrame) -> TypicalWaits:
    waits = select("SELECT inline(waits) FROM {first_runs}", first_runs=first_runs)
    found = rows(
        "SELECT vhost, queue, CAST(percentile_disc(0.5) WITHIN GROUP (ORDER BY after_us) AS BIGINT) AS typical_us"
        " FROM {waits} GROUP BY vhost, queue",
        waits=waits,
    )
    return {(each["vhost"], each["queue"]): each["typical_us"] for each in found}


def _tallies(cases: DataFrame) -> list[tuple[str | None, Tally]]:
    """Return the tallies of messages by what couples them, and last that of those that nothing couples."""
    found: dict[str | None, Tally] = {}
    for each in rows("SELECT coupled, tally FROM {cases} WHERE tally IS NOT NULL", cases=cases):
        found.setdefault(each["coupled"], Tally()).merge(pickle.loads(each["tally"]))
    return sorted(found.items(), key=lambda item: (item[0] is None, item[0] or ""))


def _unit(coupled: str | None, tally: Tally, coupling: Coupling) -> Unit:
    """Return which messages are played together, and why; they have no numbers here."""
    own = range(tally.messages)
    return Unit(own) if coupled is None else coupling.unit(_queue(coupled), own)


def _coupled_cases(first_runs: DataFrame, coupled: str, playbacks: Playbacks) -> list[ComparedMessage]:
    """Play messages that are coupled under the other side, here."""
    own = first_runs.filter(F.col("first").isNotNull() & (F.col("coupled") == coupled))
    firsts = own.sort(*IN_ORDER).select("first").toArrow().column("first")
    return playbacks.cases([pickle.loads(each.as_py()) for each in firsts], coupled=True)
