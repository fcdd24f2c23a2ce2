"""The HTTP API: paths, statuses and bodies."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.clock import VirtualClock
from simulator.systems.ironmq.http import ROUTES, app
from simulator.systems.ironmq.operations import Operation
from tests.systems.ironmq.client import AUTHORIZED, Answer, Client, ask

NAMES = ("queue", "messages", "body", "ids", "id", "subscribers", "n", "reservation_id", "dead_letter", "queue_name")
PUSH = {"subscribers": [{"name": "s", "url": "http://localhost/", "headers": {"X": "y"}}]}


def test_a_queue_is_shown_as_the_reference_shows_it(mq: Client) -> None:
    settings = {"project_id": "p", "name": "q", "type": "pull", "message_timeout": 60, "message_expiration": 604_800}
    answer = mq.call("PUT", "/queues/q", {})
    assert answer == Answer(200, {"queue": settings})
    assert mq.call("GET", "/queues/q") == Answer(200, {"queue": {**settings, "size": 0, "total_messages": 0}})
    assert mq.call("PATCH", "/queues/q", {"queue": {"message_timeout": 90}}) == Answer(
        200, {"queue": {**settings, "message_timeout": 90, "size": 0, "total_messages": 0}}
    )


def test_a_push_queue_shows_how_it_pushes(mq: Client) -> None:
    push = {**PUSH, "retries": 3, "retries_delay": 60, "error_queue": ""}
    assert mq.create("q", type="unicast", push=PUSH)["push"] == push
    assert mq.call("POST", "/queues/q/subscribers", {"subscribers": [{"name": "t", "url": "u"}]}) == Answer(
        200, {"msg": "Updated"}
    )
    assert [each["name"] for each in mq.info("q")["push"]["subscribers"]] == ["s", "t"]
    mq.call("DELETE", "/queues/q/subscribers", {"subscribers": [{"name": "s"}]})
    assert [each["name"] for each in mq.info("q")["push"]["subscribers"]] == ["t"]
    mq.call("PUT", "/queues/q/subscribers", {"subscribers": [{"name": "only", "url": "u"}]})
    assert mq.info("q")["push"]["subscribers"] == [{"name": "only", "url": "u"}]


def test_queues_are_listed_in_pages(mq: Client) -> None:
    for number in range(40):
        mq.create(f"q{number:02}")
    mq.create("cats")

    def names(query: str) -> list[str]:
        return [queue["name"] for queue in mq.call("GET", f"/queues{query}").body["queues"]]

    assert len(names("")) == 30
    assert names("")[:2] == ["cats", "q00"]
    assert names("?per_page=2&previous=q00") == ["q01", "q02"]
    assert names("?previous=q37x") == ["q38", "q39"]
    assert names("?prefix=ca") == ["cats"]
    for per_page in ("many", "0", "101", "9" * 5000):
        assert mq.call("GET", f"/queues?per_page={per_page}") == Answer(
            400, {"msg": "per_page must be a whole number from 1 to 100"}
        )


def test_the_life_of_a_message_is_answered_as_the_reference_says(mq: Client) -> None:
    posted = mq.call("POST", "/queues/q/messages", {"messages": [{"body": "a"}, {"body": "b"}]})
    assert posted.status == 201
    assert posted.body["msg"] == "Messages put on queue."
    a, b = posted.body["ids"]
    assert re.fullmatch(r"\d{19}", a)
    assert mq.call("GET", "/queues/q/messages") == Answer(
        200, {"messages": [{"id": a, "body": "a", "reserved_count": 0}]}
    )
    reserved = mq.call("POST", "/queues/q/reservations")
    (message,) = reserved.body["messages"]
    assert reserved.status == 200
    assert message == {"id": a, "body": "a", "reserved_count": 1, "reservation_id": message["reservation_id"]}
    assert re.fullmatch("[0-9a-f]{32}", message["reservation_id"])
    assert mq.call("GET", f"/queues/q/messages/{a}") == Answer(
        200, {"message": {"id": a, "body": "a", "reserved_count": 1}}
    )
    touched = mq.call("POST", f"/queues/q/messages/{a}/touch", {"reservation_id": message["reservation_id"]})
    reservation_id = touched.body["reservation_id"]
    assert touched == Answer(200, {"reservation_id": reservation_id, "msg": "Touched"})
    released = mq.call("POST", f"/queues/q/messages/{a}/release", {"reservation_id": reservation_id})
    assert released == Answer(200, {"msg": "Released"})
    assert mq.call("DELETE", f"/queues/q/messages/{a}") == Answer(200, {"msg": "Deleted"})
    assert mq.call("DELETE", "/queues/q/messages", {}) == Answer(200, {"msg": "Cleared"})
    assert mq.call("GET", f"/queues/q/messages/{b}") == Answer(404, {"msg": "Message not found"})
    assert mq.call("POST", "/queues/q/reservations", {"n": 5}) == Answer(200, {"messages": []})


UNKNOWN = [
    ("GET", ""),
    ("PATCH", ""),
    ("DELETE", ""),
    ("GET", "/messages"),
    ("DELETE", "/messages"),
    ("POST", "/reservations"),
    ("GET", "/messages/1"),
    ("DELETE", "/messages/1"),
]


@pytest.mark.parametrize(("method", "path"), UNKNOWN)
def test_an_unknown_queue_is_404(mq: Client, method: str, path: str) -> None:
    assert mq.call(method, f"/queues/q{path}", {}) == Answer(404, {"msg": "Queue not found"})


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "", None),
        ("DELETE", "", None),
        ("POST", "/touch", {"reservation_id": "r"}),
        ("POST", "/release", {"reservation_id": "r"}),
    ],
)
def test_an_unknown_message_is_404(mq: Client, method: str, path: str, body: Any) -> None:
    mq.create("q")
    assert mq.call(method, f"/queues/q/messages/1{path}", body) == Answer(404, {"msg": "Message not found"})


def test_a_reserved_message_is_deleted_by_its_holder_alone(mq: Client) -> None:
    (message_id,) = mq.post("q", "a")
    (message,) = mq.reserve("q")
    path = f"/queues/q/messages/{message_id}"
    assert mq.call("DELETE", path) == Answer(403, {"msg": "Message is reserved: reservation_id is required"})
    assert mq.call("DELETE", path, {"reservation_id": "guessed"}) == Answer(403, {"msg": "Reservation timed out"})
    assert mq.info("q")["size"] == 1
    mq.delete("q", message)
    assert mq.info("q")["size"] == 0


def test_several_messages_are_deleted_together_or_not_at_all(mq: Client) -> None:
    a, b, c = mq.post("q", "a", "b", "c")
    (message,) = mq.reserve("q")
    held = {"id": a, "reservation_id": message["reservation_id"]}
    for wrong, status in (({"id": a}, 403), ({"id": "1"}, 404)):
        assert mq.call("DELETE", "/queues/q/messages", {"ids": [{"id": b}, wrong]}).status == status
        assert mq.info("q")["size"] == 3
    assert mq.call("DELETE", "/queues/q/messages", {"ids": [{"id": b}, held, {"id": b}]}) == Answer(
        200, {"msg": "Deleted"}
    )
    assert [each["id"] for each in mq.peek("q")] == [c]
    assert mq.call("DELETE", "/queues/q/messages", {"id": c}).status == 400  # and not all of them
    assert mq.info("q")["size"] == 1


def test_an_id_may_be_a_number(mq: Client) -> None:
    """As in the reference's own example of a deletion."""
    (message_id,) = mq.post("q", "a")
    deletion = {"ids": [{"id": int(message_id)}]}
    assert mq.call("DELETE", "/queues/q/messages", deletion) == Answer(200, {"msg": "Deleted"})
    assert mq.call("DELETE", "/queues/q/messages", {"ids": [{"id": True}]}).status == 400


