"""What a message may do while it is unknown which of two definitions is in force."""

from __future__ import annotations

from dlx import Binding, Exchange, Message, Queue, Topology, release
from dlx.message_flow import MessageFlow
from simulator.replay.repair.repair_log import EitherFlow

RULES = release("4.3")


def flow(exchange_type: str) -> MessageFlow:
    bindings = [Binding(source="orders", destination=name, routing_key=name) for name in ("work", "audit")]
    queues = [Queue(name="work"), Queue(name="audit")]
    exchange = Exchange(name="orders", type=exchange_type)
    return MessageFlow(Topology.of(exchanges=[exchange], queues=queues, bindings=bindings), RULES)


def test_a_publish_enters_the_queues_of_either() -> None:
    to_all, by_key = flow("fanout"), flow("direct")
    message = Message(exchange="orders", routing_keys=("work",))
    for one, other in ((to_all, by_key), (by_key, to_all)):
        either = EitherFlow(one, other, {"work", "audit"})
        assert sorted(state.queue for state, _ in either.entering(message)) == ["audit", "work"]
