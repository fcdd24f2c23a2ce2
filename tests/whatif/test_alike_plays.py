"""Messages that are alike are played once, and each gets what its own play would have given."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dlx.releases import DEFAULT
from dlx.topology import Binding, Exchange, Queue, Topology
from simulator.definitions import Definitions
from simulator.generate import Wish, generate
from simulator.replay import Database
from simulator.replay.tables import select
from simulator.replay.whatif.alike_plays import AlikePlays
from simulator.replay.whatif.differences import Side
from simulator.replay.whatif.local import read_log
from simulator.replay.whatif.rerun import First, Unseen
from simulator.replay.whatif.settings_given import read_setting, with_settings
from simulator.replay.whatif.stories import Story
from simulator.replay.whatif.timetable import AnyPlanner
from simulator.replay.whatif.what_if import Comparison, Prepared, Runs, prepared, side_of
from simulator.scenario.steps import Ack, AnyStep, Hold, Leave, Publish, Reject, Wait
from simulator.testing.strategies import definitions_document
from tests.long import some_in_ci
from tests.whatif.asking import asked_about, shown_by
from tests.whatif.test_second_side import UNCOUPLED

KEYS = ("order.one", "order.two", "stock.one", "*.one", "#")


class Plays:
    """Counts the plays, and can have every message played by itself."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self._monkeypatch, plain = monkeypatch, AlikePlays._played

        def played(plays: AlikePlays, given: First, planner: AnyPlanner) -> First:
            self.count += 1
            return plain(plays, given, planner)

        monkeypatch.setattr(AlikePlays, "_played", played)

    def each(self) -> None:
        self.count = 0
        self._monkeypatch.setattr(AlikePlays, "_key", lambda *_: None)


@pytest.fixture
def plays(monkeypatch: pytest.MonkeyPatch) -> Plays:
    return Plays(monkeypatch)


def firsts(stories: Sequence[Story], topology: Topology) -> list[First]:
    side = prepared(side_of(Definitions(definitions_document(topology, DEFAULT), "definitions.json"), DEFAULT))
    runs = Runs(side, side, "ack", shown_by(stories))
    return [runs.first_alone(story) for story in stories]


def stories_of(topology: Topology, history: Sequence[AnyStep]) -> list[Story]:
    return sorted((case.story for case in asked_about(topology, history).cases), key=lambda story: story.began)


def what_it_gave(found: First) -> Any:
    stays = {queue: [msgspec.structs.astuple(each) for each in some] for queue, some in found.stays.items()}
    return found.fate, stays


