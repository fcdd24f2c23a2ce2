"""What a replay finds out about rows on one way serves those on another one that is the same but for names."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pyarrow as pa
import pytest

from dlx.releases import DEFAULT
from dlx.topology import Binding, Exchange, Queue, Topology
from simulator.capture.parquet import write_capture
from simulator.capture.schema import to_batches
from simulator.definitions import Definitions
from simulator.generate import Wish, generate
from simulator.replay import Database
from simulator.replay.kernel import Kernel
from simulator.replay.local import kernel_of
from simulator.replay.message_rows import Lineage
from simulator.replay.tables import LocalTable, select
from simulator.replay.whatif import local
from simulator.replay.whatif.coupling import Reaches
from simulator.replay.whatif.what_if import prepared, side_of
from simulator.scenario.steps import Ack, AnyStep, Leave, Publish, Wait
from simulator.testing.strategies import definitions_document
from tests.long import some_in_ci
from tests.replay.broker_logs import broker_log
from tests.whatif.test_alike_messages import SAME_MOMENTS
from tests.whatif.test_alike_ways import NO_LOG, of_teams
from tests.whatif.test_kinds_on_ways import TEAMS, ladder, ladders, retried

SEEDS = [seed for seed in range(60) if seed not in NO_LOG | {39, 49}]  # in these two messages multiply without end


def replayed(log: LocalTable, definitions: Definitions, release: str) -> pa.Table:
    side = prepared(side_of(definitions, release))
    kernel = local.kernel_of_side(log, side, Reaches([side.flows]))
    batches = local._replayed(log, kernel, lambda what, done, of: None)
    return pa.Table.from_batches([each.replayed for each in batches])


def one_by_one() -> Any:
    """Let every sequence of rows be explained by itself."""

    def of(*given: Any, **options: Any) -> Kernel:
        return kernel_of(*given, **{**options, "on_ways_of": None})

    return mock.patch.object(local, "kernel_of", of)


class Explained:
    """Counts the messages that are explained, and holds the replay against one that explains every sequence.

    The last message of a batch is explained by itself: it may go on in the next one.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, work: Path) -> None:
        self.count, self._work = 0, work

        def begin(lineage: Lineage, *given: Any, plain: Any = Lineage.__init__, **options: Any) -> None:
            self.count += 1
            plain(lineage, *given, **options)

        monkeypatch.setattr(Lineage, "__init__", begin)

    def of(self, topology: Topology, history: list[AnyStep], recorded: Topology | None = None) -> pa.Table:
        definitions = Definitions(definitions_document(topology, DEFAULT), "definitions.json")
        with write_capture(self._work / "log.parquet") as writer:
            for batch in to_batches(broker_log(history, recorded or topology, DEFAULT)):
                writer.write(batch)
        with Database(self._work) as database:
            log = database.parquet([self._work / "log.parquet"])
            with one_by_one():
                singly = replayed(log, definitions, DEFAULT)
            self.count = 0
            together = replayed(log, definitions, DEFAULT)
        assert together == singly
        return together


