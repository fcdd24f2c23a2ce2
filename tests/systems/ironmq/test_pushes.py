"""Push queues: who gets a message, how often it is tried, and what the statuses and the error queue tell of it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from simulator.scenario.scenario_errors import ScenarioError
from simulator.systems.ironmq import simulate
from tests.systems.ironmq.client import Client, ask

A, B = {"name": "a", "url": "http://a/"}, {"name": "b", "url": "http://b/"}


def push(kind: str = "multicast", **fields: Any) -> dict[str, Any]:
    return {"type": kind, "push": {"subscribers": [A, B], "retries": 2, "retries_delay": 10, **fields}}


def endpoint(mq: Client, **told: Any) -> int:
    return asyncio.run(ask(mq.application, "PUT", "/endpoints/p", told)).status


def played(endpoints: dict[str, Any], kind: str = "multicast", delay: int = 0, **fields: Any) -> dict[str, Any]:
    return simulate(
        {
            "queues": {"q": push(kind, **fields)},
            "endpoints": endpoints,
            "steps": [
                {"at_s": 0, "do": "post", "queue": "q", "messages": [{"name": "m", "body": "sup", "delay": delay}]},
                {"at_s": 100, "do": "push_statuses", "queue": "q", "message": "m"},
            ],
        }
    )


def events(trace: dict[str, Any]) -> list[tuple[int, str, str]]:
    return [(each["time_ms"] // 1_000, each["event"], each.get("detail", "")) for each in trace["events"]]


def statuses(trace: dict[str, Any]) -> list[tuple[str, int, int, int]]:
    """Name, tries, retries that remain and status of each subscriber."""
    return [
        (each["name"], each["tries"], each["retries_remaining"], each["status_code"])
        for each in trace["answers"][-1]["body"]["subscribers"]
    ]


def test_multicast_tries_each_subscriber_that_has_not_got_it() -> None:
    trace = played({"http://b/": [500, 0, 201]})
    assert events(trace)[2:] == [
        (0, "delivered", "pushed to a: 200"),
        (0, "delivered", "pushed to b: 500"),
        (10, "delivered", "pushed to b: 0"),
        (20, "delivered", "pushed to b: 201"),
        (20, "acked", ""),
    ]
    assert statuses(trace) == [("a", 1, 2, 200), ("b", 3, 0, 201)]
    shown = trace["answers"][-1]["body"]["subscribers"][1]
    assert (shown["url"], shown["last_try_at"]) == ("http://b/", "1970-01-01T00:00:20Z")
    assert trace["queues"]["q"]["messages"] == []


def test_unicast_is_content_with_one() -> None:
    trace = played({"http://a/": 503, "http://b/": [503, 200]}, "unicast")
    assert events(trace)[2:] == [
        (0, "delivered", "pushed to a: 503"),
        (0, "delivered", "pushed to b: 503"),
        (10, "delivered", "pushed to a: 503"),
        (10, "delivered", "pushed to b: 200"),
        (10, "acked", ""),
    ]
    assert statuses(trace) == [("a", 2, 1, 503), ("b", 2, 1, 200)]
    only = played({}, "unicast")
    assert statuses(only) == [("a", 1, 2, 200), ("b", 0, 2, 0)]


def test_what_cannot_be_pushed_is_told_to_the_error_queue() -> None:
    trace = played({"http://b/": 500}, error_queue="errors")
    assert events(trace)[-3:] == [
        (20, "limit-dropped", "retries is 2: b"),
        (20, "dead-lettered", "to 'errors'"),
        (20, "routed", ""),
    ]
    (error,) = trace["queues"]["errors"]["messages"]
    assert (error["message"], trace["queues"]["errors"]["settings"]["type"]) == ("error of m", "pull")
    told = json.loads(error["body"])
    assert told["subscribers"] == [{**B, "code": 500, "msg": "the endpoint answered 500"}]
    assert (told["body"], told["source_msg_id"]) == ("sup", trace["answers"][0]["body"]["ids"][0])
    lost = played({"http://a/": 0, "http://b/": 404}, "unicast", retries=0)
    assert events(lost)[-2:] == [
        (0, "limit-dropped", "retries is 0: a, b"),
        (0, "dropped", "the queue has no error queue"),
    ]


def test_a_delayed_message_is_pushed_when_its_delay_is_over() -> None:
    assert events(played({}, delay=30))[2:] == [
        (30, "delivered", "pushed to a: 200"),
        (30, "delivered", "pushed to b: 200"),
        (30, "acked", ""),
    ]


def test_error_queues_that_name_each_other_come_to_an_end_of_the_scenario() -> None:
    trace = simulate(
        {
            "queues": {name: push(error_queue=other, retries=0) for name, other in (("q", "r"), ("r", "q"))},
            "endpoints": {"http://a/": 0, "http://b/": 0},
            "steps": [{"at_s": 0, "do": "post", "queue": "q", "messages": [{"name": "m"}]}],
            "end_s": 25,
        }
    )
    assert [each["time_ms"] for each in trace["events"] if each["event"] == "limit-dropped"] == [0, 10_000, 20_000]
    assert trace["queues"]["r"]["messages"][0]["message"] == "error of error of error of m"


def test_over_http(mq: Client) -> None:
    mq.create("q", **push())
    assert endpoint(mq, url="http://b/", answers=[500, 200]) == 200
    message = mq.post("q", "sup")[0]
    path = f"/queues/q/messages/{message}/subscribers"
    before = {each["name"]: each["status_code"] for each in mq.call("GET", path).body["subscribers"]}
    mq.advance(seconds=10)
    after = {each["name"]: (each["status_code"], each["tries"]) for each in mq.call("GET", path).body["subscribers"]}
    assert (before, after) == ({"a": 200, "b": 500}, {"a": (200, 1), "b": (200, 2)})
    assert mq.call("GET", "/queues/q/messages/1/subscribers").status == 404
    mq.create("pull")
    assert mq.call("GET", "/queues/pull/messages/1/subscribers").body == {"msg": "a pull queue has no subscribers"}
    for wrong in ({"url": "u"}, {"url": "u", "answers": []}, {"url": "u", "answers": 202}, {"url": "u", "answers": 7}):
        assert endpoint(mq, **wrong) == 400


def test_an_endpoint_that_cannot_answer_so() -> None:
    with pytest.raises(ScenarioError, match=r"^endpoints\.http://a/: 202, which keeps the message reserved, is not"):
        played({"http://a/": [202]})
