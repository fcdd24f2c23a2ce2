"""Random topologies and histories: what `dlx upgrade` does not tell makes no difference to any message.

The history is played under the release before, and under the same with every behaviour that
was *not* told as it will be after the upgrade. Both have to end alike.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlx.death_headers import stored_headers
from dlx.field_values import plain
from dlx.releases import RELEASES, Release, differing_behaviours, release
from simulator.analysis.upgrade.report import upgraded
from simulator.definitions import Definitions
from simulator.scenario.steps import History
from simulator.scenario.trial import Trial
from simulator.testing.strategies import definitions_document, histories, topologies
from tests.random_examples import random_examples

EXAMPLES = int(os.environ.get("DLX_UPGRADE_EXAMPLES", "40"))  # a hundred take half a minute or more
KINDS = ("publish", "ack", "reject", "requeue", "crash", "hold", "get", "leave", "wait", "repeat")
TIMES = "time"


@st.composite
def cases(draw: st.DrawFn) -> tuple[dict[str, Any], Release, Release, History]:
    before, after = (release(draw(st.sampled_from(RELEASES))) for _ in range(2))
    topology = draw(topologies(release=before, queues_max=4))
    history = draw(histories(topology=topology, kinds=KINDS, steps_max=25, release=before))
    return definitions_document(topology, before), before, after, history


@pytest.mark.slow
@random_examples(EXAMPLES)
@given(cases())
def test_what_is_not_told_makes_no_difference(case: tuple[dict[str, Any], Release, Release, History]) -> None:
    document, before, after, history = case
    told = {each.behaviour for each in upgraded(Definitions(document, "definitions"), before, after).changes}
    told |= {"death_history"}  # where the history is kept: rows of their own tell all that follows from it
    untold = {row.name: getattr(after, row.name) for row in differing_behaviours(before, after) if row.name not in told}
    assert ends(document, before, history) == ends(document, msgspec.structs.replace(before, **untold), history), told


def ends(document: dict[str, Any], rules: Release, history: History) -> dict[str, Counter[str]]:
    """The messages in each queue in the end, as their consumers see them."""
    trial = Trial(document, release=rules)  # type: ignore[arg-type]  # a broker takes a release itself as well
    trial.play(history)
    found: dict[str, Counter[str]] = {queue.name: Counter() for queue in trial.queues()}
    for queue, copy in trial.copies():
        seen = stored_headers(copy.message)
        found[queue.name][msgspec.json.encode(seen, enc_hook=plain, order="deterministic").decode()] += 1
    return found
