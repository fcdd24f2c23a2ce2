"""A trial does what clients do, and names what breaks."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dlx import Policy
from dlx.operator_errors import OperatorError
from dlx.releases import RELEASES
from simulator.events import Event
from simulator.scenario import steps
from simulator.testing import Property, PropertyBroken, Trial, replay
from tests.real_servers import since, until


def definitions(*queues: dict[str, Any]) -> dict[str, Any]:
    return {"vhosts": [{"name": "/"}], "queues": [{"vhost": "/", "durable": True, **queue} for queue in queues]}


def queue(name: str, **arguments: Any) -> dict[str, Any]:
    return {
        "name": name,
        "auto_delete": False,
        "arguments": {f"x-{k.replace('_', '-')}": v for k, v in arguments.items()},
    }


LADDER = definitions(
    queue("orders", dead_letter_exchange="", dead_letter_routing_key="orders.wait"),
    queue("orders.wait", message_ttl=30_000, dead_letter_exchange="", dead_letter_routing_key="orders"),
)
QUORUM = definitions(queue("orders", queue_type="quorum"))


def where(trial: Trial) -> dict[str, int]:
    return {queue.name: queue.messages for queue in trial.queues() if queue.messages}


def test_a_message_goes_round_a_ladder_as_time_passes() -> None:
    trial = Trial(LADDER, properties=["lossless", "settles", "conservation", "x-death", "settings", "rest"])
    trial.publish("", "orders")
    trial.reject("orders")
    assert where(trial) == {"orders.wait": 1}
    trial.wait(29_999)
    assert where(trial) == {"orders.wait": 1}
    trial.wait(1)
    assert where(trial) == {"orders": 1}
    trial.ack("orders")
    assert where(trial) == {}


@pytest.mark.parametrize(
    ("release", "lost"), [*((name, False) for name in until("3.13")), *((name, True) for name in since("4.0"))]
)
def test_from_4_0_the_21st_crash_discards_a_message_of_a_quorum_queue(release: str, lost: bool) -> None:
    trial = Trial(QUORUM, release=release, properties=["lossless"])
    trial.publish("", "orders")
    trial.crash("orders", times=20)
    assert where(trial) == {"orders": 1}
    if lost:
        with pytest.raises(PropertyBroken, match="died in 'orders' \\(delivery_limit\\) was dropped"):
            trial.crash("orders")
    else:
        trial.crash("orders")
        assert where(trial) == {"orders": 1}


@pytest.mark.parametrize(("method", "left"), [("reject", {}), ("nack", {"orders": 1})])
def test_in_4_3_a_nack_that_requeues_is_no_failure(method: str, left: dict[str, int]) -> None:
    trial = Trial(QUORUM)
    trial.publish("", "orders")
    trial.requeue("orders", times=21, method=method)
    assert where(trial) == left


def test_a_consumer_holds_what_its_prefetch_allows_and_gives_it_back_when_it_leaves() -> None:
    trial = Trial(LADDER)
    trial.publish("", "orders", times=5)
    trial.hold("orders", 3)
    orders = trial.queue("orders")
    assert orders is not None
    assert (orders.messages_ready, orders.unacked) == (2, 3)
    trial.leave("orders")
    assert (orders.messages_ready, orders.unacked) == (5, 0)


def test_a_consumer_that_holds_too_long_is_cut_off_and_a_new_one_takes_over() -> None:
    trial = Trial(QUORUM, release="4.0")
    trial.publish("", "orders")
    trial.hold("orders")
    trial.wait(3_600_000)
    assert not trial.has_consumer("orders")
    trial.ack("orders")
    assert where(trial) == {}


def test_policies_change_live_queues() -> None:
    trial = Trial(QUORUM, properties=["settings"])
    trial.set_policy(Policy(name="short", pattern="orders", definition={"message-ttl": 1_000}, apply_to="queues"))
    trial.publish("", "orders")
    trial.wait(1_000)
    assert where(trial) == {}
    trial.clear_policy("short")
    trial.publish("", "orders")
    trial.wait(60_000)
    assert where(trial) == {"orders": 1}


def test_a_step_that_finds_nothing_to_do_does_nothing() -> None:
    trial = Trial(QUORUM, properties=["conservation"])
    for step in (steps.Ack("orders"), steps.Reject("gone"), steps.Crash("orders", 3), steps.Leave("orders")):
        trial.do(step)
    assert where(trial) == {}


@pytest.mark.parametrize(
    ("do", "why"),
    [
        (lambda trial: trial.reject("odrers"), "no queue 'odrers'; did you mean 'orders'?"),
        (lambda trial: trial.publish("", "odrers"), "no queue 'odrers'; did you mean"),
        (lambda trial: trial.publish("amq.topics", "x"), "no exchange 'amq.topics'; did you mean 'amq.topic'"),
        (lambda trial: trial.leave("orders", vhost="zz"), "no virtual host 'zz'; there are '/'"),
        (lambda trial: trial.repeat(2, steps.Ack("orders"), steps.Ack("x")), "no queue 'x'; there are 'orders', 'ord"),
        (lambda trial: replay(LADDER, (steps.Ack("odrers"),)), "no queue 'odrers'; did you mean"),
    ],
)
def test_a_name_that_the_definitions_do_not_have_is_an_error(do: Any, why: str) -> None:
    trial = Trial(LADDER)
    with pytest.raises(LookupError) as caught:
        do(trial)
    assert str(caught.value).startswith(why)
    assert trial.history == []


def test_a_name_that_was_there_is_none() -> None:
    """A queue that expired, and a publish whose keys its headers name."""
    trial = Trial(definitions(queue("orders", expires=1_000), queue("rest")))
    trial.wait(1_000)
    trial.reject("orders")
    trial.publish("", "orders")
    trial.publish("", "all", headers={"CC": ["rest"]})
    assert where(trial) == {"rest": 1}


@pytest.mark.parametrize(
    ("do", "error", "why"),
    [
        (lambda trial: trial.requeue("orders", method="foo"), ValueError, "requeue: Invalid enum value 'foo'"),
        (lambda trial: trial.wait(1.5), ValueError, "wait: Expected `int`, got `float` - at `$.ms`"),
        (lambda trial: trial.publish("", "orders", ttl_ms=5), ValueError, "publish: Object contains unknown field"),
        (lambda trial: trial.publish("", "orders", headers={"CC": "x"}), ValueError, "publish: "),
        (lambda trial: trial.do("x"), TypeError, "'x' is not a step; expected one from simulator.scenario.steps"),
        (lambda trial: trial.repeat(2, "x"), TypeError, "'x' is not a step"),
        (lambda trial: trial.do(steps.Repeat(("x",), 2)), TypeError, "'x' is not a step"),
        (lambda trial: trial.set_policy("short"), ValueError, "set-policy: Expected `object`, got `str`"),
    ],
)
def test_what_no_step_can_be_is_an_error(do: Any, error: type[Exception], why: str) -> None:
    trial = Trial(LADDER)
    with pytest.raises(error) as caught:
        do(trial)
    assert str(caught.value).startswith(why)
    assert trial.history == []


def test_a_policy_that_is_refused_is_no_part_of_the_history() -> None:
    trial = Trial(QUORUM)
    with pytest.raises(OperatorError):
        trial.set_policy(Policy(name="bad", pattern="[", definition={"message-ttl": "soon"}))
    assert trial.history == []


def test_steps_are_repeated_in_their_order() -> None:
    trial = Trial(LADDER)
    trial.repeat(3, steps.Publish("", "orders"), steps.Reject("orders"))
    assert where(trial) == {"orders.wait": 3}


def test_rejecting_where_nothing_takes_the_message_is_the_consumers_own_discard() -> None:
    trial = Trial(QUORUM, properties=["lossless"])
    trial.publish("", "orders")
    trial.reject("orders")
    assert where(trial) == {}


def test_a_refused_or_unroutable_publish_is_no_loss() -> None:
    full = definitions(queue("orders", max_length=1, overflow="reject-publish"))
    trial = Trial(full, properties=["lossless"])
    trial.publish("", "orders", times=3)
    trial.publish("amq.direct", "nowhere")
    assert where(trial) == {"orders": 1}


def test_a_dead_letter_that_a_full_queue_refuses_is_lost() -> None:
    dead = queue("dead", max_length=1, overflow="reject-publish")
    trial = Trial(
        definitions(queue("orders", dead_letter_exchange="", dead_letter_routing_key="dead"), dead),
        properties=["lossless"],
    )
    trial.publish("", "orders", times=2)
    trial.reject("orders")
    with pytest.raises(PropertyBroken, match="died in 'dead' \\(maxlen\\) was dropped \\(queue 'dead' is full\\)"):
        trial.reject("orders")


def test_a_dead_letter_that_its_queue_pushes_on_is_not_lost() -> None:
    dead = queue(
        "dead", max_length=1, overflow="reject-publish-dlx", dead_letter_exchange="", dead_letter_routing_key="rest"
    )
    trial = Trial(
        definitions(queue("orders", dead_letter_exchange="", dead_letter_routing_key="dead"), dead, queue("rest")),
        properties=["lossless", "conservation"],
    )
    trial.publish("", "orders", times=2)
    trial.reject("orders", times=2)
    assert where(trial) == {"dead": 1, "rest": 1}


def test_a_pause_on_the_way_makes_a_retry_settle_and_none_does_not() -> None:
    trial = Trial(LADDER, properties=["settles"])
    trial.publish("", "orders")
    trial.repeat(50, steps.Reject("orders"), steps.Wait(30_000))
    own = definitions(queue("orders", dead_letter_exchange="", dead_letter_routing_key="orders"))
    trial = Trial(own, properties=["settles"])
    trial.publish("", "orders")
    with pytest.raises(PropertyBroken, match="came back to 'orders' 11 times without time passing"):
        trial.reject("orders", times=50)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("missing", [(), ("time",), ("count",), ("exchange", "routing-keys")])
@pytest.mark.parametrize("claimed", ["orders", "elsewhere"])
def test_a_loop_is_seen_whatever_the_publisher_claims(release: str, missing: tuple[str, ...], claimed: str) -> None:
    """Until 3.12 a broker goes on with a client's x-death as it stands, with what its entries lack."""
    entry = {"count": 1, "reason": "rejected", "queue": claimed, "time": 0, "exchange": "", "routing-keys": ["orders"]}
    headers = {"x-death": [{name: value for name, value in entry.items() if name not in missing}]}
    own = definitions(queue("orders", dead_letter_exchange="", dead_letter_routing_key="orders"))
    trial = Trial(own, release=release, properties=["settles", "x-death"])
    trial.publish("", "orders", headers=headers)
    with pytest.raises(PropertyBroken, match="came back to 'orders' 11 times without time passing"):
        trial.reject("orders", times=40)


