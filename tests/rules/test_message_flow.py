"""The automaton of a message: where a publish goes, which deaths settings allow, what becomes of each copy and why."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dlx
from dlx import Binding, Exchange, Policy, Queue, Topology, published, release
from dlx.death_headers import QueueCrashError
from dlx.deaths import REASONS
from dlx.message_flow import MessageFlow, State
from dlx.releases import RELEASES
from simulator.testing.strategies import messages, topologies

TO_DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
AT_LEAST_ONCE = {"x-queue-type": "quorum", "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
FULL = {"x-max-length": 1, "x-overflow": "reject-publish"}


def flow(*queues: Queue, name: str = "4.3", **more: object) -> MessageFlow:
    return MessageFlow(Topology.of(queues=queues, **more), release(name))  # type: ignore[arg-type]


def work(arguments: dict[str, object], kind: str = "classic") -> Queue:
    return Queue(name="work", type=kind, arguments=arguments)


def state(of: MessageFlow, queue: str = "work", **more: object) -> State:
    (entered,) = of.publish(published("", queue, release=of.release, **more))  # type: ignore[arg-type]
    return entered


def fates(of: MessageFlow, reason: str = "rejected") -> list[tuple[str, str | None, str]]:
    return [(copy.outcome, copy.queue, str(copy.rule)) for copy in of.copies(state(of), reason)]


# Where a publish goes


def test_a_publish_enters_each_queue_once() -> None:
    bound = [Binding(source="amq.fanout", destination=queue) for queue in ("a", "b", "a")]
    of = flow(Queue(name="a"), Queue(name="b"), bindings=bound)
    message = published("amq.fanout", "", release=of.release)
    assert of.entries(message) == ("a", "b")
    assert [(each.queue, each.message) for each in of.publish(message)] == [("a", message), ("b", message)]
    assert of.entries(published("", "nowhere", release=of.release)) == ()


def test_equal_messages_in_one_queue_are_one_state() -> None:
    of = flow(work({}))
    first = state(of, headers={"a": 1})
    assert state(of, headers={"a": 1}) is first
    assert state(of, headers={"a": "1"}) is not first
    assert state(of, properties={"message_id": "m"}) is not state(of, properties={"message_id": "n"})
    assert state(of, headers={"a": "\udc80", "b": 2**70}) is state(of, headers={"b": 2**70, "a": "\udc80"})


# Which deaths the settings allow


def deaths(of: MessageFlow, **more: object) -> dict[str, tuple[bool, str]]:
    return {each.reason: (each.possible, str(each.rule)) for each in of.deaths(state(of, **more))}


def test_without_settings_only_a_consumer_kills() -> None:
    assert deaths(flow(work({}))) == {
        "rejected": (True, "rejected in 'work': a consumer may reject it for good"),
        "expired": (False, "expired in 'work': neither the queue nor the message has a TTL"),
        "maxlen": (False, "maxlen in 'work': the queue has no length limit"),
        "delivery_limit": (False, "delivery_limit in 'work': only quorum queues have one"),
    }


def test_a_setting_that_kills_is_named_with_its_origin() -> None:
    by_policy = Policy(name="limits", pattern="", definition={"message-ttl": 5}, apply_to="queues")
    of = flow(work({"x-max-length": 3}), policies=[by_policy])
    assert deaths(of)["expired"] == (True, "expired in 'work': message-ttl is 5 (message-ttl by policy limits)")
    assert deaths(of)["maxlen"] == (True, "maxlen in 'work': max-length is 3 (max-length by argument)")


@pytest.mark.parametrize(("name", "limit"), [("3.13", None), ("4.0", 20), ("4.3", 20)])
def test_the_delivery_limit_by_default_is_the_server_s(name: str, limit: int | None) -> None:
    told = deaths(flow(work({}, "quorum"), name=name))["delivery_limit"]
    if limit is None:
        assert told == (False, "delivery_limit in 'work': the queue has none")
    else:
        why = f"delivery_limit in 'work': delivery-limit is {limit} (delivery-limit by server default)"
        assert told == (True, why)


@pytest.mark.parametrize(("name", "kind", "expires"), [
    ("3.8", "classic", True), ("3.8", "quorum", False), ("3.10", "quorum", True), ("4.3", "quorum", True),
])  # fmt: skip
def test_an_expiration_kills_where_the_queue_knows_it(name: str, kind: str, expires: bool) -> None:
    possible, why = deaths(flow(work({}, kind), name=name), expiration="70")["expired"]
    assert possible is expires
    assert why == "expired in 'work': its expiration is 70" if expires else "neither" in why


def test_a_queue_that_refuses_drops_nothing() -> None:
    why = "maxlen in 'work': overflow is reject-publish, nothing is dropped (overflow by argument)"
    assert deaths(flow(work(FULL)))["maxlen"] == (False, why)
    dlx = flow(work({**FULL, "x-overflow": "reject-publish-dlx"}))
    assert deaths(dlx)["maxlen"][0]


def test_nothing_dies_in_a_stream() -> None:
    assert not any(possible for possible, _ in deaths(flow(work({}, "stream"))).values())


# What becomes of each copy


def test_dead_lettered() -> None:
    why = "exchange '' routes key 'dead' to 'dead' (dead-letter-routing-key by argument)"
    assert fates(flow(work(TO_DEAD), Queue(name="dead"))) == [("dead-lettered", "dead", why)]


def test_the_deciding_setting_may_come_from_a_policy() -> None:
    dlx = Policy(name="dlx", pattern="^work$", definition={"dead-letter-exchange": "amq.fanout"}, apply_to="queues")
    of = flow(work({}), Queue(name="d"), bindings=[Binding(source="amq.fanout", destination="d")], policies=[dlx])
    why = "exchange 'amq.fanout' routes key 'work' to 'd' (dead-letter-exchange by policy dlx)"
    assert fates(of) == [("dead-lettered", "d", why)]


def test_no_dead_letter_exchange() -> None:
    why = "queue 'work' has no dead-letter exchange"
    assert fates(flow(work({}))) == [("no dead-letter exchange", None, why)]


def test_a_dead_letter_exchange_that_does_not_exist() -> None:
    why = "dead-letter exchange 'x' of queue 'work' does not exist (dead-letter-exchange by argument)"
    assert fates(flow(work({"x-dead-letter-exchange": "x"}))) == [("dead-letter exchange missing", None, why)]


def test_unroutable() -> None:
    why = "exchange '' routes key 'dead' to no queue (dead-letter-routing-key by argument)"
    assert fates(flow(work(TO_DEAD))) == [("unroutable", None, why)]


@pytest.mark.parametrize("name", RELEASES)
def test_a_cycle_without_a_rejection(name: str) -> None:
    of = flow(work({"x-dead-letter-exchange": "amq.fanout"}), Queue(name="dead"), name=name, bindings=[
        Binding(source="amq.fanout", destination=queue) for queue in ("work", "dead")
    ])  # fmt: skip
    assert [(outcome, queue) for outcome, queue, _ in fates(of)] == [
        ("dead-lettered", "work"),
        ("dead-lettered", "dead"),
    ]
    address = "(dead-letter-exchange by argument)"
    assert fates(of, "expired") == [
        ("dead-lettered", "dead", f"exchange 'amq.fanout' routes key 'work' to 'dead' {address}"),
        ("cycle", "work", f"it would return to 'work' without a rejection on the way {address}"),
    ]
    assert [hop.to_queue for hop, _ in of.hops(state(of), "expired")] == ["dead"]
    assert [hop.to_queue for hop, _ in of.cycles(state(of), "expired")] == ["work"]


@pytest.mark.parametrize(("name", "outcome"), [
    ("3.8", "lost in a stream"), ("3.10", "lost in a stream"), ("3.13", "dead-lettered"), ("4.3", "dead-lettered"),
])  # fmt: skip
def test_streams_of_older_releases_lose_dead_letters(name: str, outcome: str) -> None:
    (found,) = fates(flow(work(TO_DEAD), Queue(name="dead", type="stream"), name=name))
    assert found[:2] == (outcome, "dead")
    assert outcome == "dead-lettered" or found[2] == "stream 'dead' drops dead letters in this release"


@pytest.mark.parametrize("name", ["3.10", "3.13", "4.0", "4.3"])
@pytest.mark.parametrize(("arguments", "why"), [
    ({"x-dead-letter-exchange": "x"}, "dead-letter exchange 'x' of queue 'work' does not exist"),
    (TO_DEAD, "exchange '' routes key 'dead' to no queue"),
    ({"x-dead-letter-exchange": ""}, "would return to 'work' without a rejection on the way: work"),
])  # fmt: skip
def test_at_least_once_holds_what_it_cannot_send(name: str, arguments: dict[str, object], why: str) -> None:
    of = flow(work({**AT_LEAST_ONCE, **arguments}, "quorum"), name=name)
    assert fates(of, "expired") == [("held", None, f"{why} (dead-letter-strategy by argument)")]


@pytest.mark.parametrize(("kind", "overflow", "source", "outcome", "then"), [
    ("classic", "drop-head", TO_DEAD, "dead-lettered", ""),
    ("classic", "reject-publish", TO_DEAD, "may be refused", "it is gone"),
    ("classic", "reject-publish-dlx", TO_DEAD, "may be refused", "it dies there of maxlen"),
    ("classic", "reject-publish", TO_DEAD | AT_LEAST_ONCE, "may be refused", "it is held and sent again"),
    ("quorum", "reject-publish", TO_DEAD, "dead-lettered", ""),
    ("quorum", "reject-publish", TO_DEAD | AT_LEAST_ONCE, "may be refused", "it is held and sent again"),
])  # fmt: skip
def test_a_full_queue_may_refuse(kind: str, overflow: str, source: dict[str, str], outcome: str, then: str) -> None:
    dead = Queue(name="dead", type=kind, arguments={"x-max-length": 1, "x-overflow": overflow})
    of = flow(work(source, "quorum" if "x-queue-type" in source else "classic"), dead)
    (found,) = fates(of)
    assert found[:2] == (outcome, "dead")
    assert found[2].endswith(f"it refuses the copy: {then} (overflow by argument)") is bool(then)
    unlimited = Queue(name="dead", type=kind, arguments={"x-overflow": overflow})
    assert fates(flow(work(source), unlimited))[0][0] == "dead-lettered"


@pytest.mark.parametrize(("name", "outcome"), [("3.8", "queue crashes"), ("3.13", "dead-lettered")])
def test_a_forged_history_crashes_the_queue_of_older_releases(name: str, outcome: str) -> None:
    of = flow(work(TO_DEAD), Queue(name="dead"), name=name)
    (copy,) = of.copies(state(of, headers={"x-death": ["forged"]}), "rejected")
    assert copy.outcome == outcome
    assert of.hops(state(of, headers={"x-death": ["forged"]}), "rejected") == () or outcome == "dead-lettered"


# What holds for every message


@pytest.mark.parametrize(("arguments", "why"), [
    ({}, None),
    ({"x-dead-letter-exchange": ""}, None),
    ({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "gone"},
     "dead-letter routing key 'gone' names no queue of the definitions"),
    ({"x-dead-letter-exchange": "none"}, "dead-letter exchange 'none' does not exist"),
    ({"x-dead-letter-exchange": "empty"}, "dead-letter exchange 'empty' has no bindings"),
    ({"x-dead-letter-exchange": "with-alternate"}, None),
])  # fmt: skip
def test_what_no_message_of_a_queue_can_survive(arguments: dict[str, object], why: str | None) -> None:
    alternate = Exchange(name="with-alternate", arguments={"alternate-exchange": "amq.fanout"})
    assert flow(work(arguments), exchanges=[Exchange(name="empty"), alternate]).why_never_routed("work") == why


# The same as the rules, for anything


CASES = st.sampled_from(RELEASES).flatmap(
    lambda name: st.tuples(st.just(release(name)), topologies(release=name), messages(release=name, hostile=True))
)


@given(CASES, st.sampled_from(REASONS))
def test_it_says_what_the_rules_say(case: tuple[dlx.Release, Topology, dlx.Message], reason: str) -> None:
    rules, topology, message = case
    of = MessageFlow(topology, rules)
    for queue in topology.queues.values():
        here = of.state(queue.name, message)
        assert of.state(queue.name, message) is here
        assert of.settings(queue.name) == dlx.effective_settings(queue, topology, rules)
        copies = of.copies(here, reason)
        assert copies
        try:
            letter = dlx.dead_letter(message, reason, of.settings(queue.name), topology, rules)
        except (QueueCrashError, dlx.message.PublishRefusedError):
            assert [copy.outcome for copy in copies] == ["queue crashes"]
            continue
        reached = [copy.queue for copy in copies if copy.outcome in ("dead-lettered", "may be refused")]
        assert reached == [*letter.queues] == [hop.to_queue for hop, _ in of.hops(here, reason)]
        assert [onward.message for _, onward in of.hops(here, reason)] == [letter.message] * len(letter.queues)
        assert [hop.to_queue for hop, _ in of.cycles(here, reason)] == [*letter.cycles]
        if not reached:
            named = {copy.outcome for copy in copies}
            assert letter.outcome in named or named == {"lost in a stream"}
        assert all(copy.rule.text for copy in copies)


@given(CASES)
def test_deaths_are_possible_or_say_why_not(case: tuple[dlx.Release, Topology, dlx.Message]) -> None:
    rules, topology, message = case
    of = MessageFlow(topology, rules)
    for queue in topology.queues:
        here = of.state(queue, message)
        found = of.deaths(here)
        assert [death.reason for death in found] == [*REASONS]
        assert all(of.why_not(here, death.reason) == (None if death.possible else death.rule.text) for death in found)


@pytest.mark.parametrize(("expiration", "decides"), [("70", "its expiration is 70"), ("700", "message-ttl is 500")])
def test_the_shorter_time_to_live_decides_when_a_message_expires(expiration: str, decides: str) -> None:
    topology = Topology.of(queues=[Queue(name="work", arguments={"x-message-ttl": 500})])
    flow = MessageFlow(topology, release("4.3"))
    (state,) = flow.publish(published("", "work", expiration=expiration, release=flow.release))
    (expired,) = [death for death in flow.deaths(state) if death.reason == "expired"]
    assert expired.rule.text == f"expired in 'work': {decides}"
    assert (expired.rule.setting is None) == ("expiration" in decides)


# Where dead letters may go


@pytest.mark.parametrize(
    ("kind", "key", "targets"),
    [
        ("direct", "a.b", {"exact"}),
        ("topic", "a.b", {"exact", "pattern"}),
        ("topic", "x", set()),
        ("fanout", "x", {"exact", "pattern"}),
        ("headers", "x", {"exact", "pattern"}),
        ("topic", None, {"exact", "pattern"}),
    ],
)
def test_a_dead_letter_routing_key_leads_where_its_bindings_do(kind: str, key: str | None, targets: set[str]) -> None:
    arguments: dict[str, object] = {"x-dead-letter-exchange": "dlx"}
    arguments |= {} if key is None else {"x-dead-letter-routing-key": key}
    bound = [Binding(source="dlx", destination=name, routing_key=at) for name, at in _BOUND.items()]
    queues = [work(arguments), Queue(name="exact"), Queue(name="pattern")]
    of = flow(*queues, exchanges=[Exchange(name="dlx", type=kind)], bindings=bound)
    assert of.possible_targets("work") == targets


_BOUND = {"exact": "a.b", "pattern": "a.*"}


@given(CASES)
def test_no_dead_letter_goes_where_none_may(case: tuple[dlx.Release, Topology, dlx.Message]) -> None:
    rules, topology, message = case
    of = MessageFlow(topology, rules)
    for queue in topology.queues:
        led = [hop.to_queue for reason in REASONS for hop, _ in of.hops(of.state(queue, message), reason)]
        assert {*led} <= of.possible_targets(queue)
