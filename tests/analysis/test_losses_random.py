"""Random topologies: lint calls a topology lossy exactly where the search of ``dlx fuzz`` breaks ``lossless``, or
says that it cannot rule that out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from dlx.deaths import DELIVERY_LIMIT
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

TRIED_MAX = 4_000


@pytest.mark.slow
@random_examples(30)
@given(definitions_documents(queues_max=4))
def test_lint_and_the_search_agree(document: dict[str, Any]) -> None:
    they_agree(document)


@pytest.mark.long
@random_examples(200)
@given(definitions_documents(queues_max=4))
def test_lint_and_the_search_agree_on_200(document: dict[str, Any]) -> None:
    they_agree(document)


def they_agree(document: dict[str, Any]) -> None:
    found = find_losses(Snapshot(Definitions(document, "definitions"), release(DEFAULT)))
    for loss in found.lost:
        with pytest.raises(PropertyBroken):
            Trial(document, properties=[Lossless()]).play(loss.history)

    search = Search(document, "lossless")
    broken = search.run(lambda tried: tried < TRIED_MAX)
    if broken is None:  # the search names what it cannot rule out
        assert not found.lost or search.doubts
    elif not found.lost:  # returns to a parking queue are a promise of consumers
        assert any(loss.reason == DELIVERY_LIMIT for loss in found.promised), broken.history
