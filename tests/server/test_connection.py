"""The protocol of a connection, byte for byte, against the broker and without sockets."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from dlx.releases import RELEASES, release
from simulator.server.amqp.connection import DONE, RESET, RUNNING, SILENT, is_loopback
from simulator.server.amqp.frames import BODY, CONTENT_HEADER, HEADER, frame
from simulator.server.amqp.tables import encode_table
from tests.server.peer import ALL_CAPABILITIES, HELLO, Peer, closed, message, method, names, read

# Hello


@pytest.mark.parametrize("name", RELEASES)
def test_each_release_introduces_itself(name: str) -> None:
    ((_, method_name, fields),) = Peer(name).says(HELLO)
    assert method_name == "connection.start"
    assert fields["server_properties"]["version"] == release(name).version
    assert fields["server_properties"]["product"] == "RabbitMQ"
    assert fields["server_properties"]["cluster_name"] == "rabbit@test"
    assert fields["mechanisms"].decode().split() == list(release(name).sasl_mechanisms)


@pytest.mark.parametrize(
    ("name", "header", "offered"),
    [
        ("4.3", b"GET / HT", (3, 1, 0, 0)),
        ("3.8", b"GET / HT", (0, 0, 9, 1)),
        ("4.3", b"AMQP\0\0\x09\x02", (0, 0, 9, 1)),
        ("4.3", b"AMQP\x03\x01\0\0", (3, 1, 0, 0)),
    ],
)
def test_another_protocol_is_offered_ours(name: str, header: bytes, offered: tuple[int, ...]) -> None:
    peer = Peer(name)
    assert peer.says(header) == [(0, "protocol header", {"version": offered})]
    assert peer.connection.ending == RESET


def login(mechanism: str, response: bytes, name: str = "4.3", **capabilities: bool) -> tuple[Peer, list[Any]]:
    peer = Peer(name)
    peer.says(HELLO)
    properties = {"capabilities": capabilities}
    fields = {"mechanism": mechanism, "response": response, "client_properties": properties}
    return peer, peer.says(method(0, "connection.start-ok", **fields))


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        ("PLAIN", b"\0guest\0guest"),
        ("AMQPLAIN", encode_table({"LOGIN": "guest", "PASSWORD": "guest"})[4:]),
        ("ANONYMOUS", b""),
    ],
)
def test_who_logs_in_is_offered_rabbitmqs_terms(mechanism: str, response: bytes) -> None:
    peer, answer = login(mechanism, response)
    assert answer == [(0, "connection.tune", {"channel_max": 2047, "frame_max": 131072, "heartbeat": 60})]
    assert peer.connection.user == "guest"


@pytest.mark.parametrize(("name", "taken"), [("3.8", False), ("3.13", False), ("4.0", True), ("4.3", True)])
def test_anonymous_is_a_mechanism_from_4_0(name: str, taken: bool) -> None:
    peer, answer = login("ANONYMOUS", b"", name)
    assert names(answer) == (["connection.tune"] if taken else [])
    assert (peer.connection.user, peer.connection.ending) == (("guest", "") if taken else ("", SILENT))


def test_a_wrong_password_is_told_to_those_who_want_to_know() -> None:
    _, answer = login("PLAIN", b"\0guest\0wrong", authentication_failure_close=True)
    text = "Login was refused using authentication mechanism PLAIN. For details see the broker logfile."
    assert closed(answer) == ("connection.close", 403, f"ACCESS_REFUSED - {text}")
    peer, answer = login("PLAIN", b"\0guest\0wrong")
    assert answer == []
    assert peer.connection.ending == SILENT


@pytest.mark.parametrize(("mechanism", "response"), [("PLAIN", b"guest"), ("EXTERNAL", b""), ("AMQPLAIN", b"\xff")])
def test_a_login_that_cannot_be_read_gets_silence(mechanism: str, response: bytes) -> None:
    peer, answer = login(mechanism, response, authentication_failure_close=True)
    assert answer == []
    assert peer.connection.ending == SILENT


@pytest.mark.parametrize(
    ("address", "own"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False),
        ("", False),
    ],
)
def test_guest_comes_from_this_machine(address: str, own: bool) -> None:
    assert is_loopback(address) == own


@pytest.mark.parametrize(
    ("name", "terms", "accepted"),
    [
        ("4.3", {}, True),
        ("4.3", {"frame_max": 4096}, False),
        ("4.0", {"frame_max": 4096}, True),
        ("4.3", {"frame_max": 131073}, False),
        ("4.3", {"frame_max": 0}, False),
        ("4.3", {"channel_max": 0}, False),
        ("4.3", {"channel_max": 2048}, False),
    ],
)
def test_only_what_was_offered_can_be_settled_on(name: str, terms: dict[str, int], accepted: bool) -> None:
    peer = Peer(name)
    peer.says(HELLO)
    peer.says(method(0, "connection.start-ok", mechanism="PLAIN", response=b"\0guest\0guest"))
    peer.says(method(0, "connection.tune-ok", **{"channel_max": 10, "frame_max": 8192, "heartbeat": 0, **terms}))
    answer = peer.says(method(0, "connection.open", virtual_host="/"))
    assert names(answer) == (["connection.open-ok"] if accepted else [])
    assert peer.connection.ending == ("" if accepted else SILENT)


def test_a_virtual_host_that_is_not_there() -> None:
    peer = Peer()
    peer.says(HELLO)
    peer.says(method(0, "connection.start-ok", mechanism="PLAIN", response=b"\0guest\0guest"))
    peer.says(method(0, "connection.tune-ok", channel_max=10, frame_max=8192))
    answer = peer.says(method(0, "connection.open", virtual_host="nosuch"))
    assert closed(answer) == ("connection.close", 530, "NOT_ALLOWED - vhost nosuch not found")


def test_every_way_to_cut_the_stream_gives_the_same() -> None:
    hello = (
        HELLO
        + method(0, "connection.start-ok", mechanism="PLAIN", response=b"\0guest\0guest")
        + method(0, "connection.tune-ok", channel_max=10, frame_max=8192)
        + method(0, "connection.open", virtual_host="/")
    )
    work = (
        method(1, "channel.open")
        + method(1, "queue.declare", queue="q")
        + message(1, "q", b"body")
        + method(1, "basic.get", queue="q", no_ack=True)
    )
    for step in (1, 7, 100, len(hello + work)):
        peer = Peer()
        frames = [
            got for start in range(0, len(hello + work), step) for got in peer.says((hello + work)[start:][:step])
        ]
        assert names(frames)[2:] == [
            "connection.open-ok",
            "channel.open-ok",
            "queue.declare-ok",
            "basic.get-ok",
            "header",
            "body",
        ]
        assert frames[-1][2]["payload"] == b"body"


# Goodbye


def test_the_client_closes() -> None:
    peer = Peer.connected()
    assert names(peer.says(method(0, "connection.close", reply_code=200))) == ["connection.close-ok"]
    assert peer.commands[-1] == "CloseConnection"
    assert peer.says(method(1, "basic.qos")) == []
    assert peer.says(method(0, "connection.close-ok")) == []
    assert peer.connection.ending == DONE


def test_the_server_closes_and_hears_only_the_goodbye() -> None:
    peer = Peer.connected()
    answer = peer.says(method(1, "basic.qos", prefetch_size=10))
    assert closed(answer) == ("connection.close", 540, "NOT_IMPLEMENTED - prefetch_size!=0 (10)")
    assert answer[0][2]["class_id"] == 60
    assert peer.says(method(1, "basic.qos"), frame(BODY, 3, b"x")) == []
    peer.says(method(0, "connection.close-ok"))
    assert peer.connection.ending == DONE


def test_an_operator_closes() -> None:
    peer = Peer.connected()
    command = peer.connection.close(320, "CONNECTION_FORCED - enough")
    assert command is not None
    peer.node.execute(command)
    peer.flush()
    assert closed(peer.hears()) == ("connection.close", 320, "CONNECTION_FORCED - enough")


# Channels


def test_after_the_servers_channel_close_all_is_ignored_until_close_ok() -> None:
    peer = Peer.connected()
    name, code, text = closed(peer.says(method(1, "queue.declare", queue="no", passive=True)))
    assert (name, code, text) == ("channel.close", 404, "NOT_FOUND - no queue 'no' in vhost '/'")
    assert peer.says(method(1, "queue.declare", queue="q"), message(1, "q", b"x")) == []
    assert names(peer.says(method(1, "channel.close", reply_code=200))) == ["channel.close-ok"]
    assert peer.says(method(1, "channel.close-ok")) == []
    assert names(peer.says(method(1, "channel.open"))) == ["channel.open-ok"]
    assert closed(peer.says(method(1, "queue.declare", queue="q", passive=True)))[1] == 404


def test_a_closed_channels_number_can_be_used_again() -> None:
    peer = Peer.connected()
    assert names(peer.says(method(1, "channel.close", reply_code=200))) == ["channel.close-ok"]
    assert names(peer.says(method(1, "channel.open"))) == ["channel.open-ok"]


@pytest.mark.parametrize(
    ("sent", "code", "text"),
    [
        (method(2, "basic.qos"), 504, "CHANNEL_ERROR - expected 'channel.open'"),
        (method(1, "channel.open"), 504, "CHANNEL_ERROR - second 'channel.open' seen"),
        (method(1, "queue.declare-ok"), 503, "COMMAND_INVALID - unimplemented method"),
        (method(1, "connection.close"), 503, "COMMAND_INVALID - unimplemented method"),
        (method(0, "channel.open"), 504, "CHANNEL_ERROR - unexpected method in connection state running"),
        (frame(8, 1, b""), 505, "UNEXPECTED_FRAME - type 8, all octets = <<>>"),
        (frame(8, 0, b"xx"), 501, 'FRAME_ERROR - type 8, all octets = <<"xx">>: unknown_frame'),
        (frame(BODY, 1, b"x"), 505, "UNEXPECTED_FRAME - expected method frame, got non method frame instead"),
        (
            method(1, "basic.publish") + method(1, "basic.qos"),
            505,
            "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead",
        ),
        (
            method(1, "basic.publish") + frame(HEADER, 1, CONTENT_HEADER.pack(50, 0, 1) + b"\0\0"),
            505,
            "UNEXPECTED_FRAME - expected content header for class 60, got one for class 50 instead",
        ),
        (
            method(1, "basic.publish")
            + frame(HEADER, 1, CONTENT_HEADER.pack(60, 0, 1) + b"\0\0")
            + frame(BODY, 1, b"xx"),
            501,
            "FRAME_ERROR - content body frame exceeds remaining content size",
        ),
        (
            method(1, "basic.publish") + frame(HEADER, 1, CONTENT_HEADER.pack(60, 0, 1 << 30) + b"\0\0"),
            501,
            "FRAME_ERROR - content body size 1073741824 exceeds maximum allowed size 536870912",
        ),
        (
            struct.pack(">BHL", 3, 1, 140000),
            501,
            "FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,140000,131064}",
        ),
        (
            method(1, "tx.select")[:-1] + b"\0",
            501,
            "FRAME_ERROR - type 1, all octets = <<0,90,0,10>>: {invalid_frame_end_marker,0}",
        ),
        (message(1, "q", properties={})[:-3] + b"\xff\xff\xce", 541, "INTERNAL_ERROR"),
    ],
)
def test_what_ends_the_connection(sent: bytes, code: int, text: str) -> None:
    assert closed(Peer.connected().says(sent)) == ("connection.close", code, text)


@pytest.mark.parametrize("sent", [frame(1, 1, b"\0\x63\0\x63"), frame(1, 0, b"\0\x63\0\x63")])
def test_a_method_that_does_not_exist_crashes_rabbitmqs_connection(sent: bytes) -> None:
    peer = Peer.connected()
    assert peer.says(sent, method(1, "basic.qos")) == []
    assert peer.connection.ending == RESET


def test_channels_are_counted() -> None:
    peer = Peer.connected()
    peer.connection.channel_max = 2
    assert names(peer.says(method(9, "channel.open"))) == ["channel.open-ok"]
    text = "NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2)"
    assert closed(peer.says(method(3, "channel.open"))) == ("connection.close", 530, text)


# Methods


def test_nowait_gets_no_answer_but_errors() -> None:
    peer = Peer.connected()
    quiet = (
        method(1, "queue.declare", queue="q", nowait=True)
        + method(1, "queue.bind", queue="q", exchange="amq.fanout", nowait=True)
        + method(1, "confirm.select", nowait=True)
        + method(1, "basic.consume", queue="q", consumer_tag="c", no_ack=True, nowait=True)
        + method(1, "basic.cancel", consumer_tag="c", nowait=True)
    )
    assert peer.says(quiet) == []
    assert names(peer.says(method(1, "basic.qos"))) == ["basic.qos-ok"]
    assert closed(peer.says(method(1, "queue.purge", queue="no", nowait=True)))[1] == 404


def test_a_large_body_is_sent_in_frames_of_the_negotiated_size() -> None:
    peer = Peer.connected()
    peer.says(method(1, "queue.declare", queue="q"))
    body = bytes(range(256)) * 2000
    parts = [body[start : start + 131064] for start in range(0, len(body), 131064)]
    start = message(1, "q") if not body else method(1, "basic.publish", routing_key="q")
    header = frame(HEADER, 1, CONTENT_HEADER.pack(60, 0, len(body)) + b"\0\0")
    peer.says(start, header, *(frame(BODY, 1, part) for part in parts))
    frames = peer.says(method(1, "basic.get", queue="q", no_ack=True))
    assert [len(fields["payload"]) for _, name, fields in frames if name == "body"] == [len(part) for part in parts]
    assert b"".join(fields["payload"] for _, name, fields in frames if name == "body") == body


def test_a_body_beyond_the_limit_closes_the_channel_and_is_not_kept() -> None:
    peer = Peer.connected(message_max_bytes=1000)
    peer.says(method(1, "queue.declare", queue="q"))
    text = "PRECONDITION_FAILED - message size 1001 is larger than configured max size 1000"
    assert closed(peer.says(message(1, "q", bytes(1001)))) == ("channel.close", 406, text)
    peer.says(method(1, "channel.close-ok"), method(1, "channel.open"))
    assert names(peer.says(message(1, "q", bytes(1000)), method(1, "basic.get", queue="q")))[0] == "basic.get-ok"


def test_confirms_of_one_read_become_one() -> None:
    peer = Peer.connected()
    peer.says(method(1, "queue.declare", queue="q"), method(1, "confirm.select"))
    assert peer.says(message(1, "q", b"1")) == [(1, "basic.ack", {"delivery_tag": 1, "multiple": False})]
    frames = peer.says(*(message(1, "q", b"x") for _ in range(100)))
    assert frames == [(1, "basic.ack", {"delivery_tag": 101, "multiple": True})]


def test_a_returned_message_comes_before_its_confirm() -> None:
    peer = Peer.connected()
    peer.says(method(1, "confirm.select"))
    frames = peer.says(message(1, "no", b"x", mandatory=True))
    assert names(frames) == ["basic.return", "header", "body", "basic.ack"]
    assert frames[0][2]["reply_text"] == "NO_ROUTE"


def test_confirms_come_before_the_channel_is_closed() -> None:
    peer = Peer.connected()
    peer.says(method(1, "confirm.select"))
    frames = peer.says(message(1, "no"), method(1, "channel.close", reply_code=200))
    assert names(frames) == ["basic.ack", "channel.close-ok"]


@pytest.mark.parametrize("wants", [True, False])
def test_who_understands_it_is_told_of_a_lost_consumer(wants: bool) -> None:
    peer = Peer()
    peer.greets(**{**ALL_CAPABILITIES, "consumer_cancel_notify": wants})
    peer.says(method(1, "channel.open"), method(1, "queue.declare", queue="q"))
    peer.says(method(1, "basic.consume", queue="q", consumer_tag="c"))
    frames = peer.says(method(1, "queue.delete", queue="q"))
    assert ("basic.cancel" in names(frames)) == wants


def test_deliveries_go_to_the_connection_that_consumes() -> None:
    consumer = Peer.connected()
    publisher = Peer.connected(node=consumer.node)
    consumer.says(method(1, "queue.declare", queue="q"))
    consumer.says(method(1, "basic.consume", queue="q", consumer_tag="tag"))
    sent = {"content_type": "text/plain", "headers": {"n": 1}, "delivery_mode": 2}
    assert publisher.says(message(1, "q", b"hello", properties=sent)) == []
    (_, name, fields), header, body = consumer.hears()
    assert name == "basic.deliver"
    assert fields == {
        "consumer_tag": "tag",
        "delivery_tag": 1,
        "redelivered": False,
        "exchange": "",
        "routing_key": "q",
    }
    assert body[2]["payload"] == b"hello"
    assert header[2]["payload"][4:12] == (5).to_bytes(8)


def test_access_request_and_update_secret_are_answered() -> None:
    peer = Peer.connected()
    assert peer.says(method(1, "access.request")) == [(1, "access.request-ok", {"ticket": 1})]
    assert names(peer.says(method(0, "connection.update-secret", new_secret=b"x"))) == ["connection.update-secret-ok"]


def test_blocked_is_said_to_those_who_understand_it() -> None:
    for wants in (True, False):
        peer = Peer()
        peer.greets(**{"connection.blocked": wants})
        peer.connection.block("low on memory")
        peer.connection.unblock()
        frames = read(peer.connection.take())
        assert names(frames) == (["connection.blocked", "connection.unblocked"] if wants else [])
        assert peer.connection.state == RUNNING