def test_a_webhook_posts_the_body_as_it_is_and_creates_the_queue(mq: Client) -> None:
    answer = mq.call("POST", "/queues/hooks/webhook?oauth=token", b'{"any": "thing"}')
    assert (answer.status, answer.body["msg"]) == (201, "Messages put on queue.")
    assert mq.peek("hooks")[0]["body"] == '{"any": "thing"}'


@pytest.mark.parametrize(
    ("body", "msg"), [(b"{", "the body must be JSON"), (b"[1]", "the body must be an object"), (b"\xff", "JSON")]
)
def test_a_body_that_is_no_json_object_is_400(mq: Client, body: bytes, msg: str) -> None:
    answer = mq.call("PUT", "/queues/q", body)
    assert answer.status == 400
    assert msg in answer.body["msg"]


def test_a_call_that_there_is_not_is_404_or_405(mq: Client) -> None:
    assert mq.call("GET", "/nothing") == Answer(404, {"msg": "Not Found"})
    assert mq.call("PUT", "/queues/q/reservations") == Answer(405, {"msg": "Method Not Allowed"})


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"authorization": "OAuth right"}, 200),
        ({"authorization": "oauth right"}, 200),
        ({"authorization": "OAuth wrong"}, 401),
        ({"authorization": "Basic right"}, 401),
        ({}, 401),
    ],
)
def test_a_wrong_token_is_401(headers: dict[str, str], status: int) -> None:
    answer = asyncio.run(ask(app(token="right"), "GET", "/3/projects/p/queues", headers=headers))
    assert answer.status == status
    assert answer.body == ({"queues": []} if status == 200 else {"msg": "Unauthorized"})


