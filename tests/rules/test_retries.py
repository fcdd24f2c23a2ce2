"""What a retry plan decides: when, where to, and never once too often; whatever the headers hold."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import dlx
from dlx.consumer import ATTEMPTS_HEADER, COUNT_MAX, X_DELIVERY_COUNT
from dlx.deaths import REASONS
from dlx.releases import RELEASES, UnknownReleaseError
from dlx.retries import DELAY_MAX_MS, Decision

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
LADDER = dlx.RetryPlan(
    delays_ms=(1_000, 5_000, 30_000), wait_queues=("wait.1", "wait.2", "wait.3"), parking="parking", queue="orders"
)


def rejected(count: int, queue: str = "orders", reason: str = "rejected", **entry: Any) -> dict[str, Any]:
    return {"x-death": [{"queue": queue, "reason": reason, "count": count, **entry}] if count else []}


def decided(plan: dlx.RetryPlan, source: Any, **given_too: Any) -> Decision:
    return plan.decide(dlx.death_history(source), **given_too)


# -- the steps -----------------------------------------------------------------


def test_a_table_is_walked_step_by_step_and_ends_in_the_parking_queue() -> None:
    assert [decided(LADDER, rejected(count)) for count in range(4)] == [
        dlx.Retry(attempt=1, delay_ms=1_000, to="wait.1"),
        dlx.Retry(attempt=2, delay_ms=5_000, to="wait.2"),
        dlx.Retry(attempt=3, delay_ms=30_000, to="wait.3"),
        dlx.Park(attempt=4, to="parking", reason="attempt 4 of 4 failed"),
    ]


def test_without_a_parking_queue_the_decision_is_to_give_up() -> None:
    plan = dlx.RetryPlan(delays_ms=(100,))
    assert decided(plan, rejected(1)) == dlx.GiveUp(attempt=2, reason="attempt 2 of 2 failed")


def test_the_last_delay_holds_for_all_further_retries() -> None:
    plan = dlx.RetryPlan(delays_ms=(10, 20), attempts_max=5, wait_queues=("a", "b"))
    found = [decided(plan, rejected(count)) for count in range(5)]
    assert [each.delay_ms for each in found[:4] if isinstance(each, dlx.Retry)] == [10, 20, 20, 20]
    assert [each.to for each in found[:4] if isinstance(each, dlx.Retry)] == ["a", "b", "b", "b"]
    assert isinstance(found[4], dlx.GiveUp)


def test_without_delays_the_first_failure_is_the_last() -> None:
    assert isinstance(decided(dlx.RetryPlan(delays_ms=()), {}), dlx.GiveUp)


def test_exponential_delays_end_at_the_cap() -> None:
    assert dlx.exponential_delays_ms(1_000, cap_ms=10_000) == (1_000, 2_000, 4_000, 8_000, 10_000)
    assert dlx.exponential_delays_ms(1_000, cap_ms=1_000) == (1_000,)
    assert dlx.exponential_delays_ms(100, cap_ms=10_000, factor=10) == (100, 1_000, 10_000)


def test_exponential_delays_grow_however_short_they_are() -> None:
    assert dlx.exponential_delays_ms(1, cap_ms=6, factor=1.1) == (1, 2, 3, 4, 5, 6)


def test_a_message_that_has_failed_for_too_long_is_not_tried_again() -> None:
    plan = dlx.RetryPlan(delays_ms=(1_000,), attempts_max=100, age_max_ms=3_600_000, parking="parking")
    for minutes, kind in ((0, dlx.Retry), (60, dlx.Retry), (61, dlx.Park)):
        headers = rejected(3, time=NOW - timedelta(minutes=minutes))
        assert isinstance(decided(plan, headers, now=NOW), kind)
    assert isinstance(decided(plan, {}, now=NOW), dlx.Retry)  # it has not died before
    parked = decided(plan, rejected(3, time=NOW - timedelta(days=1)), now=NOW)
    assert isinstance(parked, dlx.Park)
    assert parked.reason == "attempt 4 failed, and the first death was more than 3600000 ms ago"
    hardly_ever = dlx.RetryPlan(delays_ms=(1_000,), attempts_max=100, age_max_ms=10**30)
    assert isinstance(decided(hardly_ever, headers, now=NOW), dlx.Retry)


def test_a_message_without_identity_is_refused_only_where_a_delay_is_to_be_shortened() -> None:
    plan = dlx.RetryPlan(delays_ms=(1_000,), jitter=0.5)
    assert isinstance(decided(plan, rejected(1), identity=None), dlx.GiveUp)
    assert decided(plan, {}, identity="") == dlx.Retry(attempt=1, delay_ms=1_000)


# -- which count is trusted ----------------------------------------------------


def test_only_the_queue_of_the_plan_counts() -> None:
    other = rejected(9, "inbox")
    assert decided(LADDER, other) == dlx.Retry(attempt=1, delay_ms=1_000, to="wait.1")
    everywhere = dlx.RetryPlan(delays_ms=(1_000,), attempts_max=10)
    assert isinstance(decided(everywhere, other), dlx.GiveUp)


@pytest.mark.parametrize(
    ("headers", "queue", "failures"),
    [
        ({}, "orders", 0),
        (rejected(3), "orders", 3),
        (rejected(3, reason="expired"), "orders", 0),
        (rejected(3, reason="delivery_limit"), "orders", 3),
        ({X_DELIVERY_COUNT: 2}, "orders", 2),
        ({**rejected(3), X_DELIVERY_COUNT: 2}, "orders", 3),
        ({**rejected(2), X_DELIVERY_COUNT: 5}, "orders", 5),
        ({**rejected(2, "inbox"), X_DELIVERY_COUNT: 5}, "orders", 0),
        ({**rejected(2, "inbox"), X_DELIVERY_COUNT: 5}, None, 5),
        ({**rejected(2), ATTEMPTS_HEADER: 4}, "orders", 6),
        ({ATTEMPTS_HEADER: -1, X_DELIVERY_COUNT: "many"}, "orders", 0),
    ],
)
def test_the_failures_that_the_headers_prove(headers: dict[str, Any], queue: str | None, failures: int) -> None:
    assert dlx.death_history(headers).failures(queue) == failures


@pytest.mark.parametrize("release", RELEASES)
def test_until_3_13_requeues_are_added_to_rejections(release: str) -> None:
    plan = dlx.RetryPlan(delays_ms=(1,), attempts_max=99, release=release)
    attempt = decided(plan, {**rejected(2), X_DELIVERY_COUNT: 3}).attempt
    assert attempt == (4 if release.startswith("4.") else 6)


def test_counts_of_headers_are_read_and_what_is_none_is_named() -> None:
    history = dlx.death_history({"x-delivery-count": 3, "x-acquired-count": 4, ATTEMPTS_HEADER: 5})
    assert (history.delivery_count, history.acquired_count, history.attempts_before) == (3, 4, 5)
    history = dlx.death_history({"x-delivery-count": "3", "x-acquired-count": -1, ATTEMPTS_HEADER: True})
    assert (history.delivery_count, history.acquired_count, history.attempts_before) == (None, None, 0)
    assert history.malformed == (
        "x-delivery-count is a string, not a count",
        "x-acquired-count is an integer out of range (0 to 9223372036854775807), not a count",
        "x-failed-attempts is a boolean, not a count",
    )


def test_counts_are_told_by_queue_and_reason() -> None:
    entries = [*rejected(2)["x-death"], *rejected(1, "wait", "expired")["x-death"], *rejected(1)["x-death"]]
    history = dlx.death_history({"x-death": entries})
    assert history.counts == {("orders", "rejected"): 3, ("wait", "expired"): 1}


# -- publishing again ----------------------------------------------------------


def test_headers_to_publish_again_keep_the_count_and_not_the_brokers() -> None:
    headers = {
        **rejected(2),
        "x-first-death-queue": "orders",
        "x-last-death-reason": "rejected",
        "x-delivery-count": 2,
        "x-acquired-count": 2,
        "CC": ["copies"],
        "tenant": "a",
        b"trace": b"1",
    }
    again = dlx.republish_headers(headers, attempts=3)
    assert again == {"tenant": "a", "trace": b"1", ATTEMPTS_HEADER: 3}
    history = dlx.death_history(dlx.republish_headers(again, attempts=4))
    assert (bool(history), history.failures("orders")) == (False, 4)


# -- what is refused -----------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"delays_ms": 5_000}, "delays_ms: expected a tuple, got 5000"),
        ({"delays_ms": (1, -1)}, r"delays_ms\[1\]: expected a whole number from 0 to 4294967295, got -1"),
        ({"delays_ms": (1.5,)}, r"delays_ms\[0\]: expected a whole number from 0 to 4294967295, got 1.5"),
        ({"delays_ms": (2**32,)}, r"delays_ms\[0\]: .* got 4294967296"),
        ({"delays_ms": (), "attempts_max": 2}, "delays_ms: expected a delay, since attempts_max=2 allows a retry"),
        ({"delays_ms": (1,), "attempts_max": 0}, "attempts_max: expected a whole number of at least 1, got 0"),
        ({"delays_ms": (1,), "attempts_max": True}, "attempts_max: .* got True"),
        ({"delays_ms": (1, 2), "wait_queues": ("w",)}, "wait_queues: expected one for each of the 2 delays, got 1"),
        ({"delays_ms": (1,), "wait_queues": "w"}, "wait_queues: expected a tuple, got 'w'"),
        ({"delays_ms": (1,), "jitter": 1.5}, "jitter: expected a share from 0 to 1, got 1.5"),
        ({"delays_ms": (1,), "jitter": "some"}, "jitter: expected a share from 0 to 1, got 'some'"),
        ({"delays_ms": (1,), "age_max_ms": 0}, "age_max_ms: expected a whole number of at least 1, got 0"),
        ({"delays_ms": (1, 2), "wait_queues": ("w", 1)}, r"wait_queues\[1\]: expected a queue's name, got 1"),
        ({"delays_ms": (1,), "parking": 5}, "parking: expected a queue's name, got 5"),
        ({"delays_ms": (1,), "parking": ""}, "parking: expected a queue's name, got ''"),
        ({"delays_ms": (1,), "queue": 3}, "queue: expected a queue's name, got 3"),
        ({"delays_ms": (1,), "release": 3.13}, "release: expected a name such as '3.13', got 3.13"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}$"):
        dlx.RetryPlan(**arguments)


def test_an_unknown_release_is_refused() -> None:
    with pytest.raises(UnknownReleaseError):
        dlx.RetryPlan(delays_ms=(1,), release="2.0")


@pytest.mark.parametrize(
    ("first", "options"),
    [(0, {"cap_ms": 9}), (10, {"cap_ms": 9}), (1, {"cap_ms": DELAY_MAX_MS + 1}), (1, {"cap_ms": 9, "factor": 1})],
)
def test_delays_that_do_not_grow_are_refused(first: int, options: Any) -> None:
    with pytest.raises(ValueError, match="expected a"):
        dlx.exponential_delays_ms(first, **options)


def test_what_a_plan_needs_is_asked_for() -> None:
    with pytest.raises(ValueError, match="now: expected the time with a time zone"):
        decided(dlx.RetryPlan(delays_ms=(1,), age_max_ms=5), {})
    with pytest.raises(ValueError, match=r"now: .* got datetime"):
        decided(dlx.RetryPlan(delays_ms=(1,), age_max_ms=5), {}, now=NOW.replace(tzinfo=None))
    with pytest.raises(ValueError, match="now: expected the time with a time zone"):
        decided(dlx.RetryPlan(delays_ms=(1,), age_max_ms=5), {}, now=1_700_000_000)
    for identity in (None, 17):
        with pytest.raises(ValueError, match="identity: expected the message's"):
            decided(dlx.RetryPlan(delays_ms=(1,), jitter=0.5), {}, identity=identity)
    none: Any = None
    with pytest.raises(TypeError, match=r"history: expected dlx.death_history\(properties\), got nothing \(None\)"):
        LADDER.decide(none)


@pytest.mark.parametrize("attempts", [-5, 1.5, True])
def test_headers_that_would_be_malformed_are_not_written(attempts: Any) -> None:
    with pytest.raises(ValueError, match="attempts: expected a whole number of at least 0, got"):
        dlx.republish_headers({}, attempts=attempts)


# -- what holds for all plans and all headers ----------------------------------

_delays = st.lists(st.integers(0, 100_000), min_size=1, max_size=5).map(tuple)
_jitters = st.floats(0, 1, allow_nan=False)
_plans = st.builds(
    dlx.RetryPlan,
    delays_ms=_delays,
    attempts_max=st.none() | st.integers(1, 9),
    parking=st.none() | st.just("parking"),
    age_max_ms=st.integers(1, 10**9),
    jitter=_jitters,
    queue=st.sampled_from([None, "orders"]),
    release=st.sampled_from([None, *RELEASES]),
)
_anything = st.recursive(
    st.one_of(
        *(st.none(), st.booleans(), st.integers(), st.floats(), st.datetimes()),
        *(st.text(max_size=4), st.binary(max_size=4)),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
_entries = st.fixed_dictionaries(
    {
        "queue": st.sampled_from(["orders", "wait"]) | _anything,
        "reason": st.sampled_from(REASONS) | _anything,
        "count": st.integers(0, 9) | st.just(COUNT_MAX) | _anything,
        "time": st.integers() | _anything,
    }
)
_hostile = st.dictionaries(
    st.sampled_from(["x-death", "x-delivery-count", "x-acquired-count", ATTEMPTS_HEADER, "CC", "headers", "mine"]),
    st.lists(_entries, max_size=3) | st.integers() | _anything,
)


@given(_plans, _hostile, st.text(min_size=1))
def test_no_header_whatsoever_raises(plan: dlx.RetryPlan, headers: Any, identity: str) -> None:
    properties = SimpleNamespace(headers=headers)
    decision = decided(plan, properties, now=NOW, identity=identity)
    assert decision == decided(plan, properties, now=NOW, identity=identity)
    assert decision.attempt >= 1
    assert isinstance(decision, dlx.Retry) == (decision.attempt < plan.attempts) or "first death" in decision.reason
    if isinstance(decision, dlx.Retry):
        assert 0 <= decision.delay_ms <= max(plan.delays_ms)
    else:
        assert isinstance(decision, dlx.Park) == (plan.parking is not None)
    again = dlx.republish_headers(properties, attempts=decision.attempt)
    assert dlx.death_history(again).failures("orders") == min(decision.attempt, COUNT_MAX)


@given(_plans, st.integers(0, 20))
def test_when_all_attempts_have_failed_there_is_no_retry(plan: dlx.RetryPlan, more: int) -> None:
    failed = plan.attempts - 1 + more
    decision = decided(plan, rejected(failed), now=NOW, identity="m1")
    assert not isinstance(decision, dlx.Retry)


@given(st.integers(1, 10_000), st.integers(0, 10_000_000), st.floats(1.1, 50), _jitters, st.binary(min_size=1))
def test_exponential_delays_grow_and_never_pass_the_cap(
    first_ms: int, more_ms: int, factor: float, jitter: float, identity: bytes
) -> None:
    delays = dlx.exponential_delays_ms(first_ms, cap_ms=first_ms + more_ms, factor=factor)
    assert list(delays) == sorted(set(delays))
    assert (delays[0], delays[-1]) == (first_ms, first_ms + more_ms)
    plan = dlx.RetryPlan(delays_ms=delays, attempts_max=len(delays) + 3, jitter=jitter)
    found = [decided(plan, rejected(count), identity=identity) for count in range(plan.attempts - 1)]
    shown = [each.delay_ms for each in found if isinstance(each, dlx.Retry)]
    assert len(shown) == len(found)
    assert shown == sorted(shown)
    assert shown[-1] <= first_ms + more_ms


@given(st.sets(st.text(min_size=1), min_size=2, max_size=2), st.floats(0.1, 1))
def test_jitter_spreads_messages_and_not_decisions(identities: set[str], jitter: float) -> None:
    plan = dlx.RetryPlan(delays_ms=(10**9,), jitter=jitter)
    one, other = ([decided(plan, {}, identity=identity) for _ in range(2)] for identity in sorted(identities))
    assert one[0] == one[1]
    assume(len({identity.encode("utf-8", "replace") for identity in identities}) == 2)
    assert one[0] != other[0]
    for each in (*one, *other):
        assert isinstance(each, dlx.Retry)
        assert (1 - jitter) * 10**9 - 1 <= each.delay_ms <= 10**9


def test_deciding_loads_neither_the_release_table_nor_a_client() -> None:
    decide = "import dlx; dlx.RetryPlan(delays_ms=(1,), jitter=1).decide(dlx.death_history({}), identity='m')"
    code = f"import sys; {decide}; print(*{{'dlx.releases', 'simulator', 'pika', 'regex'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, [], "")
