"""What other settings would have done, in small logs whose whole history is known."""

from __future__ import annotations

from typing import Any

import pytest

from dlx.topology import Binding, Exchange, Policy, Queue, Topology
from simulator.broker.commands import Command, PassTime
from simulator.broker.replies import Got
from simulator.scenario.steps import Ack, AnyStep, Crash, Get, Hold, Leave, Publish, Reject, Requeue, Wait
from simulator.whatif.answer import ends_of
from simulator.whatif.both_sides import RETURNED
from simulator.whatif.local import WhatIfResult
from simulator.whatif.playback_broker import PlaybackBroker
from simulator.whatif.stories import ConsumerAction
from tests.whatif.asking import asked_about

RELEASES = ("3.8", "3.10", "4.0", "4.3")


def dead_lettering(name: str, to: str, **arguments: Any) -> Queue:
    given = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": to, **_arguments(arguments)}
    return Queue(name=name, type=given.get("x-queue-type", "classic"), arguments=given)


def _arguments(given: dict[str, Any]) -> dict[str, Any]:
    return {f"x-{name.replace('_', '-')}": value for name, value in given.items()}


LADDER = Topology.of(
    queues=[dead_lettering("work", "wait"), dead_lettering("wait", "work", message_ttl=1_000), Queue(name="parked")]
)


def retried(times: int) -> list[AnyStep]:
    """A message that is rejected so many times, and then acknowledged."""
    failed = [step for _ in range(times) for step in (Reject("work"), Wait(1_000))]
    return [Publish("", "work"), *failed, Ack("work")]


def ends(asked: WhatIfResult) -> list[Any]:
    return [case.after.ends for case in asked.cases]


def test_the_same_settings_change_nothing() -> None:
    for release in RELEASES:
        asked = asked_about(LADDER, retried(2), release=release)
        (case,) = asked.cases
        assert [each.action for each in case.story.deliveries] == [
            ConsumerAction.REJECTED,
            ConsumerAction.REJECTED,
            ConsumerAction.ENDED,
        ]
        assert (asked.answer.messages, asked.answer.reproduced, asked.answer.changed) == (1, 1, 0)
        assert (case.before.ends, case.before.deaths) == (case.after.ends, case.after.deaths)
        assert asked.answer.after.acknowledged == {"work": 1}


COUNTED = Topology.of(
    exchanges=[Exchange(name="again", type="fanout")],
    queues=[
        Queue(
            name="work",
            type="quorum",
            arguments={"x-queue-type": "quorum", "x-delivery-limit": 2, "x-dead-letter-exchange": "again"},
        ),
        Queue(name="parked"),
    ],
    bindings=[Binding(source="again", destination="work"), Binding(source="again", destination="parked")],
)
RETURNED_ONCE = [Publish("", "work"), Reject("work"), Reject("work"), Requeue("work"), Ack("parked", times=2)]


def test_a_rejection_that_counts_as_a_failure_counts_again() -> None:
    asked = asked_about(COUNTED, [*RETURNED_ONCE, Ack("parked")], release="4.3")
    (case,) = asked.cases
    outcomes = [each.action for each in case.story.deliveries if each.queue == "work"]
    assert outcomes == [ConsumerAction.FAILED, ConsumerAction.FAILED, ConsumerAction.CRASHED]
    assert [reason for _, reason in case.before.deaths] == ["rejected", "rejected", "delivery_limit"]
    assert (asked.answer.messages, asked.answer.reproduced, asked.answer.changed) == (1, 1, 0)
    assert asked.answer.outcomes["rejected (basic.reject), inferred"] == 2


def quorum(name: str, limit: int, to: str = "") -> Queue:
    given = {"dead_letter_exchange": "", "dead_letter_routing_key": to} if to else {}
    arguments = {"x-queue-type": "quorum", "x-delivery-limit": limit, **_arguments(given)}
    return Queue(name=name, type="quorum", arguments=arguments)


CHAINS: dict[str, tuple[list[Queue], list[AnyStep]]] = {
    "over the limit as it comes": (
        [quorum("a", 1, "b"), quorum("b", 0, "c"), quorum("c", 2)],
        [Reject("a"), Requeue("b", method="nack"), Requeue("c", method="reject"), Requeue("c", method="nack")],
    ),
    "two rejections of which only the sum is shown": (
        [quorum("a", 1, "b"), dead_lettering("b", "c"), quorum("c", 2, "d"), Queue(name="d")],
        [Reject("a"), Reject("b"), Requeue("c"), Ack("d")],
    ),
    "a lost channel that only the next queue shows": (
        [dead_lettering("a", "b"), quorum("b", 2, "c"), quorum("c", 1, "d"), quorum("d", 2)],
        [Crash("a"), Reject("a"), Crash("b"), Reject("c")],
    ),
}


