"""``dlx doctor`` on real servers, for an administrator and for a user with the tag monitoring."""

from __future__ import annotations

import json
import shlex
import uuid
from collections.abc import Iterator

import pytest

from simulator.cli.main import main
from tests.redrive.dead_letters import DEAD, WORK, Place, declare, let_die, until

USERS = ("guest", "monitoring")


@pytest.fixture(params=USERS)
def login(request: pytest.FixtureRequest, live_place: Place) -> Iterator[str]:
    """User and password of somebody who may read the queues of the virtual host."""
    if request.param == "guest":
        yield "guest:guest"
        return
    name = f"dlx-{uuid.uuid4().hex[:8]}"
    live_place.api("PUT", f"users/{name}", {"password": "secret", "tags": request.param})
    try:
        may = {"configure": "^dead$", "write": "", "read": ".*"}
        live_place.api("PUT", f"permissions/{live_place.server.vhost}/{name}", may)
        yield f"{name}:secret"
    finally:
        live_place.api("DELETE", f"users/{name}")


@pytest.mark.live
def test_a_real_server_is_diagnosed_and_keeps_its_messages(
    live_place: Place, login: str, capsys: pytest.CaptureFixture[str]
) -> None:
    declare(live_place, "quorum")
    let_die(live_place, 4)
    url, management_url = (
        each.replace("guest:guest", login) for each in (live_place.amqp_url, live_place.server.management_url)
    )
    with live_place.channel() as channel:
        channel.basic_consume(WORK, lambda *_: None, consumer_tag="worker")
        until(lambda: live_place.api("GET", f"consumers/{live_place.server.vhost}"))  # which is some seconds old
        asked = ["doctor", url, DEAD, "--vhost", live_place.server.vhost, "--management-url", management_url]
        assert main([*asked, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["read"], found["length"]["ready"], sorted(found["sources"])) == (4, 4, ["timed", "work"])
    assert [(each["queue"], each["tag"]) for each in found["consumers"]] == [(WORK, "worker")]
    assert [(each["messages"], each["fate"]) for each in found["would"]] == [(2, "dies again at once"), (2, "arrives")]
    assert "secret" not in found["next_command"]
    assert "first-death=work rejected" in shlex.split(found["next_command"])
    assert [properties.message_id for _, properties, _ in live_place.waiting()] == ["m0", "m1", "m2", "m3"]
