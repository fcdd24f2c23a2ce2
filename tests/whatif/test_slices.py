"""Coupled messages are played as they come: in whatever slices they come, the answer is that of the whole at once."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from dlx.releases import DEFAULT
from dlx.topology import Queue, Topology
from simulator.capture import convert
from simulator.definitions import Definitions, read_definitions
from simulator.replay import Database
from simulator.scenario.steps import Ack, Publish, Wait
from simulator.testing.strategies import definitions_document
from simulator.whatif.both_sides import Playbacks, compare
from simulator.whatif.coupling import Unit
from simulator.whatif.local import read_log
from simulator.whatif.log import Overview
from simulator.whatif.playback import FirstRun, Playback, TooManyHeldError, typical_waits
from simulator.whatif.result import SCHEMA, rows_of_case
from simulator.whatif.settings_given import read_setting, with_settings
from simulator.whatif.sides import prepared, side_of
from simulator.whatif.spark_steps import (
    IN_ORDER,
    PASSED,
    Asking,
    PlayStep,
)
from simulator.whatif.stories import Story
from simulator.whatif.tally import Tally
from tests.whatif.asking import asked_about, shown_by

OWN = Path(__file__).parent / "recorded" / "4.3" / "own"
SETTINGS = ("queue:burst.x-max-length=20", "queue:jobs.x-dead-letter-routing-key=nowhere")
Step = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class Whole:
    """The recorded log, asked about with all its messages at once; and the same question for the steps of Spark."""

    def __init__(self, work: Path) -> None:
        definitions = read_definitions(OWN / "definitions.json")
        other = with_settings(definitions, [read_setting(each, definitions) for each in SETTINGS])
        self.asking = Asking.of(side_of(definitions, "4.3"), side_of(other, "4.3"), "ack", frozenset())
        with Database(work) as database:
            convert([OWN / "trace.log.gz"], work / "log.parquet")
            log = database.parquet([work / "log.parquet"])
            one, other_side = self.asking.sides()
            self.log = Overview.of(log).log(one)
            self.stories = read_log(log, one)
        self._untouched = {story.message: pickle.dumps(story) for story in self.stories}
        self.playbacks, self.together = compare(self.stories, Playbacks(one, other_side, "ack", self.log))

    @property
    def coupled(self) -> tuple[Unit, list[Any]]:
        """The messages that queues couple, and the rows of their cases."""
        ((unit, cases),) = [(unit, cases) for unit, cases in self.together if unit.queues]
        return unit, as_written([row for case in cases for row in rows_of_case(case)])

    def begun(self) -> pa.Table:
        """What the steps take: the coupled messages as the log shows them, in the order in which they begin."""
        own = sorted((self.stories[number] for number in self.coupled[0].stories), key=lambda story: story.began)
        return pa.Table.from_pylist([self._row(story) for story in own], schema=PASSED)

    def _row(self, story: Story) -> dict[str, Any]:
        began_us, began_place = story.began
        return {"coupled": "all", "story": self._untouched[story.message], "began_us": began_us,
                "began_place": began_place}  # fmt: skip


def as_written(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return pa.Table.from_pylist(rows, SCHEMA).to_pylist()


@pytest.fixture(scope="module")
def whole() -> Iterator[Whole]:
    with TemporaryDirectory() as work:
        yield Whole(Path(work))


def through(step: Step, table: pa.Table, rows: int) -> pa.Table:
    return pa.Table.from_batches(list(step(iter(table.to_batches(max_chunksize=rows)))))


def in_order(table: pa.Table) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in IN_ORDER])


@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_slices_of_any_size_come_to_the_same(rows: int, whole: Whole) -> None:
    step = PlayStep(whole.asking._replace(log=whole.log), 10_000, {})
    ordered = in_order(through(step.put_in_order, whole.begun(), rows))
    first_runs = in_order(through(step.first_together, ordered, rows))
    step = step._replace(typical_waits=whole.playbacks._typical_waits)
    told = through(step.second_together, first_runs, rows)
    (tallied,) = [pickle.loads(tally) for tally in told["tally"].to_pylist() if tally is not None]
    found = [row for some in told["rows"].to_pylist() for row in some or ()]
    expected = whole.coupled[1]
    assert len(expected) > 100
    assert sorted(map(repr, found)) == sorted(map(repr, expected))
    cases = next(cases for unit, cases in whole.together if unit.queues)
    assert msgspec.json.encode(tallied.answer()) == msgspec.json.encode(Tally(cases).answer())


def test_sql_finds_what_all_stories_show_together(whole: Whole) -> None:
    assert whole.log == shown_by(whole.stories)
    assert {queue for _, queue in whole.log.consumed} == {"burst", "jobs", "mails"}


def test_a_message_is_given_back_when_nothing_more_can_happen_to_it() -> None:
    """So a run holds those that wait somewhere, and not all of them."""
    topology = Topology.of(queues=[Queue(name="jobs", arguments={"x-max-length": 5})])
    asked = asked_about(topology, [Publish("", "jobs"), Wait(10), Ack("jobs")] * 50)
    definitions = Definitions(definitions_document(topology, DEFAULT), "definitions.json")
    taken = 0

    def taking() -> Iterator[FirstRun]:
        nonlocal taken
        for case in asked.cases:
            taken += 1
            yield FirstRun(case.story)

    run = Playback(prepared(side_of(definitions, DEFAULT)).broker, shown_by(case.story for case in asked.cases), "ack")
    held = [taken - number for number, _ in enumerate(run.play(taking()))]
    assert (len(held), taken) == (50, 50)
    assert max(held) <= 3


def test_too_many_waiting_messages_are_told_with_their_queues(whole: Whole) -> None:
    own = sorted(whole.stories, key=lambda each: each.began)
    with pytest.raises(TooManyHeldError, match=r"^\d+ in '"):
        list(whole.playbacks.first(own, held_max=5))
    assert whole.playbacks.before.broker.node.next_due() is None
    found = typical_waits(each.first for each in whole.playbacks.first(own))
    assert any(wait_us is not None for wait_us in found.values())