@pytest.mark.parametrize("chain", CHAINS)
def test_failures_add_up_along_a_chain(chain: str) -> None:
    queues, steps = CHAINS[chain]
    asked = asked_about(Topology.of(queues=queues), [Publish("", "a"), *steps], release="4.3")
    assert asked.answer.reproduced == 1


def test_nobody_knows_of_older_releases_whether_rejections_would_count() -> None:
    asked = asked_about(COUNTED, [*RETURNED_ONCE, Ack("work")], release="3.10", against="4.3")
    (case,) = asked.cases
    assert case.before.ends == case.after.ends
    assert case.or_else is not None
    assert any(RETURNED in assumed for assumed in case.assumed)
    unreturned = [Publish("", "work"), *[Reject("work")] * 3, Ack("work")]
    assert asked_about(COUNTED, unreturned, release="3.10", against="4.3").cases[0].or_else is None


def test_a_longer_wait_is_a_longer_delay() -> None:
    answer = asked_about(LADDER, retried(2), "queue:wait.x-message-ttl=30000").answer
    assert answer.changed == 0
    assert (answer.delay_ms.before.p50, answer.delay_ms.after.p50) == (2_000, 60_000)


def test_a_dead_letter_key_that_names_no_queue_loses_what_is_rejected() -> None:
    answer = asked_about(LADDER, retried(1), "queue:work.x-dead-letter-routing-key=wiat").answer
    assert answer.after.lost == {"work": {"rejected": 1}}
    assert answer.after.acknowledged == {}
    assert answer.losing
    (cause,) = answer.causes
    assert (cause.what, cause.messages) == ('x-dead-letter-routing-key of queue \'work\': "wait" → "wiat"', 1)
    assert answer.changes[0].lost


def test_a_lower_delivery_limit_ends_retries_earlier() -> None:
    topology = Topology.of(
        queues=[dead_lettering("jobs", "parked", queue_type="quorum", delivery_limit=3), Queue(name="parked")]
    )
    crashes = [Publish("", "jobs"), Crash("jobs"), Crash("jobs"), Ack("jobs")]
    for release in RELEASES:
        asked = asked_about(topology, crashes, "queue:jobs.x-delivery-limit=1", release=release)
        assert asked.answer.before.acknowledged == {"jobs": 1}
        assert asked.answer.after.waiting == {"parked": 1}
        assert asked.answer.assumed == 1  # in the log nothing came into parked: it may have a consumer


def test_consumers_of_a_release_that_counts_failures_alone_may_return_messages_for_ever() -> None:
    topology = Topology.of(
        queues=[dead_lettering("jobs", "parked", queue_type="quorum", delivery_limit=1), Queue(name="parked")]
    )
    requeues = [Publish("", "jobs"), Requeue("jobs", method="nack"), Requeue("jobs", method="nack"), Ack("parked")]
    answer = asked_about(topology, requeues, release="3.10", against="4.3").answer
    assert answer.before.acknowledged == {"parked": 1}
    assert answer.after.acknowledged == {"jobs": 1}
    assert answer.assumptions == {
        "the consumer of 'jobs' acknowledges a delivery that the log does not have": 1,
        f"{RETURNED}; if they failed it: acknowledged in 'parked'": 1,
    }
    assert (answer.undecided, answer.undecided_losing) == (1, 0)
    repeated = asked_about(topology, requeues, release="3.10", against="4.3", unseen="repeat").answer
    assert repeated.assumptions["the consumer of 'jobs' returns a delivery that the log does not have"] == 1


def test_a_poison_message_may_be_lost_where_no_trace_tells_how_it_came_back() -> None:
    topology = Topology.of(queues=[Queue(name="jobs", type="quorum", arguments={"x-queue-type": "quorum"})])
    crashes = [Publish("", "jobs"), *[Crash("jobs")] * 25, Ack("jobs")]
    answer = asked_about(topology, crashes, release="3.10", against="4.3").answer
    assert (answer.changed, answer.undecided, answer.undecided_losing) == (0, 1, 1)


