"""Internal exchanges, which RabbitMQ leaves out of its exports: their bindings stay, and tell their type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dlx.releases import release
from simulator.analysis.losses import find_losses
from simulator.analysis.snapshot import Snapshot
from simulator.cli.main import main
from simulator.definitions import Definitions
from tests.testing.test_search import topology
from tests.testing.test_trial import queue

CAPTURED = Path(__file__).parents[2] / "examples" / "captured-4.3" / "definitions.json"


def taken(binding: dict[str, Any]) -> Snapshot:
    document = topology([queue("orders", dead_letter_exchange="inside"), queue("dead")])
    given = {"source": "inside", "vhost": "/", "destination": "dead", "destination_type": "queue", "routing_key": ""}
    document |= {"rabbitmq_version": "4.3.6", "bindings": [{**given, **binding}]}
    return Snapshot(Definitions(document, "definitions"), release("4.3"))


@pytest.mark.parametrize(
    ("binding", "kind"),
    [
        ({}, "fanout"),
        ({"routing_key": "orders"}, "direct"),
        ({"routing_key": "dead"}, "fanout"),
        ({"routing_key": "orders.#"}, "topic"),
        ({"routing_key": "a#b"}, "direct"),
        ({"arguments": {"x-match": "all", "region": "eu"}}, "headers"),
    ],
)
def test_the_bindings_tell_the_type_and_the_guess_is_told(binding: dict[str, Any], kind: str) -> None:
    snapshot = taken(binding)
    exchange = snapshot.topologies["/"].exchanges["inside"]
    assert (exchange.type, exchange.internal) == (kind, True)
    guess = f"how exchange 'inside' routes, which the export leaves out: here as a {kind} exchange"
    assert guess in find_losses(snapshot).unchecked


def test_a_binding_of_a_queue_that_is_left_out_is_told() -> None:
    """Exports leave out exclusive queues, and hold what binds them."""
    snapshot = taken({"destination": "amq.gen-1"})
    (said,) = [each for each in find_losses(snapshot).unchecked if "amq.gen-1" in each]
    assert said.startswith("what happens to messages in queue 'amq.gen-1': the export has its bindings")


@pytest.mark.parametrize("more", [{}, {"dead-letter-exchange": "", "dead-letter-routing-key": "dead"}])
def test_what_a_policy_says_to_a_plugin_is_told_and_the_rest_applies(more: dict[str, Any]) -> None:
    document = topology([queue("orders", message_ttl=1_000), queue("dead")])
    policy = {"name": "far", "vhost": "/", "pattern": "^orders$", "apply-to": "queues", "priority": 0}
    policy["definition"] = {"federation-upstream-set": "all", **more}
    snapshot = Snapshot(Definitions({**document, "policies": [policy]}, "definitions"), release("4.3"))
    found = find_losses(snapshot)
    assert "what a plugin does with 'federation-upstream-set' in policy 'far'" in found.unchecked
    assert {loss.queue for loss in found.lost} == (set() if more else {"orders"})


@pytest.mark.parametrize("of", ["3.10", "4.3"])
def test_a_limit_that_came_after_the_queues_takes_none_of_them_away(of: str) -> None:
    document = topology([queue("orders"), queue("dead")])
    limit = {"component": "vhost-limits", "name": "limits", "vhost": "/", "value": {"max-queues": 1}}
    snapshot = Snapshot(Definitions({**document, "parameters": [limit]}, "definitions"), release(of))
    assert {*snapshot.topologies["/"].queues} == {"orders", "dead"}


def test_a_captured_broker_can_be_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(CAPTURED), "--publish", "orders", "order.created"]) in (0, 1)
    assert main(["graph", str(CAPTURED), "--format", "dot"]) == 0
    assert "how exchange 'logs.internal' in virtual host 'dlx-workload' routes" in capsys.readouterr().err
