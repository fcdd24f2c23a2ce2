"""The dead letter queue reference of IronMQ, sentence by sentence, over the HTTP API.

Each test is named after its sentence. The sections are the document's.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from simulator.events import Event
from simulator.systems.ironmq.queues import Queue
from tests.systems.ironmq.client import Client, ask

WEEK_S = 7 * 86_400
PUSH = {"subscribers": [{"name": "s", "url": "http://localhost/"}]}


def to(queue_name: str, max_reservations: int | None = None) -> dict[str, Any]:
    """The field dead_letter."""
    return {"queue_name": queue_name} | ({} if max_reservations is None else {"max_reservations": max_reservations})


# Overview


def test_a_dead_letter_queue_is_a_queue_that_other_queues_can_target(mq: Client) -> None:
    mq.create("orders", dead_letter=to("dead", 1))
    mq.create("invoices", dead_letter=to("dead", 1))
    for queue in ("orders", "invoices"):
        mq.post(queue, queue)
        mq.fail(queue, 1)
        assert mq.reserve(queue) == []
    assert [message["body"] for message in mq.peek("dead")] == ["orders", "invoices"]


def test_dead_letter_queues_can_only_be_used_as_a_target_from_a_pull_queue(mq: Client) -> None:
    assert mq.create("orders", type="pull", dead_letter=to("dead"))["dead_letter"]["queue_name"] == "dead"
    for kind in ("unicast", "multicast"):
        answer = mq.call("PUT", f"/queues/{kind}", {"queue": {"type": kind, "push": PUSH, "dead_letter": to("dead")}})
        assert answer.status == 400


def test_messages_that_exceeded_the_allowed_number_of_time_outs_are_placed_onto_the_dead_letter_queue(
    mq: Client,
) -> None:
    mq.create("orders", dead_letter=to("dead", 3))
    (order,) = mq.post("orders", "an order")
    mq.fail("orders", 3)
    assert mq.reserve("orders") == []
    assert [message["id"] for message in mq.peek("dead")] == [order]


def test_messages_on_the_dead_letter_queue_can_be_processed_again_or_analyzed(mq: Client) -> None:
    mq.create("orders", dead_letter=to("dead", 1))
    mq.post("orders", "an order")
    mq.fail("orders", 1)
    mq.reserve("orders")
    assert mq.peek("dead")[0]["body"] == "an order"
    (letter,) = mq.reserve("dead")
    mq.post("orders", letter["body"])
    mq.delete("dead", letter)
    assert mq.reserve("orders")[0]["body"] == "an order"
    assert mq.info("dead")["size"] == 0


def test_a_dead_letter_queue_cannot_be_specified_on_a_push_queue_for_something_similar_see_error_queues(
    mq: Client,
) -> None:
    pushed = mq.create("pushed", type="unicast", push={**PUSH, "error_queue": "errors"})
    assert pushed["push"]["error_queue"] == "errors"
    answer = mq.call("PATCH", "/queues/pushed", {"queue": {"dead_letter": to("dead")}})
    assert (answer.status, answer.body) == (
        400,
        {"msg": "dead_letter cannot be specified on a push queue; use push.error_queue"},
    )
    assert mq.info("pushed") == {**pushed, "size": 0, "total_messages": 0}


# Creating a dead letter queue


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_to_add_a_dead_letter_queue_use_the_create_or_update_queue_endpoint(mq: Client, method: str) -> None:
    mq.create("orders")
    body = {"queue": {"dead_letter": {"queue_name": "deadies", "max_reservations": 1}}}
    answer = mq.call(method, "/queues/orders", body)
    assert answer.status == 200
    assert answer.body["queue"]["dead_letter"] == {"queue_name": "deadies", "max_reservations": 1}
    assert mq.info("orders")["dead_letter"] == {"queue_name": "deadies", "max_reservations": 1}


@pytest.mark.parametrize("dead_letter", [{}, {"queue_name": ""}, {"max_reservations": 5}, {"queue_name": None}])
def test_queue_name_must_be_a_non_empty_string_otherwise_the_request_will_error(
    mq: Client, dead_letter: dict[str, Any]
) -> None:
    mq.create("orders")
    for method, queue in (("PUT", "new"), ("PUT", "orders"), ("PATCH", "orders")):
        answer = mq.call(method, f"/queues/{queue}", {"queue": {"dead_letter": dead_letter}})
        assert answer.status == 400
        assert answer.body == {"msg": "dead_letter.queue_name must be a non-empty string"}
    assert "dead_letter" not in mq.info("orders")
    assert mq.call("GET", "/queues/new").status == 404


def test_unless_the_queue_already_has_a_dead_letter_queue_defined_on_it(mq: Client) -> None:
    mq.create("orders", dead_letter=to("dead", 4))
    assert mq.update("orders", dead_letter={"max_reservations": 7})["dead_letter"] == to("dead", 7)
    assert mq.update("orders", dead_letter={})["dead_letter"] == to("dead", 7)


@pytest.mark.parametrize("max_reservations", [1, 2, 999, 1000])
def test_max_reservations_can_be_specified_from_1_to_1000(mq: Client, max_reservations: int) -> None:
    created = mq.create("orders", dead_letter=to("dead", max_reservations))
    assert created["dead_letter"]["max_reservations"] == max_reservations


@pytest.mark.parametrize("max_reservations", [0, -1, 1001, 10.0, "10", True])
def test_max_reservations_outside_1_to_1000_is_an_error(mq: Client, max_reservations: Any) -> None:
    mq.create("orders", dead_letter=to("dead", 4))
    for method in ("PUT", "PATCH"):
        answer = mq.call(method, "/queues/orders", {"queue": {"dead_letter": to("dead", max_reservations)}})
        assert answer.status == 400
        assert answer.body == {"msg": "dead_letter.max_reservations must be a whole number from 1 to 1000"}
    assert mq.info("orders")["dead_letter"] == to("dead", 4)


def test_max_reservations_will_default_to_10_if_omitted(mq: Client) -> None:
    assert mq.create("orders", dead_letter=to("dead"))["dead_letter"] == to("dead", 10)
    mq.update("orders", dead_letter=to("dead", 3))
    assert mq.update("orders", dead_letter=to("other"))["dead_letter"] == to("other", 10)


def test_if_a_queue_with_the_given_name_already_exists_it_is_used_as_is(mq: Client) -> None:
    before = mq.create("dead", message_timeout=120, message_expiration=3600)
    mq.post("dead", "from before")
    mq.create("orders", dead_letter=to("dead", 1))
    assert mq.info("dead") == {**before, "size": 1, "total_messages": 1}


def test_otherwise_a_new_queue_is_automatically_created_with_the_default_pull_queue_settings(mq: Client) -> None:
    mq.create("orders", message_timeout=120, message_expiration=3600, dead_letter=to("dead"))
    assert mq.info("dead") == {
        "project_id": "p",
        "name": "dead",
        "type": "pull",
        "message_timeout": 60,
        "message_expiration": WEEK_S,
        "size": 0,
        "total_messages": 0,
    }


# Removing a dead letter queue


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_to_turn_it_off_update_the_queue_with_an_empty_queue_name_and_the_response_has_no_dead_letter_section(
    mq: Client, method: str
) -> None:
    mq.create("orders", dead_letter=to("dead", 2))
    answer = mq.call(method, "/queues/orders", {"queue": {"dead_letter": {"queue_name": ""}}})
    assert answer.status == 200
    assert "dead_letter" not in answer.body["queue"]
    assert "dead_letter" not in mq.info("orders")


def test_this_action_will_not_remove_the_messages_on_the_queue_or_delete_the_queue_previously_at_queue_name(
    mq: Client,
) -> None:
    mq.create("orders", dead_letter=to("dead", 1))
    mq.post("orders", "dies", "stays")
    mq.reserve("orders")
    mq.advance(60)
    mq.reserve("orders")  # moves the first, returns the second
    mq.advance(60)
    mq.update("orders", dead_letter=to(""))
    assert [message["body"] for message in mq.peek("orders")] == ["stays"]
    assert [message["body"] for message in mq.peek("dead")] == ["dies"]


def test_the_only_consequence_is_that_messages_will_no_longer_be_sent_to_the_dead_letter_queue(mq: Client) -> None:
    before = mq.create("orders", message_timeout=90, dead_letter=to("dead", 1))
    mq.post("orders", "an order")
    mq.reserve("orders")
    mq.update("orders", dead_letter=to(""))
    mq.advance(90)
    (message,) = mq.reserve("orders")
    assert message["reserved_count"] == 2
    assert mq.info("dead")["size"] == 0
    del before["dead_letter"]
    assert mq.info("orders") == {**before, "size": 1, "total_messages": 1}


# Behavior


def test_upon_addition_any_existing_message_whose_reserved_count_exceeds_the_threshold_is_placed_and_removed(
    mq: Client,
) -> None:
    mq.create("orders")
    (order,) = mq.post("orders", "an order")
    mq.fail("orders", 5)
    mq.update("orders", dead_letter=to("dead", 3))
    assert mq.reserve("orders") == []
    assert mq.call("GET", f"/queues/orders/messages/{order}").status == 404
    assert mq.get("dead", order)["reserved_count"] == 5


def test_the_dead_letter_queue_is_under_the_same_project(mq: Client) -> None:
    asyncio.run(ask(mq.application, "PUT", "/3/projects/other/queues/dead"))
    mq.create("orders", dead_letter=to("dead", 1))
    mq.post("orders", "an order")
    mq.fail("orders", 1)
    mq.reserve("orders")
    assert mq.info("dead")["size"] == 1
    other = asyncio.run(ask(mq.application, "GET", "/3/projects/other/queues/dead"))
    assert other.body["queue"]["size"] == 0


@pytest.mark.parametrize("field", ["id", "reserved_count", "body"])
def test_messages_are_sent_as_is_with_the_same_id_reserved_count_and_body(mq: Client, field: str) -> None:
    mq.create("orders", dead_letter=to("dead", 4))
    mq.post("orders", 'a body with "quotes" and ünicode\n')
    mq.fail("orders", 3)
    (last,) = mq.reserve("orders")
    mq.advance(60)
    mq.reserve("orders")
    (letter,) = mq.peek("dead")
    assert letter[field] == last[field]


def test_the_id_should_make_it_easy_to_correlate_events_across_the_queues(mq: Client) -> None:
    mq.create("orders", dead_letter=to("dead", 1))
    order, _ = mq.post("orders", "dies", "lives")
    mq.fail("orders", 1)
    mq.reserve("orders")
    events = [(event.event, event.queue) for event in mq.events if event.message == order]
    assert events == [
        (Event.PUBLISHED, "orders"),
        (Event.ROUTED, "orders"),
        (Event.DELIVERED, "orders"),
        (Event.REQUEUED, "orders"),
        (Event.LIMIT_DROPPED, "orders"),
        (Event.DEAD_LETTERED, "orders"),
        (Event.ROUTED, "dead"),
    ]


def test_the_expiration_will_be_extended_to_7_days_from_that_point_in_time_not_the_original_enqueue_time(
    mq: Client,
) -> None:
    mq.create("orders", message_expiration=3600, dead_letter=to("dead", 1))
    (order,) = mq.post("orders", "an order")
    mq.fail("orders", 1)
    mq.advance(3000)
    mq.reserve("orders")  # moves it, 3060 s after it was posted
    mq.advance(WEEK_S - 1)
    assert mq.get("dead", order)["body"] == "an order"
    mq.advance(1)
    assert mq.call("GET", f"/queues/dead/messages/{order}").status == 404


def test_the_expiration_is_adjusted_to_the_message_expiration_of_the_dead_letter_queue(mq: Client) -> None:
    mq.create("dead", message_expiration=100)
    mq.create("orders", dead_letter=to("dead", 1))
    (order,) = mq.post("orders", "an order")
    mq.fail("orders", 1)
    mq.reserve("orders")
    mq.advance(99)
    assert mq.get("dead", order)
    mq.advance(1)
    assert mq.call("GET", f"/queues/dead/messages/{order}").status == 404


def test_since_reserved_count_is_maintained_users_should_be_careful_with_a_dlq_for_their_dlq(
    mq: Client,
) -> None:
    mq.create("first", dead_letter=to("second", 2))
    mq.create("second", dead_letter=to("third", 2))
    mq.post("first", "yo")
    mq.fail("first", 2)
    assert mq.reserve("first") == []
    assert mq.peek("second")[0]["reserved_count"] == 2
    assert mq.reserve("second") == []  # it is passed on and never returned
    assert mq.peek("third")[0]["reserved_count"] == 2


def test_the_example_message_for_max_reservations_10(mq: Client) -> None:
    mq.create("queue", dead_letter=to("dlq", 10))
    mq.post("queue", "sup")
    counts = []
    for _ in range(10):
        (message,) = mq.reserve("queue")
        counts.append(message["reserved_count"])
        mq.advance(60)
    assert counts == list(range(1, 11))
    (on_queue,) = mq.peek("queue")
    assert on_queue == {"id": message["id"], "reserved_count": 10, "body": "sup"}
    assert mq.reserve("queue") == []
    assert mq.peek("queue") == []
    assert mq.peek("dlq") == [on_queue]


def test_there_is_only_one_operation_that_can_spur_a_move_and_that_is_reserve(mq: Client) -> None:
    mq.create("orders", dead_letter=to("dead", 1))
    (order,) = mq.post("orders", "an order")
    (message,) = mq.reserve("orders")
    message = mq.touch("orders", message)
    mq.release("orders", message)
    mq.post("orders", "another")
    mq.peek("orders")
    mq.get("orders", order)
    mq.info("orders")
    mq.update("orders", dead_letter=to("dead", 1))
    mq.advance(86_400)
    assert mq.info("dead")["total_messages"] == 0
    assert mq.get("orders", order)["reserved_count"] == 2
    assert mq.reserve("orders")[0]["body"] == "another"
    assert mq.get("dead", order)["reserved_count"] == 2


def test_peek_and_get_will_not_count_against_the_current_reserved_count(mq: Client) -> None:
    (order,) = mq.post("orders", "an order")
    for _ in range(3):
        assert mq.peek("orders")[0]["reserved_count"] == 0
        assert mq.get("orders", order)["reserved_count"] == 0
    assert mq.reserve("orders")[0]["reserved_count"] == 1


def test_simply_adding_a_dead_letter_section_will_not_in_itself_make_messages_move(mq: Client) -> None:
    (order,) = mq.post("orders", "an order")
    mq.fail("orders", 3)
    mq.update("orders", dead_letter=to("dead", 1))
    mq.advance(86_400)
    assert mq.info("dead")["size"] == 0
    assert mq.get("orders", order)["reserved_count"] == 3
    assert mq.reserve("orders") == []  # once reserve comes across it
    assert mq.info("dead")["size"] == 1


def test_reserved_count_will_be_incremented_each_time_a_message_is_returned_from_reserve(mq: Client) -> None:
    mq.post("orders", "an order")
    for count in range(1, 8):
        (message,) = mq.reserve("orders")
        assert message["reserved_count"] == count
        mq.release("orders", message)


def test_the_first_reservation_of_a_message_will_have_reserved_count_1(mq: Client) -> None:
    mq.post("orders", "an order")
    assert mq.reserve("orders")[0]["reserved_count"] == 1


def test_touch_is_the_only_other_operation_that_modifies_reserved_count(mq: Client) -> None:
    (order,) = mq.post("orders", "an order")
    (message,) = mq.reserve("orders")
    message = mq.touch("orders", message)
    assert mq.get("orders", order)["reserved_count"] == 2
    mq.release("orders", message, delay=5)
    mq.advance(5)
    mq.update("orders", message_timeout=90)
    assert mq.get("orders", order)["reserved_count"] == 2


def test_touch_beyond_the_threshold_will_not_move_the_message_immediately_only_after_reserve_comes_across_it(
    mq: Client,
) -> None:
    mq.create("orders", dead_letter=to("dead", 2))
    (order,) = mq.post("orders", "an order")
    (message,) = mq.reserve("orders")
    message = mq.touch("orders", mq.touch("orders", message))
    assert mq.get("orders", order)["reserved_count"] == 3
    assert mq.reserve("orders") == []  # it is still reserved
    assert mq.info("dead")["size"] == 0
    mq.advance(60)
    assert mq.reserve("orders") == []
    assert mq.get("dead", order)["reserved_count"] == 3


def test_we_cannot_guarantee_delivery_to_the_dead_letter_queue_and_both_progress_on_the_current_queue(
    mq: Client,
) -> None:
    mq.create("orders", dead_letter=to("dead", 1))
    (order,) = mq.post("orders", "an order")
    mq.fail("orders", 1)
    mq.out_of_reach("dead")
    assert mq.reserve("orders") == []  # progress, and no delivery
    mq.in_reach("dead")
    assert mq.call("GET", f"/queues/dead/messages/{order}").status == 404
    assert mq.call("GET", f"/queues/orders/messages/{order}").status == 404


def test_when_the_dead_letter_queue_has_no_replicas_online_we_make_progress_and_drop_messages_intended_for_it(
    mq: Client,
) -> None:
    mq.create("orders", dead_letter=to("dead", 1))
    mq.post("orders", "dies", "lives")
    mq.fail("orders", 1)
    mq.out_of_reach("dead")
    assert [message["body"] for message in mq.reserve("orders")] == ["lives"]
    assert mq.info("orders")["size"] == 1
    lost = mq.events[-2]
    assert (lost.event, lost.detail) == (Event.DROPPED, "dead letter queue 'dead' is out of reach")
    mq.in_reach("dead")
    assert mq.info("dead")["total_messages"] == 0


def test_the_expectation_is_that_this_is_rare_and_only_during_failure_scenarios(mq: Client) -> None:
    mq.create("orders", dead_letter=to("dead", 1))
    mq.out_of_reach("dead")
    mq.in_reach("dead")
    mq.post("orders", *map(str, range(50)))
    for _ in range(51):
        mq.reserve("orders")
        mq.advance(60)
    assert mq.info("dead")["size"] == 50
    assert not [event for event in mq.events if event.event == Event.DROPPED]


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The bodies of the messages that reserve comes across."""
    seen: list[str] = []
    take = Queue.take

    def counting(queue: Queue) -> Any:
        stored = take(queue)
        seen.append(stored.message.body)
        return stored

    monkeypatch.setattr(Queue, "take", counting)
    return seen


