"""What becomes of a message that dies, in words a user reads; and what 3.13 does with a claimed history.

The exact headers are in ``test_vectors.py``, as real servers wrote them.
"""

from __future__ import annotations

import pytest

from dlx import (
    Binding,
    Exchange,
    Policy,
    Queue,
    Topology,
    dead_letter,
    effective_settings,
    published,
    release,
)
from dlx.death_headers import delivered_headers


def topology(*queues: Queue, **more) -> Topology:
    return Topology.of(queues=queues, **more)


def die(message, queue, reason, where, rules):
    settings = effective_settings(where.queues[queue], where, release(rules))
    return dead_letter(message, reason, settings, where, release(rules), time_s=1_700_000_000)


def publish(queue="work", rules="4.3", **more):
    return published("", queue, release=release(rules), **more)


WAITING = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait"}


def test_without_a_dead_letter_exchange_the_message_is_gone():
    letter = die(publish(), "work", "rejected", topology(Queue(name="work")), "4.3")
    assert (letter.outcome, letter.queues) == ("no dead-letter exchange", ())
    assert letter.why == "queue 'work' has no dead-letter exchange"


def test_a_missing_dead_letter_exchange_is_named():
    where = topology(Queue(name="work", arguments={"x-dead-letter-exchange": "nowhere"}))
    letter = die(publish(), "work", "rejected", where, "4.3")
    assert letter.outcome == "dead-letter exchange missing"
    assert "'nowhere' of queue 'work' does not exist" in letter.why


def test_at_least_once_holds_what_cannot_be_routed():
    arguments = {
        "x-dead-letter-exchange": "nowhere",
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
    }
    where = topology(Queue(name="work", type="quorum", arguments=arguments))
    assert die(publish(), "work", "rejected", where, "4.3").outcome == "held"
    assert die(publish(rules="3.8"), "work", "rejected", where, "3.8").outcome == "dead-letter exchange missing"


def test_an_unroutable_dead_letter_says_where_it_was_sent():
    where = topology(Queue(name="work", arguments=WAITING))
    letter = die(publish(), "work", "rejected", where, "4.3")
    assert letter.outcome == "unroutable"
    assert letter.why == "exchange '' routes key 'wait' to no queue"


def test_a_cycle_is_dropped_with_its_path():
    where = topology(Queue(name="work", arguments={**WAITING, "x-dead-letter-routing-key": "work"}))
    letter = die(publish(), "work", "expired", where, "4.3")
    assert (letter.outcome, letter.cycles) == ("cycle", ("work",))
    assert letter.why == "would return to 'work' without a rejection on the way: work"


def test_only_the_cycling_copy_is_dropped():
    where = topology(
        Queue(name="work", arguments={"x-dead-letter-exchange": "dead"}),
        Queue(name="other"),
        exchanges=[Exchange(name="dead", type="fanout")],
        bindings=[Binding(source="dead", destination="work"), Binding(source="dead", destination="other")],
    )
    letter = die(publish(), "work", "expired", where, "4.3")
    assert (letter.outcome, letter.queues, letter.cycles) == ("dead-lettered", ("other",), ("work",))


LADDER = topology(
    Queue(name="work", arguments=WAITING),
    Queue(name="wait", arguments={**WAITING, "x-dead-letter-routing-key": "work"}),
)
CLIENT_DEATHS = [
    {
        "count": 4,
        "reason": "rejected",
        "queue": "work",
        "time": 1_600_000_000,
        "exchange": "",
        "routing-keys": ["work"],
    }
]


@pytest.mark.parametrize(("rules", "count"), [("3.10", 5), ("3.13", 5), ("4.0", 1), ("4.3", 1)])
def test_a_client_s_history_is_continued_until_4_0(rules, count):
    message = publish(rules=rules, headers={"x-death": CLIENT_DEATHS})
    letter = die(message, "work", "rejected", LADDER, rules)
    (entry,) = delivered_headers(letter.message, release(rules))["x-death"]
    assert entry["count"] == count


def test_3_13_writes_last_death_headers_and_leaves_first_ones_to_the_client():
    message = publish(rules="3.13", headers={"x-death": CLIENT_DEATHS})
    letter = die(message, "work", "rejected", LADDER, "3.13")
    headers = delivered_headers(letter.message, release("3.13"))
    assert headers["x-last-death-queue"] == "work"
    assert "x-first-death-queue" not in headers, "the history had begun before the broker saw it"