RETRIED = Topology.of(
    exchanges=[Exchange(name="orders", type="topic")],
    queues=[
        Queue(name="work", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait"}),
        Queue(
            name="wait",
            arguments={"x-message-ttl": 1_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work"},
        ),
    ],
    bindings=[Binding(source="orders", destination="work", routing_key="order.*.made")],
)


def retried(key: str, *waits_ms: int) -> list[AnyStep]:
    """A message that waits before it is rejected for the first time, and each time in the queue for retries."""
    before, *others = waits_ms
    steps: list[AnyStep] = [Publish("orders", key), Wait(before)]
    for wait_ms in others:
        steps += [Reject("work"), Leave("work"), Wait(wait_ms)]
    return [*steps, Ack("work"), Leave("work"), Wait(5_000)]


def test_times_and_keys_that_nothing_tells_apart_are_played_once(plays: Plays) -> None:
    history = [*retried("order.17.made", 20, 1_500), *retried("order.4711.made", 333, 2_222), Publish("orders", "last")]
    stories = stories_of(RETRIED, history)
    plays.count = 0
    shared = [what_it_gave(each) for each in firsts(stories, RETRIED)]
    assert (plays.count, len(shared)) == (2, 3)
    *shared, _ = shared
    assert [fate.last_us - fate.first_us for fate, _ in shared] == [1_520_000, 2_555_000]
    assert [fate.deliveries[0].routing_keys for fate, _ in shared] == [("order.17.made",), ("order.4711.made",)]
    assert ["order.4711.made" in fate.deliveries[1].x_death for fate, _ in shared] == [False, True]
    assert [stays["work"][1][2] for _, stays in shared] == [500_000, 1_222_000]
    plays.each()
    assert shared == [what_it_gave(each) for each in firsts(stories, RETRIED)][:2]
    assert plays.count == 3


def test_another_order_of_moments_is_played_by_itself(plays: Plays) -> None:
    """The second message is still waiting in the first queue when the first one has expired there."""
    topology = Topology.of(
        queues=[
            Queue(name="work", arguments={"x-message-ttl": 1_000, "x-dead-letter-exchange": ""}),
            Queue(name="late", arguments={}),
        ]
    )
    history = [Publish("", "work"), Wait(900), Ack("work"), Publish("", "work"), Wait(1_100), Publish("", "late"),
               Ack("late")]  # fmt: skip
    stories = stories_of(topology, history)
    plays.count = 0
    shared = [what_it_gave(each) for each in firsts(stories, topology)]
    assert plays.count == 3
    plays.each()
    assert shared == [what_it_gave(each) for each in firsts(stories, topology)]


def test_a_moment_that_only_looks_like_the_end_of_two_ttls_is_another_one(plays: Plays) -> None:
    """The first message is delivered in the very moment in which it comes, the second one later."""
    topology = Topology.of(
        queues=[
            Queue(name="a", arguments={"x-message-ttl": 50, "x-dead-letter-exchange": "",
                                       "x-dead-letter-routing-key": "b"}),
            Queue(name="b", arguments={"x-message-ttl": 50, "x-dead-letter-exchange": "",
                                       "x-dead-letter-routing-key": "seen"}),
            Queue(name="seen"),
        ]
    )  # fmt: skip
    history = [Publish("", "a"), Wait(100), Ack("seen"), Leave("seen"), Publish("", "a"), Wait(209), Ack("seen"),
               Wait(1_000), Publish("", "seen")]  # fmt: skip
    stories = stories_of(topology, history)
    shared = [what_it_gave(each) for each in firsts(stories, topology)]
    assert [stays["seen"][0][2] for _, stays in shared] == [0, 109_000, 0]
    plays.each()
    assert shared == [what_it_gave(each) for each in firsts(stories, topology)]


def timed(**arguments: int) -> Topology:
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "seen"}
    work = Queue(name="work", type="quorum", arguments={"x-queue-type": "quorum", **dead, **arguments})
    return Topology.of(queues=[work, Queue(name="seen")])


@pytest.mark.parametrize(("timeout_ms", "played"), [(60_000, 2), (30_000, 3)])
def test_a_delivery_that_a_timeout_may_end_is_played_by_itself(timeout_ms: int, played: int, plays: Plays) -> None:
    held: list[AnyStep] = [Publish("", "work"), Hold("work"), Wait(40_000), Reject("work"), Leave("work"), Ack("seen"),
                           Leave("seen"), Wait(1_000)]  # fmt: skip
    stories = stories_of(timed(), [*held, *held, Publish("", "seen")])
    plays.count = 0
    firsts(stories, timed(**{"x-consumer-timeout": timeout_ms}))
    assert plays.count == played


# Random logs


def random_topology(given: random.Random) -> Topology:
    """Queues that dead-letter into each other, some of them with TTLs, which often end in the same millisecond."""
    names = [f"q{number}" for number in range(given.randint(2, 6))]
    queues, bindings = [], []
    for name in names:
        arguments: dict[str, Any] = {}
        if given.random() < 0.6:
            arguments["x-message-ttl"] = given.choice((1, 10, 100, 1_000, 5_000))
        if given.random() < 0.8:
            arguments["x-dead-letter-exchange"] = given.choice(("", "topics", "all"))
            if given.random() < 0.7:
                arguments["x-dead-letter-routing-key"] = given.choice((*names, "order.one", "nowhere"))
        quorum = given.random() < 0.3 and "x-message-ttl" not in arguments
        if quorum:
            arguments |= {"x-queue-type": "quorum", "x-delivery-limit": given.randint(0, 3)}
        queues.append(Queue(name=name, type="quorum" if quorum else "classic", arguments=arguments))
        bindings += [
            Binding(source=given.choice(("topics", "all")), destination=name, routing_key=given.choice(KEYS))
            for _ in range(given.randint(0, 2))
        ]
    return Topology.of(
        exchanges=[Exchange(name="topics", type="topic"), Exchange(name="all", type="fanout")],
        queues=queues,
        bindings=bindings,
    )


def settings(topology: Topology, given: random.Random) -> list[str]:
    queue = given.choice([*topology.queues])
    return given.choice(
        [[f"queue:{queue}.x-message-ttl=7"], [f"queue:{queue}.x-message-ttl=20000"], [],
         [f"queue:{queue}.x-dead-letter-exchange=", f"queue:{queue}.x-dead-letter-routing-key="]]
    )  # fmt: skip


def compared(stories: Sequence[Story], one: Prepared, other: Prepared, unseen: Any) -> tuple[Any, ...]:
    """All that comes of asking."""
    comparison = Comparison(stories, Runs(one, other, unseen, shown_by(stories)))
    cases = comparison.play()
    return [msgspec.structs.replace(case, story=None) for case in cases], comparison.runs._habits


@pytest.mark.slow
@pytest.mark.parametrize("seed", some_in_ci(range(60), range(6)))
def test_each_message_gets_what_its_own_play_gives(seed: int, plays: Plays, tmp_path: Path) -> None:
    given = random.Random(seed)
    before, after, unseen = random_question(given)
    wish = Wish(before.definitions.to_json(), 1_500, before.release.name, seed, given.choice(("low", "high")))
    generate(wish, tmp_path)
    one, two = prepared(before), prepared(after)
    with Database(tmp_path) as database:
        log = select(UNCOUPLED, log=database.parquet(sorted(tmp_path.glob("log-*.parquet"))))
        stories = read_log(log, one)
    shared, some = compared(stories, one, two, unseen), plays.count
    plays.each()
    assert shared == compared(stories, one, two, unseen)
    assert some < 0.9 * plays.count  # else it would say nothing


def random_question(given: random.Random) -> tuple[Side, Side, Unseen]:
    """Both sides, and what consumers do with deliveries that the log does not have."""
    release = given.choice(("3.8", "3.10", "4.0", "4.3"))
    against = given.choice((release, release, "4.3", "3.10"))
    unseen: Unseen = given.choice(("ack", "repeat"))
    topology = random_topology(given)
    own = Definitions(definitions_document(topology, release), "definitions.json")
    texts = [text for text in settings(topology, given) if not text.endswith("=") or _has(own, text)]
    other = with_settings(own, [read_setting(each, own) for each in texts])
    return side_of(own, release), side_of(other, against), unseen


def _has(definitions: Definitions, text: str) -> bool:
    """Tell whether a queue has the argument that a setting removes."""
    queue, _, key = text.removeprefix("queue:").removesuffix("=").partition(".")
    return any(each["name"] == queue and key in each["arguments"] for each in definitions.document["queues"])
