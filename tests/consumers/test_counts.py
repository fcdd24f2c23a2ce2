"""The failures that a consumer reads from a message's headers, beside those there were, on every release."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

import dlx
import simulator
from dlx.releases import RELEASES
from simulator.server.in_process import Server
from tests import real_servers

UNTIL_3_13 = real_servers.until("3.13")
FAILURES = ["reject", "requeue", "requeue", "reject", "close", "reject", "reject", "close", "close", "requeue"]
"""A final reject, a reject with requeue, a channel that is lost."""


def dead_letters_to(queue: str) -> dict[str, Any]:
    return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}


class Worker:
    """A consumer of ``work``, a quorum queue, which does with each delivery as it is told."""

    def __init__(self, server: Server, connection: pika.BlockingConnection) -> None:
        self._server = server
        self._connection = connection
        self.channel: BlockingChannel = connection.channel()
        declare = self.channel.queue_declare
        declare("work", durable=True, arguments={"x-queue-type": "quorum", **dead_letters_to("wait")})
        declare("wait", arguments={"x-message-ttl": 1_000, **dead_letters_to("work")})
        self.channel.basic_publish("", "work", b"job", pika.BasicProperties(message_id="m1"))
        self.sync()

    def sync(self) -> None:
        """Return when the server has done what was asked of it."""
        self.channel.queue_declare("work", passive=True)

    def get(self) -> tuple[int, pika.BasicProperties]:
        """The next delivery's tag and properties."""
        method, properties, _ = self.channel.basic_get("work")
        assert method is not None
        return method.delivery_tag, properties

    def fail(self, how: str, tag: int) -> None:
        """Fail at the delivery, and wait until the message is back."""
        if how == "close":
            self.channel.close()
            self.channel = self._connection.channel()
        else:
            self.channel.basic_reject(tag, requeue=how == "requeue")
        self.let_it_wait()

    def let_it_wait(self) -> None:
        self.sync()
        self._server.clock.advance(seconds=1)
        self.sync()


@contextmanager
def worker(release: str) -> Iterator[Worker]:
    with simulator.serve(release) as server, pika.BlockingConnection(pika.URLParameters(server.amqp_url)) as connection:
        yield Worker(server, connection)


@pytest.mark.parametrize("release", RELEASES)
def test_failures_are_never_more_than_there_were_and_grow(release: str) -> None:
    with worker(release) as work:
        known = []
        for true, how in enumerate(FAILURES):
            tag, properties = work.get()
            known.append(dlx.death_history(properties).failures("work"))
            assert known[-1] <= true
            work.fail(how, tag)
        assert known[-1] >= FAILURES[:-1].count("reject")


@pytest.mark.parametrize("release", [*UNTIL_3_13, "4.3"])
def test_what_is_missed_are_returns_before_the_last_rejection(release: str) -> None:
    """From 4.3 on, nothing is. (4.0 counts rejections and returns in one header, and cannot be told apart.)"""
    carried = release not in UNTIL_3_13
    with worker(release) as work:
        rejected = returned_since = returned = 0
        for how in FAILURES:
            tag, properties = work.get()
            known = dlx.death_history(properties).failures("work", counts_carried=carried)
            assert known == rejected + (returned if carried else returned_since)
            work.fail(how, tag)
            if how == "reject":
                rejected, returned_since = rejected + 1, 0
            else:
                returned, returned_since = returned + 1, returned_since + 1


@pytest.mark.parametrize("how", ["reject", "requeue", "close"])
@pytest.mark.parametrize("release", RELEASES)
def test_a_message_that_always_fails_comes_to_an_end(release: str, how: str) -> None:
    """However it fails: for a message that crashes its consumer, no rejection is counted."""
    plan = dlx.RetryPlan(delays_ms=(1_000,), attempts_max=5, parking="parking", queue="work", release=release)
    with worker(release) as work:
        for attempt in range(1, 6):
            tag, properties = work.get()
            decision = plan.decide(dlx.death_history(properties))
            assert decision.attempt == attempt
            assert isinstance(decision, dlx.Park) == (attempt == 5)
            work.fail(how, tag)


@pytest.mark.parametrize("release", RELEASES)
def test_a_consumer_that_publishes_to_the_wait_queue_itself_keeps_count(release: str) -> None:
    plan = dlx.RetryPlan(delays_ms=(1_000,), attempts_max=4, wait_queues=("wait",), parking="parking", queue="work")
    with worker(release) as work:
        attempts = []
        while True:
            tag, properties = work.get()
            decision = plan.decide(dlx.death_history(properties))
            attempts.append(decision.attempt)
            if not isinstance(decision, dlx.Retry):
                break
            properties.headers = dlx.republish_headers(properties, attempts=decision.attempt)
            assert decision.to is not None
            work.channel.basic_publish("", decision.to, b"job", properties)
            work.channel.basic_ack(tag)
            work.let_it_wait()
        assert attempts == [1, 2, 3, 4]
        assert isinstance(decision, dlx.Park)


@pytest.mark.parametrize("release", RELEASES)
def test_without_its_headers_the_count_starts_anew_from_4_0_on(release: str) -> None:
    """What ``republish_headers`` is for: the broker's own count of a message that was published again."""
    with worker(release) as work:
        tag, properties = work.get()
        for _ in range(3):
            work.fail("reject", tag)
            tag, properties = work.get()
            work.channel.basic_publish("", "work", b"job", properties)
            work.channel.basic_ack(tag)
            tag, properties = work.get()
        work.fail("reject", tag)
        history = dlx.death_history(work.get()[1])
        assert history.rejected_in("work") == (4 if release in UNTIL_3_13 else 1)
