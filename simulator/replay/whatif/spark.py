"""Asks a log on Spark: messages are read and played where their rows are, and only totals come to the driver.

Three passes: the stories of all messages; their first runs, each by itself or with those that
it is coupled with; and the other side, once it is known how long messages usually wait.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from simulator.capture import CaptureError
from simulator.replay.plan import replay
from simulator.replay.tables import rows, select
from simulator.replay.whatif.asked import AskedOnSpark
from simulator.replay.whatif.captured import files_of, of_the_log, with_left
from simulator.replay.whatif.case_rows import SCHEMA
from simulator.replay.whatif.causes import TOGETHER_MAX, Part, find_causes
from simulator.replay.whatif.conclusion import conclusion
from simulator.replay.whatif.coupling import Coupling, Unit
from simulator.replay.whatif.differences import Side
from simulator.replay.whatif.lives import lives
from simulator.replay.whatif.outcomes import ROWS
from simulator.replay.whatif.rerun import Habits, Log, Unseen
from simulator.replay.whatif.spark_steps import (
    CASES,
    FIRST_RUNS,
    STORIES,
    Asking,
    CasesStep,
    FirstRunsStep,
    StoriesStep,
    cases_of,
    reach_of,
)
from simulator.replay.whatif.stage import Queue
from simulator.replay.whatif.tally import Tally
from simulator.replay.whatif.what_if import Case, Prepared, Runs

COUPLED_MAX = 1_000_000
"""Messages that queues couple: they are played in one task, which holds all of them in memory."""


def what_if_on_spark(
    captured: DataFrame,
    before: Side,
    after: Side,
    *,
    left: DataFrame | None = None,
    unseen: Unseen = "ack",
    examples: bool = False,
) -> AskedOnSpark:
    """Return what would have become of the messages of a capture, as ``local.what_if_files`` does.

    Raises:
        CaptureError: files of ``left`` have the names of files in the log, or more messages than ``COUPLED_MAX`` depend
            on each other.
        DefinitionsError: the broker refuses the definitions of a side.
        MatchesNothingError: those of a side are of other virtual hosts or queues.
    """
    asking = Asking.of(*of_the_log(captured, before, after), unseen, () if left is None else files_of(left))
    one, other = asking.sides()
    with _kept(_stories(captured if left is None else with_left(captured, left), one, asking)) as stories:
        log = _log(stories)
        coupling, coupled_by = _coupling(stories, one, other)
        with _kept(_first_runs(stories, coupled_by, asking, log)) as first_runs:
            habits = _habits(first_runs)
            step = CasesStep(asking, log, habits)
            cases = first_runs.select("coupled", "first").mapInArrow(step, from_arrow_schema(CASES))
            cases = cases.persist(StorageLevel.DISK_ONLY)
            tallies = _tallies(cases)
            runs = Runs(one, other, unseen, log, habits)
            seen = _Looks(runs, first_runs, tallies, coupling)
            tally = Tally.whole(tallies.values())
            answer = conclusion(tally, find_causes(runs, seen.parts()), runs, captured, left)
            shown = lives(runs, seen.groups(), answer.shown_examples) if examples else {}
    messages = cases.filter("tally IS NULL").select(*SCHEMA.names)
    return AskedOnSpark(answer=answer, tally=tally, units=tuple(seen.units()), lives=shown, messages=messages)


@contextmanager
def _kept(table: DataFrame) -> Iterator[DataFrame]:
    """Yield a table that is made only once."""
    kept = table.persist(StorageLevel.DISK_ONLY)
    try:
        yield kept
    finally:
        kept.unpersist()


def _stories(captured: DataFrame, side: Prepared, asking: Asking) -> DataFrame:
    replayed = replay(captured, side.side.definitions, side.side.release.name)
    joined = select(ROWS, captured=captured, replayed=replayed)
    together = joined.repartition("vhost", "message").sortWithinPartitions("vhost", "message", "time_us", "place")
    return together.mapInArrow(StoriesStep(asking), from_arrow_schema(STORIES))


def _log(stories: DataFrame) -> Log:
    (last,) = rows("SELECT coalesce(max(end_us), 0) AS end_us FROM {stories}", stories=stories)
    consumed = rows("SELECT DISTINCT inline(consumed) FROM {stories}", stories=stories)
    return Log(last["end_us"], frozenset((each["vhost"], each["queue"]) for each in consumed))


def _coupling(stories: DataFrame, one: Prepared, other: Prepared) -> tuple[Coupling, dict[str, str]]:
    """Return what couples messages, and what stands for the coupled ones by how far they come."""
    counted = "SELECT reach, count(*) AS messages FROM {stories} GROUP BY reach"
    messages = {each["reach"]: each["messages"] for each in rows(counted, stories=stories)}
    reaches = {text: reach_of(text) for text in messages}
    coupling = Coupling(reaches.values(), (one.flows, other.flows))
    groups = {text: group for text, reach in reaches.items() if (group := coupling.group(reach)) is not None}
    together: Counter[Queue] = Counter()
    for text, group in groups.items():
        together[group] += messages[text]
    for group, many in sorted(together.items()):
        if many > COUPLED_MAX:
            why = "; ".join(coupling.unit(group, ()).why)
            problem = f"{many:,} messages depend on each other ({why}), and at most {COUPLED_MAX:,} are played together"
            raise CaptureError("the log", f"{problem}: ask about a shorter part of the log")
    return coupling, {text: msgspec.json.encode(group).decode() for text, group in groups.items()}


def _first_runs(stories: DataFrame, coupled_by: Mapping[str, str], asking: Asking, log: Log) -> DataFrame:
    step, schema = FirstRunsStep(asking, log), from_arrow_schema(FIRST_RUNS)
    if not coupled_by:
        return stories.mapInArrow(step.alone, schema)
    known = stories.sparkSession.createDataFrame(list(coupled_by.items()), "reach string, coupled string")
    marked = stories.join(F.broadcast(known), "reach", "left")
    alone = marked.filter("coupled IS NULL").mapInArrow(step.alone, schema)
    groups = marked.filter("coupled IS NOT NULL").groupBy("coupled")
    together = groups.applyInArrow(lambda key, rows: step.together(key, rows), schema)  # Spark counts `self`, too
    return alone.unionAll(together)


def _habits(first_runs: DataFrame) -> Habits:
    waits = select("SELECT inline(waits) FROM {first_runs}", first_runs=first_runs)
    found = rows(
        "SELECT vhost, queue, percentile_disc(0.5) WITHIN GROUP (ORDER BY after_us) AS typical_us FROM {waits}"
        " GROUP BY vhost, queue",
        waits=waits,
    )
    typical_us = {(each["vhost"], each["queue"]): each["typical_us"] for each in found}
    known = {queue: int(wait_us) for queue, wait_us in typical_us.items() if wait_us is not None}
    return Habits(known, typical_us.keys())


def _tallies(cases: DataFrame) -> dict[str | None, Tally]:
    """Return the tally of the messages that nothing couples, and those of the others by what couples them."""
    found: dict[str | None, Tally] = {}
    for each in rows("SELECT coupled, tally FROM {cases} WHERE tally IS NOT NULL", cases=cases):
        found.setdefault(each["coupled"], Tally()).merge(pickle.loads(each["tally"]))
    return found


class _Looks:
    """Fetches some of the messages, to look at them once more."""

    def __init__(
        self, runs: Runs, first_runs: DataFrame, tallies: Mapping[str | None, Tally], coupling: Coupling
    ) -> None:
        self._runs, self._first_runs, self._tallies, self._coupling = runs, first_runs, tallies, coupling
        self._groups: dict[str | None, list[Case]] = {}

    def units(self) -> Iterator[Unit]:
        """Yield which messages are played together, and why; they have no numbers here."""
        for coupled, tally in self._ranked():
            yield Unit(range(tally.messages)) if coupled is None else self._unit(coupled, tally)

    def parts(self) -> Iterator[Part]:
        """Yield the messages of which some change."""
        for coupled, tally in self._ranked():
            if tally.changed:
                queues = () if coupled is None else self._unit(coupled, tally).queues
                yield tally.part(self._own(coupled, tally), queues)

    def groups(self) -> Iterator[Sequence[Case]]:
        """Yield cases that are played together, of those that were fetched."""
        for coupled, own in self._groups.items():
            yield from ([case] for case in own) if coupled is None else [own]

    def _ranked(self) -> list[tuple[str | None, Tally]]:
        return sorted(self._tallies.items(), key=lambda item: (item[0] is None, item[0] or ""))

    def _unit(self, coupled: str, tally: Tally) -> Unit:
        vhost, queue = msgspec.json.decode(coupled)
        return self._coupling.unit((vhost, queue), range(tally.messages))

    def _own(self, coupled: str | None, tally: Tally) -> list[Case]:
        """Return the cases of one message for each way of change; of coupled ones all, if they are not too many."""
        if coupled not in self._groups:
            if coupled is None:
                names = [name for _, name in tally.frequent_ways()]
                found = self._first_runs.filter(F.col("coupled").isNull() & F.col("messages")[0].isin(names))
            else:
                found = self._first_runs.filter(F.col("coupled") == coupled)
            small = coupled is None or tally.messages <= TOGETHER_MAX
            fetched: list[dict[str, Any]] = found.select("first").toArrow().to_pylist() if small else []
            self._groups[coupled] = [case for each in fetched for case in cases_of(self._runs, each["first"])]
        return self._groups[coupled]