def test_any_token_will_do_where_none_is_asked_for_but_there_must_be_one() -> None:
    assert asyncio.run(ask(app(), "GET", "/3/projects/p/queues", headers=AUTHORIZED)).status == 200
    assert asyncio.run(ask(app(), "GET", "/3/projects/p/queues", headers={})).status == 401


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(route=st.sampled_from(ROUTES), body=anything | st.binary(), known=st.booleans())
def test_whatever_is_sent_is_answered_or_refused(route: tuple[str, str, Operation], body: object, known: bool) -> None:
    mq = Client()
    (message_id,) = mq.post("q", "a")
    path = route[1].replace("{queue}", "q" if known else "other").replace("{message}", message_id)
    answer = mq.call(route[0], path, body)
    assert answer.status in (200, 201, 400, 403, 404)
    assert answer.status in (200, 201) or list(answer.body) == ["msg"]


# Time


def test_a_virtual_clock_is_moved_over_http() -> None:
    application = app(clock=VirtualClock(start_us=0))

    async def run() -> None:
        await ask(application, "POST", "/3/projects/p/queues/q/messages", {"messages": [{"body": "a", "delay": 30}]})
        assert (await ask(application, "GET", "/clock")).body == {
            "now_us": 0,
            "next_due_us": 30_000_000,
            "virtual": True,
        }
        moved = await ask(application, "POST", "/clock/advance", {"minutes": 1, "seconds": 1.5})
        assert moved.body["now_us"] == 61_500_000
        assert (await ask(application, "GET", "/3/projects/p/queues/q/messages")).body["messages"] != []

    asyncio.run(run())


@pytest.mark.parametrize("span", [{"seconds": -1}, {"years": 1}, {"seconds": "1"}, {"seconds": 1e300}, {"days": True}])
def test_a_wrong_span_of_time_is_400(span: dict[str, Any]) -> None:
    answer = asyncio.run(ask(app(clock=VirtualClock(start_us=0)), "POST", "/clock/advance", span))
    assert answer.status == 400
    assert "seconds" in answer.body["msg"]


def test_wall_time_cannot_be_moved() -> None:
    answer = asyncio.run(ask(app(), "POST", "/clock/advance", {"seconds": 1}))
    assert answer == Answer(409, {"msg": "wall time cannot be moved: serve with a virtual clock"})


def test_a_queue_that_there_is_not_cannot_go_out_of_reach() -> None:
    assert asyncio.run(ask(app(), "PUT", "/out_of_reach/p/q")) == Answer(404, {"msg": "Queue not found"})
