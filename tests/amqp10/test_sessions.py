"""Sessions, links, outcomes and ``/management`` of AMQP 1.0: every frame as real servers of 4.0 and 4.3 sent it."""

from __future__ import annotations

import json
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit

import pika
import pytest

pytest.importorskip("proton")

import simulator
from simulator.server.amqp10.frames import Accepted, Attach, Flow, Source, Target
from tests.amqp10 import session_transcripts as transcripts
from tests.amqp10.message_transcripts import call
from tests.amqp10.wire import WireClient

KNOWN = {
    ("4.3", "attach dynamic"): "the description ends with the source as an Erlang record",
    ("4.0", "management twice"): "the description has the attach as an Erlang record",
    ("4.3", "management twice"): "the description has the attach as an Erlang record",
    ("4.0", "frame handle-in-use"): "4.0 takes a second link of the same handle",
}
"""Scripts in which the simulator differs, with how."""


def test_an_alarm_closes_the_windows_of_sessions() -> None:
    node = transcripts.new_node("4.3")
    player = transcripts.NodePlayer(node)
    for resources in ({1: "memory"}, {}):
        node.alarm.raised = resources  # type: ignore[assignment]
        node.settle()

    player.listen()

    assert [line.partition("incoming_window=uint(")[2].partition(")")[0] for line in player.seen] == ["0", "400"]


def test_until_4_2_a_link_may_keep_a_delivery_for_as_long_as_it_likes() -> None:
    player = transcripts.NodePlayer(transcripts.new_node("4.0"))
    player.declare("q")
    player.sender("/queues/q")
    player.publish(b"one")
    player.receiver("/queues/q")
    sent = len(player.seen)
    player.wait(3_600_000)

    player.settle(Accepted(), settled=False)

    assert player.seen[sent:] == ["Disposition(role=False, first=uint(0), settled=True, state=Accepted())"]


def test_a_delivery_is_split_into_frames_that_the_client_can_read() -> None:
    player = transcripts.NodePlayer(transcripts.new_node("4.3"), max_frame_size=512)
    client = player.client
    player.declare("q")
    player.sender("/queues/q")
    player.publish(b"x" * 2_000)
    player.receiver("/queues/q", credit=None)
    client.send(Flow(incoming_window=100, next_outgoing_id=1, outgoing_window=100, handle=1, link_credit=1))

    found = []
    while not found or found[-1][1].more:
        found.append(client.receive())
        assert len(client.codec.encode(found[-1][1])) + len(found[-1][2]) + 8 <= 512

    sections = client.sections(b"".join(payload for _, _, payload in found))
    assert sections[-1].value == b"x" * 2_000
    assert len(found) > 4
    assert {transfer.delivery_id for _, transfer, _ in found} == {0}


def test_a_delivery_that_was_not_sent_when_its_link_ended_has_no_id() -> None:
    player = transcripts.NodePlayer(transcripts.new_node("4.3"))
    client = player.client

    def credit(handle: int, window: int) -> None:
        numbers = {"next_incoming_id": 0, "next_outgoing_id": 1, "outgoing_window": 100}
        client.send(Flow(incoming_window=window, handle=handle, link_credit=5, **numbers))

    player.declare("q")
    player.sender("/queues/q")
    player.publish(b"one")
    player.receiver("/queues/q", handle=1, credit=None)
    credit(1, window=0)
    player.detach(1)
    player.receiver("/queues/q", handle=2, credit=None)
    credit(2, window=100)
    player.listen()
    (transfer,) = (line for line in player.seen if line.startswith("Transfer("))
    assert transfer.startswith("Transfer(handle=uint(2), delivery_id=uint(0),")


def test_the_management_api_lists_links_as_consumers_and_sessions_not_as_channels() -> None:
    with simulator.serve("4.3", management_port=0) as server:
        client = WireClient(urlsplit(server.amqp_url).port or 0)
        client.open()
        client.begin()
        with pika.BlockingConnection(pika.URLParameters(server.amqp_url)) as connection:
            connection.channel().queue_declare("q", durable=True)
            client.send(Attach(name="in", handle=1, role=True, source=Source(address="/queues/q"), target=Target()))
            client.until(Attach)
            shown = {
                what: call(str(server.management_url), "GET", what) for what in ("consumers", "channels", "connections")
            }
        client.close()

    assert [consumer["consumer_tag"] for consumer in shown["consumers"]] == ["1"]
    assert [channel["number"] for channel in shown["channels"]] == [1]  # that of AMQP 0-9-1
    containers = [(each.get("container_id"), each["channels"]) for each in shown["connections"]]
    assert ("client", 1) in containers
    assert shown["consumers"][0]["channel_details"] == {}


