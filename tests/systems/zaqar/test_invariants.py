"""What holds in any history: no message is in two places, and none disappears unsaid."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.systems.zaqar import simulate
from simulator.systems.zaqar.profiles import PROFILES

ENDS = {"acked", "expired", "dropped", "purged"}
QUEUES: dict[str, dict[str, Any]] = {
    "c": {},
    "b": {"_max_claim_count": 2, "_dead_letter_queue": "c", "_dead_letter_queue_messages_ttl": 200},
    "a": {"_max_claim_count": 1, "_dead_letter_queue": "b"},
}

queues, names = st.sampled_from("abc"), st.sampled_from("12345")
spans = st.integers(60, 200)
STEPS = st.one_of(
    st.fixed_dictionaries({"do": st.just("post"), "queue": queues, "messages": st.just([{"ttl": 150}, {"ttl": 70}])}),
    st.fixed_dictionaries(
        {"do": st.just("claim"), "queue": queues, "ttl": spans, "grace": spans, "limit": st.integers(1, 4)},
        optional={"claim": names},
    ),
    st.fixed_dictionaries({"do": st.sampled_from(["release", "get_claim"]), "queue": queues, "claim": names}),
    st.fixed_dictionaries({"do": st.just("renew"), "queue": queues, "claim": names, "ttl": spans, "grace": spans}),
    st.fixed_dictionaries({"do": st.just("pop"), "queue": queues, "limit": st.integers(1, 4)}),
    st.fixed_dictionaries({"do": st.sampled_from(["list", "stats", "remove"]), "queue": queues}),
    st.fixed_dictionaries(
        {"do": st.just("configure"), "queue": queues, "metadata": st.fixed_dictionaries({"_dead_letter_queue": queues})}
    ),
    st.fixed_dictionaries({"do": st.just("end_claims")}),
    st.fixed_dictionaries({"do": st.just("wait"), "s": st.integers(0, 90) | st.floats(0, 90)}),
)


def _once_named(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The steps, where only the first claim of a name has it."""
    used: set[str] = set()
    for step in steps:
        if step["do"] == "claim" and step.get("claim") in used:
            del step["claim"]
        used.add(step.get("claim", "") if step["do"] == "claim" else "")
    return steps


HISTORIES = st.lists(STEPS, max_size=30).map(_once_named)


@pytest.mark.parametrize("profile", PROFILES)
@given(steps=HISTORIES)
def test_a_message_is_in_one_place_until_its_end_is_told(profile: str, steps: list[dict[str, Any]]) -> None:
    trace = simulate({"profile": profile, "queues": QUEUES, "steps": steps})
    places = Counter(message["message"] for there in trace["queues"].values() for message in there)
    assert set(places.values()) <= {1}
    told: dict[str, list[str]] = {}
    for event in trace["events"]:
        told.setdefault(event["message"], []).append(event["event"])
    for message, history in told.items():
        assert history[0] == "published"
        assert sum(event in ENDS for event in history) == (message not in places)
        assert ENDS.isdisjoint(history[:-1]), history
        assert ("requeued", "requeued") not in itertools.pairwise(history), history


@pytest.mark.parametrize("profile", PROFILES)
@given(steps=HISTORIES)
def test_time_only_goes_forward_and_no_claim_outlives_itself(profile: str, steps: list[dict[str, Any]]) -> None:
    trace = simulate({"profile": profile, "queues": QUEUES, "steps": steps})
    times = [event["time_ms"] for event in trace["events"]]
    assert times == sorted(times)
    holders: dict[str, str | None] = {}
    for event in trace["events"]:
        if event["event"] == "delivered":
            # On redis a claim may take what another holds; nowhere else.
            assert profile == "redis" or holders.get(event["message"]) is None, event
            holders[event["message"]] = event["claim"]
        elif event["event"] == "requeued":
            holders[event["message"]] = None
