"""The management API beside AMQP clients: who is connected, who consumes, and who is thrown out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ConnectionClosedByBroker

import simulator
from tests.management.client import Real


@pytest.fixture
def server() -> Iterator[Any]:
    with simulator.server.serve("4.3", management_port=0) as server:
        yield server


@pytest.fixture
def api(server: Any) -> Real:
    return Real(server.management_url)


@pytest.fixture
def channel(server: Any) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(server.amqp_url))
    try:
        yield connection.channel()
    finally:
        if connection.is_open:
            connection.close()


def consume(channel: BlockingChannel, queue: str, tag: str, **options: Any) -> None:
    callback: Callable[..., None] = lambda *_: None  # noqa: E731
    channel.basic_consume(queue, callback, consumer_tag=tag, **options)


def test_connections_channels_and_consumers_are_shown(api: Real, channel: BlockingChannel) -> None:
    channel.queue_declare("mine", exclusive=True)
    channel.basic_qos(prefetch_count=7)
    consume(channel, "mine", "first", arguments={"x-priority": 3})
    (connection,) = api("GET", "/api/connections").json
    assert (connection["user"], connection["vhost"], connection["channels"]) == ("guest", "/", 1)
    assert connection["client_properties"]["product"] == "Pika Python Client Library"
    name = connection["name"]
    assert api("GET", f"/api/connections/{quote(name, safe='')}").json["name"] == name
    (shown,) = api("GET", f"/api/connections/{quote(name, safe='')}/channels").json
    assert (shown["name"], shown["prefetch_count"], shown["consumer_count"]) == (f"{name} (1)", 7, 1)
    details = api("GET", f"/api/channels/{quote(shown['name'], safe='')}").json
    assert [consumer["consumer_tag"] for consumer in details["consumer_details"]] == ["first"]
    (consumer,) = api("GET", "/api/consumers").json
    assert (consumer["queue"], consumer["arguments"]) == ({"name": "mine", "vhost": "/"}, {"x-priority": 3})
    queue = api("GET", "/api/queues/%2F/mine").json
    assert (queue["exclusive"], queue["owner_pid_details"]["name"]) == (True, name)
    assert queue["consumer_details"][0]["channel_details"]["connection_name"] == name
    assert api("GET", "/api/overview").json["object_totals"] == {
        "channels": 1, "connections": 1, "consumers": 1, "exchanges": 7, "queues": 1,
    }  # fmt: skip


def test_a_single_active_consumer_is_named(api: Real, channel: BlockingChannel) -> None:
    channel.queue_declare("one", durable=True, arguments={"x-single-active-consumer": True})
    for tag in ("first", "second"):
        consume(channel, "one", tag)
    queue = api("GET", "/api/queues/%2F/one").json
    assert queue["single_active_consumer_tag"] == "first"
    active = {c["consumer_tag"]: (c["active"], c["activity_status"]) for c in queue["consumer_details"]}
    assert active == {"first": (True, "single_active"), "second": (False, "waiting")}


def test_messages_are_counted(api: Real, channel: BlockingChannel) -> None:
    channel.queue_declare("q", durable=True)
    channel.queue_bind("q", "amq.fanout")
    channel.confirm_delivery()
    for exchange in ("", "amq.fanout", "amq.fanout"):
        channel.basic_publish(exchange, "q", b"hello")
    channel.basic_publish("amq.topic", "nowhere", b"hello")
    channel.basic_get("q")
    queue = api("GET", "/api/queues/%2F/q").json
    assert (queue["messages"], queue["messages_ready"], queue["messages_unacknowledged"]) == (3, 2, 1)
    assert (queue["message_bytes"], queue["message_bytes_unacknowledged"]) == (15, 5)
    stats = queue["message_stats"]
    assert (stats["publish"], stats["get"], stats["deliver_get"], stats["ack"]) == (3, 1, 1, 0)
    exchanges = {x["name"]: x.get("message_stats", {}) for x in api("GET", "/api/exchanges").json}
    published = {name: (s.get("publish_in"), s.get("publish_out")) for name, s in exchanges.items() if s}
    assert published == {"": (1, 1), "amq.fanout": (2, 2), "amq.topic": (1, None)}
    (shown,) = api("GET", "/api/channels").json
    assert (shown["message_stats"]["publish"], shown["message_stats"]["deliver_get"]) == (4, 1)


def test_what_is_published_over_http_reaches_a_consumer(api: Real, channel: BlockingChannel) -> None:
    channel.queue_declare("q")
    body = {"properties": {"message_id": "m"}, "routing_key": "q", "payload": "aGk=", "payload_encoding": "base64"}
    assert api("POST", "/api/exchanges/%2F/amq.default/publish", body).json == {"routed": True}
    got = next(channel.consume("q", auto_ack=True, inactivity_timeout=10))
    assert (got[1].message_id, got[2]) == ("m", b"hi")


def test_an_operator_closes_a_connection(api: Real, channel: BlockingChannel) -> None:
    name = api("GET", "/api/connections").json[0]["name"]
    assert api("DELETE", f"/api/connections/{quote(name, safe='')}", headers={"x-reason": "because"}).status == 204
    with pytest.raises(ConnectionClosedByBroker) as closed:
        channel.connection.process_data_events(10)
    assert (closed.value.reply_code, closed.value.reply_text) == (320, "CONNECTION_FORCED - because")
    assert api("GET", "/api/connections").json == []


def test_users_see_their_own_connections(api: Real, channel: BlockingChannel) -> None:
    assert channel.is_open
    api("PUT", "/api/users/u", {"password": "p", "tags": "management"})
    api("PUT", "/api/permissions/%2F/u", {"configure": ".*", "write": ".*", "read": ".*"})
    name = quote(api("GET", "/api/connections").json[0]["name"], safe="")
    assert api("GET", "/api/connections", auth="u:p").json == []
    assert api("GET", f"/api/connections/{name}", auth="u:p").status == 401
    assert api("DELETE", f"/api/connections/{name}", auth="u:p").status == 401
