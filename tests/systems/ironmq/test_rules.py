"""The pure rules: what requests may say, what they make of the settings, which message is dead."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.systems.ironmq import requests, settings
from simulator.systems.ironmq.http_errors import Refusal
from simulator.systems.ironmq.queues import Message, counted, dead_letter, is_dead, posted
from simulator.systems.ironmq.settings import DeadLetterSettings, Push, Settings, Subscriber, configured

A, B = ({"name": name, "url": f"http://localhost/{name}"} for name in "ab")
PUSHED = configured({"type": "unicast", "push": {"subscribers": [A], "error_queue": "errors"}})

WRONG_SETTINGS: list[tuple[Settings | None, Any, str]] = [
    (None, [], "queue must be an object"),
    (None, {"type": "push"}, "type must be one of pull, multicast, unicast"),
    (None, {"type": 1}, "type must be one of pull, multicast, unicast"),
    (
        Settings(),
        {"type": "unicast"},
        "type must be one of pull, multicast, unicast, and is static: this queue is pull",
    ),
    (None, {"message_timeout": 0}, "message_timeout must be a whole number from 1 to 86400"),
    (None, {"message_timeout": 86_401}, "message_timeout must be a whole number from 1 to 86400"),
    (None, {"message_timeout": "60"}, "message_timeout must be a whole number from 1 to 86400"),
    (None, {"message_expiration": -5}, "message_expiration must be a whole number from 1 to 2592000"),
    (None, {"dead_letter": "dead"}, "dead_letter must be an object"),
    (None, {"dead_letter": {"queue_name": 5}}, "dead_letter.queue_name must be a string"),
    (None, {"dead_letter": {"queue_name": ""}}, "dead_letter.queue_name must be a non-empty string"),
    (None, {"type": "unicast"}, "push.subscribers must be a list of at least 1"),
    (None, {"push": {"subscribers": []}}, "push.subscribers must be a list of at least 1"),
    (None, {"push": {"subscribers": [{}]}}, "push.subscribers[0].name must be a non-empty string"),
    (None, {"push": {"subscribers": [{"name": "a"}]}}, "push.subscribers[0].url must be a non-empty string"),
    (None, {"push": {"subscribers": [A], "retries": 101}}, "push.retries must be a whole number from 0 to 100"),
    (
        None,
        {"push": {"subscribers": [A], "retries_delay": 2}},
        "push.retries_delay must be a whole number from 3 to 86400",
    ),
    (None, {"push": {"subscribers": [A], "error_queue": 1}}, "push.error_queue must be a string"),
    (None, {"type": "pull", "push": {"subscribers": [A]}}, "push cannot be specified on a pull queue"),
    (Settings(), {"push": {"subscribers": [A]}}, "push cannot be specified on a pull queue"),
    (
        PUSHED,
        {"dead_letter": {"queue_name": "dead"}},
        "dead_letter cannot be specified on a push queue; use push.error_queue",
    ),
]


@pytest.mark.parametrize(("current", "document", "msg"), WRONG_SETTINGS)
def test_wrong_settings_are_refused_with_the_field_and_what_would_be_right(
    current: Settings | None, document: Any, msg: str
) -> None:
    with pytest.raises(Refusal) as refused:
        configured(document, current)
    assert (refused.value.status, refused.value.body) == (400, {"msg": msg})


def test_the_defaults_are_those_of_a_pull_queue() -> None:
    assert configured(None) == Settings(
        message_timeout_s=60, message_expiration_s=604_800, type="pull", push=None, dead_letter=None
    )


def test_an_update_keeps_what_it_does_not_name() -> None:
    before = configured({"message_timeout": 30, "dead_letter": {"queue_name": "dead", "max_reservations": 2}})
    assert configured({}, before) == configured(None, before) == configured({"dead_letter": None}, before) == before
    assert configured({"message_expiration": 100}, before) == Settings(
        message_timeout_s=30,
        message_expiration_s=100,
        dead_letter=DeadLetterSettings(queue_name="dead", max_reservations=2),
    )


def test_what_ironmq_does_not_know_is_passed_over() -> None:
    assert configured({"alerts": [{}], "name": "another"}) == Settings()


def test_push_makes_a_multicast_queue() -> None:
    made = configured({"push": {"subscribers": [A]}})
    assert made.type == "multicast"
    assert made.push == Push(
        subscribers=(Subscriber(name="a", url="http://localhost/a"),), retries=3, retries_delay_s=60
    )


def test_only_an_empty_name_switches_the_error_queue_off() -> None:
    kept, off = configured({"push": {"retries": 5}}, PUSHED), configured({"push": {"error_queue": ""}}, PUSHED)
    assert kept.push is not None
    assert (kept.push.error_queue, kept.push.retries) == ("errors", 5)
    assert off.push is not None
    assert off.push.error_queue == ""


def test_subscribers_are_added_changed_replaced_and_removed() -> None:
    def names(settings: Settings) -> list[tuple[str, str]]:
        assert settings.push is not None
        return [(each.name, each.url) for each in settings.push.subscribers]

    both = settings.subscribers_added(PUSHED, [B, {**A, "url": "http://new/"}])
    assert names(both) == [("a", "http://new/"), ("b", B["url"])]
    assert names(settings.subscribers_replaced(both, [B])) == [("b", B["url"])]
    assert names(settings.subscribers_removed(both, [{"name": "a"}])) == [("b", B["url"])]
    assert names(both)  # settings never change


@pytest.mark.parametrize(
    "change", [settings.subscribers_added, settings.subscribers_replaced, settings.subscribers_removed]
)
@pytest.mark.parametrize("value", [None, [], "a", [1], [{"url": "u"}]])
def test_wrong_subscribers_are_refused(change: Callable[[Settings, object], Settings], value: Any) -> None:
    with pytest.raises(Refusal, match="subscribers"):
        change(PUSHED, value)


def test_a_pull_queue_has_no_subscribers_and_a_push_queue_keeps_one() -> None:
    for change in (settings.subscribers_added, settings.subscribers_replaced, settings.subscribers_removed):
        with pytest.raises(Refusal, match="a pull queue has no subscribers"):
            change(Settings(), [A])
    with pytest.raises(Refusal, match="one subscriber at least"):
        settings.subscribers_removed(PUSHED, [A])


# Requests


WRONG_REQUESTS: list[tuple[Callable[[Any], Any], Any, str]] = [
    (requests.posts, {}, "messages must be a list of at least 1"),
    (requests.posts, {"messages": []}, "messages must be a list of at least 1"),
    (requests.posts, {"messages": ["text"]}, "messages[0] must be an object"),
    (requests.posts, {"messages": [{"body": "b"}, {}]}, "messages[1].body is required"),
    (requests.posts, {"messages": [{"body": 1}]}, "messages[0].body must be a string"),
    (
        requests.posts,
        {"messages": [{"body": "b", "delay": 604_801}]},
        "messages[0].delay must be a whole number from 0 to 604800",
    ),
    (requests.reserve, {"n": 0}, "n must be a whole number from 1 to 100"),
    (requests.reserve, {"n": 101}, "n must be a whole number from 1 to 100"),
    (requests.reserve, {"timeout": 0}, "timeout must be a whole number from 1 to 86400"),
    (requests.reserve, {"timeout": 86_401}, "timeout must be a whole number from 1 to 86400"),
    (requests.reserve, {"wait": 31}, "wait must be a whole number from 0 to 30"),
    (requests.reserve, {"delete": "yes"}, "delete must be true or false"),
    (requests.touch, {}, "reservation_id must be a non-empty string"),
    (requests.touch, {"reservation_id": "r", "timeout": 86_401}, "timeout must be a whole number from 1 to 86400"),
    (requests.release, {"reservation_id": ""}, "reservation_id must be a non-empty string"),
    (requests.release, {"reservation_id": "r", "delay": -1}, "delay must be a whole number from 0 to 604800"),
    (requests.deletes, {"ids": []}, "ids must be a list of 1 to 100"),
    (requests.deletes, {"ids": [{"id": "1"}] * 101}, "ids must be a list of 1 to 100"),
    (requests.deletes, {"ids": [{}]}, "ids[0].id must be a non-empty string"),
]


@pytest.mark.parametrize(("read", "request_body", "msg"), WRONG_REQUESTS)
def test_wrong_requests_are_refused_with_the_field_and_what_would_be_right(
    read: Callable[[Any], Any], request_body: Any, msg: str
) -> None:
    with pytest.raises(Refusal) as refused:
        read(request_body)
    assert (refused.value.status, refused.value.body) == (400, {"msg": msg})


@pytest.mark.parametrize(
    ("headers", "problem"),
    [
        ({f"X-{number}": "v" for number in range(6)}, "at most 5"),
        ({"": "v"}, "1 to 64 bytes"),
        ({"X" * 65: "v"}, "1 to 64 bytes"),
        ({"content-TYPE": "v"}, "set by IronMQ"),
        ({"Iron-Message-Id": "v"}, "set by IronMQ"),
        ({"X": ""}, "non-empty"),
        ({"X": "v" * 1025}, "at most 1024 bytes"),
    ],
)
def test_push_headers_have_limits(headers: dict[str, str], problem: str) -> None:
    with pytest.raises(Refusal, match=problem):
        requests.posts({"messages": [{"body": "b", "push_headers": headers}]})


def test_push_headers_within_the_limits_are_fine() -> None:
    headers = {"X" * 64: "v" * 1024, "A": "a", "B": "b", "C": "c", "D": "d"}
    assert len(requests.posts({"messages": [{"body": "", "push_headers": headers}]})) == 1


def test_requests_have_defaults() -> None:
    assert requests.reserve({}) == requests.Reserve(n=1, timeout_s=None, wait_s=0, delete=False)
    assert requests.reserve({"n": None, "delete": None}) == requests.reserve({})
    assert requests.posts({"messages": [{"body": ""}]}) == (requests.Post(body="", delay_s=0),)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NAMES = ("messages", "n", "timeout", "wait", "delete", "reservation_id", "delay", "ids", "dead_letter", "push", "type")


@pytest.mark.parametrize("read", [requests.posts, requests.reserve, requests.touch, requests.release, requests.deletes])
@given(document=st.dictionaries(st.sampled_from(NAMES), anything))
def test_whatever_is_asked_it_is_read_or_refused(read: Callable[[Any], Any], document: dict[str, Any]) -> None:
    with contextlib.suppress(Refusal):
        assert read(document) is not None


@given(document=anything | st.dictionaries(st.sampled_from(NAMES), anything), after=st.booleans())
def test_whatever_is_configured_it_is_read_or_refused(document: Any, after: bool) -> None:
    before = configured({"dead_letter": {"queue_name": "dead"}}) if after else None
    with contextlib.suppress(Refusal):
        made = configured(document, before)
        assert configured(made.shown()) == made


# Dead letters


@given(count=st.integers(0, 2000), limit=st.integers(1, 1000))
def test_a_message_is_dead_once_it_has_been_reserved_as_often_as_allowed(count: int, limit: int) -> None:
    message = Message(id="1", body="b", expires_us=0, reserved_count=count)
    assert is_dead(message, DeadLetterSettings(queue_name="dead", max_reservations=limit)) == (count + 1 > limit)
    assert not is_dead(message, None)


def test_a_dead_letter_differs_by_its_expiration_alone() -> None:
    message = counted(counted(posted("1", "b", Settings(message_expiration_s=10), 0)))
    assert message == Message(id="1", body="b", expires_us=10_000_000, reserved_count=2)
    letter = dead_letter(message, Settings(message_expiration_s=5), 7_000_000)
    assert letter == Message(id="1", body="b", expires_us=12_000_000, reserved_count=2)
