"""Internal exchanges, which RabbitMQ leaves out of its exports: their bindings stay, and tell their type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dlx.releases import release
from simulator.cli.main import main
from simulator.definitions import Definitions
from simulator.questions.losses import find_losses
from simulator.questions.snapshot import Snapshot
from tests.testing.test_search import topology
from tests.testing.test_trial import queue

CAPTURED = Path(__file__).parents[2] / "examples" / "captured-4.3" / "definitions.json"


def taken(binding: dict[str, Any]) -> Snapshot:
    document = topology([queue("orders", dead_letter_exchange="inside"), queue("dead")])
    given = {"source": "inside", "vhost": "/", "destination": "dead", "destination_type": "queue", "routing_key": ""}
    return Snapshot(Definitions({**document, "bindings": [{**given, **binding}]}, "definitions"), release("4.3"))


@pytest.mark.parametrize(
    ("binding", "kind"),
    [
        ({}, "fanout"),
        ({"routing_key": "orders"}, "direct"),
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


def test_a_captured_broker_can_be_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(CAPTURED), "--publish", "orders", "order.created"]) in (0, 1)
    assert main(["graph", str(CAPTURED), "--format", "dot"]) == 0
    assert "how exchange 'logs.internal' in virtual host 'dlx-workload' routes" in capsys.readouterr().err
