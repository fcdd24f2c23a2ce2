"""Scenarios: the example of the document, what a trace holds, and what is wrong with a wrong one."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.scenario.scenario_errors import ScenarioError
from simulator.systems.ironmq import simulate

DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "ironmq.md"
EXAMPLE = re.compile(r"^```json\n(.*?)^```\n.*?^```text\n(.*?)^```\n", re.DOTALL | re.MULTILINE)


def step(do: str, at_s: float = 0, queue: str = "q", **fields: Any) -> dict[str, Any]:
    return {"do": do, "at_s": at_s, "queue": queue, **fields}


def post(*names: str, **fields: Any) -> dict[str, Any]:
    return step("post", messages=[{"name": name} for name in names], **fields)


def test_the_example_of_the_document_runs_and_gives_what_is_shown() -> None:
    found = EXAMPLE.search(DOCUMENT.read_text(encoding="utf-8"))
    assert found is not None
    trace = simulate(json.loads(found[1]))
    fields = ("time_ms", "event", "queue", "message", "reserved_count")
    shown = [" ".join(str(event[field]) for field in fields) for event in trace["events"]]
    assert shown == found[2].splitlines()
    assert [each["message"] for each in trace["queues"]["dead"]["messages"]] == ["worse"]
    assert trace["queues"]["orders"]["messages"] == []


def test_every_step_and_field_is_in_the_document() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    with pytest.raises(ScenarioError) as wrong:
        simulate({"steps": [step("dance")]})
    doings = wrong.value.problem.rpartition("expected one of ")[2].split(", ")
    assert len(doings) == 14
    assert [doing for doing in doings if f"`{doing}`" not in text] == []


def test_a_trace_is_plain_json_and_tells_what_happened_what_was_answered_and_what_is_left() -> None:
    trace = simulate(
        {
            "queues": {"q": {"dead_letter": {"queue_name": "dead", "max_reservations": 1}}},
            "steps": [post("m"), step("reserve", 1), step("reserve", 61)],
        }
    )
    assert json.loads(json.dumps(trace)) == trace
    assert trace["system"] == "ironmq"
    assert trace["events"][-3:] == [
        {
            "event": "limit-dropped",
            "time_ms": 61_000,
            "message": "m",
            "queue": "q",
            "reserved_count": 1,
            "reason": "delivery_limit",
            "detail": "max_reservations is 1",
        },
        {
            "event": "dead-lettered",
            "time_ms": 61_000,
            "message": "m",
            "queue": "q",
            "reserved_count": 1,
            "reason": "delivery_limit",
            "detail": "to 'dead'",
        },
        {"event": "routed", "time_ms": 61_000, "message": "m", "queue": "dead", "reserved_count": 1},
    ]
    assert trace["answers"][-1] == {
        "step": 2,
        "do": "reserve",
        "time_ms": 61_000,
        "status": 200,
        "body": {"messages": []},
    }
    message_id = trace["answers"][0]["body"]["ids"][0]
    assert trace["queues"]["dead"] == {
        "settings": {"message_timeout": 60, "message_expiration": 604_800, "type": "pull"},
        "messages": [
            {
                "message": "m",
                "id": message_id,
                "body": "",
                "reserved_count": 1,
                "state": "available",
                "expires_ms": 604_861_000,
            }
        ],
    }


def test_what_ironmq_refuses_is_an_answer() -> None:
    trace = simulate(
        {
            "steps": [
                step("reserve"),
                post("m", at_s=1),
                step("reserve", 1, n=101),
                step("reserve", 1, timeout=5),
                step("delete", 2, message="m", reservation="none"),
                step("delete", 10, message="m"),
                step("reserve", 11),
                step("delete", 12, message="m", reservation=1),
                step("delete", 12, message="m", reservation=2),
                step("get", 13, message="m"),
            ]
        }
    )
    assert [(answer["step"], answer["status"]) for answer in trace["answers"]] == [
        (0, 404),
        (1, 201),
        (2, 400),
        (3, 200),
        (4, 403),
        (5, 403),
        (6, 200),
        (7, 403),
        (8, 200),
        (9, 404),
    ]


def test_every_call_can_be_a_step() -> None:
    trace = simulate(
        {
            "project": "mine",
            "steps": [
                step("create", settings={"message_timeout": 30}),
                step("update", settings={"message_timeout": 90}),
                post("a", "b", "c"),
                step("peek", n=5),
                step("reserve", n=2),
                step("touch", message="a", timeout=100),
                step("release", message="b", delay=1000),
                step("get", message="a"),
                step("delete", message="c"),
            ],
        }
    )
    assert {answer["status"] for answer in trace["answers"]} <= {200, 201}
    assert trace["answers"][0]["body"]["queue"]["project_id"] == "mine"
    left = {each["message"]: (each["state"], each["reserved_count"]) for each in trace["queues"]["q"]["messages"]}
    assert left == {"a": ("reserved", 2), "b": ("delayed", 1)}
    ended = simulate({"steps": [post("a"), step("clear"), post("b", at_s=1), step("remove", 2)]})
    assert [event["event"] for event in ended["events"]] == ["published", "routed", "purged"] * 2
    assert ended["queues"] == {}


def test_a_step_is_done_as_often_as_it_says_and_steps_are_done_in_order_of_time() -> None:
    trace = simulate({"steps": [step("reserve", 1, times=3, every_s=60.5), post("m", at_s=0)], "end_s": 1000})
    delivered = [event["time_ms"] for event in trace["events"] if event["event"] == "delivered"]
    assert delivered == [1000, 61_500, 122_000]
    assert trace["events"][-1]["time_ms"] == 182_000  # the last reservation has ended by end_s


def test_the_seed_makes_the_reservation_ids() -> None:
    scenario = {"steps": [post("m"), step("reserve")]}
    assert simulate(scenario) == simulate({**scenario, "seed": 0})
    assert simulate(scenario)["answers"] != simulate({**scenario, "seed": 1})["answers"]


WRONG: list[tuple[Any, str, str]] = [
    ([], "", "Expected `object`, got `array`"),
    ({"queue": {}}, "", "unknown field `queue`"),
    ({"steps": {}}, "steps", "Expected `array`"),
    ({"steps": [{"at_s": 0, "queue": "q"}]}, "steps[0]", "missing required field `do`"),
    ({"steps": [{"do": "peek", "queue": "q"}]}, "steps[0]", "missing required field `at_s`"),
    ({"steps": [{"do": "peek", "at_s": 0}]}, "steps[0]", "missing required field `queue`"),
    ({"steps": [post("m"), step("dance")]}, "steps[1].do", "expected one of create, update, remove"),
    ({"steps": [step("peek", wait=5)]}, "steps[0]", "unknown field `wait`"),
    ({"steps": [step("peek", n="5")]}, "steps[0].n", "Expected `int | null`"),
    ({"steps": [step("peek", -1)]}, "steps[0].at_s", ">= 0"),
    ({"steps": [step("peek", float("nan"))]}, "steps[0].at_s", ">= 0"),
    ({"steps": [step("peek", float("inf"))]}, "steps[0].at_s", "<="),
    ({"steps": [step("peek", times=0)]}, "steps[0].times", ">= 1"),
    ({"steps": [step("peek", queue="")]}, "steps[0].queue", "length >= 1"),
    ({"steps": [step("post", messages=[])]}, "steps[0].messages", "length >= 1"),
    ({"steps": [step("post", messages=[{"body": "b"}])]}, "steps[0].messages[0]", "required field `name`"),
    ({"steps": [post("m"), post("n", "m")]}, "steps[1].messages[1].name", "a name of its own"),
    ({"steps": [post("m", "m")]}, "steps[0].messages[1].name", "a name of its own"),
    ({"steps": [post("m", times=2)]}, "steps[0].messages[0].name", "a name of its own"),
    ({"steps": [step("get", message="m")]}, "steps[0].message", "no message 'm' has been posted at that time"),
    ({"steps": [post("m", at_s=5), step("get", 4, message="m")]}, "steps[1].message", "at that time"),
    (
        {"steps": [post("m"), step("touch", message="m", reservation="first")]},
        "steps[1].reservation",
        "expected 'last', 'none' or a number",
    ),
    (
        {"steps": [post("m"), step("reserve"), step("delete", message="m", reservation=2)]},
        "steps[2].reservation",
        "'m' has 1 reservations at that time",
    ),
    ({"steps": [step("out_of_reach")]}, "steps[0].queue", "no queue 'q' at that time"),
    ({"steps": [step("create", settings={"timeout": 5})]}, "steps[0].settings.timeout", "expected one of"),
    ({"queues": {"q": 5}}, "queues.q", "expected an object"),
    ({"queues": {"q": {"deadletter": {}}}}, "queues.q.deadletter", "expected one of"),
    (
        {"queues": {"q": {"dead_letter": {"queue_name": "d", "max_reservation": 3}}}},
        "queues.q.dead_letter.max_reservation",
        "did you mean max_reservations?",
    ),
    (
        {"steps": [step("create", settings={"type": "unicast", "push": {"subscribers": [{"nam": "a"}]}})]},
        "steps[0].settings.push.subscribers[0].nam",
        "did you mean name?",
    ),
    ({"queues": {"q": {"dead_letter": {"queue_name": ""}}}}, "queues.q", "must be a non-empty string"),
    ({"queues": {"": {}}}, "queues", "length >= 1"),
]


@pytest.mark.parametrize(("scenario", "where", "problem"), WRONG)
def test_a_wrong_scenario_is_refused_with_the_place_and_what_would_be_right(
    scenario: Any, where: str, problem: str
) -> None:
    with pytest.raises(ScenarioError) as wrong:
        simulate(scenario)
    assert wrong.value.where == where
    assert problem in wrong.value.problem


KNOWN = (
    "queues",
    "steps",
    "do",
    "post",
    "reserve",
    "touch",
    "at_s",
    "queue",
    "message",
    "messages",
    "name",
    "q",
    "settings",
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(KNOWN) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KNOWN), inner, max_size=6),
    max_leaves=20,
)


@settings(deadline=None)
@given(scenario=anything)
def test_whatever_a_scenario_says_it_runs_or_is_refused(scenario: Any) -> None:
    with contextlib.suppress(ScenarioError):
        assert simulate(scenario)["system"] == "ironmq"
