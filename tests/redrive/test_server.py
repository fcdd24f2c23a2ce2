"""What a running server says of a queue, also where it says it badly."""

from __future__ import annotations

import pytest

from simulator.capture.server_definitions import ServerDefinitions
from simulator.redrive import server as asking
from simulator.redrive.server import queue_on, server_at
from tests.redrive.dead_letters import Place, simulated

VHOST = "/läden"


def test_definitions_that_are_cut_off_are_taken_from_the_whole_export(monkeypatch: pytest.MonkeyPatch) -> None:
    """As 4.3 cuts off the export of a virtual host whose name is not ASCII."""
    whole = asking.definitions_on

    def cut(url: str, vhost: str | None = None) -> ServerDefinitions:
        answer = whole(url, vhost)
        return answer if vhost is None else ServerDefinitions(answer.data[: len(answer.data) // 2])

    monkeypatch.setattr(asking, "definitions_on", cut)
    with simulated("4.3") as simulator:
        place = Place(server_at(simulator.amqp_url, simulator.server.management_url, VHOST), "4.3")
        place.api("PUT", "vhosts/%2Fl%C3%A4den", {})
        with place.channel() as channel:
            channel.queue_declare("dead", durable=True, arguments={"x-message-ttl": 5})
        with simulator.channel() as channel:
            channel.queue_declare("elsewhere", durable=True)
        found = queue_on(place.server, "dead")
        assert (found.settings.message_ttl_ms, set(found.flow.topology.queues)) == (5, {"dead"})


@pytest.mark.parametrize(
    ("management_url", "used"),
    [
        ("http://other:1/api", "http://u:p%40@other:1/api"),
        ("http://me:own@other:1/", "http://me:own@other:1/"),
        (None, "http://u:p%40@host:15672"),
    ],
)
def test_a_management_url_without_a_user_gets_that_of_the_source(management_url: str | None, used: str) -> None:
    assert server_at("amqp://u:p%40@host/", management_url).management_url == used
    assert server_at("amqp://localhost/", "http://other:1").management_url == "http://guest:guest@other:1"
