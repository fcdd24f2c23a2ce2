"""Who follows the single active consumer, and when. Seen on servers of 3.10.8, 4.0.5 and 4.3.6."""

from __future__ import annotations

import pytest

from dlx.releases import RELEASES
from simulator.broker.commands import Ack, Cancel, Consume
from tests.broker.told import CHANNEL, Told, deliveries


def consume(told: Told, tag: str, priority: int = 0) -> None:
    """Subscribe to the queue q."""
    arguments = {"x-priority": priority} if priority else {}
    told(Consume(channel=CHANNEL, queue="q", consumer_tag=tag, arguments=arguments))


@pytest.mark.parametrize("kind", ["classic", "quorum"])
@pytest.mark.parametrize("release", RELEASES)
def test_the_next_in_line_gets_what_comes_after_the_active_one_cancelled(release: str, kind: str) -> None:
    told = Told(release)
    told.queue("q", x_queue_type=kind, x_single_active_consumer=True)
    consume(told, "first")
    consume(told, "second")
    assert deliveries(told.publish("q", "1")) == [("first", "1")]
    told(Ack(CHANNEL, 1), Cancel(CHANNEL, "first"))
    assert deliveries(told.publish("q", "2")) == [("second", "2")]


@pytest.mark.parametrize("release", ["4.0", "4.3"])
def test_one_of_higher_priority_waits_until_the_active_one_has_acknowledged(release: str) -> None:
    """Meanwhile nobody gets anything."""
    told = Told(release)
    told.queue("q", x_queue_type="quorum", x_single_active_consumer=True)
    consume(told, "low")
    told.publish("q", "1")
    consume(told, "high", priority=5)
    assert deliveries(told.publish("q", "2")) == []
    assert deliveries(told(Ack(CHANNEL, 1))) == [("high", "2")]
    assert deliveries(told.publish("q", "3")) == [("high", "3")]
