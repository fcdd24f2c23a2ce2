"""The life of one message: what happens, why, where it stops, and that the broker agrees on where it ends."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from simulator.analysis.life import EVENTS_MAX, OUTCOMES, PredictedLife, live
from simulator.message_history import RecordingBroker
from simulator.message_location import locations
from simulator.scenario.player import Player
from simulator.scenario.steps import Publish
from simulator.testing.strategies import definitions
from tests.testing.test_search import topology
from tests.testing.test_trial import queue

LADDER = topology(
    [
        queue("orders", dead_letter_exchange="dlx", dead_letter_routing_key="retry"),
        queue("wait", message_ttl=60_000, dead_letter_exchange="", dead_letter_routing_key="orders"),
    ],
    {"shop": "topic", "dlx": "direct"},
    [("shop", "orders", "order.*"), ("dlx", "wait", "retry")],
)


def told(life: PredictedLife) -> list[tuple[float, str, str | None]]:
    return [(step.at_ms, step.event, step.queue) for step in life.steps]


def why(life: PredictedLife, event: str) -> str:
    return next(step.because for step in life.steps if step.event == event)


def test_a_rejected_message_waits_and_comes_back_and_the_life_stops_where_nothing_is_stated() -> None:
    life = live(LADDER, Publish("shop", "order.eu"), {"orders": ["reject"]})
    assert told(life) == [
        (0, "published", None),
        (0, "routed", "orders"),
        (0, "delivered", "orders"),
        (0, "rejected", "orders"),
        (0, "dead-lettered", "orders"),
        (0, "routed", "wait"),
        (60_000, "expired", "wait"),
        (60_000, "dead-lettered", "wait"),
        (60_000, "routed", "orders"),
        (60_000, "delivered", "orders"),
    ]
    assert life.fate == "waiting"
    assert life.assumed == ("no consumer reads from 'wait'",)
    (missing,) = life.missing
    assert missing.what == "what a consumer of 'orders' does with delivery 2"
    assert [each.outcome for each in missing.possibilities] == ["ack", "reject", "requeue, nack or crash"]
    assert missing.possibilities[1].then.startswith("dead-lettered to 'wait'")


def test_each_step_names_the_binding_or_setting_that_decides_and_the_source_of_the_rule() -> None:
    life = live(LADDER, Publish("shop", "order.eu"), {"orders": ["reject", "ack"]})
    assert life.fate == "acknowledged"
    assert why(life, "routed") == "topic exchange 'shop': binding 'order.*' to 'orders'"
    assert why(life, "rejected") == "stated: orders=reject"
    assert why(life, "expired") == "message-ttl 60000 by argument"
    assert why(life, "dead-lettered") == (
        "dead-letter-exchange dlx by argument; dead-letter-routing-key retry by argument"
    )
    assert next(step.text for step in life.steps if step.event == "dead-lettered").endswith(
        "through the exchange 'dlx' with 'retry'"
    )
    assert next(step.source for step in life.steps if step.event == "dead-lettered").startswith(
        "rabbit_dead_letter.erl publish"
    )


def test_the_policy_is_named_and_the_shorter_time_to_live_decides() -> None:
    slow = topology([queue("slow")])
    ttl = {"name": "slowly", "pattern": ".", "definition": {"message-ttl": 5_000}, "apply-to": "all", "priority": 0}
    slow["policies"] = [{"vhost": "/", **ttl}]
    life = live(slow, Publish("", "slow"), {"slow": ["expire"]})
    assert (life.fate, why(life, "expired")) == ("lost", "message-ttl 5000 by policy slowly")
    life = live(slow, Publish("", "slow", expiration_ms=4_000), {"slow": ["expire"]})
    assert (life.fate, why(life, "expired")) == ("lost", "its expiration is 4000")
    assert life.steps[-1].event == "dropped"
    assert life.steps[-1].at_ms == 4_000


def test_a_default_of_the_server_has_the_evidence_of_its_release_row() -> None:
    quorum = topology([queue("orders", queue_type="quorum")])
    life = live(quorum, Publish("", "orders"), {"orders": ["crash"] * 30})
    assert life.fate == "lost"
    assert why(life, "limit-dropped") == "delivery-limit 20 by server default"
    assert "release row quorum_default_delivery_limit: live" in life.steps[-2].source
    assert life.unused == ("the last outcomes stated for 'orders' did not happen: crash*9",)
    assert live(quorum, Publish("", "orders"), {"orders": ["crash"] * 30}, release="3.13").fate == "waiting"


def test_a_dead_letter_that_would_circle_is_lost_and_an_expiry_that_loses_is_not_assumed() -> None:
    loop = topology(
        [
            queue("a", message_ttl=1_000, dead_letter_exchange="", dead_letter_routing_key="b"),
            queue("b", message_ttl=2_000, dead_letter_exchange="", dead_letter_routing_key="a"),
        ]
    )
    life = live(loop, Publish("", "a"), {})
    assert life.fate == "waiting"
    assert life.missing[0].what == "whether 'b' has a consumer: if not, the message expires after 2 s"
    assert life.missing[0].possibilities[-1].then.startswith("it dies after 2 s: lost (cycle)")
    life = live(loop, Publish("", "a"), {"b": ["expire"]})
    assert (life.fate, life.steps[-1].event, life.steps[-1].at_ms) == ("lost", "cycle-dropped", 3_000)
    assert "mc.erl is_cycle_v2" in life.steps[-1].source
    assert "release row death_order" in life.steps[-1].source


def test_a_copy_that_the_cycle_rule_keeps_out_is_told_although_another_arrives() -> None:
    fan = topology(
        [queue("a", message_ttl=1_000, dead_letter_exchange="all"), queue("b")],
        {"all": "fanout"},
        [("all", "a", ""), ("all", "b", "")],
    )
    life = live(fan, Publish("", "a"), {})
    assert ("cycle-dropped", "its copy for the queue 'a' was not sent: cycle") in [
        (step.event, step.text) for step in life.steps
    ]
    assert life.fate == "waiting"
    assert [each.queue for each in life.missing] == ["b"]


def test_time_stops_before_a_copy_of_which_nothing_is_stated() -> None:
    both = topology(
        [queue("fast", message_ttl=1_000), queue("slow", message_ttl=9_000)],
        {"all": "fanout"},
        [("all", "fast", ""), ("all", "slow", "")],
    )
    life = live(both, Publish("all", ""), {"slow": ["expire"]})
    assert life.fate == "waiting"
    assert {each.queue for each in life.missing} == {"fast", "slow"}
    life = live(both, Publish("all", ""), {"slow": ["expire"], "fast": ["ack"]})
    assert (life.fate, life.steps[-1].at_ms) == ("lost", 9_000)


def test_a_publish_that_no_queue_takes_is_unroutable_and_the_nearest_queue_is_named() -> None:
    life = live(LADDER, Publish("", "order"), {})
    assert life.fate == "unroutable"
    assert life.steps[-1].because.endswith("there is no queue 'order', did you mean 'orders'?")


def test_a_retry_queue_that_expires_takes_the_message_with_it() -> None:
    life = live("examples/topologies/broken/retry-queue-expires.json", Publish("", "orders"), {"orders": ["reject"]})
    assert life.fate == "lost"
    assert why(life, "purged") == "expires 30000 by argument"


def test_at_least_once_holds_what_nothing_takes() -> None:
    held = topology(
        [
            queue(
                "orders",
                queue_type="quorum",
                dead_letter_exchange="gone",
                dead_letter_strategy="at-least-once",
                overflow="reject-publish",
            )
        ],
        {"gone": "fanout"},
    )
    life = live(held, Publish("", "orders"), {"orders": ["reject"]})
    assert life.fate == "held"
    assert why(life, "held") == "dead-letter-strategy at-least-once by argument"
    assert life.where == ("The queue 'orders' holds it: exchange 'gone' routes key 'orders' to no queue.",)


def test_a_queue_whose_own_confirm_does_not_count_holds_what_all_queues_have() -> None:
    src = queue(
        "src", queue_type="quorum", dead_letter_exchange="x", dead_letter_strategy="at-least-once",
        overflow="reject-publish",
    )  # fmt: skip
    twice = topology([src, queue("other")], {"x": "fanout"}, [("x", "src", ""), ("x", "other", "")])
    life = live(twice, Publish("", "src"), {"src": ["reject", "ack"], "other": ["ack"]}, release="3.10")
    assert life.fate == "held"
    assert life.where == (
        "The queue 'src' holds it: all its queues have it, but 3.10 does not count the confirm of the queue itself; "
        "it is held for ever.",
    )
    assert live(twice, Publish("", "src"), {"src": ["reject", "ack"], "other": ["ack"]}).fate == "acknowledged"


def sorted_by_headers(**arguments: Any) -> dict[str, Any]:
    document = topology([queue("work", dead_letter_exchange="h"), queue("late")], {"h": "headers"}, [("h", "late", "")])
    document["bindings"][0]["arguments"] = {name.replace("_", "-"): value for name, value in arguments.items()}
    return document


@pytest.mark.parametrize(
    ("arguments", "release", "said"),
    [
        (
            {"x_match": "all", "x_first_death_reason": "expired"}, "4.3",
            ", which compares nothing: x-match=all passes over x- arguments (all-with-x does not)",
        ),
        (
            {"x_match": "all", "x_first_death_reason": "expired"}, "3.8",
            ", which compares nothing: x-match=all passes over x- arguments",
        ),
        (
            {"x_first_death_reason": "expired"}, "4.3",
            ", which compares nothing: x-match=all passes over x- arguments (all-with-x does not)",
        ),
        ({"x_match": "all-with-x", "x_first_death_reason": "rejected"}, "4.3", ""),
        ({"x_match": "all"}, "4.3", ""),
    ],
)  # fmt: skip
def test_a_headers_binding_is_no_reason_for_what_it_passes_over(
    arguments: dict[str, Any], release: str, said: str
) -> None:
    life = live(sorted_by_headers(**arguments), Publish("", "work"), {"work": ["reject"]}, release=release)
    because = [step.because for step in life.steps if step.event == "routed"][-1]
    assert because.endswith(f"to 'late'{said}")


def test_an_argument_that_is_compared_is_told_from_one_that_is_not() -> None:
    document = sorted_by_headers(x_match="all", colour="red", x_first_death_reason="expired")
    life = live(document, Publish("", "work", headers={"colour": "red"}), {"work": ["reject"]})
    because = [step.because for step in life.steps if step.event == "routed"][-1]
    assert because.endswith(
        "which does not compare x-first-death-reason: x-match=all passes over x- arguments (all-with-x does not)"
    )


@pytest.mark.parametrize(
    ("release", "said"),
    [
        ("3.13", {"requeue, nack or crash": "it goes back to 'q'; more than 3 returns"}),
        ("4.0", {"requeue, nack or crash": "it goes back to 'q'; more than 3 returns"}),
        (
            "4.3",
            {
                "requeue or crash": "it goes back to 'q'; more than 3 failures",
                "nack": "it goes back to 'q'; that is not a failure, and nothing limits how often",
            },
        ),
    ],
)  # fmt: skip
def test_returns_that_count_as_failures_are_told_from_those_that_do_not(release: str, said: dict[str, str]) -> None:
    limited = topology([queue("q", queue_type="quorum", delivery_limit=3)])
    (missing,) = live(limited, Publish("", "q"), {}, release=release).missing
    returns = {each.outcome: each.then.partition(": ")[0] for each in missing.possibilities[2:]}
    assert returns == said


def test_a_stream_keeps_what_is_acknowledged() -> None:
    life = live(topology([queue("log", queue_type="stream")]), Publish("", "log"), {"log": ["ack"]})
    assert life.fate == "waiting"
    assert life.where == ("It is in the stream 'log' at offset 0.",)


def test_a_refused_publish_says_why() -> None:
    life = live(LADDER, Publish("shop", "order.eu", headers={"CC": "no list"}), {})
    assert life.fate == "refused"
    assert "CC" in life.steps[-1].text
    full = topology([queue("none", max_length=0, overflow="reject-publish")])
    life = live(full, Publish("", "none"), {})
    assert (life.fate, life.is_lost) == ("refused", True)
    assert why(life, "nacked") == "overflow reject-publish by argument; max-length 0 by argument"


def test_a_life_that_goes_round_for_ever_is_cut() -> None:
    spin = topology([queue("spin", dead_letter_exchange="", dead_letter_routing_key="spin")])
    life = live(spin, Publish("", "spin"), {"spin": ["reject"] * 500})
    assert life.fate == "waiting"
    assert life.missing[0].what == "what comes after 1,000 events"


@settings(max_examples=200, deadline=None)
@given(st.data(), st.sampled_from(["3.8", "3.10", "3.12", "3.13", "4.0", "4.3"]))
def test_the_fate_is_where_the_broker_has_the_message(data: st.DataObject, release: str) -> None:
    document: dict[str, Any] = data.draw(definitions(queues_max=4, release=release))
    names = [each["name"] for each in document["queues"]]
    entry = data.draw(st.sampled_from(names))
    outcomes = data.draw(st.dictionaries(st.sampled_from(names), st.lists(st.sampled_from([*OUTCOMES.values()]))))
    expiration = data.draw(st.sampled_from([None, 0, 500, 90_000]))
    life = live(document, Publish("", entry, expiration_ms=expiration), outcomes, release=release)
    assume(len(life.events) < EVENTS_MAX)
    player = Player(document, release=release)
    broker = player.broker
    seen = RecordingBroker(release).histories
    broker.observe(seen.keep)
    player.play(life.history)
    history = seen.get(1)
    assert history is not None
    found = locations(broker, 1, "/", broker.vhosts["/"].queues)
    assert bool(found) == (life.fate in ("waiting", "held")) or history.loss is not None
    assert tuple(found) == life.where
    assert (history.loss is not None) == life.is_lost
    assert history.ended == (not found)
    if life.fate == "held":
        assert all("holds it" in each or "holds one copy" in each for each in found)


@pytest.mark.parametrize("name", [*OUTCOMES])
def test_every_outcome_has_a_way_to_be_played(name: str) -> None:
    life = live(LADDER, Publish("shop", "order.eu"), {"orders": [OUTCOMES[name]]})
    events = {event for _, event, _ in told(life)}
    expected = {"ack": "acked", "reject": "rejected", "expire": "routed"}.get(OUTCOMES[name], "requeued")
    assert expected in events
