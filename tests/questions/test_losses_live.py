"""RabbitMQ is the judge: what lint calls lost is lost on a real server, by the history that lint prints.

50 losses of each release, of all kinds, in topologies of one and two queues. Where a
message is left at the end is compared, too: nothing more and nothing less may be lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dlx.releases import Release, release
from simulator.definitions import Definitions
from simulator.questions.losses import find_losses
from simulator.questions.snapshot import Snapshot
from simulator.scenario import steps
from simulator.scenario.steps import History
from simulator.scenario.trial import Trial
from tests.enumeration.space import Space
from tests.live.servers import LiveServer
from tests.testing.live_player import factor_for, quicker, quicker_history
from tests.testing.test_counterexamples_live import depths, played

LOSSES = 50
OF_A_KIND = 7
ACTIONS_MAX = 40
STRIDE = 23


class Case(NamedTuple):
    """A loss to play."""

    definitions: dict[str, Any]
    history: History


def cases(rules: Release) -> Iterator[Case]:
    """Losses in small topologies, so few of each kind that there are all kinds."""
    kinds: Counter[tuple[str, str, int]] = Counter()
    for queues in (1, 2):
        space = Space(queues, rules)
        for topology in islice(space.topologies(), 0, None, 3 if queues == 1 else STRIDE):
            definitions = space.definitions(topology)
            for loss in find_losses(Snapshot(Definitions(definitions, "definitions"), rules)).lost:
                kind = loss.reason, loss.fate, len(loss.path)
                kinds[kind] += 1
                if kinds[kind] <= OF_A_KIND and steps.length(loss.history) <= ACTIONS_MAX:
                    yield Case(definitions, loss.history)


@pytest.mark.parametrize("part", range(5))
def test_a_loss_that_lint_reports_happens_on_a_server(live_server: LiveServer, part: int, tmp_path: Path) -> None:
    chosen = list(islice(cases(release(live_server.release)), LOSSES))
    assert len(chosen) == LOSSES
    for definitions, history in chosen[part::5]:
        factor = factor_for(definitions, history)
        quick, hurried = quicker(definitions, factor), quicker_history(history, factor)
        trial = Trial(quick, release=live_server.release)
        trial.play(hurried)
        expected = depths(trial)
        player, found = played(live_server, quick, hurried, tmp_path, expected)
        assert found == expected, (definitions["queues"], history)
        assert sum(found.values()) < player.published, (definitions["queues"], history)
