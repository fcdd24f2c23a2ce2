"""Ladders that are equal but for names: a message in one of them gets what its own play would give."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest

from dlx.releases import DEFAULT
from dlx.topology import Binding, Exchange, Queue, Topology
from simulator.definitions import Definitions
from simulator.generate import Wish, generate
from simulator.replay import Database
from simulator.replay.tables import select
from simulator.replay.whatif.alike_ways import OtherNames, Ways
from simulator.replay.whatif.local import read_log
from simulator.replay.whatif.settings_given import read_setting, with_settings
from simulator.replay.whatif.stories import Publication, Story
from simulator.replay.whatif.what_if import Runs, prepared, side_of
from simulator.scenario.steps import Ack, AnyStep, Leave, Publish, Reject, Wait
from simulator.testing.strategies import definitions_document
from tests.long import some_in_ci
from tests.whatif.asking import asked_about, shown_by
from tests.whatif.test_alike_plays import Plays, compared, plays, random_topology, settings
from tests.whatif.test_second_side import UNCOUPLED

__all__ = ["plays"]  # a fixture

NO_LOG = {24}
"""Seeds of topologies in which no message gets anywhere."""
TEAMS = ("ant", "bee", "cat", "dog")


def renamed(topology: Topology, team: str, *, own_exchanges: bool) -> Topology:
    """Return a topology under the names of a team."""

    def of(name: str) -> str:
        if name in topology.queues or (own_exchanges and name in ("topics", "all")):
            return f"{team}.{name}"
        return f"{team}.{name}" if name in ("order.one", "nowhere") else name

    def queue(each: Queue) -> Queue:
        named = {key: of(value) if isinstance(value, str) else value for key, value in each.arguments.items()}
        return msgspec.structs.replace(each, name=of(each.name), arguments=named)

    return Topology.of(
        exchanges=[Exchange(name=of("topics"), type="topic"), Exchange(name=of("all"), type="fanout")],
        queues=list(map(queue, topology.queues.values())),
        bindings=[
            Binding(source=of(each.source), destination=of(each.destination), routing_key=f"{team}.{each.routing_key}")
            for bound in topology.bindings.values()
            for each in bound
        ],
    )


def of_teams(given: random.Random) -> Topology:
    """Return a random topology that several teams have; of some of them a queue is another one."""
    one, own_exchanges = random_topology(given), given.random() < 0.5
    parts = [renamed(one, team, own_exchanges=own_exchanges) for team in TEAMS]
    queues = {name: queue for part in parts for name, queue in part.queues.items()}
    for name in given.sample(sorted(queues), given.randrange(3)):
        arguments = {**queues[name].arguments, "x-message-ttl": given.choice((3, 50, 2_000))}
        if queues[name].type == "classic":
            queues[name] = msgspec.structs.replace(queues[name], arguments=arguments)
    return Topology.of(
        exchanges=list({name: each for part in parts for name, each in part.exchanges.items()}.values()),
        queues=list(queues.values()),
        bindings=[each for part in parts for bound in part.bindings.values() for each in bound],
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", some_in_ci([seed for seed in range(50) if seed not in NO_LOG], {1, 2, 3, 5, 8, 13}))
def test_each_message_gets_what_its_own_play_gives(seed: int, plays: Plays, tmp_path: Path) -> None:
    given = random.Random(seed)
    release_, against = given.choice(("3.8", "3.10", "4.0", "4.3")), given.choice(("3.10", "4.3"))
    topology = of_teams(given)
    own = Definitions(definitions_document(topology, release_), "definitions.json")
    texts = [text for text in settings(topology, given) if not text.endswith("=")]
    before = side_of(own, release_)
    after = side_of(with_settings(own, [read_setting(each, own) for each in texts]), given.choice((release_, against)))
    generate(Wish(own.to_json(), 1_500, release_, seed, given.choice(("low", "high"))), tmp_path)
    one, two = prepared(before), prepared(after)
    with Database(tmp_path) as database:
        log = select(UNCOUPLED, log=database.parquet(sorted(tmp_path.glob("log-*.parquet"))))
        stories = read_log(log, one)
    unseen = given.choice(("ack", "repeat"))
    shared = compared(stories, one, two, unseen)
    plays.each()
    assert shared == compared(stories, one, two, unseen)


def ladder(team: str, ttl_ms: int = 1_000) -> list[Queue]:
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{team}.wait"}
    back = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{team}.work", "x-message-ttl": ttl_ms}
    return [Queue(name=f"{team}.work", arguments=dead), Queue(name=f"{team}.wait", arguments=back)]


LADDERS = Topology.of(
    exchanges=[Exchange(name="orders", type="topic")],
    queues=[*ladder("zebra"), *ladder("ant"), *ladder("bee", 3_000)],
    bindings=[Binding(source="orders", destination=f"{team}.work", routing_key=f"{team}.#")
              for team in ("zebra", "ant", "bee")],
)  # fmt: skip


def retried(team: str, key: str) -> list[AnyStep]:
    work = f"{team}.work"
    return [
        Publish("orders", f"{team}.{key}"),
        Wait(20),
        Reject(work),
        Leave(work),
        Wait(4_000),
        Ack(work),
        Leave(work),
    ]


def test_one_play_serves_equal_ladders(plays: Plays) -> None:
    history = [*retried("zebra", "a"), *retried("ant", "b"), *retried("bee", "c"), *retried("zebra", "d")]
    stories = sorted((case.story for case in asked_about(LADDERS, history).cases), key=lambda story: story.began)
    side = prepared(side_of(Definitions(definitions_document(LADDERS, DEFAULT), "definitions.json"), DEFAULT))
    runs = Runs(side, side, "ack", shown_by(stories))
    plays.count = 0
    found = [runs.first_alone(story) for story in stories]
    assert plays.count == 3  # the last one is the end of the log
    assert [each.fate.ends.acknowledged for each in found] == [
        (("zebra.work", 1),), (("ant.work", 1),), (("bee.work", 1),), (("zebra.work", 1),)]  # fmt: skip
    assert [each.fate.deliveries[1].x_death.count('"ant.w') for each in found] == [0, 3, 0, 0]
    assert '"routing-keys":["ant.b"]' in found[1].fate.deliveries[1].x_death
    plays.each()
    assert [runs.first_alone(story).fate for story in stories] == [each.fate for each in found]


def test_what_others_know_of_a_queue_tells_ways_apart() -> None:
    side = prepared(side_of(Definitions(definitions_document(LADDERS, DEFAULT), "definitions.json"), DEFAULT))
    reaches = Runs(side, side, "ack", shown_by([])).reaches

    def story(team: str) -> Story:
        return Story("/", team, [Publication(0, 0, "orders", f"{team}.x", {}, b"")])

    ways = Ways([side.flows], reaches, lambda queue: None)
    zebra, ant, bee = (ways.of(story(team)) for team in ("zebra", "ant", "bee"))
    assert zebra is not None
    assert ant is not None
    assert bee is not None
    assert zebra.shape == ant.shape != bee.shape
    assert OtherNames(zebra, ant).of("zebra.wait") == "ant.wait"
    known = Ways([side.flows], reaches, lambda queue: queue == ("/", "ant.work"))
    one, other = known.of(story("zebra")), known.of(story("ant"))
    assert one is not None
    assert other is not None
    assert one.shape != other.shape
    headed = Story("/", "cc", [Publication(0, 0, "orders", "ant.x", {"headers": {"CC": ["bee.x"]}}, b"")])
    assert ways.of(headed) is None
