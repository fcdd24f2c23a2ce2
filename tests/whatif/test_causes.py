"""Causes are found by experiments with few differences, and are those that all others would find."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from dlx.topology import Binding, Exchange, Queue, Topology
from simulator.capture.parquet import write_capture
from simulator.capture.schema import to_batches
from simulator.definitions import Definitions
from simulator.generate import Wish, generate
from simulator.replay import Database
from simulator.replay.rows.tables import select
from simulator.scenario.steps import Ack, Publish, Wait
from simulator.whatif.answer import ChangeCause
from simulator.whatif.causes import Laboratory
from simulator.whatif.differences import Side, SideDifference
from simulator.whatif.local import what_if_files
from simulator.whatif.playback_broker import PlaybackBroker
from simulator.whatif.sides import side_of
from tests.long import some_in_ci
from tests.replay.broker_logs import broker_log
from tests.whatif.asking import asked_about
from tests.whatif.random_questions import random_question
from tests.whatif.test_second_side import UNCOUPLED


@contextmanager
def all_tried() -> Iterator[None]:
    """Let every difference be tried."""
    with mock.patch.object(Laboratory, "_may_meet", return_value=True):
        yield


def with_others(side: Side, given: random.Random) -> Side:
    """Return a side with bindings and queues added and removed."""
    document = dict(side.definitions.document)
    queues, bindings = list(document["queues"]), list(document["bindings"])
    for _ in range(given.randrange(3)):
        if bindings:
            bindings.remove(given.choice(bindings))
    for number in range(given.randrange(3)):
        if bindings:
            bindings.append(
                {**given.choice(bindings), "routing_key": given.choice(("order.one", "#", f"new.{number}"))}
            )
    for number in range(given.randrange(3)):
        queues.append({**given.choice(queues), "name": f"new.{number}", "arguments": {}})
    if given.random() < 0.3:
        gone = given.choice(queues)["name"]
        queues = [each for each in queues if each["name"] != gone]
        bindings = [each for each in bindings if each["destination"] != gone]
    document |= {"queues": queues, "bindings": [each for at, each in enumerate(bindings) if each not in bindings[:at]]}
    return Side(Definitions(document, "other.json"), side.release)


@pytest.mark.slow
@pytest.mark.parametrize("seed", some_in_ci(range(100), {3, 7, 12, 19, 23, 31, 42, 58}))
def test_they_are_those_of_all_experiments(seed: int, tmp_path: Path) -> None:
    given = random.Random(seed)
    before, after, unseen = random_question(given)
    if given.random() < 0.7:
        after = with_others(after, given)
    generate(Wish(before.definitions.to_json(), 300, before.release.name, seed, "high"), tmp_path)
    with Database(tmp_path) as database:
        log = database.parquet(sorted(tmp_path.glob("log-*.parquet")))
        if given.random() < 0.5:
            log = select(UNCOUPLED, log=log)
        if not log.to_list():
            return
        found = what_if_files(log, before, after, unseen=unseen).answer
        with all_tried():
            wanted = what_if_files(log, before, after, unseen=unseen).answer
    assert found == wanted


MANY = 30
WAITING = Topology.of(
    exchanges=[Exchange(name="orders", type="topic")],
    queues=[
        Queue(name=f"wait.{number}", arguments={"x-message-ttl": 1_000, "x-dead-letter-exchange": "",
                                                "x-dead-letter-routing-key": f"work.{number}"})
        for number in range(MANY)
    ] + [Queue(name=f"work.{number}") for number in range(MANY)],
    bindings=[Binding(source="orders", destination=f"wait.{number}", routing_key=f"to.{number}.#")
              for number in range(MANY)],
)  # fmt: skip
LOST = [f"queue:wait.{number}.x-dead-letter-exchange=" for number in range(MANY)]
LONGER = [f"queue:wait.{number}.x-message-ttl=2000" for number in range(MANY)]


def test_a_difference_that_the_messages_do_not_meet_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[SideDifference] = []
    plain = Laboratory._broker

    def broker(laboratory: Laboratory, *asked: Any) -> PlaybackBroker | None:
        tried.append(asked[-1])
        return plain(laboratory, *asked)

    monkeypatch.setattr(Laboratory, "_broker", broker)
    history = [Publish("orders", "to.3.now"), Wait(1_500), Ack("work.3"), Wait(5_000)]
    asked = asked_about(WAITING, history, *LOST, *LONGER)
    assert asked.answer.causes == (ChangeCause("x-dead-letter-exchange of queue 'wait.3': \"\" → none", 1),)
    assert len(tried) == 2


def by_reason(*, ttl_ms: int | None) -> Topology:
    """A queue that only messages that have expired come to: a headers exchange looks for that."""
    seen = {} if ttl_ms is None else {"x-message-ttl": ttl_ms}
    return Topology.of(
        exchanges=[Exchange(name="by-reason", type="headers")],
        queues=[
            Queue(name="work", arguments={"x-message-ttl": 100, "x-dead-letter-exchange": "by-reason"}),
            Queue(name="seen", arguments=seen),
        ],
        bindings=[
            Binding(
                source="by-reason",
                destination="seen",
                arguments={"x-match": "any-with-x", "x-first-death-reason": "expired"},
            )
        ],
    )


def test_a_message_may_come_where_its_deaths_send_it() -> None:
    history = [Publish("", "work"), Wait(1_000), Ack("seen"), Wait(1_000)]
    texts = "queue:seen.x-message-ttl=50", "queue:work.x-message-ttl=120"
    asked = asked_about(by_reason(ttl_ms=None), history, *texts)
    assert asked.answer.changed == 1
    assert [cause.what for cause in asked.answer.causes] == ["x-message-ttl of queue 'seen': none → 50"]
    assert asked_about(by_reason(ttl_ms=None), history, texts[0]).answer.changed == 1


def test_a_limit_of_queues_takes_none_away_that_is_there(tmp_path: Path) -> None:
    limit = {"vhost": "/", "component": "vhost-limits", "name": "limits", "value": {"max-queues": 2}}

    def side(*names: str) -> Side:
        queues = [
            {"vhost": "/", "name": name, "durable": True, "auto_delete": False, "arguments": {}} for name in names
        ]
        document = {"vhosts": [{"name": "/"}], "queues": queues, "exchanges": [], "bindings": [], "parameters": [limit]}
        return side_of(Definitions(document, "definitions.json"), "4.3")

    topology = Topology.of(queues=[Queue(name="a"), Queue(name="b")])
    with write_capture(tmp_path / "log.parquet") as writer:
        for batch in to_batches(broker_log([Publish("", "b"), Wait(1_000), Ack("b"), Wait(1_000)], topology, "4.3")):
            writer.write(batch)
    with Database(tmp_path) as database:
        log = database.parquet([tmp_path / "log.parquet"])
        answer = what_if_files(log, side("a", "b"), side("new", "a", "b")).answer
    assert (answer.reproduced, answer.changed, answer.causes) == (1, 0, ())
