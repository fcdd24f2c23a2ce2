"""What comes of a neutral scenario under each system."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.events import Outcome
from simulator.systems.compare import ADAPTERS, MessageOutcome, SystemOutcome, compare, read

ROOT = Path(__file__).parent.parent.parent
SYSTEMS = [f"{system}:{version}" for system in ADAPTERS.built_in for version in ADAPTERS.load(system).VERSIONS]
# Those whose message dies when its consumer gives it back too often. The others forget a claim that is released.
LIMITED = [system for system in SYSTEMS if system not in ("zaqar:mongodb", "zaqar:swift")]
# Those that count for themselves how often a consumer has kept a message too long.
TIMED = ["rabbitmq:3.13", "rabbitmq:4.0", *(system for system in SYSTEMS if system.startswith(("zaqar", "ironmq")))]
SIMULATE: dict[str, Callable[[Any], dict[str, Any]]] = {
    name: ADAPTERS.load(name).simulate for name in ADAPTERS.built_in
}


def outcome(system: str, *messages: dict[str, Any], **fields: Any) -> SystemOutcome:
    document = {"dead_letter_queue": "dead", "until_ms": 900_000, "messages": list(messages)} | fields
    [found] = compare(read(document), [system])
    return found


def fate(system: str, message: dict[str, Any], **fields: Any) -> MessageOutcome:
    return outcome(system, {"name": "m"} | message, **fields).messages[0]


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_succeeds_at_once_is_acknowledged(system: str) -> None:
    found = fate(system, {"at_ms": 7_000})
    assert (found.outcome, found.attempts_ms, found.queue, found.died_in) == (Outcome.ACKNOWLEDGED, [7_000], None, None)


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_fails_less_than_the_limit_is_acknowledged(system: str) -> None:
    found = fate(system, {"fails": 2})
    assert (found.outcome, len(found.attempts_ms)) == (Outcome.ACKNOWLEDGED, 3)


@pytest.mark.parametrize("attempts_max", [1, 4])
@pytest.mark.parametrize("system", LIMITED)
def test_what_always_fails_dies_after_its_attempts(system: str, attempts_max: int) -> None:
    found = fate(system, {"fails": "always"}, attempts_max=attempts_max)
    assert (found.outcome, found.queue, len(found.attempts_ms)) == (Outcome.DEAD_LETTERED, "dead", attempts_max)
    assert found.died_ms is not None
    assert found.died_ms >= found.attempts_ms[-1]


@pytest.mark.parametrize("system", ["zaqar:mongodb", "zaqar:swift"])
def test_a_released_claim_that_is_forgotten_never_kills(system: str) -> None:
    found = outcome(system, {"name": "m", "fails": "always"})
    assert (found.messages[0].outcome, len(found.messages[0].attempts_ms)) == (Outcome.WAITING, 30)
    assert found.notes == [
        "attempts_max: dlx itself stopped the consumer after it got m 30 times; under this system a consumer that goes "
        "on gets it again and again"
    ]


@pytest.mark.parametrize("system", [system for system in LIMITED if not system.startswith(("zaqar", "ibm_mq:jms"))])
def test_the_delay_is_kept(system: str) -> None:
    assert fate(system, {"fails": "always"}, retry_delay_ms=7_000).delays_ms == [7_000, 7_000]


def test_zaqar_has_no_delay_and_says_so() -> None:
    found = outcome("zaqar", {"name": "m", "fails": "always"}, retry_delay_ms=7_000)
    assert found.messages[0].delays_ms == [0, 0]
    assert found.notes == ["retry_delay_ms: Zaqar has none; a released message can be claimed at once"]


def test_ibm_mq_delivers_again_at_once_and_says_who_heeds_the_limit() -> None:
    found = outcome("ibm_mq", {"name": "m", "fails": "always"}, {"name": "n", "at_ms": 500}, retry_delay_ms=7_000)
    [died, behind] = found.messages
    assert (died.delays_ms, died.died_in, died.reason, died.carries) == ([0, 0], "orders", "backout_threshold", {})
    assert (behind.outcome, behind.attempts_ms) == (Outcome.ACKNOWLEDGED, [500])
    assert found.notes == [
        "attempts_max: the IBM MQ classes for JMS heed BOTHRESH; the queue manager only counts",
        "retry_delay_ms: IBM MQ has none; a message that is backed out is delivered again at once",
    ]
    queue = found.scenario["queues"][0]
    assert (queue["BOTHRESH"], queue["BOQNAME"]) == (3, "dead")


def test_parts_of_a_second_are_rounded_up_where_there_are_none() -> None:
    found = outcome("ironmq", {"name": "m", "fails": 1}, retry_delay_ms=2_500, poll_ms=500)
    assert found.messages[0].delays_ms == [3_000]
    assert found.notes == ["retry_delay_ms: 3 s, and not 2500 ms"]


@pytest.mark.parametrize(
    ("system", "delays_ms"),
    [
        ("rabbitmq", [0, 0]),
        ("activemq", [0, 0]),
        ("ibm_mq", [0, 0]),
        ("zaqar", [60_000, 60_000]),
        ("ironmq", [60_000, 60_000]),
    ],
)
def test_a_crash_is_seen_at_once_or_when_the_time_is_over(system: str, delays_ms: list[int]) -> None:
    found = fate(system, {"fails": "always", "how": "crash"})
    assert (found.outcome, found.delays_ms) == (Outcome.DEAD_LETTERED, delays_ms)


@pytest.mark.parametrize("system", TIMED)
def test_what_is_held_dies_after_its_attempts(system: str) -> None:
    found = fate(system, {"fails": "always", "how": "hold"})
    assert (found.outcome, found.delays_ms) == (Outcome.DEAD_LETTERED, [60_000, 60_000])


def test_rabbitmq_4_3_does_not_count_a_timeout() -> None:
    found = fate("rabbitmq:4.3", {"fails": "always", "how": "hold"})
    assert (found.outcome, set(found.delays_ms)) == (Outcome.WAITING, {60_000})
    assert len(found.attempts_ms) > 3


@pytest.mark.parametrize("system", ["activemq", "ibm_mq", "rabbitmq:3.8"])
def test_what_is_held_stays_where_nothing_ends_it(system: str) -> None:
    found = outcome(system, {"name": "m", "fails": "always", "how": "hold"}, {"name": "behind", "at_ms": 1_000})
    assert [(each.outcome, each.queue, len(each.attempts_ms)) for each in found.messages] == [
        (Outcome.WAITING, "orders", 1),
        (Outcome.WAITING, "orders", 0),
    ]
    assert found.notes[-1].partition(":")[0] == "ack_timeout_ms"


@pytest.mark.parametrize(
    ("system", "end"),
    [
        ("rabbitmq", Outcome.LOST),
        ("rabbitmq:3.10", Outcome.LOST),
        ("activemq", Outcome.LOST),
        ("ibm_mq", Outcome.LOST),
        ("zaqar", Outcome.WAITING),
        ("ironmq", Outcome.WAITING),
    ],
)
def test_without_dead_letter_queue_it_is_lost_or_never_dies(system: str, end: Outcome) -> None:
    found = outcome(system, {"name": "m", "fails": "always"}, dead_letter_queue=None, retry_delay_ms=1_000)
    assert found.messages[0].outcome is end
    assert found.lost == (["m"] if end is Outcome.LOST else [])


@pytest.mark.parametrize(
    ("system", "end"),
    [
        ("rabbitmq", Outcome.DEAD_LETTERED),
        ("activemq", Outcome.WAITING),
        ("ibm_mq", Outcome.LOST),
        ("zaqar", Outcome.LOST),
        ("ironmq", Outcome.ACKNOWLEDGED),
    ],
)
def test_what_expires_behind_a_consumer_that_hangs(system: str, end: Outcome) -> None:
    messages = [
        {"name": "m", "fails": 2, "how": "hold"},
        {"name": "behind", "at_ms": 1_000, "time_to_live_ms": 60_000 if system == "zaqar" else 30_000},
    ]
    found = outcome(system, *messages).messages[1]
    assert found.outcome is end
    assert (found.reason == "expired") == (end in (Outcome.DEAD_LETTERED, Outcome.LOST))


def test_zaqar_cuts_the_name_of_a_dead_letter_queue_at_a_dot() -> None:
    found = outcome("zaqar", {"name": "m", "fails": "always"}, dead_letter_queue="orders.dead")
    assert found.lost == ["m"]
    assert found.messages[0].reason == "queue orders is its own dead-letter queue"


def test_an_older_rabbitmq_delays_by_a_ladder() -> None:
    found = outcome("rabbitmq:4.0", {"name": "m", "fails": "always"}, retry_delay_ms=5_000)
    [died] = found.messages
    assert (died.died_in, died.died_ms, died.reason) == ("orders.try.3", 10_000, "rejected")
    deaths = [(death["queue"], death["reason"]) for death in died.carries["x-death"]]
    assert deaths == [
        ("orders.try.3", "rejected"),
        ("orders.wait.2", "expired"),
        ("orders.try.2", "rejected"),
        ("orders.wait.1", "expired"),
        ("orders", "rejected"),
    ]


@pytest.mark.parametrize(
    ("system", "carried"),
    [
        ("rabbitmq", {"x-first-death-queue": "orders", "x-last-death-reason": "delivery_limit"}),
        ("activemq", {"originalDestination": "queue://orders", "originalExpiration": 0}),
        ("zaqar", {"claim_count": 3}),
        ("ironmq", {"reserved_count": 3}),
        ("ibm_mq:runmqdlq", {"Reason": "MQRC_Q_FULL", "DestQName": "orders"}),
    ],
)
def test_what_the_dead_letter_carries(system: str, carried: dict[str, Any]) -> None:
    assert carried.items() <= fate(system, {"fails": "always"}).carries.items()


def test_systems_are_run_in_the_order_given() -> None:
    history = read({"messages": [{"name": "a"}], "until_ms": 1_000})
    found = compare(history, ["zaqar:swift", "rabbitmq", "zaqar"])
    assert [(each.system, each.version) for each in found] == [
        ("zaqar", "swift"),
        ("rabbitmq", "4.3"),
        ("zaqar", "redis"),
    ]


@pytest.mark.parametrize(
    ("system", "problem"),
    [("kafka", "no system 'kafka'; expected some of rabbitmq"), ("zaqar:mysql", "expected one of redis, mongodb")],
)
def test_a_system_that_there_is_not(system: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        compare(read({"messages": [{"name": "a"}], "until_ms": 1_000}), [system])


def test_a_system_that_cannot_be_loaded_is_no_matter_to_the_others() -> None:
    code = """
