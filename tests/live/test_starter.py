"""The servers that the other live tests rely on are what they are said to be."""

from __future__ import annotations

import pika

from tests.live.servers import LiveServer


def test_a_server_is_of_its_release_and_can_trace(live_server: LiveServer) -> None:
    assert live_server.version.startswith(live_server.release + ".")
    assert isinstance(live_server.api("GET", "traces"), list)  # 404 without the tracing plugin


def test_a_virtual_host_of_its_own_takes_a_message(live_server: LiveServer, live_vhost: str) -> None:
    with pika.BlockingConnection(pika.URLParameters(live_server.vhost_url(live_vhost))) as connection:
        channel = connection.channel()
        channel.queue_declare("q")
        channel.confirm_delivery()
        channel.basic_publish("", "q", b"hello")
        method, _, body = channel.basic_get("q", auto_ack=True)
    assert method is not None
    assert body == b"hello"