@pytest.mark.parametrize(
    "entry",
    ["text", {}, {**CLIENT_DEATHS[0], "time": "yesterday"}, {**CLIENT_DEATHS[0], "queue": None}],
)
def test_3_13_passes_over_entries_that_make_no_sense(entry):
    message = publish(rules="3.13", headers={"x-death": [entry, *CLIENT_DEATHS]})
    assert [death.count for death in message.deaths] == [4]


@pytest.mark.parametrize(("rules", "kept"), [("3.10", False), ("3.13", True), ("4.3", True)])
def test_the_cc_header_survives_a_dead_letter_routing_key_from_3_13(rules, kept):
    letter = die(publish(rules=rules, headers={"CC": ["copy"]}), "work", "rejected", LADDER, rules)
    assert ("CC" in delivered_headers(letter.message, release(rules))) is kept
    assert letter.message.routing_keys == ("wait",)


def test_3_13_orders_deaths_by_recency_and_has_no_default_delivery_limit():
    where = topology(*(Queue(name=f"q{n}", type="quorum") for n in range(5)))
    assert effective_settings(where.queues["q1"], where, release("3.13")).delivery_limit is None
    steps = topology(
        *(Queue(name=f"q{n}", arguments={**WAITING, "x-dead-letter-routing-key": f"q{n + 1}"}) for n in range(1, 5)),
        Queue(name="q5"),
    )
    for rules, order in (("3.10", ["q4", "q2", "q1", "q3"]), ("3.13", ["q4", "q3", "q2", "q1"])):
        message = publish("q1", rules)
        for n in range(1, 5):
            message = die(message, f"q{n}", "rejected", steps, rules).message
        entries = delivered_headers(message, release(rules))["x-death"]
        assert [entry["queue"] for entry in entries] == order, rules


def test_settings_say_where_each_value_comes_from_and_what_it_hid():
    where = Topology.of(
        queues=[Queue(name="orders", arguments={"x-message-ttl": 5000, "x-dead-letter-exchange": "mine"})],
        policies=[
            Policy(name="low", pattern="^o", definition={"expires": 9}, priority=1),
            Policy(
                name="high",
                pattern="rder",
                definition={"message-ttl": 3000, "dead-letter-exchange": "theirs", "max-length": 7},
                priority=2,
            ),
        ],
        operator_policies=[Policy(name="cap", pattern="", definition={"max-length": 5, "message-ttl": 4000})],
    )
    settings = effective_settings(where.queues["orders"], where, release("4.3"))
    ttl, dlx, length = (settings.values[key] for key in ("message-ttl", "dead-letter-exchange", "max-length"))
    assert (ttl.value, str(ttl.origin)) == (3000, "policy high")
    assert sorted((value, str(origin)) for value, origin in ttl.hidden) == [
        (4000, "operator policy cap"),
        (5000, "argument"),
    ]
    assert (dlx.value, str(dlx.origin)) == ("mine", "argument")
    assert [str(origin) for _, origin in dlx.hidden] == ["policy high"]
    assert (length.value, str(length.origin)) == (5, "operator policy cap")
    assert settings.values["overflow"].value == "drop-head"
    assert str(settings.values["overflow"].origin) == "server default"
    assert settings.expires_ms is None, "one policy applies, not two"
    assert [skipped.policy.name for skipped in settings.policy.skipped] == ["low"]


def test_equal_priorities_are_reported_as_tied():
    where = Topology.of(
        queues=[Queue(name="q")],
        policies=[Policy(name=name, pattern="q", definition={"max-length": 1}) for name in ("b", "a")],
    )
    choice = effective_settings(where.queues["q"], where, release("4.3")).policy
    assert choice.policy.name == "a"
    assert [policy.name for policy in choice.tied] == ["b"]


def test_a_broken_or_runaway_pattern_matches_nothing():
    where = Topology.of(
        queues=[Queue(name="a" * 40 + "!")],
        policies=[
            Policy(name="broken", pattern="(", definition={"max-length": 1}),
            Policy(name="runaway", pattern="^(a+)+$", definition={"max-length": 2}),
        ],
    )
    (queue,) = where.queues.values()
    assert effective_settings(queue, where, release("4.3")).policy.policy is None