def test_a_shorter_ttl_takes_messages_from_a_slow_consumer() -> None:
    topology = Topology.of(queues=[dead_lettering("slow", "late", message_ttl=60_000), Queue(name="late")])
    history = [Publish("", "slow"), Wait(5_000), Ack("slow")]
    answer = asked_about(topology, history, "queue:slow.x-message-ttl=1000").answer
    assert (answer.before.acknowledged, answer.after.acknowledged) == ({"slow": 1}, {})
    assert answer.after.waiting == {"late": 1}


def test_without_the_ttl_what_expired_is_delivered_later() -> None:
    topology = Topology.of(queues=[dead_lettering("slow", "late", message_ttl=1_000), Queue(name="late")])
    history = [Publish("", "slow"), Wait(1_000), Ack("late"), Publish("", "slow"), Wait(10), Ack("slow")]
    answer = asked_about(topology, history, "queue:slow.x-message-ttl=").answer
    assert answer.before.acknowledged == {"late": 1, "slow": 1}
    assert answer.after.acknowledged == {"slow": 2}
    assert answer.assumed == 1


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("failed", [Reject("work"), Requeue("work")])
def test_a_consumer_that_fails_a_message_does_so_when_it_lives_until_it_is_delivered(
    release: str, failed: AnyStep
) -> None:
    """No trace tells when, but behind it is a queue with a TTL, and from there it was delivered."""
    behind = dead_lettering("behind", "parked", message_ttl=300)
    topology = Topology.of(queues=[quorum("work", 0, to="behind"), behind, Queue(name="parked")])
    history = [Publish("", "work"), Get("work"), Wait(400), failed, Wait(100), Get("behind")]
    for ended in ([Ack("behind")], [Requeue("behind"), Wait(150), Ack("behind")]):
        answer = asked_about(topology, [*history, *ended], release=release).answer
        assert (answer.reproduced, answer.changed, answer.after.acknowledged) == (1, 0, {"behind": 1})


def test_a_length_limit_couples_what_meets_there_and_nothing_else() -> None:
    topology = Topology.of(queues=[dead_lettering("burst", "over"), Queue(name="over"), Queue(name="other")])
    burst = [Publish("", "burst", times=5), Publish("", "other"), Wait(100), *[Ack("burst")] * 5, Ack("other")]
    asked = asked_about(topology, burst, "queue:burst.x-max-length=2")
    assert asked.answer.after.acknowledged == {"burst": 2, "other": 1}
    assert asked.answer.after.waiting == {"over": 3}
    assert [(len(unit.stories), unit.why) for unit in asked.units] == [(5, ("'burst' has a length limit",)), (1, ())]


@pytest.mark.parametrize("release", ["3.10", "4.0", "4.3"])
def test_returned_messages_fill_a_queue_that_refuses_the_next(release: str) -> None:
    """No trace tells when they came back: not as late as they were delivered again, or more would have been taken."""
    limited = {"x-queue-type": "quorum", "x-max-length": 3, "x-overflow": "reject-publish", "x-delivery-limit": 9}
    topology = Topology.of(queues=[Queue(name="jobs", type="quorum", arguments=limited)])
    returned = [Publish("", "jobs", times=3), Wait(1_000), Hold("jobs", times=3), Leave("jobs"), Wait(1_000)]
    answer = asked_about(topology, [*returned, Publish("", "jobs", times=4), Wait(1_000), *[Ack("jobs")] * 4],
                         release=release).answer  # fmt: skip
    assert (answer.messages, answer.reproduced) == (7, 7)
    assert answer.before.refused == {"jobs": 3}


REFUSING = Topology.of(
    queues=[dead_lettering("jobs", "over", max_length=1, overflow="reject-publish-dlx"), Queue(name="over")]
)


def taken_late(*steps: AnyStep) -> list[AnyStep]:
    """A message that was taken, then these steps, and all messages acknowledged long after."""
    taken = [Publish("", "jobs"), Wait(1_000), Hold("jobs"), Wait(1_000)]
    return [*taken, *steps, Wait(1_000), *[Ack("jobs")] * 2, *[Ack("over")] * 2]


def test_rows_of_one_moment_keep_their_order() -> None:
    """The second message was refused before the first one was taken, in the same microsecond."""
    history = [Publish("", "jobs"), Publish("", "jobs"), Ack("jobs"), Wait(1_000), Ack("over")]
    answer = asked_about(REFUSING, history).answer
    assert (answer.reproduced, answer.changed, answer.after.refused) == (2, 0, {"jobs": 1})


