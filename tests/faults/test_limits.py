"""Bodies at and past the largest that a release takes. Nothing is refused before its last octet is there."""

from __future__ import annotations

import pytest
from pika import spec

from dlx.releases import release
from tests.faults.targets import Target
from tests.faults.wire import BODY, Wire, content_header, frame, method

FRAME = bytes(131_064)


def send_body(wire: Wire, size: int) -> None:
    """A publish to queue ``q`` with a body of that many octets, frame by frame."""
    wire.send(method(1, spec.Basic.Publish(exchange="", routing_key="q")), content_header(1, size))
    whole, rest = divmod(size, len(FRAME))
    for _ in range(whole):
        wire.send(frame(BODY, 1, FRAME))
    wire.send(frame(BODY, 1, FRAME[:rest]))


def largest(target: Target) -> int:
    """The release's max_message_size: 128 MiB, since 4.0 16 MiB."""
    return release(target.release).max_message_size


@pytest.fixture
def publisher(target: Target, vhost: str) -> Wire:
    """A client on a confirming channel, with a queue ``q``."""
    wire = target.wire(vhost)
    wire.channel()
    wire.queue("q", durable=True)
    wire.send(method(1, spec.Confirm.Select()))
    wire.expect("1: confirm.select-ok")
    return wire


@pytest.mark.slow
def test_the_largest_body_is_taken(target: Target, publisher: Wire) -> None:
    with publisher as wire:
        send_body(wire, largest(target))
        assert wire.next() == "1: basic.ack 1"
        wire.send(method(1, spec.Basic.Get(queue="q", no_ack=True)))
        assert [wire.next(), wire.next()] == ["1: basic.get-ok 1", f"1: header of {largest(target)}"]
        left = largest(target)
        while left:
            left -= len(wire.body())
        wire.close()


def test_one_octet_more_closes_the_channel_when_all_of_it_has_come(target: Target, publisher: Wire) -> None:
    with publisher as wire:
        send_body(wire, largest(target) + 1)
        too_large = f"message size {largest(target) + 1} is larger than configured max size {largest(target)}"
        assert wire.next() == f"1: channel.close 406 PRECONDITION_FAILED - {too_large} (60,40)"
        wire.open_channel(2)  # the connection lives, the message does not
        wire.send(method(2, spec.Queue.Declare(queue="q", passive=True)))
        assert wire.next() == "2: queue.declare-ok 0 0"
        wire.close()
