"""Faults on request meet clients of AMQP 1.0 as they meet those of AMQP 0-9-1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pika
import pytest

pytest.importorskip("proton")

from proton import Described, ulong

import simulator
from simulator.server.amqp10.frames import Attach, Close, Disposition, End, Flow, Source, Target, Transfer
from simulator.server.in_process import Server
from tests.amqp10.wire import WireClient

QUIET_S = 0.2


@pytest.fixture
def server() -> Iterator[Server]:
    with simulator.serve("4.3") as server:
        with pika.BlockingConnection(pika.URLParameters(server.amqp_url)) as connection:
            connection.channel().queue_declare("q", durable=True)
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[WireClient]:
    """A client that publishes to a queue and consumes it."""
    client = WireClient(urlsplit(server.amqp_url).port or 0)
    client.open()
    client.begin()
    client.send(Attach(name="out", handle=0, role=False, target=Target(address="/queues/q"), initial_delivery_count=0))
    client.send(Attach(name="in", handle=1, role=True, source=Source(address="/queues/q")))
    for _ in range(2):
        client.until(Attach)
    grant = Flow(next_incoming_id=0, incoming_window=100, next_outgoing_id=0, outgoing_window=100)
    grant.handle, grant.delivery_count, grant.link_credit = 1, 0, 5
    client.send(grant)
    yield client
    client.close()


def publish(client: WireClient, *bodies: bytes) -> None:
    for number, body in enumerate(bodies):
        transfer = Transfer(handle=0, delivery_id=number, delivery_tag=body)
        client.send(transfer, client.codec.encode(Described(ulong(0x75), body)))


def heard(client: WireClient) -> list[Any]:
    """The frames that the server sends, without flows; ``None`` at the end if it is gone."""
    client.socket.settimeout(QUIET_S)
    found: list[Any] = []
    try:
        while True:
            performative = client.receive()[1]
            if not isinstance(performative, Flow):
                found.append(performative)
    except TimeoutError:
        return found
    except (EOFError, ConnectionError):
        return [*found, None]


def kinds(frames: list[Any]) -> list[Any]:
    return [None if frame is None else type(frame) for frame in frames]


def test_a_session_ends_behind_the_delivery(server: Server, client: WireClient) -> None:
    server.faults.add("close_channel", queue="q")
    publish(client, b"1")
    frames = heard(client)
    assert kinds(frames) == [Transfer, End]
    assert str(frames[-1].error.condition) == "amqp:precondition-failed"
    assert frames[-1].error.description == "fault 1 on request: close_channel"


@pytest.mark.parametrize("silent", [False, True])
def test_a_connection_ends_behind_the_delivery(server: Server, client: WireClient, silent: bool) -> None:
    server.faults.add("close_connection", queue="q", silent=silent)
    publish(client, b"1")
    assert [kind for kind in kinds(heard(client)) if kind in (Close, None)] == [None if silent else Close]


def test_a_delivery_comes_later(server: Server, client: WireClient) -> None:
    server.faults.add("delay_delivery", queue="q", delay_ms=2_000)
    publish(client, b"1")
    assert kinds(heard(client)) == [Disposition]
    server.clock.advance(seconds=2)
    assert kinds(heard(client)) == [Transfer]


def test_late_deliveries_use_up_credit(server: Server, client: WireClient) -> None:
    server.faults.add("delay_delivery", queue="q", delay_ms=2_000, times=None)
    publish(client, *(b"%d" % number for number in range(7)))
    heard(client)
    server.clock.advance(seconds=2)
    assert kinds(heard(client)) == [Transfer] * 5


@pytest.mark.parametrize("delay_s", [None, 2])
def test_an_outcome_is_lost_or_comes_later(server: Server, client: WireClient, delay_s: int | None) -> None:
    if delay_s is None:
        server.faults.add("drop_confirm", exchange="")
    else:
        server.faults.add("delay_confirm", exchange="", delay_ms=delay_s * 1_000)
    publish(client, b"1", b"2")
    settled = [frame.first for frame in heard(client) if isinstance(frame, Disposition)]
    server.clock.advance(seconds=2)
    later = [frame.first for frame in heard(client) if isinstance(frame, Disposition)]
    assert (settled, later) == ([1], [] if delay_s is None else [0])