@pytest.mark.parametrize("forged", ["no table", {"queue": ["orders"], "reason": 7, "count": "many"}, {}])
def test_a_history_that_no_broker_wrote_is_passed_over(forged: Any) -> None:
    trial = Trial(LADDER, release="3.10", properties=["settles", "x-death", "conservation"])
    trial.publish("", "orders", headers={"x-death": [forged]})
    trial.reject("orders")
    assert sum(where(trial).values()) <= 1, "it goes on, or has crashed its queue"


class Sober(Property):
    name = "sober"
    promise = "nothing is ever rejected"

    def observe(self, trial: Trial, event: Any, message: Any) -> None:
        if event.event == Event.REJECTED:
            raise self.broken("somebody rejected", event)


def test_properties_of_ones_own_are_looked_at_after_every_step() -> None:
    trial = Trial(LADDER, properties=[Sober()])
    trial.publish("", "orders")
    with pytest.raises(PropertyBroken, match="sober is broken: somebody rejected") as caught:
        trial.reject("orders")
    assert caught.value.history == (steps.Publish("", "orders"), steps.Reject("orders"))
    assert (caught.value.vhost, caught.value.uid) == ("/", 1)


def test_an_unknown_property_is_named_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="no property 'lossles'; there are lossless, arrives, settles"):
        Trial(LADDER, properties=["lossles"])


