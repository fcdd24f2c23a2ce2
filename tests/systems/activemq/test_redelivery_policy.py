"""How late a message comes again: the delays of RedeliveryPolicy, and how it prints itself."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.systems.activemq.redelivery_policy import (
    RedeliveryPolicy,
    delay_by_counter_ms,
    delivery_exceeds,
    dispatch_exceeds,
    java_double,
    next_delay_ms,
)

POLICIES = st.builds(
    RedeliveryPolicy,
    initial_delay_ms=st.integers(0, 10_000),
    delay_ms=st.integers(0, 10_000),
    use_back_off=st.booleans(),
    multiplier=st.floats(0, 100),
    maximum_delay_ms=st.integers(-1, 20_000),
    use_collision_avoidance=st.booleans(),
    collision_avoidance_percent=st.integers(0, 100),
)


def policy(**fields: object) -> RedeliveryPolicy:
    return msgspec.convert(fields, RedeliveryPolicy)


@pytest.mark.parametrize(
    ("fields", "delays"),
    [
        ({}, [1000] * 6),
        ({"initialRedeliveryDelay": 100}, [100, 1000, 1000]),
        ({"initialRedeliveryDelay": 400, "redeliveryDelay": 150}, [400, 150, 150]),
        (
            {"initialRedeliveryDelay": 100, "useExponentialBackOff": True, "backOffMultiplier": 2},
            [100, 200, 400, 800, 1600],
        ),
        (
            {
                "initialRedeliveryDelay": 0,
                "redeliveryDelay": 50,
                "useExponentialBackOff": True,
                "backOffMultiplier": 3,
            },
            [0, 50, 150, 450, 1350],
        ),
        (
            {
                "initialRedeliveryDelay": 100,
                "redeliveryDelay": 250,
                "useExponentialBackOff": True,
                "backOffMultiplier": 1,
            },
            [100, 250, 250],
        ),
        (
            {"initialRedeliveryDelay": 101, "useExponentialBackOff": True, "backOffMultiplier": 1.5},
            [101, 151, 226, 339, 508],
        ),
        (
            {
                "initialRedeliveryDelay": 100,
                "redeliveryDelay": 100,
                "useExponentialBackOff": True,
                "backOffMultiplier": 4,
                "maximumRedeliveryDelay": 500,
            },
            [100, 400, 500, 500],
        ),
        (
            {
                "initialRedeliveryDelay": 100,
                "redeliveryDelay": 300,
                "useExponentialBackOff": True,
                "maximumRedeliveryDelay": 200,
            },
            [100, 300, 300],
        ),
        (
            {
                "initialRedeliveryDelay": 100,
                "redeliveryDelay": 150,
                "useExponentialBackOff": True,
                "maximumRedeliveryDelay": 0,
            },
            [100, 150, 150],
        ),
        ({"initialRedeliveryDelay": 400, "redeliveryDelay": 300, "maximumRedeliveryDelay": 100}, [400, 300, 300]),
    ],
)
def test_delays(fields: dict[str, object], delays: list[int]) -> None:
    assert [delay_by_counter_ms(policy(**fields), n + 1) for n in range(len(delays))] == delays


def test_collision_avoidance_may_exceed_the_cap_and_feeds_the_next_delay() -> None:
    jittery = policy(
        initialRedeliveryDelay=200,
        redeliveryDelay=200,
        useExponentialBackOff=True,
        backOffMultiplier=2,
        maximumRedeliveryDelay=400,
        useCollisionAvoidance=True,
        collisionAvoidancePercent=50,
    )
    assert next_delay_ms(jittery, 200, 1.0) == 600
    assert next_delay_ms(jittery, 100, -1.0) == 100
    assert delay_by_counter_ms(jittery, 3, (-1.0, 1.0)) == 600
    assert delay_by_counter_ms(jittery, 1, (1.0,)) == 200  # the first has none


@given(POLICIES, st.integers(0, 100_000), st.floats(-1, 1))
def test_a_delay_is_within_its_bounds(each: RedeliveryPolicy, previous_ms: int, share: float) -> None:
    delay = next_delay_ms(each, previous_ms, share)
    plain = next_delay_ms(msgspec.structs.replace(each, use_collision_avoidance=False), previous_ms)
    spread = plain * each.collision_avoidance_percent / 100 if each.use_collision_avoidance else 0
    assert math.floor(plain - spread) <= delay <= math.ceil(plain + spread)
    if each.maximum_delay_ms >= 0 and each.use_back_off and each.multiplier > 1 and previous_ms:
        assert plain <= max(each.maximum_delay_ms, each.delay_ms)


def test_a_delay_beyond_a_long_is_the_longest() -> None:
    endless = policy(useExponentialBackOff=True, backOffMultiplier=1e300)
    assert next_delay_ms(endless, 10**10) == 2**63 - 1
    assert next_delay_ms(policy(useExponentialBackOff=True, backOffMultiplier=math.inf), 1) == 2**63 - 1


@pytest.mark.parametrize(
    ("maximum", "counter", "exceeded"),
    [(6, 6, False), (6, 7, True), (0, 0, False), (0, 1, True), (-1, 10**6, False), (-2, 0, True)],
)
def test_only_minus_one_is_unlimited(maximum: int, counter: int, exceeded: bool) -> None:
    assert policy(maximumRedeliveries=maximum).exceeded(counter) == exceeded


def test_it_prints_itself_as_java_does() -> None:
    named = policy(queue="M.A", collisionAvoidancePercent=50, backOffMultiplier=1e10, preDispatchCheck=False)
    assert str(named) == (
        "RedeliveryPolicy {destination = queue://M.A, collisionAvoidanceFactor = 0.5, maximumRedeliveries = 6, "
        "maximumRedeliveryDelay = -1, initialRedeliveryDelay = 1000, useCollisionAvoidance = false, "
        "useExponentialBackOff = false, backOffMultiplier = 1.0E10, redeliveryDelay = 1000, preDispatchCheck = false}"
    )
    assert delivery_exceeds(policy(), 7, None).startswith("Delivery[7] exceeds redelivery policy limit:")
    assert delivery_exceeds(policy(), 7, "boom").endswith("}, cause:boom")
    assert dispatch_exceeds(policy(), 2, "ID:c", to_listener=True).startswith("listener dispatch[2] to ID:c exceeds")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5.0, "5.0"),
        (0.15, "0.15"),
        (0.0, "0.0"),
        (-2.5, "-2.5"),
        (1e7, "1.0E7"),
        (9999999.0, "9999999.0"),
        (1.25e-4, "1.25E-4"),
        (0.001, "0.001"),
        (-123456789.5, "-1.234567895E8"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
    ],
)
def test_a_double_prints_as_in_java(value: float, text: str) -> None:
    assert java_double(value) == text


@pytest.mark.parametrize("fields", [{"queue": "a", "topic": "b"}, {"backOffMultiplier": math.nan}])
def test_a_policy_that_makes_no_sense(fields: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError, match="expected"):
        policy(**fields)