def test_the_management_api_shows_sessions_and_links_as_a_real_server() -> None:
    with simulator.serve("4.3", management_port=0) as server:
        management = str(server.management_url)
        port = urlsplit(server.amqp_url).port or 0
        player = transcripts.Player(WireClient(port), "/", port)
        found = transcripts.shown_sessions(player, lambda method, path: call(management, method, path))
        with pika.BlockingConnection(pika.URLParameters(server.amqp_url)):
            (other,) = (each for each in call(management, "GET", "connections") if "container_id" not in each)
            with pytest.raises(HTTPError) as refused:
                call(management, "GET", f"connections/{quote(other['name'])}/sessions")
        player.client.close()

    assert found == json.loads((transcripts.RECORDED / "links-4.3.json").read_text("utf-8"))
    reason = {"error": "bad_request", "reason": "connection does not use AMQP 1.0"}
    assert (refused.value.code, json.loads(refused.value.read())) == (400, reason)


@pytest.mark.parametrize("release", ["4.0", "4.3"])
def test_the_management_api_shows_connections_as_a_real_server(release: str) -> None:
    with simulator.serve(release, management_port=0) as server:
        client = WireClient(urlsplit(server.amqp_url).port or 0)
        client.open(max_frame_size=32_768)
        client.begin()
        management = str(server.management_url)
        (shown,) = call(management, "GET", "connections")
        totals = call(management, "GET", "overview")["object_totals"]
        client.close()

    assert (shown["frame_max"], shown["timeout"], "user_who_performed_action" in shown) == (32_768, 60, False)
    of_release = {"channels": 1, "container_id": "client", "send_pend": 0, "state": "running"}
    assert {name: shown[name] for name in of_release if name in shown} == ({} if release == "4.0" else of_release)
    assert (totals["connections"], totals["channels"]) == (1, 0)


@pytest.mark.parametrize(("release", "no_channel", "stream_is_active"), [("4.0", [], False), ("4.3", {}, True)])
def test_the_management_api_shows_links_among_consumers_as_a_real_server(
    release: str, no_channel: Any, stream_is_active: bool
) -> None:
    with simulator.serve(release, management_port=0) as server:
        port = urlsplit(server.amqp_url).port or 0
        player = transcripts.Player(WireClient(port), "/", port)
        for handle, kind in enumerate(("classic", "stream")):
            player.declare(kind, kind)
            player.receiver(f"/queues/{kind}", handle)
        shown = call(str(server.management_url), "GET", "consumers")
        (of_queue,) = call(str(server.management_url), "GET", "queues/%2F/classic")["consumer_details"]
        player.client.close()

    assert {each["queue"]["name"]: each["active"] for each in shown} == {"classic": True, "stream": stream_is_active}
    assert [each["channel_details"] for each in shown] == [no_channel] * 2
    assert of_queue["channel_details"] == {}


def test_a_connection_without_tls_has_empty_texts_where_it_is_asked_for_by_name() -> None:
    with simulator.serve("4.3", management_port=0) as server:
        client = WireClient(urlsplit(server.amqp_url).port or 0)
        client.open()
        management = str(server.management_url)
        (listed,) = call(management, "GET", "connections")
        found = call(management, "GET", f"connections/{quote(listed['name'])}")
        client.close()

    assert {found[name] for name, value in listed.items() if value is None} == {""}
    assert (listed["ssl_protocol"], found["ssl_protocol"]) == (None, "")


@pytest.mark.parametrize(("release", "fields"), [("4.1", set()), ("4.2", {"filter"})])
def test_the_management_api_shows_fewer_fields_of_links_in_earlier_releases(release: str, fields: set[str]) -> None:
    with simulator.serve(release, management_port=0) as server:
        port = urlsplit(server.amqp_url).port or 0
        player = transcripts.Player(WireClient(port), "/", port)
        found = transcripts.shown_sessions(player, lambda method, path: call(str(server.management_url), method, path))
        player.client.close()

    (link, *_) = found[0]["outgoing_links"]
    assert {"filter", "consumer_timeout"} & link.keys() == fields


@pytest.mark.parametrize("release", transcripts.RELEASES)
@pytest.mark.parametrize("name", sorted(transcripts.SCRIPTS))
def test_the_frames_are_those_of_a_real_server(release: str, name: str, request: pytest.FixtureRequest) -> None:
    known = KNOWN.get((release, name))
    if known is not None:
        request.applymarker(pytest.mark.xfail(strict=True, reason=known))
    assert transcripts.simulated(transcripts.SCRIPTS[name], release) == transcripts.recorded(release)[name]
