"""Clients that ask for much or read nothing: the server goes on for the others."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import pika
import pytest

pytest.importorskip("proton")

import simulator
from simulator.server.amqp10.frames import Attach, Begin, Detach, Flow, Source, Target, Transfer
from simulator.server.in_process import Server
from tests.amqp10.wire import WireClient

MESSAGES = 6_000
BODY = bytes(4_000)
LINKS = 500


@pytest.fixture
def server() -> Iterator[Server]:
    with simulator.serve("4.3") as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[WireClient]:
    client = WireClient(urlsplit(server.amqp_url).port or 0)
    client.open()
    client.send(Begin(next_outgoing_id=0, incoming_window=2**31 - 1, outgoing_window=2**31 - 1))
    client.receive()
    yield client
    client.close()


def test_a_client_that_does_not_read_holds_up_nobody(server: Server, client: WireClient) -> None:
    with pika.BlockingConnection(pika.URLParameters(server.amqp_url)) as connection:
        channel = connection.channel()
        channel.queue_declare("large", durable=True)
        channel.queue_declare("small", durable=True)
        for _ in range(MESSAGES):
            channel.basic_publish("", "large", BODY)
        client.send(Attach(name="in", handle=1, role=True, source=Source(address="/queues/large"), target=Target()))
        client.send(
            Flow(
                next_incoming_id=0, incoming_window=2**31 - 1, next_outgoing_id=0, outgoing_window=2**31 - 1,
                handle=1, delivery_count=0, link_credit=2**31 - 1,
            )
        )  # fmt: skip
        for number in range(LINKS):
            channel.basic_publish("", "small", b"%d" % number)
            assert channel.basic_get("small", auto_ack=True)[2] == b"%d" % number
        left = channel.queue_declare("large", passive=True).method.message_count

    assert left > 0
    frames = [client.receive()[1] for _ in range(LINKS)]
    assert any(isinstance(frame, Transfer) for frame in frames)


def test_hundreds_of_links(server: Server, client: WireClient) -> None:
    client.send(Begin(next_outgoing_id=0, incoming_window=1000, outgoing_window=1000), channel=1)
    with pika.BlockingConnection(pika.URLParameters(server.amqp_url)) as connection:
        connection.channel().queue_declare("q", durable=True)
    for number in range(LINKS):
        link = Attach(name=f"{number}", handle=number // 2, role=True, source=Source(address="/queues/q"))
        client.send(link, channel=number % 2)
    attached = [client.until(Attach) for _ in range(LINKS)]
    assert len({frames[-1][1].name for frames in attached}) == LINKS
    assert consumers(server) == LINKS

    for number in range(LINKS):
        client.send(Detach(handle=number // 2, closed=True), channel=number % 2)
    for _ in range(LINKS):
        client.until(Detach)
    assert consumers(server) == 0


def consumers(server: Server) -> int:
    """How many consumers the queue has."""
    return server.run(lambda node: len(node.broker.vhosts["/"].queues["q"].consumers))


def test_a_link_that_is_half_open_when_its_client_vanishes(server: Server, client: WireClient) -> None:
    with pika.BlockingConnection(pika.URLParameters(server.amqp_url)) as connection:
        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        client.send(
            Attach(name="out", handle=0, role=False, target=Target(address="/queues/q"), initial_delivery_count=0)
        )
        client.send(Transfer(handle=0, delivery_id=0, delivery_tag=b"0", more=True), b"\0S")
        client.close()
        assert channel.basic_get("q") == (None, None, None)