def test_there_is_a_slight_latency_penalty_on_reserve_once_we_come_across_messages_that_meet_the_criterion(
    mq: Client, looked_at: list[str]
) -> None:
    mq.create("orders", dead_letter=to("dead", 1))
    mq.post("orders", "dead 1", "dead 2", "fresh", "behind")
    mq.reserve("orders", n=2)
    mq.advance(60)
    looked_at.clear()
    assert [message["body"] for message in mq.reserve("orders")] == ["fresh"]
    assert looked_at == ["dead 1", "dead 2", "fresh"]


def test_in_nominal_usage_having_a_dead_letter_queue_specified_does_not_affect_performance(
    mq: Client, looked_at: list[str]
) -> None:
    mq.create("orders", dead_letter=to("dead", 1))
    mq.post("orders", "fresh", "behind")
    mq.reserve("orders")
    assert looked_at == ["fresh"]


def test_if_this_policy_is_unacceptable_users_can_check_reserved_count_themselves(mq: Client) -> None:
    mq.post("orders", "an order")
    mq.fail("orders", 2)
    (message,) = mq.reserve("orders")
    assert message["reserved_count"] > 2
    mq.post("mine", message["body"])
    mq.delete("orders", message)
    assert mq.info("orders")["size"] == 0
    assert [message["body"] for message in mq.peek("mine")] == ["an order"]


