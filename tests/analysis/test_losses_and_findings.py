"""15 random topologies: ``dlx fuzz --all --discards`` and lint agree: lint misses no queue."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from dlx.deaths import REJECTED
from dlx.releases import DEFAULT, release
from simulator.analysis.losses import find_losses
from simulator.analysis.snapshot import Snapshot
from simulator.definitions import Definitions
from simulator.scenario.properties.property import PropertyBroken
from simulator.scenario.properties.property_registry import Lossless
from simulator.scenario.trial import Trial
from simulator.testing.fuzz.systematic_search import Search
from simulator.testing.strategies import definitions as definitions_documents
from tests.random_examples import random_examples

TRIED_MAX = 6_000


@pytest.mark.slow
@random_examples(15)
@given(definitions_documents(queues_max=3))
def test_lint_and_all_findings_agree(document: dict[str, Any]) -> None:
    lint = find_losses(Snapshot(Definitions(document, "definitions"), release(DEFAULT)))
    search = Search(document, "lossless", discards=True)
    findings = list(search.run_all(lambda tried: tried < TRIED_MAX))
    causes = [found.broken.cause for found in findings]
    assert len(set(causes)) == len(causes)
    for found in findings:
        counted = Lossless(spared=frozenset())
        with pytest.raises(PropertyBroken):
            Trial(document, properties=[counted]).play(found.history)
    parking = {loss.queue for loss in lint.promised if (loss.vhost, loss.queue) in lint.parking}
    lossy = {loss.queue for loss in lint.lost}
    lossy |= {loss.queue for loss in lint.promised if loss.queue not in parking or loss.reason != REJECTED}
    assert {cause.queue for cause in causes} <= lossy  # lint plays some that the search does not think of
