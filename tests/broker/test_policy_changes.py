"""Policies that are set, cleared and imported: which queues notice, and how much work that is."""

from __future__ import annotations

from typing import Any

import pytest

from dlx import policies
from dlx.releases import RELEASES
from dlx.topology import Policy
from simulator.broker import Broker
from simulator.broker.commands import ClearPolicy, Command, DeclareQueue, ImportDefinitions, PassTime, SetPolicy
from tests.broker.test_machine import CHANNEL, MS, START_US, opened

OWN = Policy(name="own", pattern="^q$", definition={"max-length": 5}, priority=1)


def expiring(release: str) -> Broker:
    """A broker with a queue that is deleted when it has been unused for a second, and a policy that applies to it."""
    broker = opened(release)
    broker.handle(DeclareQueue(channel=CHANNEL, queue="q", arguments={"x-expires": 1_000}), START_US)
    broker.handle(SetPolicy("/", OWN), START_US)
    return broker


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    "change",
    [
        SetPolicy("/", OWN),
        SetPolicy("/", Policy(name="other", pattern="^other", definition={"max-length": 7}, priority=9)),
        SetPolicy("/", Policy(name="lower", pattern="^q$", definition={"max-length": 7})),
    ],
    ids=lambda command: command.policy.name,
)
def test_a_queue_does_not_notice_policies_that_do_not_apply_to_it(release: str, change: Command) -> None:
    broker = expiring(release)
    broker.handle(change, START_US + 600 * MS)
    broker.handle(PassTime(), START_US + 1_100 * MS)
    assert "q" not in broker.vhosts["/"].queues


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    "change",
    [
        ClearPolicy("/", "own"),
        SetPolicy("/", Policy(name="own", pattern="^q$", definition={"max-length": 5}, priority=2)),
        SetPolicy("/", Policy(name="higher", pattern="^q$", definition={"max-length": 5}, priority=9)),
    ],
    ids=["cleared", "another priority", "another policy"],
)
def test_a_policy_that_comes_to_apply_counts_as_use_of_a_classic_queue(release: str, change: Command) -> None:
    broker = expiring(release)
    broker.handle(change, START_US + 600 * MS)
    broker.handle(PassTime(), START_US + 1_100 * MS)
    assert "q" in broker.vhosts["/"].queues
    broker.handle(PassTime(), START_US + 1_700 * MS)
    assert "q" not in broker.vhosts["/"].queues


def document(queues: int, count: int) -> dict[str, Any]:
    return {
        "vhosts": [{"name": "/"}],
        "queues": [{"vhost": "/", "name": f"q{number}", "arguments": {}} for number in range(queues)],
        "policies": [
            {"vhost": "/", "name": f"p{number}", "pattern": f"^q{number}$", "definition": {"max-length": 1}}
            for number in range(count)
        ],
    }


def test_an_import_looks_for_each_pattern_in_each_name_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []
    found = policies.pattern_found
    monkeypatch.setattr(policies, "pattern_found", lambda *each: asked.append(each) or found(*each))
    broker = Broker()
    broker.handle(ImportDefinitions(document(20, 10)), START_US)
    assert len(asked) == len(set(asked)) <= 20 * 10
    queues = broker.vhosts["/"].queues
    assert [queues[f"q{number}"].settings.max_length for number in (3, 9, 10)] == [1, 1, None]
    asked.clear()
    broker.handle(ImportDefinitions(document(20, 10)), START_US)
    assert not asked, "the same policies once more change nothing"


def test_the_policies_that_do_not_apply_are_told_as_they_are_now() -> None:
    broker = expiring("4.3")
    other = Policy(name="other", pattern="^other", definition={"max-length": 7})
    broker.handle(SetPolicy("/", other), START_US)
    told = broker.vhosts["/"].queues["q"].settings.policy.skipped
    assert [(skipped.policy, skipped.why) for skipped in told] == [
        (other, "pattern '^other' is not found in the name"),
    ]


UNSUPPORTED = Policy(name="p", pattern="^n", definition={"expires": 60_000, "max-length": 1})
QUORUM = {"x-queue-type": "quorum"}


def has_policy(broker: Broker) -> bool:
    return broker.vhosts["/"].queues["n"].settings.policy.policy is not None


@pytest.mark.parametrize("release", ["3.8", "3.9"])
def test_in_3_8_a_new_quorum_queue_has_a_policy_that_it_does_not_support_until_another_changes(release: str) -> None:
    broker = opened(release)
    broker.handle(SetPolicy("/", UNSUPPORTED), START_US)
    broker.handle(DeclareQueue(channel=CHANNEL, queue="n", durable=True, arguments=QUORUM), START_US)
    assert has_policy(broker)  # in 3.9 because expires is supported there
    restored = Broker.restore(broker.snapshot())
    assert has_policy(restored)
    restored.handle(SetPolicy("/", Policy(name="other", pattern="^other", definition={"max-length": 7})), START_US)
    assert has_policy(restored) == (release != "3.8")
    assert has_policy(Broker.restore(restored.snapshot())) == (release != "3.8")


def test_a_queue_that_a_broker_is_started_with_is_no_new_one() -> None:
    broker = opened("3.8")
    policy = {"name": "p", "pattern": "^n", "definition": dict(UNSUPPORTED.definition)}
    queue = {"name": "n", "durable": True, "auto_delete": False, "arguments": QUORUM}
    broker.handle(ImportDefinitions({"policies": [policy], "queues": [queue]}, "/"), START_US)
    assert not has_policy(broker)
