"""python-zaqarclient, OpenStack's client of Zaqar: messages are claimed, released and dead-lettered.

`tests/clients/run python-zaqarclient` runs it with a client of its own and a Zaqar whose time stands still.
"""

from __future__ import annotations

import json
import os
import urllib.request
import uuid
from typing import Any

import pytest

pytestmark = pytest.mark.clients

CLAIM_S = 60


@pytest.fixture
def project() -> str:
    """A project of the test's own."""
    return uuid.uuid4().hex


@pytest.fixture
def client(project: str) -> Any:
    """A client of it."""
    if "DLX_CLIENTS_URL" not in os.environ:
        pytest.fail("no server: run `tests/clients/run python-zaqarclient`, which has the client and starts one")
    from zaqarclient.queues import client

    conf = {"auth_opts": {"backend": "noauth", "options": {"os_project_id": project}}}
    return client.Client(os.environ["DLX_CLIENTS_URL"].rstrip("/"), version=2, conf=conf)


def ask(method: str, path: str, body: Any, project: str = "") -> None:
    """Send a request without the client, for what it cannot do."""
    headers = {"X-PROJECT-ID": project, "Client-ID": str(uuid.uuid4()), "Content-Type": "application/json"}
    url = os.environ["DLX_CLIENTS_URL"].rstrip("/") + path
    urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers, method=method)).read()


def advance(seconds: int) -> None:
    """Move the server's clock."""
    ask("POST", "/clock/advance", {"seconds": seconds})


def bodies(messages: Any) -> list[Any]:
    return [message.body for message in messages]


def test_a_message_is_posted_claimed_and_deleted(client: Any) -> None:
    queue = client.queue("jobs")
    queue.post([{"body": {"number": 1}, "ttl": 600}, {"body": "two", "ttl": 600}])
    claimed = list(queue.claim(ttl=CLAIM_S, grace=CLAIM_S))
    assert bodies(claimed) == [{"number": 1}, "two"]
    claimed[0].delete()
    assert queue.stats["messages"]["total"] == 1


def test_what_is_claimed_too_often_is_in_the_dead_letter_queue(client: Any, project: str) -> None:
    ask("PUT", "/v2/queues/jobs", {"_max_claim_count": 1, "_dead_letter_queue": "dead"}, project)
    queue = client.queue("jobs")
    queue.post([{"body": "poison", "ttl": 6000}])
    assert bodies(queue.claim(ttl=CLAIM_S, grace=CLAIM_S)) == ["poison"]
    advance(CLAIM_S + 1)
    assert bodies(queue.claim(ttl=CLAIM_S, grace=CLAIM_S)) == []
    advance(CLAIM_S + 1)
    assert bodies(client.queue("dead").claim(ttl=CLAIM_S, grace=CLAIM_S)) == ["poison"]


def test_a_claim_is_renewed_and_released(client: Any) -> None:
    queue = client.queue("jobs")
    queue.post([{"body": "again", "ttl": 6000}])
    claim = queue.claim(ttl=CLAIM_S, grace=CLAIM_S)
    assert bodies(claim) == ["again"]
    claim.update(ttl=2 * CLAIM_S, grace=CLAIM_S)
    advance(CLAIM_S + 1)
    assert bodies(queue.claim(ttl=CLAIM_S, grace=CLAIM_S)) == []
    claim.delete()
    assert bodies(queue.claim(ttl=CLAIM_S, grace=CLAIM_S)) == ["again"]


def test_messages_are_popped_and_the_rest_is_purged(client: Any) -> None:
    queue = client.queue("jobs")
    queue.post([{"body": number, "ttl": 600} for number in range(3)])
    assert bodies(queue.messages(echo=True, limit=5)) == [0, 1, 2]
    assert bodies(queue.pop(count=2)) == [0, 1]
    queue.purge()
    assert queue.stats["messages"]["total"] == 0


def test_metadata_of_a_queue_that_exists_stay_as_they_are(client: Any) -> None:
    queue = client.queue("jobs", force_create=True)
    queue.metadata({"_max_claim_count": 2, "_dead_letter_queue": "dead"})
    assert queue.metadata(force_reload=True)["_max_claim_count"] is None


def test_queues_are_listed_and_deleted(client: Any) -> None:
    for name in ("jobs", "dead"):
        client.queue(name, force_create=True)
    assert [queue.name for queue in client.queues()[0]] == ["dead", "jobs"]
    client.queue("jobs").delete()
    assert [queue.name for queue in client.queues()[0]] == ["dead"]
