"""Messages that are played by themselves, one after the other on one broker: each gets what its own rows decide."""

from __future__ import annotations

import pickle
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from dlx.topology import Binding, Exchange, Queue, Topology
from simulator.definitions import Definitions
from simulator.generate import Wish, generate
from simulator.replay import Database
from simulator.testing.strategies import definitions_document
from simulator.whatif.both_sides import ComparedMessage, Playbacks, compare
from simulator.whatif.local import read_log
from simulator.whatif.playback import FirstRun
from simulator.whatif.sides import prepared, side_of
from simulator.whatif.stories import ConsumerAction, Publication, Shown, Story, StoryDelivery
from tests.long import some_in_ci
from tests.whatif.asking import shown_by
from tests.whatif.random_questions import random_question

SECOND = 1_000_000
BEGIN = 1_767_225_600 * SECOND
LATER = 10_000 * SECOND
ONE = Topology.of(queues=[Queue(name="q")])


def publish(at_us: int, exchange: str, key: str, **properties: Any) -> Publication:
    body = properties.pop("body", b"")
    return Publication(BEGIN + at_us, at_us + 1, exchange, key, properties, body)


def deliver(
    at_us: int, queue: str, action: ConsumerAction = ConsumerAction.ENDED, held_us: int = 0, *, traced: bool = True
) -> StoryDelivery:
    at, place = BEGIN + at_us, at_us + 2
    until = {"until_us": at + held_us, "until_place": place + 0.5 if held_us else 0}
    return StoryDelivery(Shown(queue, "", (), ""), at, place, "", action=action, traced=traced, **until)


def story(*events: Publication | StoryDelivery) -> Story:
    published = [each for each in events if isinstance(each, Publication)]
    return Story("/", "one", published, [each for each in events if isinstance(each, StoryDelivery)])


def runs_of(
    stories: Sequence[Story], topology: Topology, release: str, policies: Sequence[Mapping[str, Any]] = ()
) -> Playbacks:
    document = {**definitions_document(topology, release), "policies": [*policies]}
    side = prepared(side_of(Definitions(document, "definitions.json"), release))
    return Playbacks(side, side, "ack", shown_by([*stories, story(publish(LATER, "", "nowhere"))]))


def played(stories: Sequence[Story], topology: Topology, release: str, policies: Any = ()) -> list[FirstRun]:
    playbacks = runs_of(stories, topology, release, policies)
    return [playbacks.first_alone(each) for each in stories]


def told(firsts: Sequence[FirstRun]) -> list[Any]:
    return [(each.fate, {queue: [str(stay) for stay in some] for queue, some in each.stays.items()}) for each in firsts]


QUORUM = {"x-queue-type": "quorum"}
TIMED = Topology.of(queues=[Queue(name="q", type="quorum", arguments={**QUORUM, "x-consumer-timeout": 60_000})])
LONG = Topology.of(queues=[Queue(name="q", type="quorum", arguments={**QUORUM, "x-consumer-timeout": 3_600_000})])
BY_POLICY = {"vhost": "/", "name": "short", "pattern": ".*", "apply-to": "all", "priority": 0,
             "definition": {"consumer-timeout": 60_000}}  # fmt: skip


def held(at_us: int, held_us: int) -> Story:
    return story(publish(at_us, "", "q"), deliver(at_us + 1_900, "q", held_us=held_us))


def answer(at_us: int, key: str, **properties: Any) -> Story:
    return story(publish(at_us, "", key, **properties))


FAN = Topology.of(
    exchanges=[Exchange(name="f", type="fanout")],
    queues=[Queue(name="w"), Queue(name="v")],
    bindings=[Binding(source="f", destination=name) for name in ("w", "v")],
)


def out_of_order(at_us: int, held_us: int) -> Story:
    """A delivery without a trace that was before one that stands before it: the counts told of it only later."""
    return story(
        publish(at_us, "", "w"), publish(at_us + 1, "", "w"), publish(at_us + 2, "f", "k"),
        deliver(at_us + 1_000, "w"), deliver(at_us + 50_000, "w", ConsumerAction.REJECTED, held_us),
        deliver(at_us + 1_000, "w", traced=False), deliver(at_us + 20_000, "v", ConsumerAction.REJECTED),
    )  # fmt: skip


STREAM = Topology.of(
    queues=[Queue(name="s", type="stream", arguments={
        "x-queue-type": "stream", "x-max-length-bytes": 300, "x-stream-max-segment-size-bytes": 100,
    })]
)  # fmt: skip


def sized(at_us: int, size: int) -> Story:
    return story(*(publish(at_us + number, "", "s", body=b"x" * size) for number in range(2)))


