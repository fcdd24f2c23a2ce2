"""A client that is killed at any octet: nothing is half published, nothing that it had is lost."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator

import pytest
from pika import BasicProperties, spec

from tests.faults.targets import Target
from tests.faults.wire import Wire, content_header, frame, method, publish

PROPERTIES = BasicProperties(delivery_mode=2, headers={"n": 1})


def eventually(read: Callable[[], object], wanted: object) -> object:
    """What ``read`` gives as soon as it is ``wanted``, or in the end: a real server takes its time."""
    deadline = time.monotonic() + 10
    while (found := read()) != wanted and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


def ready(observer: Wire, queue: str) -> Callable[[], object]:
    """Reads how many messages the queue has ready."""

    def read() -> int:
        observer.send(method(1, spec.Queue.Declare(queue=queue, passive=True)))
        return int(observer.expect("1: queue.declare-ok").split()[-2])

    return read


def be_heard(wire: Wire) -> None:
    """Wait until what was sent is done: RabbitMQ may forget what it read from a client that is gone."""
    wire.send(method(1, spec.Basic.Qos(prefetch_count=0)))
    wire.expect("1: basic.qos-ok")


def kill(wire: Wire, reset: bool) -> None:
    """End the connection as a killed process does, or as a pulled cable and a firewall do (a reset)."""
    if reset:
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wire.socket.close()


@pytest.fixture
def observer(target: Target, vhost: str) -> Iterator[Wire]:
    with target.wire(vhost) as wire:
        wire.channel()
        yield wire
        wire.close()


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_a_publish_that_breaks_off_publishes_nothing(target: Target, vhost: str, observer: Wire, reset: bool) -> None:
    observer.queue("q", durable=True)
    octets = publish(1, "q", b"broken", PROPERTIES)
    for length in range(len(octets)):
        with target.wire(vhost) as wire:
            wire.channel()
            wire.send(octets[:length])
            kill(wire, reset)
    with target.wire(vhost) as wire:
        wire.channel()
        wire.send(octets.replace(b"broken", b"entire"))
        be_heard(wire)
        kill(wire, reset=False)
    assert eventually(ready(observer, "q"), 1) == 1
    assert "body b'entire'" in observer.get("q", no_ack=True) + observer.next()


def test_an_acknowledgement_that_breaks_off_acknowledges_nothing(target: Target, vhost: str, observer: Wire) -> None:
    octets = method(1, spec.Basic.Ack(2))
    for length in range(len(octets)):
        queue = f"q{length}"
        observer.queue(queue, durable=True)
        observer.send(*(publish(1, queue, body) for body in (b"one", b"two", b"three")))
        eventually(ready(observer, queue), 3)
        with target.wire(vhost) as wire:
            wire.channel()
            for _ in range(3):
                wire.get(queue)
                wire.next()
            wire.send(method(1, spec.Basic.Ack(1)))
            be_heard(wire)
            wire.send(octets[:length])
            kill(wire, reset=False)
        assert eventually(ready(observer, queue), 2) == 2
        for tag_body in ("two", "three"):
            answer = observer.get(queue, no_ack=True) + observer.next()
            assert "redelivered" in answer
            assert tag_body in answer


def test_an_acknowledgement_that_arrived_holds(target: Target, vhost: str, observer: Wire) -> None:
    observer.queue("q", durable=True)
    observer.send(publish(1, "q", b"one"), publish(1, "q", b"two"))
    eventually(ready(observer, "q"), 2)
    with target.wire(vhost) as wire:
        wire.channel()
        for _ in range(2):
            wire.get("q")
            wire.next()
        wire.send(method(1, spec.Basic.Ack(2)))
        be_heard(wire)
        kill(wire, reset=False)
    assert eventually(ready(observer, "q"), 1) == 1
    assert "body b'one'" in observer.get("q", no_ack=True) + observer.next()


@pytest.mark.parametrize("octets_read", [0, 5, 100, 4096, 200_000])
def test_a_consumer_killed_while_it_is_served_loses_nothing(
    target: Target, vhost: str, observer: Wire, octets_read: int
) -> None:
    observer.queue("q", durable=True)
    observer.send(*(publish(1, "q", b"%05d" % number + bytes(5_000)) for number in range(200)))
    assert eventually(ready(observer, "q"), 200) == 200
    with target.wire(vhost) as wire:
        wire.channel()
        wire.send(method(1, spec.Basic.Consume(queue="q")))
        wire.expect("1: basic.consume-ok")
        left = octets_read
        while left > 0:
            left -= len(wire.socket.recv(min(left, 65_536)))
        kill(wire, reset=True)
    assert eventually(ready(observer, "q"), 200) == 200
    for number in range(200):  # back in their old order
        observer.send(method(1, spec.Basic.Get(queue="q", no_ack=True)))
        observer.expect("1: basic.get-ok")
        observer.expect("1: header of 5005")
        assert observer.body().startswith(b"%05d" % number)


def test_a_transaction_that_was_not_committed_did_not_happen(target: Target, vhost: str, observer: Wire) -> None:
    observer.queue("q", durable=True)
    observer.send(publish(1, "q", b"first"))
    eventually(ready(observer, "q"), 1)
    with target.wire(vhost) as wire:
        wire.channel()
        wire.send(method(1, spec.Tx.Select()))
        wire.expect("1: tx.select-ok")
        wire.get("q")
        wire.next()
        wire.send(publish(1, "q", b"second"), method(1, spec.Basic.Ack(1)), method(1, spec.Tx.Commit())[:-1])
        kill(wire, reset=False)
    assert eventually(ready(observer, "q"), 1) == 1
    answer = observer.get("q", no_ack=True) + observer.next()
    assert "redelivered" in answer
    assert "first" in answer


def test_an_exclusive_queue_goes_with_its_connection(target: Target, vhost: str, observer: Wire) -> None:
    with target.wire(vhost) as wire:
        wire.channel()
        wire.queue("mine", exclusive=True)
        wire.send(publish(1, "mine", b"x")[:-4])
        kill(wire, reset=True)

    def declared() -> str:
        observer.open_channel(2)
        observer.send(method(2, spec.Queue.Declare(queue="mine", passive=True)))
        line = observer.next()
        if "declare-ok" in line:  # cannot be
            observer.send(method(2, spec.Channel.Close(200, "", 0, 0)))
            observer.next()
        return line[: line.index(" (")][:22]

    assert eventually(declared, "2: channel.close 404 N") == "2: channel.close 404 N"


def test_a_message_cut_at_its_body_leaves_the_other_channel_alone(target: Target, vhost: str, observer: Wire) -> None:
    """Half a message waits on its channel for as long as it likes; the other channel goes on."""
    with target.wire(vhost) as wire:
        wire.channel()
        wire.open_channel(2)
        wire.queue("q", channel=2, durable=True)
        wire.send(method(1, spec.Basic.Publish(exchange="", routing_key="q")), content_header(1, 10))
        wire.send(publish(2, "q", b"whole"))
        assert eventually(ready(observer, "q"), 1) == 1
        wire.send(frame(3, 1, b"first"), method(2, spec.Basic.Get(queue="q", no_ack=True)))
        assert [wire.next(), wire.next(), wire.next()] == ["2: basic.get-ok 1", "2: header of 5", "2: body b'whole'"]
        wire.send(frame(3, 1, b" half"))
        assert eventually(ready(observer, "q"), 1) == 1
        wire.close()
