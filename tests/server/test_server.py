"""The server in this process, asked by pika, and by sockets that behave badly."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker, NackError, UnroutableError

import simulator
from dlx.releases import UnknownReleaseError
from simulator.broker.commands import AddVhost, SetPermissions
from simulator.definitions import DefinitionsError
from simulator.server.amqp import server as amqp_server
from simulator.server.amqp.frames import HEARTBEAT_FRAME
from simulator.server.in_process import Server
from tests.server.peer import HELLO, message, method, names, read

PATIENCE_S = 20
LOGIN = method(0, "connection.start-ok", mechanism="PLAIN", response=b"\0guest\0guest")
OPEN = method(0, "connection.open", virtual_host="/") + method(1, "channel.open")


def eventually(check: Callable[[], Any]) -> Any:
    """The first true value of ``check``, which clients' threads and sockets may take a moment for."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if found := check():
            return found
        time.sleep(0.005)
    raise AssertionError("it did not come true")


@pytest.fixture
def server() -> Iterator[Server]:
    with simulator.serve() as running:
        yield running


@contextlib.contextmanager
def client(server: Server) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(server.amqp_url))
    try:
        yield connection.channel()
    finally:
        if connection.is_open:
            connection.close()


@contextlib.contextmanager
def wire(server: Server, heartbeat: int = 0) -> Iterator[socket.socket]:
    """A socket with channel 1 open."""
    port = int(server.amqp_url.rstrip("/").rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as plain:
        tune = method(0, "connection.tune-ok", channel_max=2047, frame_max=131072, heartbeat=heartbeat)
        plain.sendall(HELLO + LOGIN + tune + OPEN)
        found = b""
        while b"\x00\x14\x00\x0b" not in found:  # channel.open-ok
            found += plain.recv(65536)
        yield plain


def depth(server: Server, queue: str) -> int:
    return server.run(lambda node: node.broker.vhosts["/"].queues[queue].messages_ready)


def test_publish_consume_reject_and_find_it_dead(server: Server) -> None:
    with client(server) as channel:
        channel.queue_declare("dead")
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        channel.queue_declare("work", arguments=arguments)
        channel.basic_publish("", "work", b"1", BasicProperties(headers={"n": 1}))
        method_frame, _, _ = next(channel.consume("work"))
        channel.basic_nack(method_frame.delivery_tag, requeue=False)
        channel.cancel()
        found, properties, body = channel.basic_get("dead", auto_ack=True)
        assert (found.routing_key, body) == ("dead", b"1")
        assert properties.headers["x-death"][0]["reason"] == "rejected"
        assert channel.basic_get("dead") == (None, None, None)


def test_moving_the_clock_sends_what_it_causes(server: Server) -> None:
    with client(server) as channel:
        channel.queue_declare("dead")
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", "x-message-ttl": 86_400_000}
        channel.queue_declare("work", arguments=arguments)
        channel.basic_publish("", "work", b"1")
        before = server.clock.now_us()
        server.clock.advance(hours=23)
        assert channel.basic_get("dead") == (None, None, None)
        assert server.clock.advance(hours=1) - before >= 24 * 3600 * 1_000_000
        assert channel.basic_get("dead", auto_ack=True)[2] == b"1"
        channel.basic_publish("", "work", b"2")
        assert server.clock.jump()
        assert channel.basic_get("dead", auto_ack=True)[2] == b"2"
        with pytest.raises(ValueError, match="forward"):
            server.clock.advance(seconds=-1)


def test_a_virtual_clock_can_run_at_a_rate() -> None:
    with simulator.serve(rate=86_400) as server, client(server) as channel:
        channel.queue_declare("q", arguments={"x-message-ttl": 3_600_000})
        channel.basic_publish("", "q", b"1")
        eventually(lambda: depth(server, "q") == 0)


def test_wall_time_runs_and_cannot_be_moved() -> None:
    with simulator.serve(clock="wall") as server, client(server) as channel:
        channel.queue_declare("q", arguments={"x-message-ttl": 1})
        channel.basic_publish("", "q", b"1")
        eventually(lambda: depth(server, "q") == 0)
        with pytest.raises(TypeError, match="virtual clock"):
            server.clock.advance(hours=1)


def test_confirms_and_returns(server: Server) -> None:
    with client(server) as channel:
        channel.queue_declare("full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
        channel.confirm_delivery()
        channel.basic_publish("", "full", b"1", mandatory=True)
        with pytest.raises(NackError):
            channel.basic_publish("", "full", b"2")
        with pytest.raises(UnroutableError):
            channel.basic_publish("", "nowhere", b"3", mandatory=True)


def test_transactions(server: Server) -> None:
    with client(server) as channel:
        channel.queue_declare("q")
        channel.tx_select()
        channel.basic_publish("", "q", b"1")
        assert depth(server, "q") == 0
        channel.tx_commit()
        assert depth(server, "q") == 1
        channel.basic_publish("", "q", b"2")
        channel.tx_rollback()
        assert depth(server, "q") == 1


def test_a_refusal_reaches_the_client(server: Server) -> None:
    with client(server) as channel, pytest.raises(ChannelClosedByBroker, match="no queue 'q' in vhost '/'"):
        channel.queue_declare("q", passive=True)


def test_the_broker_can_be_driven_beside_its_clients(server: Server) -> None:
    server.handle(AddVhost("other"))
    server.handle(SetPermissions("guest", "other", ".*", ".*", ".*"))
    connection = pika.BlockingConnection(pika.URLParameters(server.amqp_url + "other"))
    connection.channel().queue_declare("q")
    assert server.run(lambda node: list(node.broker.vhosts["other"].queues)) == ["q"]
    server.run(lambda node: [node.close_connection(each, "enough") for each in list(node.connections)])
    with pytest.raises(ConnectionClosedByBroker, match="CONNECTION_FORCED - enough"):
        connection.channel()


def test_a_snapshot_goes_on_in_another_server(server: Server) -> None:
    with client(server) as channel:
        channel.queue_declare("q", durable=True)
        channel.basic_publish("", "q", b"kept", BasicProperties(delivery_mode=2))
        moved = server.clock.advance(days=1)
        saved = server.snapshot()
    with simulator.serve(snapshot=saved) as again, client(again) as channel:
        assert channel.basic_get("q")[2] == b"kept"
        assert again.clock.now_us() >= moved


def test_definitions_and_users() -> None:
    document = {"vhosts": [{"name": "/"}], "queues": [{"name": "q", "vhost": "/", "durable": True, "arguments": {}}]}
    with simulator.serve(definitions=document, users={"me": "secret"}) as server:
        url = server.amqp_url.replace("//", "//me:secret@")
        connection = pika.BlockingConnection(pika.URLParameters(url))
        connection.channel().queue_declare("q", passive=True)
        connection.close()
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            pika.BlockingConnection(pika.URLParameters(server.amqp_url))


def test_what_cannot_be_served() -> None:
    with pytest.raises(UnknownReleaseError):
        simulator.serve("2.8")
    with pytest.raises(DefinitionsError):
        simulator.serve(definitions={"queues": "none"})
    with pytest.raises(ValueError, match="clock"):
        simulator.serve(clock="sun")  # type: ignore[arg-type]
    with simulator.serve() as server, pytest.raises(OSError, match="in use"):
        simulator.serve(port=int(server.amqp_url.rstrip("/").rpartition(":")[2]))


def test_stopping_says_goodbye() -> None:
    server = simulator.serve()
    connection = pika.BlockingConnection(pika.URLParameters(server.amqp_url))
    server.stop()
    reason = "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
    with pytest.raises(ConnectionClosedByBroker, match=reason):
        connection.channel()


def test_stopping_drops_the_clients_and_may_be_repeated() -> None:
    server = simulator.serve()
    with wire(server) as plain:
        server.stop()
        server.stop()
        assert eventually(lambda: _is_gone(plain))
    with pytest.raises(RuntimeError):
        server.snapshot()


def _is_gone(plain: socket.socket) -> bool:
    try:
        return plain.recv(65536) == b""
    except ConnectionResetError:
        return True


def test_a_killed_clients_deliveries_come_back(server: Server) -> None:
    with client(server) as channel:
        channel.queue_declare("q")
        channel.basic_publish("", "q", b"1")
        with wire(server) as plain:
            plain.sendall(method(1, "basic.consume", queue="q", consumer_tag="c"))
            eventually(lambda: depth(server, "q") == 0)
        eventually(lambda: depth(server, "q") == 1)
        assert channel.basic_get("q")[0].redelivered


@pytest.mark.slow
def test_random_bytes_harm_nobody(server: Server) -> None:
    chance = random.Random(7)
    with client(server) as channel:
        channel.queue_declare("q")
        for length in range(0, 4000, 100):
            with wire(server) as plain, contextlib.suppress(OSError):
                good = message(1, "q", b"x" * 50) * 3
                cut = chance.randrange(len(good))
                plain.sendall(good[:cut] + chance.randbytes(length))
        channel.basic_publish("", "q", b"1")
        eventually(lambda: depth(server, "q") >= 1)
    eventually(lambda: not server.run(lambda node: node.connections))


def test_a_client_that_does_not_read_gets_no_more(server: Server) -> None:
    body, count = bytes(100_000), 300
    with client(server) as channel, wire(server) as plain:
        channel.queue_declare("q")
        plain.sendall(method(1, "basic.consume", queue="q", consumer_tag="c", no_ack=True))
        for _ in range(count):
            channel.basic_publish("", "q", body)
        channel.queue_declare("q", passive=True)
        left = depth(server, "q")
        assert left > count / 3
        received = 0
        while received < count * len(body) and (data := plain.recv(1 << 20)):
            received += len(data)
        assert depth(server, "q") == 0


def test_publishers_wait_while_memory_is_low() -> None:
    told: list[str] = []
    with simulator.serve(memory_limit_bytes=1_000_000) as server:
        connection = pika.BlockingConnection(pika.URLParameters(server.amqp_url))
        connection.add_on_connection_blocked_callback(lambda *_: told.append("blocked"))
        connection.add_on_connection_unblocked_callback(lambda *_: told.append("unblocked"))
        channel = connection.channel()
        channel.queue_declare("q")
        for _ in range(30):
            channel.basic_publish("", "q", bytes(100_000))
        eventually(lambda: connection.process_data_events(0) or told)
        assert told == ["blocked"]
        held = depth(server, "q")
        assert 10 <= held < 30
        with client(server) as other:  # who does not publish is not held back
            other.queue_purge("q")
            eventually(lambda: connection.process_data_events(0) or told[1:])
            assert told[:2] == ["blocked", "unblocked"]
            eventually(lambda: depth(server, "q") > 0)
            other.queue_delete("q")
        connection.close()


def test_one_clients_work_does_not_keep_the_others_waiting(server: Server) -> None:
    with client(server) as channel, wire(server) as busy:
        channel.queue_declare("q")
        flood = threading.Thread(target=busy.sendall, args=(message(1, "q", b"x") * 60_000,))
        flood.start()
        slowest = 0.0
        while flood.is_alive():
            began = time.monotonic()
            channel.queue_declare("q", passive=True)
            slowest = max(slowest, time.monotonic() - began)
        flood.join()
        eventually(lambda: depth(server, "q") == 60_000)
        assert slowest < 2


@pytest.mark.slow
def test_heartbeats_are_sent_and_missed(server: Server) -> None:
    with wire(server, heartbeat=1) as plain:
        assert plain.recv(8) == HEARTBEAT_FRAME
        began = time.monotonic()
        plain.sendall(HEARTBEAT_FRAME)
        assert eventually(lambda: _is_gone(plain))
        assert time.monotonic() - began > 1.5


def test_a_client_that_says_nothing_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amqp_server, "HANDSHAKE_S", 0.05)
    with simulator.serve() as server:
        port = int(server.amqp_url.rstrip("/").rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as plain:
            assert _is_gone(plain)


def test_a_wrong_password_costs_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amqp_server, "SILENT_CLOSE_S", 0.05)
    with simulator.serve() as server:
        port = int(server.amqp_url.rstrip("/").rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as plain:
            began = time.monotonic()
            plain.sendall(HELLO + method(0, "connection.start-ok", mechanism="PLAIN", response=b"\0guest\0no"))
            found = b""
            with contextlib.suppress(ConnectionResetError):
                while data := plain.recv(65536):
                    found += data
            assert names(read(found)) == ["connection.start"]
            assert time.monotonic() - began >= 0.05


def test_an_error_of_ours_ends_only_the_connection_that_ran_into_it(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def break_down(*_arguments: Any) -> None:
        raise RuntimeError("a fault")

    with client(server) as channel, client(server) as other:
        other.queue_declare("q")
        monkeypatch.setattr("simulator.server.amqp.channel.command_for", break_down)
        with pytest.raises(ConnectionClosedByBroker, match="INTERNAL_ERROR"):
            channel.queue_declare("p")
        monkeypatch.undo()
        other.basic_publish("", "q", b"1")
        assert other.basic_get("q")[2] == b"1"
    assert "a fault" in caplog.text