@pytest.mark.parametrize(
    ("topology", "stories", "release", "policies"),
    [
        pytest.param(ONE, [answer(0, "q", reply_to="answers"), answer(SECOND, "q", reply_to="amq.rabbitmq.reply-to")],
                     "4.3", (), id="the pseudo-queue of direct reply-to"),
        pytest.param(LONG, [held(0, 2 * SECOND), held(1_000 * SECOND, 200 * SECOND)], "4.3", (BY_POLICY,),
                     id="a consumer timeout by policy"),
        pytest.param(TIMED, [held(0, 2 * SECOND), held(1_000 * SECOND, 60 * SECOND - 300)], "4.3", (),
                     id="a consumer timeout less than a millisecond away"),
        pytest.param(FAN, [out_of_order(0, 5_000), out_of_order(10 * SECOND, 30_000)], "4.3", (),
                     id="deliveries that are not in the order of time"),
        pytest.param(STREAM, [sized(0, 1), sized(SECOND, 200)], "4.3", (), id="the retention of a stream"),
    ],
)  # fmt: skip
def test_messages_that_look_alike_get_what_their_own_rows_decide(
    topology: Topology, stories: list[Story], release: str, policies: Any
) -> None:
    found = told(played(stories, topology, release, policies))
    assert found[0][0].ends != found[1][0].ends or found[0][0].deaths != found[1][0].deaths


@pytest.mark.parametrize(
    "claim", [[{"count": 1, "queue": "q", "reason": "expired"}], "text", [1], [{"routing-keys": 5}]]
)
def test_any_x_death_of_a_client_is_played(claim: Any) -> None:
    stories = [story(publish(at, "", "q", headers={"x-death": claim}), deliver(at + 1_000, "q")) for at in (0, SECOND)]
    for release in ("3.10", "4.3"):
        one, other = told(played(stories, ONE, release))
        assert one[0].ends == other[0].ends


def test_each_message_draws_by_itself_where_an_exchange_chooses_at_random() -> None:
    topology = Topology.of(
        exchanges=[Exchange(name="any", type="x-local-random")],
        queues=[Queue(name="a"), Queue(name="b")],
        bindings=[Binding(source="any", destination=name) for name in ("a", "b")],
    )
    stories = [story(publish(number * SECOND, "any", "k")) for number in range(40)]
    assert {queue for each in played(stories, topology, "4.3") for queue in each.stays} == {"a", "b"}


def test_what_a_run_gives_does_not_depend_on_the_one_before() -> None:
    """Delayed retries of 4.3 count whole milliseconds."""
    retry = {**QUORUM, "x-delayed-retry-type": "all", "x-delayed-retry-min": 10}
    topology = Topology.of(queues=[Queue(name="q", type="quorum", arguments=retry)])
    stories = [
        story(publish(at, "", "q"), deliver(at + 1_000, "q", ConsumerAction.REQUEUED), deliver(at + 20_000, "q"))
        for at in (300, SECOND + 999, 2 * SECOND + 300)
    ]
    first, _, third = told(played(stories, topology, "4.3"))
    waited = [[stay.after_us for stay in each.stays["q"]] for each in played(stories, topology, "4.3")]
    assert waited[0] == waited[2]
    assert first[0].ends == third[0].ends


def test_what_was_due_after_an_earlier_run_is_over() -> None:
    """Else the second queue would look at its messages only after the first one has, though both expire at once."""
    topology = Topology.of(
        exchanges=[Exchange(name="f", type="fanout")],
        queues=[Queue(name=name, arguments={"x-message-ttl": 1_000}) for name in ("b", "a")],
        bindings=[Binding(source="f", destination=name) for name in ("b", "a")],
    )
    taken = story(publish(0, "", "b"), deliver(SECOND // 2, "b"))
    expiring = story(publish(10 * SECOND, "f", "k"))
    _, after = played([taken, expiring], topology, "4.3")
    (by_itself,) = played([expiring], topology, "4.3")
    assert after.fate.deaths == by_itself.fate.deaths == (("b", "expired"), ("a", "expired"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", some_in_ci(range(40), {1, 5, 6, 9, 13}))
def test_in_whatever_order_messages_are_played_each_gets_the_same(seed: int, tmp_path: Path) -> None:
    """A play leaves nothing behind for the next one."""
    before, after, unseen = random_question(random.Random(seed))
    generate(Wish(before.definitions.to_json(), 400, before.release.name, seed), tmp_path)
    with Database(tmp_path) as database:
        log = database.parquet(sorted(tmp_path.glob("log-*.parquet")))
        stories = read_log(log, prepared(before))
    shuffled = pickle.loads(pickle.dumps(stories))
    random.Random(seed).shuffle(shuffled)
    found = [cases_by_name(own, Playbacks(prepared(before), prepared(after), unseen, shown_by(stories)))
             for own in (stories, shuffled)]  # fmt: skip
    assert len(found[0]) > 10
    assert found[0] == found[1]


def cases_by_name(stories: Sequence[Story], playbacks: Playbacks) -> dict[str, ComparedMessage]:
    _, together = compare(stories, playbacks)
    return {case.story.message: case for _, cases in together for case in cases}
