"""What the management API tells of queues that clients use: what servers tell, as far as it is known here."""

from __future__ import annotations

from typing import Any

import pika
import pytest

from tests.live.servers import LiveServer
from tests.redrive.dead_letters import Place, simulated, until, vhost_of, vhost_on

RELEASES = ("3.8", "3.10", "4.0", "4.3")
OF_PRIORITIES = {
    "4.0": {"messages_ready_high": 3, "messages_ready_normal": 3},
    "4.3": {"messages_by_priority": {"0": 1, "4": 2, "5": 1, "9": 1, "31": 1}, "messages_active_priorities": 5},
}


@pytest.mark.parametrize("release", RELEASES)
def test_quorum_queues_tell_their_publishers_and_what_came_back(release: str) -> None:
    with simulated(release) as place:
        check(place)


@pytest.mark.live
def test_real_quorum_queues_do_so(live_server: LiveServer) -> None:
    with vhost_on(live_server, "dlx-fields") as place:
        check(place)


def check(place: Place) -> None:
    """Publish by two channels, give back what a consumer has, and leave one consumer of two."""
    with place.channel() as channel, place.channel() as other, place.channel() as consumers:
        channel.queue_declare("q", durable=True, arguments={"x-queue-type": "quorum"})
        for number, priority in enumerate((None, 0, 4, 5, 9, 40)):
            each = (channel, other)[number % 2]
            each.basic_publish("", "q", b"x", pika.BasicProperties(priority=priority))
        if place.release not in OF_PRIORITIES:
            until(lambda: shown(place, "messages_ready") == {"messages_ready": 6})
            assert shown(place, "publishers", "messages_ready_returned") == {}
            return
        wanted = {"publishers": 2, "messages_ready_returned": 0, **OF_PRIORITIES[place.release]}
        until(lambda: shown(place, *wanted) == wanted)
        consumers.basic_qos(prefetch_count=3)
        for tag in ("zz", "aa"):
            consumers.basic_consume("q", lambda *_: None, consumer_tag=tag)
        until(lambda: shown(place, "single_active_consumer_tag") == {"single_active_consumer_tag": "zz"})
        consumers.connection.close()
        other.connection.close()
        wanted = {"publishers": 1, "messages_ready_returned": 6, "messages_ready": 6}
        until(lambda: shown(place, *wanted) == wanted)


@pytest.mark.parametrize("release", RELEASES)
def test_http_listeners_are_shown_as_by_servers(release: str) -> None:
    with simulated(release) as place:
        check_listeners(place)


@pytest.mark.live
def test_real_http_listeners_are_shown_so(live_server: LiveServer) -> None:
    with vhost_on(live_server, "dlx-fields") as place:
        check_listeners(place)


def check_listeners(place: Place) -> None:
    """The listener and the context of the management API."""
    found = place.api("GET", "overview")
    listener = next(each for each in found["listeners"] if each["protocol"] == "http")
    context = next(each for each in found["contexts"] if each["description"] == "RabbitMQ Management")
    own = {"cowboy_opts": {"sendfile": False}, "ip": "127.0.0.1", "port": listener["port"]}
    assert listener["socket_opts"] == own
    assert (context["cowboy_opts"], context["port"]) == ("[{sendfile,false}]", str(listener["port"]))


@pytest.mark.parametrize("release", RELEASES)
def test_lists_tell_since_when_a_classic_queue_is_unused(release: str) -> None:
    with simulated(release) as place:
        check_lists(place)


@pytest.mark.live
def test_lists_of_real_servers_do_so(live_server: LiveServer) -> None:
    with vhost_on(live_server, "dlx-fields") as place:
        check_lists(place)


def check_lists(place: Place) -> None:
    """From 3.13 on lists are brief, unless columns are named."""
    with place.channel() as channel:
        channel.queue_declare("q", durable=True)
    path = f"queues/{vhost_of(place)}"
    until(lambda: "idle_since" in place.api("GET", f"{path}/q"))
    listed = ["idle_since" in place.api("GET", f"{path}{query}")[0] for query in ("", "?columns=name,idle_since")]
    assert listed == [place.release in ("3.8", "3.10"), True]


def shown(place: Place, *fields: str) -> dict[str, Any]:
    """Return those fields of the queue that it has."""
    found = place.api("GET", f"queues/{vhost_of(place)}/q")
    return {name: found[name] for name in fields if name in found}