def test_a_refusal_tells_that_a_message_was_back() -> None:
    returned = taken_late(Leave("jobs"), Wait(1_000), Publish("", "jobs"))
    for release in RELEASES:
        asked = asked_about(REFUSING, returned, release=release)
        assert (asked.answer.reproduced, asked.answer.changed) == (2, 0)
        assert asked.answer.after.refused == {"jobs": 1}
        (first, refused) = [case.story for case in asked.cases]
        assert first.deliveries[0].until_us == refused.publications[0].at_us


def test_without_a_refusal_a_message_comes_back_as_late_as_it_can() -> None:
    """The first publish finds room, and fills the queue: a refusal of the second one tells nothing."""
    asked = asked_about(REFUSING, taken_late(Publish("", "jobs"), Publish("", "jobs"), Leave("jobs")))
    assert (asked.answer.messages, asked.answer.reproduced, asked.answer.changed) == (3, 3, 0)
    assert asked.answer.after.refused == {"jobs": 1}


@pytest.mark.parametrize("release", ["3.10", "4.0"])
def test_what_is_requeued_goes_behind_what_is_there(release: str) -> None:
    """In a quorum queue without a delivery limit, of some releases; with its channel lost, a message goes first."""
    unlimited = {"queue_type": "quorum"} | ({"delivery_limit": -1} if release == "4.0" else {})
    coupled = {"dead_letter_strategy": "at-least-once", "overflow": "reject-publish"}
    topology = Topology.of(queues=[dead_lettering("jobs", "missing", **unlimited, **coupled)])
    requeued = [Publish("", "jobs"), Get("jobs"), Wait(1_000), Requeue("jobs"), Publish("", "jobs"), Wait(1_000)]
    lost = [Publish("", "jobs", times=2), Hold("jobs"), Wait(1_000), Leave("jobs"), Wait(1_000)]
    for history, action in ((requeued, ConsumerAction.REQUEUED), (lost, ConsumerAction.CRASHED)):
        asked = asked_about(topology, [*history, *[Get("jobs"), Ack("jobs"), Wait(1_000)] * 2], release=release)
        assert (asked.answer.reproduced, asked.answer.changed) == (2, 0)
        ended = [case.before.last_us for case in asked.cases]
        assert ended == [case.story.deliveries[-1].at_us for case in asked.cases]
        assert asked.cases[0].story.deliveries[0].action == action


def test_a_consumer_that_never_got_the_message_publishes_nothing() -> None:
    """What a consumer published again came after its delivery, and does not come without it."""
    topology = Topology.of(
        exchanges=[Exchange(name="in", type="fanout")],
        bindings=[Binding(source="in", destination="work")],
        queues=[dead_lettering("work", "wait"), dead_lettering("wait", "work", message_ttl=1_000)],
    )
    history = [Publish("in", ""), Reject("work"), Wait(1_000), Ack("work")]
    answer = asked_about(topology, history, "queue:work.x-dead-letter-exchange=nowhere").answer
    assert answer.after.lost == {"work": {"rejected": 1}}


def test_what_consumers_did_is_counted_by_how_it_is_known() -> None:
    outcomes = asked_about(LADDER, retried(2)).answer.outcomes
    assert outcomes == {"rejected, inferred": 2, "ended, acknowledged or discarded: traces cannot show which": 1}


def test_messages_that_change_are_told_by_what_they_have_in_common() -> None:
    topology = Topology.of(queues=[dead_lettering("work", "parked"), Queue(name="parked"), Queue(name="fine")])
    bad = [step for _ in range(4) for step in (Publish("", "work"), Reject("work"), Ack("parked"))]
    good = [step for _ in range(6) for step in (Publish("", "fine"), Ack("fine"))]
    answer = asked_about(topology, [*bad, *good], "queue:work.x-dead-letter-exchange=").answer
    assert answer.changed == 4
    (found,) = [each for each in answer.over_represented if each.what == "routing key"]
    assert (found.value, found.messages, found.ratio) == ("work", 4, 2.5)