# One time delivery use case


def test_one_time_delivery_can_be_imitated_by_setting_max_reservations_1(mq: Client) -> None:
    mq.create("orders", dead_letter=to("dead", 1))
    mq.post("orders", "an order")
    assert len(mq.reserve("orders")) == 1
    mq.advance(60)
    assert mq.reserve("orders") == []


def test_any_successive_attempt_to_reserve_the_message_will_result_in_it_being_moved(mq: Client) -> None:
    mq.create("orders", dead_letter=to("dead", 1))
    (order,) = mq.post("orders", "an order")
    (message,) = mq.reserve("orders")
    mq.release("orders", message)
    assert mq.reserve("orders") == []
    assert mq.get("dead", order)["reserved_count"] == 1


def test_the_second_and_third_deliveries_can_be_handled_by_different_consumers(mq: Client) -> None:
    mq.create("orders", dead_letter=to("dead", 1))
    mq.post("orders", "an order")
    mq.fail("orders", 1)
    mq.reserve("orders")
    for count in (2, 3):
        (message,) = mq.reserve("dead")
        assert message["reserved_count"] == count
        mq.release("dead", message)


def test_this_can_also_be_done_by_checking_the_reserved_count_without_a_dead_letter_queue(mq: Client) -> None:
    mq.post("orders", "an order")
    deliveries = []
    for _ in range(3):
        (message,) = mq.reserve("orders")
        deliveries.append("first" if message["reserved_count"] == 1 else "again")
        mq.release("orders", message)
    assert deliveries == ["first", "again", "again"]
