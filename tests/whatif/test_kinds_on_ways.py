"""What is known of messages on one way is taken over to those on another one that is the same but for names."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dlx.releases import DEFAULT
from dlx.topology import Binding, Exchange, Queue, Topology
from simulator.capture.parquet import write_capture
from simulator.capture.schema import to_batches
from simulator.definitions import Definitions
from simulator.generate import Wish, generate
from simulator.replay import Database
from simulator.replay.tables import select
from simulator.replay.whatif import second_plays
from simulator.replay.whatif.alike_messages import AlikeMessages
from simulator.replay.whatif.asked import Asked
from simulator.replay.whatif.local import what_if_files
from simulator.replay.whatif.settings_given import read_setting, with_settings
from simulator.replay.whatif.what_if import side_of
from simulator.scenario.steps import Ack, AnyStep, Hold, Leave, Publish, Reject, Wait
from simulator.testing.strategies import definitions_document
from tests.long import some_in_ci
from tests.replay.broker_logs import broker_log
from tests.whatif.asking import one_by_one
from tests.whatif.test_alike_messages import NO_CONNECTIONS, SAME_MOMENTS, TWO_FILES, told
from tests.whatif.test_alike_plays import settings
from tests.whatif.test_alike_ways import NO_LOG, of_teams
from tests.whatif.test_second_side import UNCOUPLED

SEEDS = [seed for seed in range(60) if seed not in NO_LOG | {39, 49}]  # in these two messages multiply without end
TEAMS = ("ant", "bee", "zebra")


@pytest.mark.slow
@pytest.mark.parametrize("seed", some_in_ci(SEEDS, {0, 1, 2, 3, 4, 5, 6, 7}))
def test_messages_of_all_teams_get_what_each_gets_by_itself(seed: int, tmp_path: Path) -> None:
    given = random.Random(seed)
    release = given.choice(("3.8", "3.10", "4.0", "4.3"))
    topology = of_teams(given)
    own = Definitions(definitions_document(topology, release), "definitions.json")
    texts = [text for text in settings(topology, given) if not text.endswith("=")][: given.randrange(3)]
    sides = side_of(own, release), side_of(with_settings(own, [read_setting(each, own) for each in texts]), release)
    faults = given.choice((0, 0, 50))
    generate(Wish(own.to_json(), 1_500, release, seed, given.choice(("low", "high")), faults), tmp_path)
    unseen = given.choice(("ack", "repeat"))
    with Database(tmp_path) as database:
        log = database.parquet(sorted(tmp_path.glob("log-*.parquet")))
        for change in (UNCOUPLED, SAME_MOMENTS, TWO_FILES, NO_CONNECTIONS):
            if given.random() < 0.5:
                log = select(change, log=log)
        together = what_if_files(log, *sides, unseen=unseen, examples=True)
        with one_by_one():
            singly = what_if_files(log, *sides, unseen=unseen, examples=True)
    assert told(together) == told(singly)


def ladder(team: str, ttl_ms: int = 1_000) -> list[Queue]:
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{team}.wait"}
    back = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{team}.work", "x-message-ttl": ttl_ms}
    return [Queue(name=f"{team}.work", arguments=dead), Queue(name=f"{team}.wait", arguments=back)]


def ladders(*teams: str) -> Topology:
    return Topology.of(
        exchanges=[Exchange(name="orders", type="topic")],
        queues=[queue for team in teams for queue in ladder(team)],
        bindings=[Binding(source="orders", destination=f"{team}.work", routing_key=f"{team}.#") for team in teams],
    )


def retried(team: str, key: str) -> Iterator[AnyStep]:
    work = f"{team}.work"
    yield from (Publish("orders", f"{team}.{key}"), Wait(20), Reject(work), Leave(work))
    yield from (Wait(4_000), Ack(work), Leave(work), Wait(20))


class Played:
    """Asks of a history, and notes of which teams messages were played."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, work: Path) -> None:
        self.teams: list[str] = []
        self._work = work

        def know_kind(known: AlikeMessages, key: bytes, example: Any, plain: Any = AlikeMessages.know_kind) -> None:
            self.teams.append(example.story.publications[0].routing_key.split(".")[0])
            plain(known, key, example)

        monkeypatch.setattr(AlikeMessages, "know_kind", know_kind)

    def ask(self, topology: Topology, history: list[AnyStep], *texts: str, recorded: Topology | None = None) -> Asked:
        definitions = Definitions(definitions_document(topology, DEFAULT), "definitions.json")
        other = with_settings(definitions, [read_setting(each, definitions) for each in texts])
        with write_capture(self._work / "log.parquet") as writer:
            for batch in to_batches(broker_log(history, recorded or topology, DEFAULT)):
                writer.write(batch)
        sides = side_of(definitions, DEFAULT), side_of(other, DEFAULT)
        with Database(self._work) as database:
            log = database.parquet([self._work / "log.parquet"])
            self.teams.clear()
            found = what_if_files(log, *sides)
            with one_by_one():
                assert told(found) == told(what_if_files(log, *sides))
        return found


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Played:
    return Played(monkeypatch, tmp_path)


