"""iron-mq, the authors' Python client of IronMQ: messages are reserved, released and dead-lettered.

`tests/clients/run iron-mq` runs it with a client of its own and an IronMQ whose time stands still.
"""

from __future__ import annotations

import json
import os
import urllib.request
import uuid
from typing import Any
from urllib.parse import urlsplit

import pytest

pytestmark = pytest.mark.clients

TIMEOUT_S = 60
DEAD_LETTER = {"message_timeout": TIMEOUT_S, "dead_letter": {"queue_name": "dead", "max_reservations": 1}}


@pytest.fixture
def client() -> Any:
    """A client with a project of its own."""
    if "DLX_CLIENTS_URL" not in os.environ:
        pytest.fail("no server: run `tests/clients/run iron-mq`, which has the client and starts one")
    from iron_mq import IronMQ

    at = urlsplit(os.environ["DLX_CLIENTS_URL"])
    where = {"host": at.hostname, "port": at.port, "protocol": "http", "api_version": "3"}
    return IronMQ(project_id=uuid.uuid4().hex, token="any", **where)


def advance(seconds: int) -> None:
    """Move the server's clock."""
    url = os.environ["DLX_CLIENTS_URL"].rstrip("/") + "/clock/advance"
    urllib.request.urlopen(urllib.request.Request(url, json.dumps({"seconds": seconds}).encode())).read()


def bodies(answer: Any) -> list[Any]:
    return [message["body"] for message in answer["messages"]]


def test_a_message_is_posted_reserved_and_deleted(client: Any) -> None:
    queue = client.queue("jobs")
    queue.post("one", {"body": "two"})
    (first, second) = queue.reserve(max=2)["messages"]
    assert (first["body"], second["body"], first["reserved_count"]) == ("one", "two", 1)
    queue.delete(first["id"], first["reservation_id"])
    assert queue.size() == 1


def test_what_is_reserved_too_often_is_in_the_dead_letter_queue(client: Any) -> None:
    client.create_queue("jobs", DEAD_LETTER)
    queue = client.queue("jobs")
    queue.post("poison")
    assert bodies(queue.reserve()) == ["poison"]
    advance(TIMEOUT_S + 1)
    assert bodies(queue.reserve()) == []
    assert bodies(client.queue("dead").peek()) == ["poison"]


def test_a_message_is_released_with_a_delay_and_touched(client: Any) -> None:
    queue = client.queue("jobs")
    queue.post("again")
    (held,) = queue.reserve()["messages"]
    touched = queue.touch(held["id"], held["reservation_id"], timeout=2 * TIMEOUT_S)
    queue.release(held["id"], touched["reservation_id"], delay=10)
    assert bodies(queue.reserve()) == []
    advance(11)
    assert bodies(queue.reserve()) == ["again"]


def test_settings_are_shown_and_changed(client: Any) -> None:
    client.create_queue("jobs", DEAD_LETTER)
    queue = client.queue("jobs")
    assert queue.info()["dead_letter"] == DEAD_LETTER["dead_letter"]
    queue.update({"message_timeout": 90})
    assert queue.info()["message_timeout"] == 90


def test_queues_are_cleared_and_deleted(client: Any) -> None:
    queue = client.queue("jobs")
    queue.post("a", "b")
    queue.clear()
    assert queue.size() == 0
    queue.delete_queue()
    with pytest.raises(Exception, match="404"):
        queue.info()
