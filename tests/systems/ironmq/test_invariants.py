"""Whatever clients do: no message is lost or doubled but as the reference says, and the same gives the same."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.systems.ironmq import simulate

QUEUES = ("first", "second", "third")
at_s = st.integers(0, 500)
queue = st.sampled_from(QUEUES)
message = st.sampled_from(["m0", "m1", "m2", "m3"])
which = st.sampled_from(["last", "none"])


def step(do: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"do": st.just(do), "at_s": at_s, "queue": queue, **fields})


steps = st.lists(
    st.one_of(
        step("reserve", n=st.integers(1, 3), timeout=st.integers(1, 90), delete=st.booleans()),
        step("reserve", times=st.integers(1, 5), every_s=st.integers(0, 60)),
        step("touch", message=message, reservation=which),
        step("release", message=message, reservation=which, delay=st.integers(0, 60)),
        step("delete", message=message, reservation=which),
        step("peek"),
        step("out_of_reach"),
        step("in_reach"),
        step("update", settings=st.just({"dead_letter": {"queue_name": ""}})),
    ),
    max_size=25,
)
limit = st.integers(1, 3)


@st.composite
def scenarios(draw: st.DrawFn) -> dict[str, Any]:
    """Three queues in a row, or in a circle, and four messages."""
    targets = draw(st.permutations(QUEUES))
    queues = {
        name: {
            "message_expiration": draw(st.integers(50, 1000)),
            "dead_letter": {"queue_name": target, "max_reservations": draw(limit)},
        }
        for name, target in zip(QUEUES, targets, strict=True)
    }
    posted = [
        {
            "do": "post",
            "at_s": 0,
            "queue": draw(queue),
            "messages": [{"name": f"m{n}", "delay": draw(st.integers(0, 9))}],
        }
        for n in range(4)
    ]
    return {"queues": queues, "steps": posted + draw(steps), "end_s": 600}


ENDS = {"acked", "purged", "dropped"}


@settings(deadline=None)
@given(scenario=scenarios())
def test_every_message_is_in_one_place_or_has_ended_once(scenario: dict[str, Any]) -> None:
    trace = simulate(scenario)
    left = Counter(each["message"] for queue in trace["queues"].values() for each in queue["messages"])
    ended = Counter(event["message"] for event in trace["events"] if event["event"] in ENDS)
    assert left + ended == Counter(["m0", "m1", "m2", "m3"])
    for event, following in zip(trace["events"], [*trace["events"][1:], None], strict=True):
        if event["event"] == "limit-dropped":
            assert following is not None
            assert following["event"] in ("dead-lettered", "dropped")
        if event["event"] == "dropped":
            assert event["reason"] == "expired" or event["detail"].endswith("is out of reach")


@settings(deadline=None)
@given(scenario=scenarios())
def test_counts_only_grow_and_no_reserve_returns_more_than_is_allowed(scenario: dict[str, Any]) -> None:
    scenario["steps"] = [step for step in scenario["steps"] if step["do"] != "update"]
    counts: Counter[str] = Counter()
    time_ms = 0
    for event in simulate(scenario)["events"]:
        assert event["time_ms"] >= time_ms
        time_ms = event["time_ms"]
        assert event["reserved_count"] >= counts[event["message"]]
        counts[event["message"]] = event["reserved_count"]
        allowed = scenario["queues"][event["queue"]]["dead_letter"]["max_reservations"]
        if event["event"] == "delivered":
            assert event["reserved_count"] <= allowed
        if event["event"] == "limit-dropped":
            assert event["reserved_count"] >= allowed


@settings(deadline=None)
@given(scenario=scenarios())
def test_the_same_scenario_gives_the_same_trace(scenario: dict[str, Any]) -> None:
    assert simulate(scenario) == simulate(scenario)
