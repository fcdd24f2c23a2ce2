"""Drawn arguments and policies are taken, or refused, as was asked for: by the broker of each release."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dlx
from dlx.operator_errors import OperatorError
from dlx.policies import pattern_found
from dlx.releases import RELEASES, release
from simulator.broker import Broker
from simulator.broker.commands import DeclareQueue, OpenChannel, OpenConnection, SetPolicy
from simulator.broker.replies import ChannelClosed, QueueDeclared
from simulator.testing.strategies import policies, queue_arguments, queues, settings
from tests.testing.reaching import reached

Kind = tuple[str, str]
KINDS: list[Kind] = [(name, kind) for name in RELEASES for kind in sorted(release(name).queue_types)]
NAMES = ("orders", "orders.wait", "mail")


def declared(name: str, arguments: Any) -> Any:
    """The broker's answer to the declaration of a durable queue."""
    broker = Broker(name)
    broker.handle(OpenConnection("c"), 0)
    broker.handle(OpenChannel(("c", 1)), 0)
    (answer,) = broker.handle(DeclareQueue(channel=("c", 1), queue="q", durable=True, arguments=arguments), 0)
    return answer


@given(
    st.sampled_from(KINDS).flatmap(
        lambda kind: st.tuples(st.just(kind[0]), queue_arguments(release=kind[0], type=kind[1]))
    )
)
def test_arguments_are_accepted(drawn: tuple[str, Any]) -> None:
    assert isinstance(declared(*drawn), QueueDeclared)


@given(
    st.sampled_from(KINDS).flatmap(
        lambda kind: st.tuples(st.just(kind[0]), queue_arguments(release=kind[0], type=kind[1], valid=False))
    )
)
def test_invalid_arguments_are_refused(drawn: tuple[str, Any]) -> None:
    answer = declared(*drawn)
    assert isinstance(answer, ChannelClosed)
    assert answer.code == 406


@given(
    st.sampled_from(RELEASES).flatmap(
        lambda name: st.tuples(st.just(name), st.booleans().flatmap(lambda op: named_policies(name, op)))
    )
)
def test_policies_are_accepted_and_match(drawn: tuple[str, tuple[bool, dlx.Policy]]) -> None:
    name, (operator, policy) = drawn
    Broker(name).handle(SetPolicy("/", policy, operator), 0)
    assert any(pattern_found(policy.pattern, queue) for queue in NAMES)


@given(
    st.sampled_from(RELEASES).flatmap(
        lambda name: st.tuples(st.just(name), st.booleans().flatmap(lambda op: named_policies(name, op, valid=False)))
    )
)
def test_invalid_policies_are_refused(drawn: tuple[str, tuple[bool, dlx.Policy]]) -> None:
    name, (operator, policy) = drawn
    with pytest.raises(OperatorError):
        Broker(name).handle(SetPolicy("/", policy, operator), 0)


def named_policies(name: str, operator: bool, **how: Any) -> st.SearchStrategy[tuple[bool, dlx.Policy]]:
    return st.tuples(st.just(operator), policies(release=name, operator=operator, queue_names=NAMES, **how))


@given(st.sampled_from(RELEASES).flatmap(lambda name: st.tuples(st.just(name), queues(release=name))))
def test_queues_are_of_the_type_that_their_arguments_say(drawn: tuple[str, dlx.Queue]) -> None:
    name, queue = drawn
    assert queue.arguments.get("x-queue-type", "classic") == queue.type
    assert isinstance(declared(name, queue.arguments), QueueDeclared)


@given(st.sampled_from(RELEASES).flatmap(lambda name: settings(release=name)))
def test_settings_are_those_of_a_queue_that_can_be_declared(drawn: dlx.Settings) -> None:
    assert isinstance(declared(drawn.release.name, drawn.queue.arguments), QueueDeclared)
    policies = [each.policy for each in (drawn.policy, drawn.operator_policy) if each.policy is not None]
    assert all(pattern_found(policy.pattern, drawn.queue.name) for policy in policies)


@given(settings(types=["quorum"], policies=False))
def test_settings_without_policies(drawn: dlx.Settings) -> None:
    assert drawn.queue.type == "quorum"
    assert drawn.policy.policy is drawn.operator_policy.policy is None
    assert {setting.origin.kind for setting in drawn.values.values()} <= {"argument", "server default"}


REACHED = {
    "a value that hides another": lambda drawn: any(setting.hidden for setting in drawn.values.values()),
    "at-least-once": lambda drawn: drawn.dead_letter_strategy == "at-least-once",
    "delayed retry": lambda drawn: drawn.delayed_retry is not None,
    "no delivery limit": lambda drawn: drawn.delivery_limit is None,
    "no time to live": lambda drawn: drawn.message_ttl_ms == 0,
    "a queue that is its own dead-letter queue": lambda drawn: (
        drawn.dead_letter_exchange == "" and drawn.dead_letter_routing_key == drawn.queue.name
    ),
}


@pytest.mark.parametrize("what", REACHED)
def test_what_matters_is_reached(what: str) -> None:
    assert REACHED[what](reached(settings(types=["quorum"]), REACHED[what]))


def test_settings_that_a_type_ignores_are_reached() -> None:
    assert reached(settings(types=["classic"], release="3.8"), lambda drawn: drawn.ignored)
