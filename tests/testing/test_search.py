"""The search finds what only some messages meet, and does not cry wolf."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.analysis.entries import entries
from simulator.analysis.slices import flows_of
from simulator.scenario import steps
from simulator.scenario.trial import Trial
from simulator.testing import PropertyBroken, replay
from simulator.testing.fuzz import counterexample as counterexample_module
from simulator.testing.fuzz.systematic_search import Search
from tests.long import some_in_ci
from tests.testing.test_trial import queue


def topology(
    queues: list[dict[str, Any]],
    exchanges: dict[str, Any] | None = None,
    bindings: list[tuple[str, str, str]] | None = None,
) -> dict[str, Any]:
    """Definitions; exchanges by name, as a type or with further fields; bindings as source, queue, key."""
    return {
        "vhosts": [{"name": "/"}],
        "queues": [{"vhost": "/", "durable": True, **each} for each in queues],
        "exchanges": [
            {"name": name, "vhost": "/", "durable": True, "auto_delete": False, "internal": False, "arguments": {}}
            | (kind if isinstance(kind, dict) else {"type": kind})
            for name, kind in (exchanges or {}).items()
        ],
        "bindings": [
            {
                "source": source,
                "vhost": "/",
                "destination": name,
                "destination_type": "queue",
                "routing_key": key,
                "arguments": {},
            }
            for source, name, key in bindings or []
        ],
    }


def found(definitions: dict[str, Any], name: str = "lossless", **how: Any) -> steps.History | None:
    counterexample = Search(definitions, name, **how).run()
    return None if counterexample is None else counterexample.history


@pytest.mark.slow
def test_limits_one_behind_the_other_are_all_gone_beyond() -> None:
    chain = [
        queue("orders", max_length=1_000, dead_letter_exchange="", dead_letter_routing_key="dead"),
        queue("dead", max_length=1_000, dead_letter_exchange="", dead_letter_routing_key="rest"),
    ]
    assert found(topology([*chain, queue("rest")])) is None
    ends = topology([*chain, queue("rest", max_length=1_000)])
    history = found(ends, publishes=[steps.Publish("", "orders")])
    assert history is not None
    assert 1_001 <= steps.length(history) <= 3 * 1_001


def test_an_alternate_exchange_is_a_way_in() -> None:
    definitions = topology(
        [queue("bound"), queue("others", message_ttl=100)],
        {
            "shop": {"type": "direct", "arguments": {"alternate-exchange": "rest"}},
            "rest": {"type": "fanout", "internal": True},
        },
        [("shop", "bound", "order"), ("rest", "others", "")],
    )
    assert found(definitions) == (steps.Publish("shop", "other"), steps.Wait(100))


def test_a_key_that_only_the_dead_letter_exchange_knows_is_tried() -> None:
    definitions = topology(
        [queue("orders", dead_letter_exchange="dlx"), queue("created", message_ttl=1_000), queue("rest")],
        {
            "shop": "topic",
            "dlx": {"type": "direct", "internal": True, "arguments": {"alternate-exchange": "rest"}},
            "rest": {"type": "fanout", "internal": True},
        },
        [("shop", "orders", "#"), ("dlx", "created", "order.created"), ("rest", "rest", "")],
    )
    assert found(definitions) == (steps.Publish("shop", "order.created"), steps.Reject("orders"), steps.Wait(1_000))


def test_entries_reach_queues_and_leave_internal_exchanges_alone() -> None:
    definitions = topology(
        [queue("bound", dead_letter_exchange="dlx"), queue("unbound"), queue("dead")],
        {"shop": "topic", "dlx": {"type": "fanout", "internal": True}},
        [("shop", "bound", "order.*"), ("dlx", "dead", "")],
    )
    found = entries(flows_of(Trial(definitions))).publishes
    assert {each.exchange for each in found} == {"", "shop"}
    assert {each.routing_key for each in found if not each.exchange} == {"unbound"}
    assert {each.routing_key for each in found if each.exchange} >= {"order.other"}
    for each in found:
        trial = Trial(definitions)
        trial.do(each)
        assert list(trial.copies()), each


@pytest.mark.parametrize(
    ("arguments", "broken"),
    [
        ({"expires": 60_000}, True),
        (
            {"expires": 60_000, "message_ttl": 1_000, "dead_letter_exchange": "", "dead_letter_routing_key": "safe"},
            True,
        ),
        ({"message_ttl": 1_000, "dead_letter_exchange": "", "dead_letter_routing_key": "safe"}, False),
        ({"max_priority": 3}, False),
        ({"single_active_consumer": True}, False),
        ({"queue_type": "stream"}, False),
        ({"queue_type": "quorum"}, True),
        ({"queue_type": "quorum", "delivery_limit": -1}, False),
        ({"queue_type": "quorum", "delivery_limit": 0}, True),
        ({"max_length": 5, "overflow": "reject-publish"}, False),
        ({"max_length": 5, "overflow": "reject-publish-dlx"}, False),
        ({"max_length_bytes": 100}, True),
    ],
)
def test_what_one_queue_loses(arguments: dict[str, Any], broken: bool) -> None:
    assert (found(topology([queue("orders", **arguments), queue("safe")])) is not None) is broken


def test_an_auto_delete_queue_goes_with_its_consumer() -> None:
    definitions = topology([{**queue("orders"), "auto_delete": True}])
    assert found(definitions) == (steps.Publish("", "orders"), steps.Crash("orders"))


def test_a_queue_that_is_full_of_others_refuses_its_own_dead_letter() -> None:
    own = queue("a", max_length=1, overflow="reject-publish", dead_letter_exchange="", dead_letter_routing_key="a")
    assert found(topology([own])) == (
        steps.Publish("", "a"),
        steps.Get("a"),
        steps.Publish("", "a"),
        steps.Reject("a"),
    )


def test_who_fails_a_message_where_it_pauses_is_not_taken_for_a_loop() -> None:
    pair = [
        queue("a", dead_letter_exchange="", dead_letter_routing_key="b"),
        queue(
            "b",
            queue_type="quorum",
            message_ttl=1_000,
            delivery_limit=1,
            dead_letter_exchange="",
            dead_letter_routing_key="a",
        ),
    ]
    assert found(topology(pair), "settles") is None
    trial = Trial(topology(pair), properties=["settles"])
    trial.publish("", "a")
    trial.repeat(50, steps.Reject("a"), steps.Crash("b", 2))


def test_limits_in_a_circle_do_not_make_the_search_endless() -> None:
    circle = [
        queue("c", message_ttl=1_000, max_length=1, dead_letter_exchange="", dead_letter_routing_key="q"),
        queue(
            "q",
            queue_type="quorum",
            message_ttl=1_000,
            max_length=1,
            delivery_limit=1,
            dead_letter_exchange="",
            dead_letter_routing_key="c",
        ),
    ]
    search = Search(topology(circle), "settles")
    search.run()
    assert search.tried < 500


def test_a_consumer_that_leaves_fails_what_it_has() -> None:
    pair = [
        queue(name, queue_type="quorum", delivery_limit=2, dead_letter_exchange="", dead_letter_routing_key=other)
        for name, other in (("a", "b"), ("b", "a"))
    ]
    assert found(topology(pair)) is not None


@pytest.mark.slow
def test_a_fan_out_that_comes_together_is_no_loop() -> None:
    queues = [
        queue(f"q{number}", message_ttl=1_000, dead_letter_exchange="", dead_letter_routing_key="dead")
        for number in range(15)
    ]
    bindings = [("all", f"q{number}", "") for number in range(15)]
    assert found(topology([*queues, queue("dead")], {"all": "fanout"}, bindings), "settles") is None


def test_what_is_found_is_so_in_the_whole_topology() -> None:
    loops = [
        queue("a", dead_letter_exchange="", dead_letter_routing_key="a"),
        queue("b", message_ttl=1_000, dead_letter_exchange="", dead_letter_routing_key="a"),
    ]
    definitions = topology(loops)
    history = found(definitions, "settles")
    assert history is not None
    with pytest.raises(PropertyBroken):
        replay(definitions, history, properties=["settles"])


def test_a_headers_exchange_that_asks_for_deaths_gets_them() -> None:
    definitions = topology(
        [queue("orders", dead_letter_exchange="dlx", message_ttl=1_000), queue("expired"), queue("rejected")],
        {"dlx": "headers"},
    )
    definitions["bindings"] = [
        {
            "source": "dlx",
            "vhost": "/",
            "destination": reason,
            "destination_type": "queue",
            "routing_key": "",
            "arguments": {"x-match": "all-with-x", "x-first-death-reason": reason},
        }
        for reason in ("expired", "rejected")
    ]
    assert found(definitions) is None
    assert Search(definitions, "lossless", release="3.8").run() is not None, "3.8 has no all-with-x"


def test_a_dead_letter_meets_a_full_queue_whatever_filled_it() -> None:
    ring = [
        queue("a", max_length=1, overflow="reject-publish", dead_letter_exchange="", dead_letter_routing_key="b"),
        queue("b", queue_type="quorum", delivery_limit=-1, dead_letter_exchange="", dead_letter_routing_key="a"),
    ]
    assert found(topology(ring)) is not None


LOST = {"message_ttl": 1_000}


@pytest.mark.parametrize(
    ("source", "dead", "lost"),
    [
        (("topic", "#"), ("topic", ["#.order.#", "", "*", "*.*"]), None),
        (("topic", "log.#"), ("topic", ["log", "log.*", "log.*.*"]), None),
        (("topic", "eu.*.*"), ("topic", ["#", "*.order.created"]), "*.order.created"),
        (("fanout", ""), ("direct", ["", "other"]), None),
        (("fanout", ""), ("direct", [f"key.{n}" for n in range(100)] + [""]), "key.77"),
    ],
)
def test_keys_that_go_a_way_of_their_own_are_tried(
    source: tuple[str, str], dead: tuple[str, list[str]], lost: str | None
) -> None:
    """Every key of the dead-letter exchange is safe but ``lost``; where that is ``None``, some key has no binding."""
    kept = [("dlx", "lost" if key == lost else "safe", key) for key in dead[1]]
    definitions = topology(
        [queue("work", dead_letter_exchange="dlx"), queue("safe"), *([queue("lost", **LOST)] if lost else [])],
        {"in": source[0], "dlx": {"type": dead[0], "internal": True}},
        [("in", "work", source[1]), *kept],
    )
    history = found(definitions)
    assert history is not None
    assert [type(step) for step in history[:2]] == [steps.Publish, steps.Reject]


@pytest.mark.parametrize("pattern", ["topic", "headers"])
def test_headers_that_another_exchange_asks_for_are_tried(pattern: str) -> None:
    definitions = topology(
        [queue("work", dead_letter_exchange="dlx"), queue("audit", **LOST), queue("safe")],
        {"in": pattern, "dlx": {"type": "headers", "internal": True}, "rest": "fanout"},
        [("in", "work", "#"), ("dlx", "audit", ""), ("dlx", "safe", "")],
    )
    own, both = {"type": "order", "x-match": "all"}, {"type": "order", "region": "eu", "x-match": "all"}
    definitions["bindings"][0]["arguments"] = own if pattern == "headers" else {}
    definitions["bindings"][1]["arguments"] = both
    assert found(definitions) is not None


def test_a_queue_that_only_internal_exchanges_lead_to_is_published_to() -> None:
    definitions = topology(
        [
            queue("orders", dead_letter_exchange="retry"),
            queue("wait", message_ttl=5_000, dead_letter_exchange="return"),
            queue("mail"),
        ],
        {"retry": {"type": "fanout", "internal": True}, "return": {"type": "direct", "internal": True}},
        [("retry", "wait", ""), ("return", "orders", "ordres")],
    )
    assert found(definitions) == (steps.Publish("", "orders"), steps.Reject("orders"), steps.Reject("wait"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "second"),
    some_in_ci([(5, 30_000), (30_000, 30_000), (30_000, 40_000), (25_000, 90_000)], [(5, 30_000)]),
)
def test_large_limits_one_behind_the_other_are_gone_beyond(first: int, second: int) -> None:
    definitions = topology([
        queue("orders", max_length=first, dead_letter_exchange="", dead_letter_routing_key="dead"),
        queue("dead", max_length=second),
    ])  # fmt: skip
    counterexample = Search(definitions, "lossless", publishes=[steps.Publish("", "orders")]).run()
    assert counterexample is not None
    assert first + second < steps.length(counterexample.history) <= first + second + 2
    with pytest.raises(PropertyBroken):
        replay(definitions, counterexample.history, properties=["lossless"])


def test_bytes_are_small_enough_for_what_is_on_the_way() -> None:
    definitions = topology([
        queue("in", max_length_bytes=1_000, overflow="reject-publish", dead_letter_exchange="",
              dead_letter_routing_key="dead"),
        queue("dead", max_length_bytes=100_000),
    ])  # fmt: skip
    assert found(definitions, publishes=[steps.Publish("", "in")]) is not None


def test_what_takes_long_to_find_counts_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counterexample_module, "SHRINK_S", 0.0)
    assert found(topology([queue("q", max_length=5_000)])) is not None


def test_the_plainest_loss_comes_before_many_ways() -> None:
    services = [queue(f"service{n}", dead_letter_exchange="", dead_letter_routing_key="dead") for n in range(60)]
    definitions = topology(
        [*services, queue("mail", dead_letter_exchange="mial"), queue("dead")],
        {"events": "topic", "mail": "fanout"},
        [*(("events", each["name"], f"*.event{n}.#") for n, each in enumerate(services)), ("mail", "mail", "")],
    )
    search = Search(definitions, "lossless")
    counterexample = search.run()
    assert counterexample is not None
    assert counterexample.history == (steps.Publish("mail", ""), steps.Reject("mail"))
    assert search.tried < 2 * len(search.publishes)


def test_a_history_begins_as_late_as_it_can() -> None:
    chain = [queue(f"q{n}", dead_letter_exchange="", dead_letter_routing_key=f"q{n + 1}") for n in range(6)]
    assert found(topology(chain), publishes=[steps.Publish("", f"q{n}") for n in range(6)]) == (
        steps.Publish("", "q5"),
        steps.Reject("q5"),
    )


def test_copies_that_pause_are_not_taken_for_one_that_returns() -> None:
    """Each lap makes two messages of one, but takes a second."""
    definitions = topology(
        [
            queue("a", dead_letter_exchange="", dead_letter_routing_key="wait"),
            queue("b", dead_letter_exchange="", dead_letter_routing_key="wait"),
            queue("wait", message_ttl=1_000, dead_letter_exchange="both"),
        ],
        {"both": "fanout"},
        [("both", "a", ""), ("both", "b", "")],
    )
    trial = Trial(definitions, properties=["settles"])
    trial.publish("both", "")
    for _ in range(6):
        for name in "ab":
            trial.reject(name, times=64)
        trial.wait(1_000)


@pytest.mark.slow
def test_a_great_many_deaths_at_once_are_no_loop() -> None:
    wait = queue("wait", message_ttl=1, dead_letter_exchange="", dead_letter_routing_key="q")
    definitions = topology([wait, queue("q")])
    trial = Trial(definitions, properties=["settles", "rest", "x-death", "conservation"])
    trial.publish("", "wait", times=110_000)
    trial.wait(1)
    there = trial.queue("q")
    assert there is not None
    assert there.messages == 110_000


def test_deaths_that_a_publisher_claims_are_not_counted() -> None:
    trial = Trial(topology([queue("q", dead_letter_exchange="", dead_letter_routing_key="d"), queue("d")]),
                  properties=["x-death"])  # fmt: skip
    claimed = {"x-death": [{"queue": "elsewhere", "reason": "expired", "count": 2, "exchange": "", "routing-keys": []}]}
    trial.publish("", "q", headers=claimed)
    trial.reject("q")