def test_one_message_is_read_and_played_for_all_ladders_that_are_equal_but_for_names(played: Played) -> None:
    history = [step for key in "abc" for team in TEAMS for step in retried(team, key)]
    asked = played.ask(ladders(*TEAMS), history)
    assert asked.answer.reproduced == 9
    assert asked.answer.before.acknowledged == {f"{team}.work": 3 for team in TEAMS}
    assert len(played.teams) < 4  # the last message is followed by the end of the log


@pytest.mark.parametrize("batch_rows", [9, 10_000])
def test_ladders_that_change_in_the_same_way_are_played_once_on_both_sides(
    batch_rows: int, played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simulator.replay.tables.BATCH_ROWS", batch_rows)
    second: list[int] = []

    def kind(batch: Any, message: int, plain: Any = second_plays._Batch._kind) -> Any:
        second.append(message)
        return plain(batch, message)

    monkeypatch.setattr(second_plays._Batch, "_kind", kind)
    history = [step for key in "abc" for team in TEAMS for step in retried(team, key)]
    asked = played.ask(ladders(*TEAMS), history, *(f"queue:{team}.wait.x-message-ttl=3000" for team in TEAMS))
    assert asked.answer.reproduced == 9
    assert (asked.answer.delay_ms.before.p50, asked.answer.delay_ms.after.p50) == (4_020, 6_020)
    assert len(played.teams) < 4  # the last message is followed by the end of the log
    assert len(second) == len(played.teams)


def test_a_ladder_that_loses_messages_takes_its_own_names_along(played: Played) -> None:
    history = [step for key in "abc" for team in TEAMS for step in retried(team, key)]
    lost = (f"queue:{team}.work.x-dead-letter-routing-key=gone" for team in TEAMS)
    asked = played.ask(ladders(*TEAMS), history, *lost)
    assert asked.answer.after.lost == {f"{team}.work": {"rejected": 3} for team in TEAMS}
    assert len(played.teams) < 4


def ladders_with_ends() -> Topology:
    """Ladders with exchanges of their own; nothing sends messages to the queues where they could end."""
    return Topology.of(
        exchanges=[Exchange(name=f"{team}.orders", type="fanout") for team in TEAMS],
        queues=[queue for team in TEAMS for queue in (*ladder(team), Queue(name=f"{team}.end"))],
        bindings=[Binding(source=f"{team}.orders", destination=f"{team}.work") for team in TEAMS],
    )


def retried_by_all() -> Iterator[AnyStep]:
    for _, team in product(range(3), TEAMS):
        _, *rest = retried(team, "")
        yield from (Publish(f"{team}.orders", "x"), *rest)


ENDING = [f"queue:{team}.wait.x-dead-letter-routing-key={team}.end" for team in TEAMS]


def test_messages_that_end_elsewhere_do_so_under_their_own_names(played: Played) -> None:
    begun: list[AnyStep] = [Publish("", f"{team}.end") for team in TEAMS]
    asked = played.ask(ladders_with_ends(), [*begun, *retried_by_all()], *ENDING)
    assert asked.answer.assumed == 0
    assert asked.answer.after.waiting == {f"{team}.end": 4 for team in TEAMS}
    ways = {way.other_path for way in asked.tally.ways}
    assert ways == {f"{team}.work rejected → {team}.wait expired" for team in TEAMS}


@pytest.mark.parametrize("known", TEAMS)
def test_what_nobody_knows_of_a_queue_is_not_told_by_another_one(known: str, played: Played) -> None:
    """Into the end of one ladder the log shows a message; whether anybody consumes those of the others is assumed."""
    asked = played.ask(ladders_with_ends(), [Publish("", f"{known}.end"), *retried_by_all()], *ENDING)
    assert asked.answer.assumed == 6


def test_messages_wait_as_long_as_is_usual_in_their_own_queue(played: Played) -> None:
    begun: list[AnyStep] = []
    for number, team in enumerate(TEAMS, 1):
        begun += [Publish("", f"{team}.end"), Wait(1_000 * number), Ack(f"{team}.end"), Leave(f"{team}.end"), Wait(20)]
    asked = played.ask(ladders_with_ends(), [*begun, *retried_by_all()], *ENDING)
    assert asked.answer.after.acknowledged == {f"{team}.end": 4 for team in TEAMS}
    took_us = sorted({int(each) for alike in asked.alike for each in alike.took_us[1]})
    assert took_us == [1_000_000, 2_000_000, 2_020_000, 3_000_000, 3_020_000, 4_020_000]


def test_a_ladder_that_changes_is_played_by_itself(played: Played) -> None:
    history = [step for key in "abc" for team in TEAMS for step in retried(team, key)]
    asked = played.ask(ladders(*TEAMS), history, "queue:bee.work.x-dead-letter-routing-key=gone")
    assert "bee" in played.teams
    assert asked.answer.changed == 3
    assert asked.answer.after.lost == {"bee.work": {"rejected": 3}}


@pytest.mark.parametrize("names", [("rejected", "expired"), ("queue", "exchange"), ("delivered", "count")])
def test_queues_may_be_called_as_anything_else_in_a_row(names: tuple[str, str], played: Played) -> None:
    def of(name: str) -> list[Queue]:
        dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}.dead"}
        return [Queue(name=name, arguments={**dead, "x-message-ttl": 500}), Queue(name=f"{name}.dead")]

    topology = Topology.of(queues=[queue for name in names for queue in of(name)])
    history: list[AnyStep] = []
    for number in range(3):
        for name in names:
            history += [Publish("", name), Wait(20)]
            rejected = (name == names[0]) == (number < 2)
            history += [Reject(name), Leave(name)] if rejected else [Wait(700)]
            history += [Wait(20), Ack(f"{name}.dead"), Leave(f"{name}.dead"), Wait(20)]
    asked = played.ask(topology, history)
    assert asked.answer.reproduced == 6
    assert asked.answer.before.acknowledged == {f"{name}.dead": 3 for name in names}


