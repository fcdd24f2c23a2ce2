"""The order of messages, their time, and who may do what with a reservation."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.events import Event
from tests.systems.ironmq.client import Client


def bodies(messages: list[Any]) -> list[str]:
    return [message["body"] for message in messages]


def test_messages_are_reserved_in_the_order_in_which_they_were_posted(mq: Client) -> None:
    mq.post("q", "a", "b", "c")
    assert bodies(mq.reserve("q", n=2)) == ["a", "b"]
    assert bodies(mq.reserve("q", n=2)) == ["c"]
    assert mq.reserve("q") == []


def test_a_reservation_lasts_as_long_as_the_queue_says_or_the_request(mq: Client) -> None:
    mq.create("q", message_timeout=45)
    mq.post("q", "a", "b")
    mq.reserve("q")
    mq.reserve("q", timeout=100)
    mq.advance(44.999)
    assert mq.peek("q") == []
    mq.advance(0.001)
    assert bodies(mq.peek("q")) == ["a"]
    mq.advance(54.999)
    assert bodies(mq.peek("q")) == ["a"]
    mq.advance(0.001)
    assert bodies(mq.peek("q")) == ["b", "a"]


def test_short_timeouts_are_accepted_as_the_clients_own_tests_use_them(mq: Client) -> None:
    mq.post("q", "a")
    mq.reserve("q", timeout=3)
    mq.advance(3)
    assert mq.reserve("q")[0]["reserved_count"] == 2


def test_timed_out_and_released_messages_go_to_the_front_in_the_order_of_their_reservations(mq: Client) -> None:
    mq.post("q", "a", "b", "c", "d")
    mq.reserve("q", n=2, timeout=60)
    mq.advance(60)
    assert bodies(mq.peek("q")) == ["a", "b", "c", "d"]
    a, b = mq.reserve("q", n=2)
    mq.release("q", a)
    mq.release("q", b)
    assert bodies(mq.peek("q")) == ["b", "a", "c", "d"]


def test_a_released_message_comes_back_to_the_front_after_its_delay(mq: Client) -> None:
    mq.post("q", "a", "b")
    (a,) = mq.reserve("q")
    mq.release("q", a, delay=10)
    mq.advance(9)
    assert bodies(mq.peek("q")) == ["b"]
    mq.advance(1)
    assert bodies(mq.peek("q")) == ["a", "b"]


def test_a_delayed_message_joins_the_end_when_its_delay_is_over(mq: Client) -> None:
    (late,) = mq.post("q", "late", delay=10)
    mq.post("q", "first")
    assert mq.get("q", late)["body"] == "late"
    assert bodies(mq.peek("q")) == ["first"]
    assert mq.info("q")["size"] == 2
    mq.advance(10)
    assert bodies(mq.peek("q")) == ["first", "late"]


@pytest.mark.parametrize("state", ["available", "reserved", "delayed"])
def test_a_message_expires_whatever_is_done_with_it(mq: Client, state: str) -> None:
    mq.create("q", message_expiration=100, dead_letter={"queue_name": "dead", "max_reservations": 1})
    mq.post("q", "a", delay=1000 if state == "delayed" else 0)
    if state == "reserved":
        mq.reserve("q", timeout=1000)
    mq.advance(99)
    assert mq.info("q")["size"] == 1
    mq.advance(1)
    assert (mq.info("q")["size"], mq.info("q")["total_messages"]) == (0, 1)
    assert mq.info("dead")["total_messages"] == 0
    assert [(event.event, event.time_us) for event in mq.events[-2:]] == [
        (Event.EXPIRED, 100_000_000),
        (Event.DROPPED, 100_000_000),
    ]


def test_each_thing_happens_at_its_own_time_however_late_somebody_looks(mq: Client) -> None:
    mq.create("q", message_expiration=500)
    mq.post("q", "a")
    mq.reserve("q", timeout=60)
    mq.advance(3600)
    assert [(event.event, event.time_us // 1_000_000) for event in mq.events[-3:]] == [
        (Event.REQUEUED, 60),
        (Event.EXPIRED, 500),
        (Event.DROPPED, 500),
    ]


@pytest.mark.parametrize("call", ["delete", "touch", "release"])
@pytest.mark.parametrize("how", ["timed out", "released", "touched", "reserved again"])
def test_a_reservation_that_has_ended_is_no_good(mq: Client, call: str, how: str) -> None:
    (message_id,) = mq.post("q", "a")
    (message,) = mq.reserve("q", timeout=60)
    if how == "touched":
        mq.touch("q", message)
    elif how == "released":
        mq.release("q", message)
    else:
        mq.advance(60)
        if how == "reserved again":
            mq.reserve("q")
    count = mq.get("q", message_id)["reserved_count"]
    method, path = ("DELETE", "") if call == "delete" else ("POST", f"/{call}")
    answer = mq.call(method, f"/queues/q/messages/{message_id}{path}", {"reservation_id": message["reservation_id"]})
    assert (answer.status, answer.body) == (403, {"msg": "Reservation timed out"})
    assert mq.get("q", message_id)["reserved_count"] == count


def test_touch_begins_a_new_reservation_as_long_as_the_queue_says_or_the_request(mq: Client) -> None:
    mq.post("q", "a")
    (message,) = mq.reserve("q", timeout=60)
    mq.advance(59)
    touched = mq.touch("q", message)
    assert touched["reservation_id"] != message["reservation_id"]
    mq.advance(59)
    touched = mq.touch("q", touched, timeout=10)
    mq.advance(9)
    assert mq.peek("q") == []
    mq.advance(1)
    assert bodies(mq.peek("q")) == ["a"]


def test_delete_on_reserve_counts_as_a_reservation_and_does_not_return_dead_messages(mq: Client) -> None:
    mq.create("q", dead_letter={"queue_name": "dead", "max_reservations": 1})
    mq.post("q", "dies", "taken")
    mq.fail("q", 1)
    (taken,) = mq.reserve("q", delete=True)
    assert (taken["body"], taken["reserved_count"]) == ("taken", 1)
    assert mq.info("q")["size"] == 0
    assert bodies(mq.peek("dead")) == ["dies"]


def test_reserve_returns_as_many_as_asked_for_beyond_those_it_moves(mq: Client) -> None:
    mq.create("q", dead_letter={"queue_name": "dead", "max_reservations": 1})
    mq.post("q", "a", "b", "c", "d", "e")
    mq.reserve("q", n=2)
    mq.advance(60)
    assert bodies(mq.reserve("q", n=2)) == ["c", "d"]
    assert bodies(mq.peek("dead")) == ["a", "b"]
    assert bodies(mq.peek("q")) == ["e"]


def test_a_queue_that_is_its_own_dead_letter_queue_keeps_its_messages_and_never_returns_them(mq: Client) -> None:
    mq.create("q", message_expiration=1000, dead_letter={"queue_name": "q", "max_reservations": 1})
    mq.post("q", "dies", "lives")
    mq.fail("q", 1)
    assert bodies(mq.reserve("q", n=5)) == ["lives"]
    assert mq.reserve("q", n=5) == []
    assert bodies(mq.peek("q")) == ["dies"]
    mq.advance(999)
    assert bodies(mq.peek("q"))[-1] == "dies"  # its life begins anew with every move


def test_a_dead_letter_queue_that_was_deleted_is_made_anew_for_a_dead_letter(mq: Client) -> None:
    mq.create("dead", message_timeout=120)
    mq.create("q", dead_letter={"queue_name": "dead", "max_reservations": 1})
    mq.post("q", "a")
    mq.fail("q", 1)
    assert mq.call("DELETE", "/queues/dead").body == {"msg": "Deleted"}
    assert mq.reserve("q") == []
    assert (mq.info("dead")["size"], mq.info("dead")["message_timeout"]) == (1, 60)
    assert "dead_letter" not in mq.info("dead")
    assert mq.info("q")["size"] == 0


def test_a_queue_out_of_reach_answers_nothing_and_keeps_its_messages(mq: Client) -> None:
    mq.post("q", "a")
    mq.out_of_reach("q")
    for method, path in (("GET", ""), ("PATCH", ""), ("DELETE", ""), ("GET", "/messages"), ("POST", "/reservations")):
        answer = mq.call(method, f"/queues/q{path}", {})
        assert (answer.status, answer.body) == (503, {"msg": "Queue is out of reach"})
    assert mq.call("POST", "/queues/q/messages", {"messages": [{"body": "b"}]}).status == 503
    mq.in_reach("q")
    assert bodies(mq.reserve("q", n=2)) == ["a"]


def test_lowering_max_reservations_applies_to_counts_there_are(mq: Client) -> None:
    mq.create("q", dead_letter={"queue_name": "dead", "max_reservations": 10})
    mq.post("q", "a")
    mq.fail("q", 4)
    mq.update("q", dead_letter={"max_reservations": 4})
    assert mq.reserve("q") == []
    assert mq.peek("dead")[0]["reserved_count"] == 4
