"""A driver may have a deep queue handed out in parts, so that other clients have their turn."""

from __future__ import annotations

from simulator.broker.commands import Consume, DeclareQueue, PassTime, Publish
from simulator.broker.replies import Delivered
from tests.broker.test_machine import CHANNEL, START_US, opened


def test_a_deep_queue_is_handed_out_in_parts_and_whole_in_the_end() -> None:
    broker = opened()
    broker.hand_out_max = 40
    broker.handle(DeclareQueue(channel=CHANNEL, queue="deep"), START_US)
    for _ in range(100):
        broker.handle(Publish(CHANNEL, "", "deep"), START_US)
    parts = [broker.handle(Consume(channel=CHANNEL, queue="deep", consumer_tag="c"), START_US)]
    while broker.next_due() == START_US:
        parts.append(broker.handle(PassTime(), START_US))
    assert [sum(isinstance(reply, Delivered) for reply in part) for part in parts] == [40, 40, 20]
    tags = [reply.delivery_tag for part in parts for reply in part if isinstance(reply, Delivered)]
    assert tags == list(range(1, 101))