import sys
sys.modules["simulator.systems.activemq"] = None
from simulator.systems.compare import compare, read
history = read({"messages": [{"name": "a"}], "until_ms": 1_000})
print(*(outcome.messages[0].outcome for outcome in compare(history, ["rabbitmq", "zaqar", "ironmq", "ibm_mq"])))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["acknowledged"] * 4


MESSAGES = st.lists(
    st.fixed_dictionaries(
        {
            "fails": st.sampled_from([0, 1, 5, "always"]),
            "how": st.sampled_from(["reject", "crash", "hold"]),
            "at_ms": st.integers(0, 200_000),
            "time_to_live_ms": st.none() | st.integers(1, 200_000),
        }
    ),
    min_size=1,
    max_size=3,
)


@pytest.mark.parametrize("system", SYSTEMS)
@settings(max_examples=8, deadline=None, derandomize=True)
@given(
    messages=MESSAGES,
    dead_letter_queue=st.sampled_from(["dead", "orders.dead", None]),
    attempts_max=st.integers(1, 4),
    retry_delay_ms=st.sampled_from([0, 1, 2_500, 60_000]),
)
def test_every_message_comes_to_one_end_that_its_scenario_has(
    system: str, messages: list[dict[str, Any]], **fields: Any
) -> None:
    named = [{"name": f"m{number}"} | message for number, message in enumerate(messages)]
    found = outcome(system, *named, **fields, until_ms=300_000, poll_ms=5_000)
    assert [each.message for each in found.messages] == [each["name"] for each in named]
    for message, each in zip(named, found.messages, strict=True):
        assert each.attempts_ms == sorted(each.attempts_ms)
        assert all(message["at_ms"] <= at_ms <= 300_000 for at_ms in each.attempts_ms)
        assert (each.queue is None) == (each.outcome in (Outcome.ACKNOWLEDGED, Outcome.LOST))
        if each.outcome is Outcome.ACKNOWLEDGED:
            assert len(each.attempts_ms) == message["fails"] + 1
        if each.outcome is Outcome.LOST:
            assert each.reason
    dead = fields["dead_letter_queue"]
    left = SIMULATE[found.system](found.scenario)["queues"]
    remaining = sum(len(queue["messages"] if isinstance(queue, dict) else queue) for queue in left.values())
    gone = sum(each.queue is None for each in found.messages)
    put = 0
    if found.version == "runmqdlq":  # its trace ends where the handler puts a message: what then is the comparison's
        ends = (
            each.outcome is Outcome.ACKNOWLEDGED or (bool(dead) and each.died_in == dead) for each in found.messages
        )
        put = sum(ends)
    if found.version == "jms":  # nobody reads its dead letters, and what then expires is the comparison's
        put = sum(each.died_in == dead for each in found.messages if dead)
    assert remaining == len(named) - gone + put