def test_a_message_that_was_seen_off_its_way_is_looked_at_where_it_was(played: Played) -> None:
    """A queue got it by a binding that is gone, and what it sends on comes to a queue on the way of others."""
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "ant.work"}
    topology, stray = ladders(*TEAMS), Queue(name="stray", arguments=arguments)
    topology = msgspec.structs.replace(topology, queues={**topology.queues, "stray": stray})
    bound = {"orders": [*topology.bindings["orders"], Binding(source="orders", destination="stray", routing_key="#")]}
    history: list[AnyStep] = []
    for team in (*TEAMS, *TEAMS):
        history += [Publish("orders", f"{team}.x"), Wait(20), Ack(f"{team}.work"), Leave(f"{team}.work")]
        history += [Reject("stray"), Leave("stray"), Wait(20), Ack("ant.work"), Leave("ant.work"), Wait(20)]
    asked = played.ask(topology, history, recorded=msgspec.structs.replace(topology, bindings=bound))
    assert asked.answer.messages == 6


@pytest.mark.parametrize("keys", [TEAMS, ("ant", "y", "y"), ("y", "bee", "zebra"), ("bee", "bee", "bee")])
def test_keys_may_be_names_of_exchanges(keys: tuple[str, ...], played: Played) -> None:
    topology = Topology.of(
        exchanges=[Exchange(name=team, type="fanout") for team in TEAMS],
        queues=[queue for team in TEAMS for queue in ladder(team)],
        bindings=[Binding(source=team, destination=f"{team}.work") for team in TEAMS],
    )
    history: list[AnyStep] = []
    for team, key in (*zip(TEAMS, keys, strict=True),) * 3:
        _, *rest = retried(team, key)
        history += [Publish(team, key), *rest]
    asked = played.ask(topology, history)
    assert asked.answer.reproduced == asked.answer.messages == 9


def test_a_queue_may_be_called_as_what_stands_for_a_routing_key(played: Played) -> None:
    teams = ("\ue000", "\ue000\ue000", "ant")
    history = [step for key in "abc" for team in teams for step in retried(team, key)]
    asked = played.ask(ladders(*teams), history)
    assert asked.answer.reproduced == 9


def held(timeout_ms: int) -> Topology:
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", "x-queue-type": "quorum"}
    jobs = Queue(name="jobs", type="quorum", arguments={**arguments, "x-consumer-timeout": timeout_ms})
    return Topology.of(queues=[jobs, Queue(name="dead")])


def rejected_after(*holds_ms: int) -> list[AnyStep]:
    """Whole seconds pass from message to message: x-death has no others."""
    history: list[AnyStep] = []
    for hold_ms in holds_ms:
        history += [Publish("", "jobs"), Wait(20), Hold("jobs"), Wait(hold_ms), Reject("jobs"), Leave("jobs")]
        history += [Wait(20), Ack("dead"), Leave("dead"), Wait(20)]
    return history


def test_one_that_a_consumer_held_too_long_tells_nothing_of_others(played: Played) -> None:
    """The first messages are those that the timeout may have ended; the last one is followed by the end of the log."""
    history = rejected_after(4_940, 4_940, 940, 940, 940, 940, 940, 940)
    asked = played.ask(held(2_000), history, "queue:dead.x-message-ttl=60000", recorded=held(60_000))
    assert asked.answer.messages == 8
    assert len(played.teams) == 2 + 1 + 1


def test_a_timeout_of_the_other_side_tells_apart_how_long_consumers_held_messages(played: Played) -> None:
    history = rejected_after(4_940, 2_940, 4_940, 2_940, 4_940, 2_940)
    asked = played.ask(held(60_000), history, "queue:jobs.x-consumer-timeout=3000")
    assert asked.answer.reproduced == 6
    assert asked.answer.before.acknowledged == {"dead": 6}
    assert len(played.teams) == 2 + 1  # the last message is followed by the end of the log