@pytest.fixture
def explained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Explained:
    return Explained(monkeypatch, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", some_in_ci(SEEDS, {0, 1, 2, 3, 4, 5, 6, 7}))
def test_each_message_gets_what_its_own_rows_give(seed: int, tmp_path: Path) -> None:
    given = random.Random(seed)
    release = given.choice(("3.8", "3.10", "4.0", "4.3"))
    own = Definitions(definitions_document(of_teams(given), release), "definitions.json")
    generate(Wish(own.to_json(), 1_500, release, seed, given.choice(("low", "high")), given.choice((0, 50))), tmp_path)
    with Database(tmp_path) as database:
        log = database.parquet(sorted(tmp_path.glob("log-*.parquet")))
        if given.random() < 0.5:
            log = select(SAME_MOMENTS, log=log)
        together = replayed(log, own, release)
        with one_by_one():
            assert together == replayed(log, own, release)


def of_all_teams(teams: tuple[str, ...] = TEAMS) -> list[AnyStep]:
    return [step for key in "ab" for team in teams for step in retried(team, key)]


def test_rows_are_explained_once_for_all_ladders_that_are_equal_but_for_names(explained: Explained) -> None:
    found = explained.of(ladders(*TEAMS), of_all_teams())
    hops = [hop["queue"] for row in found.column("hops").to_pylist() for hop in row or ()]
    assert hops.count("ant.wait") == hops.count("bee.wait") == hops.count("zebra.wait") == 2
    assert explained.count == 1 + 1


def test_a_ladder_with_another_waiting_time_is_explained_by_itself(explained: Explained) -> None:
    topology = ladders(*TEAMS)
    queues = {**topology.queues, **{each.name: each for each in ladder("bee", 700)}}
    explained.of(msgspec.structs.replace(topology, queues=queues), of_all_teams())
    assert explained.count == 2 + 1


@pytest.mark.parametrize("kind", ["x-delayed-message", "x-of-a-plugin"])
def test_where_an_exchange_may_keep_messages_nothing_is_taken_over(kind: str, explained: Explained) -> None:
    topology = ladders(*TEAMS)
    late = Exchange(name="late", type=kind, arguments={"x-delayed-type": "direct"})
    given = msgspec.structs.replace(topology, exchanges={**topology.exchanges, "late": late})
    explained.of(given, of_all_teams(), recorded=topology)
    assert explained.count == len(TEAMS) + 1


def test_a_death_by_length_rests_on_what_came_into_its_queue(explained: Explained) -> None:
    """Whether a queue was full is held against what came into that queue, not into another one."""

    def queues(team: str) -> list[Queue]:
        dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{team}.dead"}
        return [Queue(name=team, arguments={**dead, "x-max-length": 1}), Queue(name=f"{team}.dead")]

    topology = Topology.of(queues=[each for team in TEAMS for each in queues(team)])
    history: list[AnyStep] = []
    for team in TEAMS:
        history += [Publish("", team), Wait(20), Publish("", team), Wait(20)]
        history += [Ack(f"{team}.dead"), Leave(f"{team}.dead"), Ack(team), Leave(team), Wait(20)]
    found = explained.of(topology, history)
    reasons = [hop["reason"] for row in found.column("hops").to_pylist() for hop in row or ()]
    assert reasons == ["maxlen"] * 3
    assert explained.count == len(TEAMS) + 1 + 1  # what is delivered without a death is the same for all


def test_a_delivery_off_the_way_is_explained_by_itself(explained: Explained) -> None:
    """A queue got messages by a binding that is gone."""
    topology, stray = ladders(*TEAMS), Queue(name="stray")
    topology = msgspec.structs.replace(topology, queues={**topology.queues, "stray": stray})
    bound = {"orders": [*topology.bindings["orders"], Binding(source="orders", destination="stray", routing_key="#")]}
    history: list[AnyStep] = []
    for team in TEAMS:
        work = f"{team}.work"
        history += [Publish("orders", f"{team}.x"), Wait(20), Ack(work), Leave(work), Ack("stray"), Leave("stray")]
    explained.of(topology, history, recorded=msgspec.structs.replace(topology, bindings=bound))
    assert explained.count == len(TEAMS)


def test_headers_that_an_exchange_compares_decide_more_than_a_way(explained: Explained) -> None:
    topology = Topology.of(
        exchanges=[Exchange(name="orders", type="headers")],
        queues=[each for team in TEAMS for each in ladder(team)],
        bindings=[
            Binding(source="orders", destination=f"{team}.work", arguments={"team": team, "x-match": "all"})
            for team in TEAMS
        ],
    )

    def steps() -> Iterator[AnyStep]:
        for team in TEAMS:
            _, *rest = retried(team, "x")
            yield from (Publish("orders", "", {"team": team}), *rest)

    explained.of(topology, [*steps()])
    assert explained.count == len(TEAMS)
