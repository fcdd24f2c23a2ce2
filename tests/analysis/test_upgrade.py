"""What an upgrade changes: each kind of change is played under both releases, and so is the fix that is printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

import dlx
from dlx import published, route
from dlx.death_headers import stored_headers
from dlx.releases import RELEASES, TABLE, release
from dlx.topology import Policy
from simulator.analysis.findings import SEVERITIES
from simulator.analysis.upgrade.questions import NOTHING_TO_DO, QUESTIONS, UpgradeChange, asks
from simulator.analysis.upgrade.report import BESIDE, UpgradeReport, upgraded
from simulator.bootstrap import import_definitions
from simulator.broker import Broker, OperatorError
from simulator.definitions import Definitions, DefinitionsError, parse_definitions
from simulator.scenario.steps import AnyStep, Publish
from simulator.scenario.trial import Trial

Found = dict[tuple[str, str], UpgradeChange]


def queue(name: str, kind: str = "classic", **arguments: Any) -> dict[str, Any]:
    table = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    types = {} if kind == "classic" else {"x-queue-type": kind}  # 3.8 knows no x-queue-type for streams
    return {"vhost": "/", "name": name, "durable": True, "auto_delete": False, "arguments": {**types, **table}}


def policy(name: str, pattern: str, apply_to: str = "queues", **definition: Any) -> dict[str, Any]:
    keys = {key.replace("_", "-"): value for key, value in definition.items()}
    return {"vhost": "/", "name": name, "pattern": pattern, "apply-to": apply_to, "priority": 0, "definition": keys}


def topology(*queues: dict[str, Any], **sections: Any) -> dict[str, Any]:
    return {"vhosts": [{"name": "/"}], "queues": list(queues), **sections}


def report(document: Mapping[str, Any], before: str, after: str) -> UpgradeReport:
    definitions = parse_definitions(msgspec.json.encode(document), "definitions.json")
    return upgraded(definitions, release(before), release(after))


def changes(document: Mapping[str, Any], before: str, after: str) -> Found:
    """The changes by behaviour and object, the worst of each."""
    found: Found = {}
    for each in report(document, before, after).changes:
        found.setdefault((each.behaviour, each.change.about.name), each.change)
    return found


def ready(trial: Trial, name: str) -> int:
    """How many messages are in a queue, those that a consumer holds among them."""
    return sum(state.name == name for state, _ in trial.copies())


def headers(trial: Trial, name: str) -> dict[str, Any]:
    """The headers of a message in a queue, as its consumer sees them."""
    return dict(stored_headers(next(copy.message for state, copy in trial.copies() if state.name == name)))


def both(document: Mapping[str, Any], before: str, after: str) -> tuple[Trial, Trial]:
    return Trial(dict(document), release=before), Trial(dict(document), release=after)


# -- the table -------------------------------------------------------------------


def test_every_row_has_a_question_or_a_reason_why_it_cannot_matter() -> None:
    names = {row.name for row in TABLE}
    assert QUESTIONS.keys() | BESIDE.keys() == names
    assert QUESTIONS.keys() & BESIDE.keys() == set()


def test_a_row_has_one_question() -> None:
    with pytest.raises(ValueError, match="quorum_overflow has a question already"):
        asks("quorum_overflow")(lambda _upgrade, _row: ())


@pytest.mark.parametrize("name", RELEASES)
def test_nothing_changes_between_a_release_and_itself(name: str) -> None:
    document = topology(queue("orders", "quorum", delivery_limit=5), queue("dead"))
    assert report(document, name, name).changes == ()


def test_what_cannot_matter_to_the_topology_is_not_told() -> None:
    """A classic queue without settings meets none of what 4.0 changed, and of 4.3 the end of its consumer timeout."""
    assert {name for name, _ in changes(topology(queue("plain")), "4.0", "4.3")} == {"consumer_timeout_enforced_by"}
    assert changes(topology(queue("plain")), "3.13", "4.0") == {}


def test_the_answer_says_what_it_rests_on() -> None:
    answer = report(topology(queue("plain")), "3.13", "4.3").as_json()
    assert (answer["from"], answer["to"]) == ("3.13", "4.3")
    assert answer["assumed"]
    assert any("dlx releases 3.13 4.3" in each for each in answer["unchecked"])


def test_policies_of_equal_priority_are_told_where_they_disagree() -> None:
    def policy(name: str, **definition: Any) -> dict[str, Any]:
        return {"vhost": "/", "name": name, "pattern": ".*", "apply-to": "queues", "priority": 0,
                "definition": definition}  # fmt: skip

    def tied(*policies: dict[str, Any]) -> list[str]:
        answer = report(topology(queue("one"), queue("two"), policies=list(policies)), "3.13", "4.3")
        return [each for each in answer.unchecked if "equal priority" in each]

    (told,) = tied(policy("a", expires=1), policy("b", expires=2), policy("c", expires=1))
    assert told.startswith("which of the policies 'a' and 'b' of equal priority applies to queue 'one' and 1 more: ")
    assert tied(policy("a", expires=1), policy("b", expires=1)) == []


def test_exchanges_of_plugins_are_named_as_not_looked_at() -> None:
    delayed = {"vhost": "/", "name": "later", "type": "x-delayed-message", "durable": True, "arguments": {}}
    bound = {"vhost": "/", "source": "later", "destination": "orders", "destination_type": "queue", "arguments": {}}
    document = topology(queue("orders", "quorum"), exchanges=[delayed], bindings=[{**bound, "routing_key": "k"}])
    answer = report(document, "3.13", "4.0")
    assert "what goes through exchange 'later' of type x-delayed-message" in answer.unchecked
    assert ("quorum_default_delivery_limit", "orders") in changes(document, "3.13", "4.0")


def test_what_only_bindings_name_is_told_and_the_rest_is_answered() -> None:
    shop = {"vhost": "/", "name": "shop", "type": "topic", "durable": True, "arguments": {}}
    ways = [("shop", "orders", "queue"), ("shop", "lost", "queue"), ("shop", "inner", "exchange")]
    key: dict[str, Any] = {"vhost": "/", "routing_key": "#", "arguments": {}}
    bound = [
        key | {"source": source, "destination": to, "destination_type": kind}
        for source, to, kind in [*ways, ("inner", "lost", "queue")]
    ]
    document = topology(queue("orders", "quorum"), exchanges=[shop], bindings=bound)
    for before, after in [("3.10", "4.3"), ("4.3", "3.10")]:
        told = [each for each in report(document, before, after).unchecked if "the export" in each]
        assert [each.partition(",")[0].partition(":")[0] for each in told] == [
            "what goes through exchange 'inner'", "what happens to messages in queue 'lost'"
        ]  # fmt: skip
    assert ("quorum_default_delivery_limit", "orders") in changes(document, "3.13", "4.0")


@pytest.mark.parametrize(("before", "after"), [("3.8", "4.3"), ("4.3", "3.8"), ("3.12", "3.13"), ("4.2", "4.3")])
def test_each_change_has_a_sentence_a_fix_and_its_evidence(before: str, after: str) -> None:
    found = report(_EVERYTHING, before, after).changes
    severities = [SEVERITIES.index(each.change.severity) for each in found]
    assert severities == sorted(severities)
    for each in found:
        row = next(row for row in TABLE if row.name == each.behaviour)
        assert row.value_in(release(before).version) != row.value_in(release(after).version)
        assert each.change.message.endswith(".")
        assert "{before}" not in each.change.message
        assert each.change.fix.text
        assert row.evidence in each.evidence


_EVERYTHING = topology(
    queue("work", "quorum", dead_letter_exchange="", dead_letter_routing_key="wait"),
    queue("wait", message_ttl=1_000, dead_letter_exchange="", dead_letter_routing_key="work"),
    queue("full", "quorum", max_length_bytes=1_000, dead_letter_exchange="h"),
    queue("one", "quorum", single_active_consumer=True, expires=1_000),
    queue("rest", max_priority=0, dead_letter_exchange=""),
    exchanges=[{"vhost": "/", "name": "h", "type": "headers", "durable": True, "auto_delete": False, "arguments": {}}],
    bindings=[
        {
            "vhost": "/",
            "source": "h",
            "destination": "rest",
            "destination_type": "queue",
            "routing_key": "",
            "arguments": {"x-match": "all", "size": 1},
        }
    ],
    policies=[policy("mirrored", "^rest$", **{"ha-mode": "all"})],
)


# -- the delivery limit ------------------------------------------------------------


def test_the_default_limit_drops_messages_and_a_policy_keeps_them() -> None:
    document = topology(queue("orders", "quorum"), queue("parking"))
    found = changes(document, "3.13", "4.0")["quorum_default_delivery_limit", "orders"]
    assert found.severity == "error"
    assert "delivery limit 20: the 21st return drops the message" in found.message
    lost: list[AnyStep] = [Publish("", "orders")]
    for trial, left in zip(both(document, "3.13", "4.0"), (1, 0), strict=True):
        trial.play(lost)
        trial.requeue("orders", times=21)
        assert ready(trial, "orders") == left
    assert found.fix.safe
    assert "delivery-limit (such as 50) and dead-letter-exchange" in found.fix.text
    fixed = policy("limits", "^orders$", delivery_limit=50, dead_letter_exchange="", dead_letter_routing_key="parking")
    for trial in both({**document, "policies": [fixed]}, "3.13", "4.0"):
        trial.play(lost)
        trial.requeue("orders", times=21)
        assert ready(trial, "orders") == 1
        trial.requeue("orders", times=30)
        assert (ready(trial, "orders"), ready(trial, "parking")) == (0, 1)
    left_over = changes({**document, "policies": [fixed]}, "3.13", "4.0")
    assert ("quorum_default_delivery_limit", "orders") not in left_over


@pytest.mark.parametrize(("before", "taken"), [("3.8", False), ("3.10", False), ("3.13", False)])
def test_the_fix_says_whether_no_limit_can_be_set_before_the_upgrade(before: str, taken: bool) -> None:
    found = changes(topology(queue("orders", "quorum")), before, "4.0")["quorum_default_delivery_limit", "orders"]
    assert ("Policies take delivery-limit -1, for none, only from 4.0 on" in found.fix.text) != taken
    unlimited = Policy(name="p", pattern="^orders$", definition={"delivery-limit": -1}, apply_to="queues")
    with pytest.raises(OperatorError):
        Trial(topology(queue("orders", "quorum")), release=before).set_policy(unlimited)


def test_with_a_dead_letter_exchange_the_default_limit_is_a_warning() -> None:
    document = topology(queue("orders", "quorum", dead_letter_exchange="", dead_letter_routing_key="d"), queue("d"))
    found = changes(document, "3.13", "4.0")["quorum_default_delivery_limit", "orders"]
    assert (found.severity, "dead-letters it to the default exchange" in found.message) == ("warning", True)


@pytest.mark.parametrize(
    ("strategy", "fate"),
    [({}, "lost"), ({"dead_letter_strategy": "at-least-once", "overflow": "reject-publish"}, "held")],
)
def test_what_dies_by_the_default_limit_in_a_retry_loop_is_lost_or_held(strategy: dict[str, str], fate: str) -> None:
    goes_on = {"dead_letter_exchange": "", **strategy}
    document = topology(
        queue("orders", "quorum", dead_letter_routing_key="wait", **goes_on),
        queue("wait", "quorum", message_ttl=1_000, dead_letter_routing_key="orders", **goes_on),
    )
    found = changes(document, "3.13", "4.0")["quorum_default_delivery_limit", "orders"]
    assert found.severity == "error"
    assert f"Then it is {fate} in 'wait': " in found.message
    assert changes(document, "3.13", "4.0")["quorum_default_delivery_limit", "wait"].severity == "warning"
    for trial, left in zip(both(document, "3.13", "4.0"), (1, 0), strict=True):
        trial.publish("", "orders")
        trial.requeue("orders", times=21)
        trial.wait(ms=1_000)
        assert ready(trial, "orders") == left


def test_the_fix_names_the_policy_that_a_queue_has() -> None:
    document = topology(queue("orders", "quorum"), policies=[policy("sizes", "^orders$", max_length=9)])
    found = changes(document, "3.13", "4.0")["quorum_default_delivery_limit", "orders"]
    assert "in policy 'sizes', the one that applies to 'orders'" in found.fix.text


def test_a_limit_of_minus_one_means_something_else() -> None:
    document = topology(queue("orders", "quorum", delivery_limit=-1))
    found = changes(document, "3.13", "4.0")["quorum_negative_delivery_limit", "orders"]
    assert "has the delivery limit 0: the 1st return drops the message" in found.message
    assert (found.severity, found.fix) == ("note", NOTHING_TO_DO)
    for trial, left in zip(both(document, "3.13", "4.0"), (0, 1), strict=True):
        trial.publish("", "orders")
        trial.requeue("orders", times=30)
        assert ready(trial, "orders") == left


def test_returns_by_nack_no_longer_count_and_rejects_do_in_both() -> None:
    document = topology(
        queue("orders", "quorum", delivery_limit=2, dead_letter_exchange="", dead_letter_routing_key="dead"),
        queue("dead"),
    )
    found = changes(document, "4.2", "4.3")["quorum_delivery_limit_counts", "orders"]
    assert found.severity == "warning"
    for trial, dead in zip(both(document, "4.2", "4.3"), (1, 0), strict=True):
        trial.publish("", "orders")
        trial.requeue("orders", times=3, method="nack")
        assert ready(trial, "dead") == dead
    assert "basic.reject with requeue=true in place of basic.nack" in found.fix.text
    for trial in both(document, "4.2", "4.3"):
        trial.publish("", "orders")
        trial.requeue("orders", times=3, method="reject")
        assert ready(trial, "dead") == 1


def test_a_dead_letter_brings_its_count_along() -> None:
    document = topology(
        queue("orders", "quorum", delivery_limit=1, dead_letter_exchange="", dead_letter_routing_key="again"),
        queue("again", "quorum", delivery_limit=1, dead_letter_exchange="", dead_letter_routing_key="dead"),
        queue("dead"),
    )
    found = changes(document, "4.2", "4.3")["delivery_count_carried", "again"]
    assert "They count towards its delivery limit (1)" in found.message

    def dead_after_one_return(limit: int) -> list[int]:
        changed = policy("more", "^again$", delivery_limit=limit)
        higher = topology(
            document["queues"][0],
            queue("again", "quorum", dead_letter_exchange="", dead_letter_routing_key="dead"),
            queue("dead"),
            policies=[changed],
        )
        seen = []
        for trial in both(higher, "4.2", "4.3"):
            trial.publish("", "orders")
            trial.requeue("orders", times=2)
            trial.requeue("again", times=1)
            seen.append(ready(trial, "dead"))
        return seen

    assert dead_after_one_return(1) == [0, 1]
    assert "a higher delivery-limit with a policy" in found.fix.text
    assert dead_after_one_return(4) == [0, 0]


def test_returned_messages_go_to_the_front() -> None:
    document = topology(queue("orders", "quorum"))
    found = changes(document, "3.13", "4.0")["quorum_default_delivery_limit", "orders"]
    assert found is not None
    told = [each.change for each in report(document, "3.13", "4.0").changes]
    assert any("goes to the back of 'orders' under 3.13, and to its front under 4.0" in each.message for each in told)
    for trial, first in zip(both(document, "3.13", "4.0"), (2, 1), strict=True):
        trial.publish("", "orders", headers={"n": 1})
        trial.publish("", "orders", headers={"n": 2})
        trial.requeue("orders")
        trial.ack("orders")
        assert headers(trial, "orders")["n"] == 3 - first


# -- the history of a message ------------------------------------------------------


def test_counts_of_republished_messages_begin_anew_and_an_own_count_goes_on() -> None:
    document = topology(queue("orders", dead_letter_exchange="", dead_letter_routing_key="dead"), queue("dead"))
    found = changes(document, "3.13", "4.0")["client_deaths_continued", "/"]
    assert found.severity == "warning"
    for trial, count in zip(both(document, "3.13", "4.0"), (2, 1), strict=True):
        trial.publish("", "orders")
        trial.reject("orders")
        trial.publish("", "orders", headers=headers(trial, "dead"))
        trial.ack("dead")
        trial.reject("orders")
        assert headers(trial, "dead")["x-death"][0]["count"] == count
    assert "`dlx.republish_headers`" in found.fix.text
    for trial in both(document, "3.13", "4.0"):
        trial.publish("", "orders")
        trial.reject("orders")
        trial.publish("", "orders", headers=dlx.republish_headers(headers(trial, "dead"), attempts=1))
        trial.ack("dead")
        trial.reject("orders")
        history = dlx.death_history(headers(trial, "dead"))
        assert history.attempts_before + history.attempts == 2


CYCLE = topology(
    queue("work", dead_letter_exchange="", dead_letter_routing_key="one"),
    queue("one", message_ttl=100, dead_letter_exchange="", dead_letter_routing_key="two"),
    queue("two", message_ttl=100, dead_letter_exchange="", dead_letter_routing_key="one"),
)


def test_a_loop_that_went_on_is_dropped_as_a_cycle_and_a_way_out_keeps_the_message() -> None:
    found = changes(CYCLE, "3.12", "3.13")["death_order", "two"]
    assert found.severity == "error"
    assert "under 3.13 it is dropped as a cycle before 'one'" in found.message
    for trial, left in zip(both(CYCLE, "3.12", "3.13"), (1, 0), strict=True):
        trial.publish("", "work")
        trial.reject("work")
        trial.wait(10_000)
        assert ready(trial, "one") + ready(trial, "two") == left
    assert not found.fix.safe  # the routing key is an argument
    assert "to a queue where messages stay" in found.fix.text
    out = topology(*CYCLE["queues"][:2], queue("two", message_ttl=100), queue("rest"))
    out["policies"] = [policy("out", "^two$", dead_letter_exchange="", dead_letter_routing_key="rest")]
    for trial in both(out, "3.12", "3.13"):
        trial.publish("", "work")
        trial.reject("work")
        trial.wait(10_000)
        assert ready(trial, "rest") == 1
    assert ("death_order", "two") not in changes(out, "3.12", "3.13")


def test_a_cycle_by_policy_has_a_safe_fix() -> None:
    by_policy = topology(*CYCLE["queues"][:2], queue("two", message_ttl=100))
    by_policy["policies"] = [policy("back", "^two$", dead_letter_exchange="", dead_letter_routing_key="one")]
    found = changes(by_policy, "3.12", "3.13")["death_order", "two"]
    assert found.fix.safe
    assert "in policy 'back'" in found.fix.text


def test_the_order_of_deaths_differs() -> None:
    chain = topology(
        queue("a", message_ttl=100, dead_letter_exchange="", dead_letter_routing_key="b"),
        queue("b", message_ttl=100, dead_letter_exchange="", dead_letter_routing_key="c"),
        queue("c", message_ttl=100, dead_letter_exchange="", dead_letter_routing_key="d"),
        queue("d"),
    )
    assert "'d'" in changes(chain, "3.12", "3.13")["death_order", "/"].message
    orders = []
    for trial in both(chain, "3.12", "3.13"):
        trial.publish("", "a")
        trial.wait(1_000)
        orders.append([each["queue"] for each in headers(trial, "d")["x-death"]])
    assert orders == [["c", "a", "b"], ["c", "b", "a"]]


def test_the_order_of_deaths_differs_on_a_loop() -> None:
    """Three different deaths, although a message that goes round is soon as it was before."""
    loop = topology(
        queue("a", "quorum", message_ttl=100, dead_letter_exchange="", dead_letter_routing_key="b"),
        queue("b", dead_letter_exchange="", dead_letter_routing_key="a", max_length=1),
    )
    assert "'a'" in changes(loop, "4.1", "3.10")["death_order", "/"].message


def test_the_last_death_has_headers() -> None:
    document = topology(queue("a", dead_letter_exchange="", dead_letter_routing_key="b"), queue("b"))
    assert "'b'" in changes(document, "3.12", "3.13")["last_death_headers", "/"].message
    seen = []
    for trial in both(document, "3.12", "3.13"):
        trial.publish("", "a")
        trial.reject("a")
        seen.append(headers(trial, "b").get("x-last-death-queue"))
    assert seen == [None, "a"]


def test_a_dead_letter_keeps_its_cc_header() -> None:
    document = topology(queue("a", dead_letter_exchange="", dead_letter_routing_key="b"), queue("b"))
    assert (
        "keeps the header" in changes(document, "3.12", "3.13")["cc_header_after_dead_letter_routing_key", "/"].message
    )
    seen = []
    for trial in both(document, "3.12", "3.13"):
        trial.publish("", "a", headers={"CC": ["other"]})
        trial.reject("a")
        seen.append("CC" in headers(trial, "b"))
    assert seen == [False, True]


def test_a_classic_queue_records_an_expiration_only_where_nothing_is_in_front() -> None:
    document = topology(queue("a", dead_letter_exchange="", dead_letter_routing_key="b"), queue("b"))
    found = changes(document, "3.11", "3.12")["original_expiration", "/"]
    assert found.severity == "warning"
    seen = []
    for trial in both(document, "3.11", "3.12"):
        trial.publish("", "a")
        trial.publish("", "a", expiration_ms=60_000)
        trial.reject("a", times=2)
        trial.ack("b")
        seen.append("original-expiration" in headers(trial, "b")["x-death"][0])
    assert seen == [True, False]


# -- settings ----------------------------------------------------------------------


def test_a_policy_that_is_skipped_takes_its_dead_letter_exchange_along() -> None:
    document = topology(
        queue("orders"),
        queue("dead"),
        policies=[
            policy("p", "^orders$", dead_letter_exchange="", dead_letter_routing_key="dead", delivery_limit=3),
        ],
    )
    found = changes(document, "3.9", "3.10")["classic_unsupported_policy_keys", "orders"]
    told = [
        each.change
        for each in report(document, "3.9", "3.10").changes
        if each.behaviour == "classic_unsupported_policy_keys"
    ]
    worst = next(each for each in told if each.severity == "error")
    back = [
        each.change
        for each in report(document, "3.10", "3.9").changes
        if each.behaviour == "classic_unsupported_policy_keys" and "dead-letter" in each.change.message
    ]
    assert [(each.severity, each.fix) for each in back] == [("note", NOTHING_TO_DO)] * 2
    assert "Messages that die there are dropped." in worst.message
    assert "Policy 'p' is skipped: classic queues do not support delivery-limit" in found.message
    for trial, dead in zip(both(document, "3.9", "3.10"), (1, 0), strict=True):
        trial.publish("", "orders")
        trial.reject("orders")
        assert ready(trial, "dead") == dead
    assert "with only keys that both 3.9 and 3.10 know for classic queues" in worst.fix.text
    known = [policy("p", "^orders$", dead_letter_exchange="", dead_letter_routing_key="dead")]
    for trial in both({**document, "policies": known}, "3.9", "3.10"):
        trial.publish("", "orders")
        trial.reject("orders")
        assert ready(trial, "dead") == 1
    names = {name for name, _ in changes({**document, "policies": known}, "3.9", "3.10")}
    assert "classic_unsupported_policy_keys" not in names


def test_what_keeps_dead_letters_safer_leaves_nothing_to_do() -> None:
    settings = {"dead_letter_exchange": "", "dead_letter_routing_key": "dead", "overflow": "reject-publish"}
    document = topology(
        queue("safe", "quorum", dead_letter_strategy="at-least-once", **settings),
        queue("usual", "quorum", dead_letter_strategy="at-most-once", **settings),
        queue("dead"),
    )
    assert ("quorum_overflow", "dead") not in changes(topology(queue("dead", "quorum")), "3.8", "3.10")
    told = [each.change for each in report(document, "3.8", "3.10").changes if "strategy" in each.change.message]
    assert {(each.about.name, each.severity, each.fix) for each in told} == {("safe", "note", NOTHING_TO_DO)}


@pytest.mark.parametrize(
    ("bound", "severity", "said"),
    [
        (["good"], "error", "32 of these hold up all its other dead letters, also those that arrive today."),
        ([], "warning", "32 of these hold up all its other dead letters."),
        (["good", "bad"], "note", "It then keeps a dead letter until another queue has confirmed it."),
    ],
)
def test_what_was_lost_is_held_and_holds_up_what_arrived(bound: list[str], severity: str, said: str) -> None:
    settings = {"dead_letter_strategy": "at-least-once", "overflow": "reject-publish"}
    named = {"in": "orders", "dying": "dead"}
    document = topology(
        queue("orders", "quorum", dead_letter_exchange="dying", **settings),
        queue("dead"),
        exchanges=[{"vhost": "/", "name": name, "type": "direct", "durable": True, "arguments": {}} for name in named],
        bindings=[
            {"vhost": "/", "source": exchange, "destination": named[exchange], "destination_type": "queue",
             "routing_key": key, "arguments": {}}
            for exchange, keys in (("in", ["good", "bad"]), ("dying", bound)) for key in keys
        ],
    )  # fmt: skip
    found = changes(document, "3.9", "3.10")["quorum_at_least_once", "orders"]
    assert (found.severity, found.message.endswith(said)) == (severity, True)
    for trial, arrives in zip(both(document, "3.9", "3.10"), (True, "bad" in bound), strict=True):
        for key in [*["bad"] * 32, "good"]:
            trial.publish("in", key)
            trial.reject("orders")
        assert (ready(trial, "dead") > 0) == (arrives and "good" in bound)


def test_a_new_queue_of_3_8_has_a_policy_that_it_does_not_support() -> None:
    document = topology(
        queue("orders", "quorum"),
        queue("dead"),
        policies=[policy("p", "^orders$", expires=60_000), policy("o", "^dead$", expires=60_000)],
    )
    found = changes(document, "3.8", "3.10")
    assert (
        "'orders' has policy 'p' if it is declared after it"
        in found["policy_keys_checked_at_declaration", "orders"].message
    )
    assert ("policy_keys_checked_at_declaration", "dead") not in found


def test_quorum_queues_begin_to_expire_messages() -> None:
    document = topology(queue("orders", "quorum"))
    found = changes(document, "3.9", "3.10")["quorum_message_ttl", "orders"]
    assert "it is dropped when that time is over, because the queue has no dead-letter exchange" in found.message
    for trial, left in zip(both(document, "3.9", "3.10"), (1, 0), strict=True):
        trial.publish("", "orders", expiration_ms=100)
        trial.wait(1_000)
        assert ready(trial, "orders") == left
    assert found.fix.text == "publish without expiration what must not expire"


def test_a_late_delivery_is_taken_back_by_the_quorum_queue_and_by_nobody_from_a_classic_one() -> None:
    document = topology(queue("q", "quorum"), queue("c"))
    told = [
        each.change.message
        for each in report(document, "4.2", "4.3").changes
        if each.behaviour == "consumer_timeout_enforced_by"
    ]
    assert any("'q'" in each and "the queue takes this delivery back" in each for each in told)
    assert any("'c'" in each and "nothing happens, and the delivery stays with it" in each for each in told)
    seen = []
    for trial in both(document, "4.2", "4.3"):
        for name in ("q", "c"):
            trial.publish("", name)
            trial.hold(name)
        trial.wait(2 * 3_600_000)
        seen.append([state.store.ready for state in map(trial.queue, ("q", "c")) if state is not None])
    assert seen == [[1, 1], [1, 0]]


def test_a_stream_takes_dead_letters() -> None:
    document = topology(queue("a", dead_letter_exchange="", dead_letter_routing_key="s"), queue("s", "stream"))
    found = changes(document, "3.11", "3.12")["stream_takes_dead_letters", "a"]
    assert (found.severity, "lost silently" in found.message) == ("note", True)
    seen = []
    for trial in both(document, "3.11", "3.12"):
        trial.publish("", "a")
        trial.reject("a")
        seen.append(ready(trial, "s"))
    assert seen == [0, 1]


def test_a_copy_that_is_no_longer_lost_leaves_nothing_to_do() -> None:
    document = topology(
        queue("orders", dead_letter_exchange="dlx"),
        queue("dead"),
        queue("audit", "stream"),
        exchanges=[
            {"vhost": "/", "name": "dlx", "type": "fanout", "durable": True, "auto_delete": False, "internal": False}
        ],
        bindings=[
            {"vhost": "/", "source": "dlx", "destination": name, "destination_type": "queue", "routing_key": ""}
            for name in ("dead", "audit")
        ],
    )
    found = changes(document, "3.10", "4.3")["stream_takes_dead_letters", "orders"]
    assert (found.severity, found.fix.safe) == ("note", True)
    assert found.fix.text.startswith("nothing to do before the upgrade")
    back = changes(document, "3.12", "3.11")["stream_takes_dead_letters", "orders"]
    assert (back.severity, back.fix.safe) == ("warning", False)


def test_a_retry_by_way_of_a_queue_is_told_of_delayed_retry() -> None:
    document = topology(
        queue("work", "quorum", dead_letter_exchange="", dead_letter_routing_key="wait"),
        queue("wait", message_ttl=30_000, dead_letter_exchange="", dead_letter_routing_key="work"),
    )
    found = changes(document, "4.2", "4.3")["quorum_delayed_retry", "work"]
    assert (found.severity, "waits 30000 ms in 'wait'" in found.message) == ("note", True)
    assert "delayed-retry-type all, delayed-retry-min 30000 and delayed-retry-max 30000" in found.fix.text
    retried = policy(
        "retry", "^work$", delayed_retry_type="all", delayed_retry_min=30_000, delayed_retry_max=30_000
    )  # fmt: skip
    trial = Trial(topology(queue("work", "quorum"), policies=[retried]), release="4.3")
    trial.publish("", "work")
    trial.requeue("work")
    waits = [copy.ready_us for copy in (trial.queue("work") or pytest.fail("no queue")).store.waiting()]
    assert waits == [trial.now_us + 30_000_000]
    with pytest.raises(DefinitionsError, match="delayed-retry"):
        imported(topology(queue("work", "quorum"), policies=[retried]), "4.2")


def imported(document: dict[str, Any], release: str) -> None:
    """Import a document into a new server. Raises ``DefinitionsError`` where the server refuses it."""
    import_definitions(Broker(release), document, 0, strict=True)


# -- objects -----------------------------------------------------------------------


def test_a_policy_of_mirrored_queues_is_refused() -> None:
    document = topology(queue("orders"), policies=[policy("ha", "^orders$", **{"ha-mode": "all"})])
    found = changes(document, "3.13", "4.0")["policy_keys", "ha"]
    assert found.about.kind == "policy"
    assert "ha-mode" in found.message
    assert not found.fix.safe
    imported(document, "3.13")
    with pytest.raises(DefinitionsError, match="ha-mode"):
        imported(document, "4.0")
    imported({**document, "policies": []}, "4.0")


def test_only_a_policy_that_applies_to_a_queue_mirrors_it() -> None:
    """A policy of higher priority, another pattern or another virtual host keeps it away."""

    def told(*others: dict[str, Any], pattern: str = ".*") -> UpgradeChange:
        mirroring = policy("ha", pattern, **{"ha-mode": "all"})
        document = topology(queue("orders"), queue("safe", "quorum"), policies=[mirroring, *others])
        document["vhosts"].append({"name": "other"})
        document["queues"].append(queue("^none$") | {"vhost": "other"})
        return changes(document, "3.13", "4.0")["policy_keys", "ha"]

    first = policy("dl", ".*", dead_letter_exchange="dlx") | {"priority": 1}
    equal = policy("dl", ".*", dead_letter_exchange="dlx")
    for idle in (told(first), told(pattern="none")):
        assert "An import of these definitions fails" in idle.message
        assert "mirrors" not in idle.message
        assert idle.fix.safe
    for mirrors in (told(), told(equal)):
        assert "Classic queues that it mirrors ('orders') have one copy" in mirrors.message
        assert not mirrors.fix.safe


def test_a_queue_of_version_1_is_refused() -> None:
    document = topology(queue("orders", queue_version=1))
    found = changes(document, "4.2", "4.3")["queue_versions", "orders"]
    assert not found.fix.safe
    with pytest.raises(DefinitionsError):
        imported(document, "4.3")
    assert ("queue_versions", "orders") not in changes(topology(queue("orders")), "4.2", "4.3")


def test_a_binding_with_three_wildcards_is_refused() -> None:
    bound = {"vhost": "/", "source": "amq.topic", "destination": "q", "destination_type": "queue", "arguments": {}}
    document = topology(queue("q"), bindings=[{**bound, "routing_key": "#.a.#.b.#"}])
    assert "3 '#' wildcards" in changes(document, "4.2", "4.3")["topic_hash_wildcards_max", "amq.topic"].message
    with pytest.raises(DefinitionsError, match="wildcards"):
        imported(document, "4.3")


def test_a_headers_binding_compares_numbers_by_type() -> None:
    document = topology(
        queue("q"),
        exchanges=_EVERYTHING["exchanges"],
        bindings=[{**_EVERYTHING["bindings"][0], "destination": "q"}],
    )
    found = changes(document, "3.12", "3.13")["headers_match_numbers", "h"]
    for trial, arrived in zip(both(document, "3.12", "3.13"), (1, 0), strict=True):
        trial.publish("h", "", headers={"size": 1.0})
        assert ready(trial, "q") == arrived
    assert "with the type that the binding has" in found.fix.text
    for trial in both(document, "3.12", "3.13"):
        trial.publish("h", "", headers={"size": 1})
        assert ready(trial, "q") == 1


@pytest.mark.parametrize(
    ("kind", "arguments", "keys", "behaviour", "before", "after"),
    [
        ("x-consistent-hash", {"hash-header": "h"}, ("1", "1", "1"), "consistent_hash_header", "3.12", "3.13"),
        ("x-consistent-hash", {}, ("1", "5", "1"), "consistent_hash_bound_twice", "3.8", "3.10"),
        ("x-modulus-hash", {}, ("b", "c", "a"), "modulus_hash_order", "4.2", "4.3"),
    ],
)
def test_a_hash_exchange_sends_messages_to_other_queues(
    kind: str, arguments: dict[str, Any], keys: tuple[str, ...], behaviour: str, before: str, after: str
) -> None:
    exchange = {"name": "x", "vhost": "/", "type": kind, "durable": True, "auto_delete": False, "internal": False}
    names = ("a", "a" if behaviour == "consistent_hash_bound_twice" else "c", "b")
    bindings = [
        {"source": "x", "vhost": "/", "destination": name, "destination_type": "queue", "routing_key": key,
         "arguments": {}} for name, key in zip(names, keys, strict=True)
    ]  # fmt: skip
    exchanges = [{**exchange, "arguments": arguments}]
    document = topology(queue("a"), queue("b"), queue("c"), exchanges=exchanges, bindings=bindings)
    assert changes(document, before, after)[behaviour, "x"].severity == "warning"
    defined = parse_definitions(msgspec.json.encode(document), "definitions.json").topology("/")
    messages = [published("x", f"{n}", headers={"h": f"{n}"}, release=release(after)) for n in range(20)]
    then, now = ([route(message, defined, release(name)) for message in messages] for name in (before, after))
    assert then != now
    plain = {**document, "bindings": [{**each, "routing_key": "1"} for each in bindings[1:]]}
    plain["exchanges"] = [{**exchange, "arguments": {}}]
    assert (behaviour, "x") not in changes(plain, before, after)


def test_other_kinds_of_delays_are_told_where_a_delayed_exchange_is() -> None:
    exchange = {"name": "later", "vhost": "/", "type": "x-delayed-message", "arguments": {"x-delayed-type": "direct"}}
    definitions = Definitions({"vhosts": [{"name": "/"}], "queues": [], "exchanges": [exchange]}, "definitions")

    def told(before: str, after: str) -> str:
        return "\n".join(each.change.message for each in upgraded(definitions, release(before), release(after)).changes)

    assert "delays messages by an x-delay that is a double or a float or a byte array" in told("3.12", "4.0")
    assert "ends the connection of publishers of an x-delay that is a decimal or void" in told("3.12", "4.0")


def test_an_upgrade_that_loses_what_an_exchange_delays_is_an_error_and_comes_first() -> None:
    exchange = {"name": "later", "vhost": "/", "type": "x-delayed-message", "arguments": {"x-delayed-type": "direct"}}
    found = report(topology(exchanges=[exchange]), "3.13", "4.3").changes
    assert [(each.behaviour, each.change.severity) for each in found] == [
        ("plugins_not_released", "error"), ("delay_kinds", "warning"), ("delay_kinds_unreadable", "warning")
    ]  # fmt: skip
    assert found[0].change.message.startswith(
        "Messages that exchange 'later' delays at the time of the upgrade are lost:"
    )
    assert "starts on 4.3" in found[0].change.message
    assert report(topology(exchanges=[exchange]), "4.0", "4.2").changes == ()
