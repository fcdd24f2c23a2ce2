"""Losses behind limits that are all large: a history of steps that happen once stays as it is."""

from __future__ import annotations

from dlx.releases import release
from simulator.analysis.losses import find_losses
from simulator.analysis.snapshot import Snapshot
from simulator.definitions import Definitions
from tests.testing.test_search import topology
from tests.testing.test_trial import queue


def test_a_limit_elsewhere_does_not_change_how_a_message_expires() -> None:
    document = topology([queue("brief", message_ttl=1_000), queue("long", max_length=10)])
    found = find_losses(Snapshot(Definitions(document, "definitions"), release("4.3")))
    histories = {loss.queue: loss.history for loss in found.lost}
    assert histories.keys() == {"brief", "long"}
    assert len(histories["brief"]) == 2
