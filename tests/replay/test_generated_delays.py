"""Drawn histories on the simulator's broker with exchanges of plugins: its own definitions are never flagged."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dlx.topology import Binding, Exchange, Queue, Topology
from simulator.scenario import steps
from simulator.scenario.steps import AnyStep
from tests.replay.broker_logs import broker_log
from tests.replay.test_generated import SLOW, TTL_MS, Log, replayed

TO_LATER = {"x-dead-letter-exchange": "later"}
TO_PARKED = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "parked"}


def shop() -> Topology:
    """``later`` delays; ``fan`` leads to a queue and to ``later``; ``either`` chooses a queue for each message."""
    return Topology.of(
        queues=[
            Queue(name="work", arguments=TO_LATER),
            Queue(name="slow", arguments={"x-message-ttl": TTL_MS, **TO_PARKED}),
            Queue(name="poison", type="quorum", arguments={"x-queue-type": "quorum", **TO_LATER}),
            Queue(name="parked"),
        ],
        exchanges=[
            Exchange(name="later", type="x-delayed-message", arguments={"x-delayed-type": "direct"}),
            Exchange(name="fan", type="fanout"),
            Exchange(name="either", type="x-random"),
        ],
        bindings=[
            *(Binding(source="later", destination=name, routing_key=name) for name in ("work", "slow", "poison")),
            Binding(source="fan", destination="later", destination_type="exchange"),
            Binding(source="fan", destination="parked"),
            *(Binding(source="either", destination=name) for name in ("work", "slow")),
        ],
    )


def _at(kind: type, *queues: str) -> st.SearchStrategy[AnyStep]:
    return st.builds(kind, st.sampled_from(queues), st.integers(1, 3))


DELAYS = st.sampled_from(
    ({}, {"x-delay": 0}, {"x-delay": 300}, {"x-delay": 1_500}, {"x-delay": "300"}, {"x-delay": -5})
)
PUBLISHES = st.builds(
    steps.Publish,
    st.sampled_from(("later", "later", "fan", "", "either")),
    st.sampled_from(("work", "slow", "poison", "work")),
    DELAYS,
    times=st.integers(1, 3),
)
STEPS: st.SearchStrategy[AnyStep] = st.one_of(
    PUBLISHES,
    _at(steps.Reject, "work", "poison"),
    _at(steps.Requeue, "work", "poison"),
    _at(steps.Ack, "work", "slow", "parked", "poison"),
    st.sampled_from((1, 299, 300, TTL_MS, 1_500)).map(steps.Wait),
)
LOGS = st.tuples(st.sampled_from(("3.8", "3.10", "4.0", "4.3")), st.lists(STEPS, min_size=3, max_size=16)).map(
    lambda drawn: (drawn[0], broker_log(drawn[1], shop(), drawn[0]))
)


@SLOW
@given(LOGS)
def test_the_right_definitions_are_never_flagged(log: Log) -> None:
    for row in replayed(log[1], shop(), log[0]):
        assert row["verdict"] in ("agree", "ambiguous"), row
