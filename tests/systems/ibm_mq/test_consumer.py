"""Queues with consumers that back out: who counts, who moves a message, and what a restart leaves of the count."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.scenario.scenario_errors import ScenarioError
from simulator.systems.ibm_mq import simulate
from simulator.systems.ibm_mq.mqdlh import read_mqdlh

POISON = {"name": "poison", "fails": "always"}


def played(messages: list[dict[str, Any]], scenario: dict[str, Any] | None = None, **queue: Any) -> dict[str, Any]:
    return simulate({"queues": [{"name": "ORDERS", "messages": messages, **queue}], **(scenario or {})})


def told(trace: dict[str, Any], message: str = "poison") -> list[str]:
    """The events of a message; a delivery with the count that it shows."""
    return [
        f"{each['event']} {each.get('backout_count', '')}".strip()
        for each in trace["events"]
        if each["message"] == message
    ]


@pytest.mark.parametrize("mover", ["jms", "application"])
def test_a_message_is_moved_once_its_count_has_reached_the_threshold(mover: str) -> None:
    messages = [{"name": "flaky", "fails": 2}, POISON, {"name": "fine"}]
    trace = played(messages, BOTHRESH=3, BOQNAME="ORDERS.BACKOUT", mover=mover)
    again = ["delivered 0", "requeued", "delivered 1", "requeued", "delivered 2"]
    assert told(trace, "flaky") == ["published", "routed", *again, "acked"]
    assert told(trace) == ["published", "routed", *again, "requeued", "limit-dropped", "dead-lettered", "routed"]
    assert told(trace, "fine") == ["published", "routed", "delivered 0", "acked"]
    assert [each["message"] for each in trace["queues"]["ORDERS.BACKOUT"]] == ["poison"]
    assert (trace["queues"]["ORDERS"], trace["handler"], trace["warnings"]) == ([], None, [])
    (moved,) = [each for each in trace["events"] if each["event"] == "limit-dropped"]
    who = {"jms": "the IBM MQ classes for JMS move it", "application": "the application moves it"}[mover]
    assert (moved["reason"], moved["detail"]) == ("backout_threshold", f"BOTHRESH is 3; {who}")


@pytest.mark.parametrize(
    ("queue", "why"),
    [({"BOQNAME": "B"}, "BOTHRESH is 0"), ({"BOTHRESH": 3, "BOQNAME": "B", "mover": "nobody"}, "nobody moves it")],
)
def test_the_queue_manager_moves_nothing(queue: dict[str, Any], why: str) -> None:
    trace = played([POISON, {"name": "behind"}], **queue)
    assert told(trace)[-2:] == ["delivered 99", "requeued"]
    assert told(trace, "behind") == ["published", "routed"]
    assert trace["queues"]["ORDERS"] == [
        {"message": "poison", "backout_count": 100},
        {"message": "behind", "backout_count": 0},
    ]
    assert trace["warnings"] == [
        "queues[0]: the consumer was stopped after it got poison 100 times: "
        f"{why}, and the queue manager itself moves nothing"
    ]


@pytest.mark.parametrize(
    ("boqname", "reason"), [("", "MQRC_BACKOUT_THRESHOLD_REACHED"), ("ORDERS.BACKOUT", "MQRC_PUT_INHIBITED")]
)
def test_where_jms_cannot_move_it_the_dead_letter_queue_has_it(boqname: str, reason: str) -> None:
    outage = {"outages": [{"queue": "ORDERS.BACKOUT", "result": "MQRC_PUT_INHIBITED"}]} if boqname else {}
    table = {"rules_table": f"DESTQ(ORDERS) REASON({reason}) ACTION(FWD) FWDQ(PARKED)"}
    trace = played([POISON], table | outage, BOTHRESH=1, BOQNAME=boqname)
    (parked,) = trace["queues"]["PARKED"]
    header = read_mqdlh(
        bytes.fromhex(parked["data_hex"]), encoding=parked["encoding"], coded_char_set_id=parked["coded_char_set_id"]
    )
    assert (header.dest_q_name, header.dest_q_mgr_name, header.format) == ("ORDERS", "QM1", "MQSTR")
    assert [each["message"] for each in trace["visits"]] == ["poison"]
    thrown = played([POISON | {"discard": True}], outage, BOTHRESH=1, BOQNAME=boqname)
    assert told(thrown)[-2:] == ["limit-dropped", "dropped"]
    other = played([POISON], {**outage, "rules_table": "INPUTQ(OTHER)\nACTION(DISCARD)"}, BOTHRESH=1, BOQNAME=boqname)
    assert [each["message"] for each in other["queues"]["SYSTEM.DEAD.LETTER.QUEUE"]] == ["poison"]


def test_an_application_that_cannot_move_it_gets_it_again() -> None:
    assert told(played([POISON], BOTHRESH=1, mover="application"))[-1] == "requeued"


def test_the_handler_retries_into_a_queue_whose_consumer_fails() -> None:
    messages = [{"name": "m", "fails": 3}]
    table = {"rules_table": "RETRYINT(5)\nACTION(RETRY)"}
    trace = played(messages, table, BOTHRESH=2)
    times = [each["time_ms"] for each in trace["events"] if each["event"] == "delivered" and each["queue"] == "ORDERS"]
    assert (times, told(trace, "m")[-1]) == ([0, 0, 0, 0], "acked")


@pytest.mark.parametrize(
    ("platform", "hardened", "count"),
    [("distributed", False, 1), ("distributed", True, 1), ("z/OS", True, 1), ("z/OS", False, 0)],
)
def test_what_a_restart_leaves_of_the_count(platform: str, hardened: bool, count: int) -> None:
    messages = [POISON | {"PERSIST": "MQPER_PERSISTENT"}, {"name": "lost", "PERSIST": 0}]
    restarts = {"queue_manager_restarts_s": [15], "platform": platform, "until_s": 16}
    trace = played(messages, restarts, BOTHRESH=5, takes_s=10, HARDENBO=hardened)
    deliveries = [told for told in told(trace) if told.startswith("delivered")]
    # The second delivery is under way when the queue manager ends: it counts, where the count survives.
    assert deliveries == ["delivered 0", "delivered 1", f"delivered {2 * count}"]
    assert told(trace, "lost") == ["published", "routed", "dropped"]


def test_what_expires_on_the_queue_and_in_a_unit_of_work() -> None:
    messages = [
        {"name": "held", "fails": 1, "how": "crash", "expiry_s": 5},
        {"name": "waits", "expiry_s": 3},
        {"name": "done", "expiry_s": 21},
    ]
    trace = played(messages, takes_s=10)
    ends = {each["message"]: (each["event"], each["time_ms"]) for each in trace["events"]}
    assert ends == {"held": ("dropped", 10_000), "waits": ("dropped", 3_000), "done": ("acked", 20_000)}


def test_a_consumer_that_keeps_a_message_holds_up_the_others() -> None:
    trace = played([POISON | {"how": "hold"}, {"name": "behind"}], BOTHRESH=1)
    assert (told(trace)[-1], told(trace, "behind")[-1]) == ("delivered 0", "routed")


def test_a_higher_priority_goes_ahead() -> None:
    messages = [{"name": "first"}, {"name": "low", "time_s": 1}, {"name": "high", "time_s": 1, "priority": 9}]
    order = [each["message"] for each in played(messages, takes_s=5)["events"] if each["event"] == "acked"]
    assert order == ["first", "high", "low"]
    fifo = played(messages, {"delivery_sequence": "FIFO"}, takes_s=5)
    assert [each["message"] for each in fifo["events"] if each["event"] == "acked"] == ["first", "low", "high"]


@pytest.mark.parametrize(
    ("scenario", "problem"),
    [
        ({}, "rules_table: expected a rules table, or queues with consumers in queues"),
        ({"queues": [{"name": "A", "messages": [], "BOTRESH": 1}]}, "did you mean BOTHRESH"),
        ({"queues": [{"name": "A", "messages": []}] * 2}, "queues[1].name: expected a name of its own, got 'A' again"),
        (
            {"queues": [{"name": "A", "messages": [{"name": "m"}, {"name": "m"}]}]},
            "queues[0].messages[1].name: expected a name of its own, got 'm' again",
        ),
        (
            {"queues": [{"name": "A", "messages": [{"PERSIST": "MQPER_PERSISTANT"}]}]},
            "queues[0].messages[0].PERSIST: expected a number or a name that begins with MQPER_",
        ),
    ],
)
def test_a_scenario_that_cannot_be_run(scenario: dict[str, Any], problem: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        simulate(scenario)
    assert problem in str(refused.value)