@pytest.mark.parametrize(
    ("properties", "error", "why"),
    [
        ("lossless", TypeError, r"expected a list, such as \['lossless'\]"),
        ([Sober], TypeError, r"got the class Sober; expected a property: Sober\(\)"),
        ([7], TypeError, "got 7; expected names of properties, or a subclass of Property"),
        ([Property()], ValueError, "Property has no name"),
    ],
)
def test_what_is_no_property_is_an_error(properties: Any, error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        Trial(LADDER, properties=properties)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"do": "explode"}, "Invalid value 'explode' - at `$[0].do`"),
        ({"do": "crash"}, "missing required field `queue` - at `$[0]`"),
        ({"do": "crash", "queue": "orders", "count": 2}, "unknown field `count` - at `$[0]`"),
        ({"do": "crash", "queue": "orders", "times": 0}, "times is 0; expected 1 to 1,000,000,000 - at `$[0]`"),
        ({"do": "wait", "ms": -1}, "ms is -1; time only goes forward - at `$[0]`"),
        (
            {"do": "repeat", "times": 10**6, "steps": [{"do": "ack", "queue": "orders", "times": 10**6}]},
            "repeated steps make 1,000,000,000,000 actions; expected 1,000,000,000 at most - at `$[0]`",
        ),
    ],
)
def test_a_wrong_step_is_named(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        steps.from_builtins([wrong])
    assert why in str(caught.value)


def test_the_same_steps_give_the_same_events() -> None:
    def run() -> list[Any]:
        trial, seen = Trial(LADDER), []
        for step in (
            steps.Publish("", "orders", times=3),
            steps.Crash("orders"),
            steps.Reject("orders"),
            steps.Wait(40_000),
        ):
            trial.do(step)
            seen += [happened for happened, _ in trial.events]
        return seen

    assert run() == run()


def test_what_is_held_may_arrive_more_than_once_with_the_same_deaths() -> None:
    """A full queue refuses what at-least-once holds, and sends it on all the same: copies come and go for long."""
    ring = definitions(
        queue("a", max_length=1, dead_letter_exchange="", dead_letter_routing_key="b"),
        queue("b", max_length=1, overflow="reject-publish-dlx", dead_letter_exchange="", dead_letter_routing_key="c"),
        queue(
            "c",
            queue_type="quorum",
            max_length=1,
            overflow="reject-publish",
            delivery_limit=-1,
            dead_letter_strategy="at-least-once",
            dead_letter_exchange="",
            dead_letter_routing_key="b",
        ),
    )
    trial = Trial(ring, properties=["conservation", "x-death", "settings", "rest"])
    trial.publish("", "a", times=3)
    trial.reject("c")
    trial.wait(180_000)
    trial.repeat(3, steps.Reject("c"), steps.Reject("b"), steps.Wait(60_000))
    assert sum(where(trial).values()) >= 3


@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_a_held_dead_letter_that_is_refused_is_neither_lost_nor_a_refused_publish(overflow: str) -> None:
    """The queue that holds it sends it again; its publisher has long had the confirm."""
    topology = definitions(
        queue(
            "work",
            queue_type="quorum",
            overflow="reject-publish",
            dead_letter_strategy="at-least-once",
            dead_letter_exchange="",
            dead_letter_routing_key="full",
        ),
        queue("full", max_length=0, overflow=overflow),
    )
    trial = Trial(topology, properties=["lossless", "accepts", "conservation", "x-death"])
    trial.publish("", "work")
    trial.reject("work")
    trial.wait(180_000)
    assert where(trial) == {"work": 1}
    with pytest.raises(PropertyBroken, match="'full' is full and refused a publish"):
        trial.publish("", "full")
