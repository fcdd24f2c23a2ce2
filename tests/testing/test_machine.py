"""The state machine as its users have it: subclassed, with rules and invariants of their own."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import invariant, rule, run_state_machine_as_test

from simulator.broker import Broker, queues
from simulator.broker.copies import Copy
from simulator.broker.state import QueueState
from simulator.testing import PropertyBroken, TopologyMachine
from simulator.testing.steps import Publish, Reject, Repeat, Wait
from tests.testing.test_trial import LADDER, definitions, queue

QUICK = settings(
    max_examples=40,
    stateful_step_count=20,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
)


def run(machine: type[TopologyMachine], **other: Any) -> None:
    run_state_machine_as_test(machine, settings=settings(QUICK, **other))


@pytest.mark.parametrize("release", ["3.8", "3.10", "3.13", "4.0", "4.3"])
def test_the_invariants_hold_in_topologies_that_it_draws(release: str) -> None:
    class Drawn(TopologyMachine):
        pass

    Drawn.release = release
    run(Drawn)


def test_it_does_all_that_it_says() -> None:
    done: set[str] = set()

    class Watched(TopologyMachine):
        definitions = LADDER

        def do(self, step: Any) -> None:
            super().do(step)
            done.add(type(step).__name__)

    run(Watched, max_examples=100)
    assert done >= {"Publish", "Ack", "Reject", "Requeue", "Crash", "Hold", "Leave", "Wait", "SetPolicy", "ClearPolicy"}


def test_definitions_stay_fixed_for_properties_of_a_topology() -> None:
    class Fixed(TopologyMachine):
        definitions = LADDER
        properties = ("lossless",)

        @invariant()
        def nobody_changed_a_policy(self) -> None:
            assert not hasattr(self, "trial") or not self.trial.broker.vhosts["/"].policies

    run(Fixed)


def test_rules_and_invariants_of_ones_own() -> None:
    class Parked(TopologyMachine):
        definitions = LADDER
        purged = 0

        @rule()
        def look(self) -> None:
            type(self).purged += 1

        @invariant()
        def the_wait_queue_stays_empty(self) -> None:
            if hasattr(self, "trial"):
                wait = self.trial.queue("orders.wait")
                assert wait is not None
                assert wait.messages == 0, "a message waits"

    with pytest.raises(AssertionError, match="a message waits"):
        run(Parked)
    assert Parked.purged


def test_histories_may_begin_where_publishers_publish() -> None:
    both = definitions(queue("orders", dead_letter_exchange="nowhere"), queue("safe"))

    class Safe(TopologyMachine):
        definitions = both
        properties = ("lossless",)
        publishes = (Publish("", "safe"),)

    run(Safe)

    class Both(TopologyMachine):
        definitions = both
        properties = ("lossless",)

    with pytest.raises(PropertyBroken, match="dead-letter exchange 'nowhere' of queue 'orders' does not exist"):
        run(Both)


def test_a_broker_that_forgets_messages_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Conservation: the queue loses its head without an event."""
    right = queues.requeue

    def forgetful(broker: Broker, queue: QueueState, copies: list[Copy], *rest: Any) -> None:
        right(broker, queue, copies[1:], *rest)

    monkeypatch.setattr(queues, "requeue", forgetful)

    class Forgetful(TopologyMachine):
        definitions = LADDER

    with pytest.raises(PropertyBroken, match="conservation is broken: messages appeared or vanished"):
        run(Forgetful)


def test_a_broker_that_miscounts_deaths_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """x-death: the count of a second death stays what it was."""
    from simulator.broker import dead_letters

    right = dead_letters.dead_letter

    def forgetful(message: Any, *rest: Any, **named: Any) -> Any:
        verdict = right(message, *rest, **named)
        if verdict.message is None or len(message.deaths or ()) < 2:
            return verdict
        return msgspec.structs.replace(verdict, message=msgspec.structs.replace(verdict.message, deaths=message.deaths))

    monkeypatch.setattr(dead_letters, "dead_letter", forgetful)

    class Forgetful(TopologyMachine):
        definitions = LADDER

        @rule()
        def go_round(self) -> None:
            self.do(Repeat((Publish("", "orders"), Reject("orders"), Wait(30_000)), 3))

    with pytest.raises(PropertyBroken, match="x-death is broken: x-death says"):
        run(Forgetful)
