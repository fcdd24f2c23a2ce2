"""The memory alarm: who publishes is told and must wait, who consumes is not.

Not tried on live servers, where an alarm would stop everybody. What is asserted was
seen on 3.8, 3.10 and 4.3 with single connections told that there is an alarm.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pika import spec

import simulator
from dlx.releases import RELEASES
from tests.faults.wire import Wire, method, publish

LIMIT = 1 << 20
BODY = bytes(100_000)


@pytest.fixture(params=RELEASES)
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A simulator whose queues may hold 1 MiB."""
    with simulator.serve(request.param, memory_limit_bytes=LIMIT) as server:
        yield server.amqp_url


def opened(url: str, capabilities: dict[str, bool]) -> Wire:
    """A client of these capabilities, with an open channel."""
    wire = Wire(url, "/", settle_s=0.2)
    wire.start()
    wire.start_ok(properties={"capabilities": capabilities})
    wire.expect("connection.tune")
    wire.tune_ok()
    wire.send(method(0, spec.Connection.Open("/")))
    wire.expect("connection.open-ok")
    wire.open_channel(1)
    return wire


def fill(wire: Wire) -> None:
    """Publish twice the limit into a queue ``q``: somewhere on the way there is an alarm."""
    wire.queue("q", durable=True)
    for _ in range(2 * LIMIT // len(BODY) + 2):
        wire.send(publish(1, "q", BODY))


def purge_until_answered(operator: Wire, publisher: Wire) -> None:
    """Make room, as often as it takes for the blocked one's ``queue.declare`` to be read."""
    operator.purge("q")
    while not (line := publisher.next()).startswith("1: queue.declare-ok"):
        assert line in ("0: connection.blocked", "0: connection.unblocked")
        if line == "0: connection.blocked":
            operator.purge("q")


def is_silent(wire: Wire) -> bool:
    """Whether nothing comes."""
    silent = wire.next(wire.settle_s) == "waiting"
    wire.log.pop()
    wire.ended = False
    return silent


def length(wire: Wire) -> int:
    """How many messages the queue has."""
    wire.send(method(1, spec.Queue.Declare(queue="q", passive=True)))
    return int(wire.expect("1: queue.declare-ok").split()[-2])


def test_a_publisher_is_blocked_told_and_unblocked(url: str) -> None:
    with opened(url, {"connection.blocked": True}) as publisher, opened(url, {}) as operator:
        fill(publisher)
        publisher.expect("connection.blocked")
        full = length(operator)
        publisher.send(publish(1, "q", b"another"), method(1, spec.Queue.Declare(queue="q", passive=True)))
        assert is_silent(publisher)
        assert length(operator) == full
        purge_until_answered(operator, publisher)
        assert publisher.log[0] == "0: connection.unblocked"
        assert "another" in [operator.get("q") + operator.next() for _ in range(length(operator))][-1]


def test_a_publisher_that_cannot_be_told_waits_all_the_same(url: str) -> None:
    with opened(url, {}) as publisher, opened(url, {}) as operator:
        fill(publisher)
        publisher.send(publish(1, "q", b"x"), method(1, spec.Queue.Declare(queue="q", passive=True)))
        assert is_silent(publisher)
        purge_until_answered(operator, publisher)
        assert len(publisher.log) == 1


def test_a_consumer_goes_on(url: str) -> None:
    with opened(url, {"connection.blocked": True}) as publisher, opened(url, {}) as consumer:
        fill(publisher)
        publisher.expect("connection.blocked")
        consumer.send(method(1, spec.Basic.Consume(queue="q", no_ack=True)))
        consumer.expect("1: basic.consume-ok")
        consumer.expect("1: basic.deliver")
        publisher.expect("connection.unblocked")


def test_one_who_only_asks_is_not_blocked(url: str) -> None:
    with opened(url, {"connection.blocked": True}) as publisher, opened(url, {"connection.blocked": True}) as asker:
        fill(publisher)
        publisher.expect("connection.blocked")
        assert length(asker) > 0
        assert length(asker) > 0


@pytest.mark.parametrize(("body", "read"), [(b"", 1), (b"x", 0)])
def test_a_publisher_is_read_to_its_next_frame_of_content(url: str, body: bytes, read: int) -> None:
    """So an empty message comes in, and one with a body does not; 3.8.9 and 4.3.6 do so."""
    with opened(url, {"connection.blocked": True}) as publisher, opened(url, {}) as operator:
        operator.queue("full", durable=True)
        operator.queue("q", durable=True)
        operator.send(*[publish(1, "full", BODY) for _ in range(LIMIT // len(BODY) + 2)])
        asker = opened(url, {})
        with asker:
            publisher.send(*[publish(1, "q", body) for _ in range(3)])
            publisher.expect("connection.blocked")
            assert length(asker) == read
            asker.purge("full")
            publisher.expect("connection.unblocked")
            publisher.send(method(1, spec.Queue.Declare(queue="q", passive=True)))
            assert int(publisher.expect("1: queue.declare-ok").split()[-2]) == 3