def test_a_message_that_goes_round_without_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulator.whatif.playback.EVENTS_MAX", 40)
    monkeypatch.setattr("simulator.whatif.playback.EVENTS_PER_MOMENT_MAX", 0)
    topology = Topology.of(
        queues=[dead_lettering("jobs", "parked", queue_type="quorum", delivery_limit=1), Queue(name="parked")]
    )
    history = [Publish("", "jobs"), Crash("jobs"), Crash("jobs"), Ack("parked"), Publish("", "parked"), Ack("parked")]
    asked = asked_about(topology, history, "queue:jobs.x-delivery-limit=60", unseen="repeat")
    assert asked.answer.reproduced == 2
    assert asked.answer.changed == asked.answer.after.endless == 1
    assert asked.answer.changes[0].after.startswith("goes round without end")


def holding(name: str, to: str, ttl_ms: int = 1_000) -> Queue:
    """A queue that holds what has expired until it has arrived."""
    held = {"queue_type": "quorum", "message_ttl": ttl_ms, "dead_letter_strategy": "at-least-once"}
    return dead_lettering(name, to, **held, overflow="reject-publish")


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The moments at which runs wait for what a broker does by itself."""
    found: list[int] = []
    tell = PlaybackBroker.tell

    def counting(broker: PlaybackBroker, command: Command) -> Got | None:
        if isinstance(command, PassTime):
            found.append(broker.now_us)
        return tell(broker, command)

    monkeypatch.setattr(PlaybackBroker, "tell", counting)
    return found


@pytest.mark.parametrize("release", ["3.10", "4.3"])
def test_a_dead_letter_that_never_arrives_is_held_where_it_died(release: str, ticks: list[int]) -> None:
    topology = Topology.of(queues=[holding("jobs", "missing")])
    answer = asked_about(topology, [Publish("", "jobs"), Wait(5_000)], release=release).answer
    assert (answer.reproduced, answer.changed, answer.after.held) == (1, 0, {"jobs": 1})
    assert answer.after.waiting == {}
    assert len(ticks) < 30  # and nobody looks whether it arrives after all, when nothing else happens


def test_what_would_be_held_is_an_end_of_its_own() -> None:
    topology = Topology.of(queues=[holding("jobs", "late"), Queue(name="late")])
    history = [Publish("", "jobs"), Wait(5_000), Ack("late")]
    asked = asked_about(topology, history, "queue:jobs.x-dead-letter-routing-key=missing", release="4.3")
    answer = asked.answer
    assert (answer.before.held, answer.after.held) == ({}, {"jobs": 1})
    assert (answer.losing, answer.after.lost) == (0, {})
    (change,) = answer.changes
    assert change.held
    assert change.after.startswith("held in 'jobs'")
    assert ("held in 'jobs'", 0, 1) in list(ends_of(answer))
    assert [row["held"] for row in asked.frame().to_dict("records")] == [[], [("jobs", 1)]]


STRATEGY, ARRIVES = "queue:jobs.x-dead-letter-strategy", "queue:jobs.x-dead-letter-routing-key=late"
HELD = "held in 'jobs' instead of"


@pytest.mark.parametrize(
    ("before", "setting", "told"),
    [
        pytest.param("at-most-once", f"{STRATEGY}=at-least-once",
                     f"3 messages would be held that were lost ({HELD} lost in 'jobs' (expired))", id="lost before"),
        pytest.param("at-least-once", f"{STRATEGY}=at-most-once",
                     "3 messages would be lost that were not (lost in 'jobs' (expired) instead of held in 'jobs')",
                     id="held before"),
        pytest.param("at-least-once", ARRIVES,
                     "3 messages would be held no longer (waits in 'late' instead of held in 'jobs')", id="freed"),
    ],
)  # fmt: skip
def test_the_first_sentence_tells_what_would_be_held_and_what_no_longer(before: str, setting: str, told: str) -> None:
    jobs = holding("jobs", "missing")
    jobs.arguments["x-dead-letter-strategy"] = before
    topology = Topology.of(queues=[jobs, Queue(name="late")])
    answer = asked_about(topology, [Publish("", "jobs", times=3), Wait(5_000)], setting, release="4.3").answer
    assert told in answer.sentence


@pytest.mark.parametrize(
    ("kind", "pattern", "told"),
    [
        ("quorum", "^jobs", "'jobs' (and 1 more) asks for at-least-once dead-lettering without overflow reject"),
        ("classic", "^jobs$", "'jobs' ignores policy 'safe': "),
    ],
)
def test_a_strategy_that_does_nothing_is_told_with_the_reason(kind: str, pattern: str, told: str) -> None:
    back = {"x-queue-type": kind, "x-dead-letter-exchange": ""}
    safe = Policy(name="safe", pattern=pattern, definition={"max-length": 99}, apply_to="queues")
    queues = [Queue(name=name, type=kind, arguments=back) for name in ("jobs", "jobs.more")]
    setting = "policy:safe.dead-letter-strategy=at-least-once"
    answer = asked_about(
        Topology.of(queues=queues, policies=[safe]), [Publish("", "jobs"), Reject("jobs")], setting, release="4.3"
    ).answer
    assert not answer.changed
    assert told in answer.sentence


THREE = [holding("jobs", "late"), Queue(name="late"), holding("also", "missing")]


@pytest.mark.parametrize(
    ("fans_to", "told"),
    [
        (["jobs", "late"], "1 message would have copies held that were not (held in 'jobs', "),
        (["jobs", "also"], "1 message would have copies held that were not (held in 'also', held in 'jobs' instead of"),
    ],
)
def test_copies_that_are_held_beside_others_are_told_as_copies(fans_to: list[str], told: str) -> None:
    bindings = [Binding(source="all", destination=queue) for queue in fans_to]
    topology = Topology.of(exchanges=[Exchange(name="all", type="fanout")], queues=THREE, bindings=bindings)
    setting = "queue:jobs.x-dead-letter-routing-key=missing"
    answer = asked_about(topology, [Publish("all", ""), Wait(5_000)], setting, release="4.3").answer
    assert told in answer.sentence


@pytest.mark.parametrize("release", ["3.10", "4.3"])
@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_a_dead_letter_that_a_full_queue_refuses_for_ever_is_held_where_it_died(release: str, overflow: str) -> None:
    full = Queue(name="full", arguments={"x-max-length": 1, "x-overflow": overflow})
    topology = Topology.of(queues=[holding("jobs", "full"), full])
    answer = asked_about(topology, [Publish("", "jobs", times=3), Wait(5_000)], release=release).answer
    assert (answer.reproduced, answer.changed) == (3, 0)
    assert (answer.after.held, answer.after.waiting) == ({"jobs": 2}, {"full": 1})


def test_messages_that_expire_long_after_others_wait_for_ever_expire() -> None:
    day_ms = 24 * 3_600_000
    topology = Topology.of(queues=[holding("jobs", "missing"), holding("slow", "jobs", day_ms)])
    answer = asked_about(topology, [Publish("", "jobs"), Publish("", "slow"), Wait(5_000)], release="4.3").answer
    assert (answer.reproduced, answer.after.held) == (2, {"jobs": 2})


@pytest.mark.parametrize("against", ["3.10", "4.0"])
def test_a_delivery_held_too_long_comes_back_at_once_whatever_else_is_played(against: str) -> None:
    """A channel looks for late deliveries once a minute, counted from when it was opened, which no log tells."""
    topology = Topology.of(queues=[Queue(name="jobs"), Queue(name="short", arguments={"x-message-ttl": 1_000})])
    history: list[AnyStep] = [Publish("", "short"), Wait(5_400), Publish("", "jobs"), Hold("jobs")]
    history += [Wait(3_700_000), Leave("jobs"), Wait(7), Ack("jobs"), Leave("jobs"), Wait(20)]
    answer = asked_about(topology, history, release="3.8", against=against).answer
    assert answer.delay_ms.after.p95 == 1_800_000


@pytest.mark.parametrize("release", RELEASES)
def test_delayed_messages_are_played_after_their_delay(release: str) -> None:
    topology = Topology.of(
        exchanges=[Exchange(name="later", type="x-delayed-message", arguments={"x-delayed-type": "direct"})],
        queues=[dead_lettering("work", "dead", message_ttl=2_000), Queue(name="dead")],
        bindings=[Binding(source="later", destination="work", routing_key="k")],
    )
    delayed = [Publish("later", "k", {"x-delay": 3_000}), Publish("later", "k", {"x-delay": 3_000})]
    history = [*delayed, Wait(4_000), Ack("work"), Ack("work"), *delayed, Wait(1_000)]
    asked = asked_about(topology, history, "queue:work.x-message-ttl=60000", release=release)
    assert (asked.answer.reproduced, asked.answer.changed) == (asked.answer.messages, 0)
    asked = asked_about(topology, history, "queue:work.x-message-ttl=500", release=release)
    assert asked.answer.reproduced == asked.answer.messages
    assert [case.after.deaths for case in asked.cases[:2]] == [(("work", "expired"),)] * 2
