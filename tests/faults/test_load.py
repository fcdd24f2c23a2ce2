"""Many clients at once, and clients that do not read: nobody starves, and memory stays bounded."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from pika import spec

from simulator.server.in_process import Server
from simulator.server.node import SEND_TIMEOUT_S
from tests.faults.targets import Target
from tests.faults.wire import HEARTBEAT, Wire, frame, method, publish

CONNECTIONS = 1_000
FEWER_CONNECTIONS = 100  # real servers are shared, and a release makes no difference here
BODY = bytes(100_000)
UNREAD_MESSAGES = 600
PAGE = 4_096


def resident_bytes() -> int:
    """What this process occupies: client and simulated server are both in it."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def test_many_connections_each_do_their_work(target: Target, vhost: str) -> None:
    count = CONNECTIONS if target.name == "simulated-4.3" else FEWER_CONNECTIONS
    before, began = resident_bytes(), time.monotonic()
    with ExitStack() as stack:
        wires = [stack.enter_context(target.wire(vhost)) for _ in range(count)]
        for wire in wires:
            wire.channel()
        for number, wire in enumerate(wires):
            wire.queue(f"q{number}", exclusive=True)
            wire.send(publish(1, f"q{number}", b"%d" % number), method(1, spec.Basic.Consume(queue=f"q{number}")))
        for number, wire in enumerate(wires):
            wire.expect("1: basic.consume-ok")
            wire.expect("1: basic.deliver 1")
            wire.expect("1: header of")
            assert wire.body() == b"%d" % number
            wire.send(method(1, spec.Basic.Ack(1)))
        grown = resident_bytes() - before
        for wire in wires:
            wire.close()
    assert grown < count * 150_000
    assert time.monotonic() - began < 60


@pytest.fixture
def unread(target: Target, vhost: str) -> Iterator[Wire]:
    """A client that is owed 60 MB and reads nothing of it."""
    with owed(target, vhost) as reader:
        yield reader


@contextmanager
def owed(target: Target, vhost: str) -> Iterator[Wire]:
    """The same, while the block runs."""
    with target.wire(vhost) as publisher, target.wire(vhost) as reader:
        publisher.channel()
        publisher.queue("heavy", durable=True)
        reader.channel()
        reader.send(method(1, spec.Basic.Consume(queue="heavy", no_ack=True)))
        reader.expect("1: basic.consume-ok")
        publisher.send(method(1, spec.Confirm.Select()))
        publisher.expect("1: confirm.select-ok")
        for number in range(UNREAD_MESSAGES):
            publisher.send(publish(1, "heavy", b"%05d" % number + BODY))
        confirmed = 0
        while confirmed < UNREAD_MESSAGES:
            confirmed = int(publisher.expect("1: basic.ack").split()[2])
        yield reader
        publisher.close()


def test_a_client_that_does_not_read_starves_nobody(target: Target, vhost: str, unread: Wire) -> None:
    with target.wire(vhost) as other:
        other.channel()
        other.queue("light", durable=True)
        for number in range(200):
            other.send(publish(1, "light", b"%d" % number))
            assert other.get("light", no_ack=True).startswith("1: basic.get-ok")
            assert other.body() == b"%d" % number
        other.close()


def test_what_a_client_does_not_read_stays_in_its_queue(target: Target, vhost: str, unread: Wire) -> None:
    """Even with automatic acknowledgement: a server sends no more than the client takes, and so keeps little beside."""
    with target.wire(vhost) as other:
        other.channel()
        other.send(method(1, spec.Queue.Declare(queue="heavy", passive=True)))
        left = int(other.expect("1: queue.declare-ok").split()[-2])
        other.close()
    assert left > UNREAD_MESSAGES / 3
    for number in range(UNREAD_MESSAGES):  # and comes when it does read
        unread.expect("1: basic.deliver")
        unread.expect("1: header of")
        assert unread.body().startswith(b"%05d" % number)


@contextmanager
def send_timeout_s(target: Target, seconds: float) -> Iterator[float]:
    """The seconds for which a client may take nothing: as few as given on the simulator, those it has on a server."""
    if not isinstance(target.server, Server):
        yield SEND_TIMEOUT_S
        return
    target.server.run(lambda node: setattr(node, "send_timeout_s", seconds))
    yield seconds
    target.server.run(lambda node: setattr(node, "send_timeout_s", SEND_TIMEOUT_S))


def reset_after_s(wire: Wire, most_s: float, *, read_each_s: float = 0) -> float | None:
    """After how many seconds a client is reset that sends heartbeats, and reads a little now and then or nothing."""
    began = read_s = time.monotonic()
    while (now_s := time.monotonic()) < began + most_s:
        try:
            wire.socket.sendall(frame(HEARTBEAT, 0, b""))
            if read_each_s and now_s > read_s + read_each_s:
                wire.socket.recv(1 << 20)
                read_s = now_s
        except ConnectionError:
            return now_s - began
        time.sleep(0.02)
    return None


def test_a_client_that_takes_nothing_is_reset(target: Target, vhost: str) -> None:
    with send_timeout_s(target, 0.5) as most_s, owed(target, vhost) as reader:
        assert reset_after_s(reader, 2 * most_s + 10) is not None
    with target.wire(vhost) as other:
        other.channel()
        other.queue("heavy", durable=True)
        while other.get("heavy", no_ack=True).startswith("1: basic.get-ok"):
            other.body()  # what the client did not take it has lost, and the others are still there
        other.close()


@pytest.mark.long
def test_a_slow_client_that_takes_something_is_not(target: Target, vhost: str) -> None:
    with send_timeout_s(target, 2) as most_s, owed(target, vhost) as reader:
        assert reset_after_s(reader, 1.5 * most_s, read_each_s=most_s / 10) is None
