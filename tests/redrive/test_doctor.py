"""``dlx doctor`` on real servers, for an administrator and for a user with the tag monitoring."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.redrive.dead_letters import WORK, Place, about_dead, answer, declare, let_die, seen_by, until

USERS = ("guest", "monitoring")


@pytest.fixture(params=USERS)
def seen(request: pytest.FixtureRequest, live_place: Place) -> Iterator[Place]:
    """The virtual host as a user sees it who may read its queues."""
    if request.param == "guest":
        yield live_place
        return
    found = seen_by(live_place, request.param, configure="^dead$", write="")
    yield found
    live_place.api("DELETE", f"users/{urlsplit(found.amqp_url).username}")


@pytest.mark.live
def test_a_real_server_is_diagnosed_and_keeps_its_messages(
    live_place: Place, seen: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    declare(live_place, "quorum")
    let_die(live_place, 4)
    with live_place.channel() as channel:
        channel.basic_consume(WORK, lambda *_: None, consumer_tag="worker")
        until(lambda: live_place.api("GET", f"consumers/{live_place.server.vhost}"))  # which is some seconds old
        found = answer(capsys, about_dead("doctor", seen, "--vhost", seen.server.vhost))
    assert (found["read"], found["length"]["ready"], sorted(found["sources"])) == (4, 4, ["timed", "work"])
    assert [(each["queue"], each["tag"]) for each in found["consumers"]] == [(WORK, "worker")]
    assert [(each["messages"], each["fate"]) for each in found["would"]] == [(2, "dies again at once"), (2, "arrives")]
    assert "secret" not in found["next_command"]
    assert "first-death=work rejected" in shlex.split(found["next_command"])
    assert [properties.message_id for _, properties, _ in live_place.waiting()] == ["m0", "m1", "m2", "m3"]
