"""RabbitMQ is the judge: what lint calls lost is lost on a real server, by the history that lint prints.

50 losses of each release, of all kinds, in topologies of one and two queues. At the end
every queue of the server holds as many messages as on the simulator, where one is lost:
nothing more and nothing less is gone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dlx.releases import Release, release
from simulator.analysis.losses import find_losses
from simulator.analysis.snapshot import Snapshot
from simulator.definitions import Definitions
from simulator.scenario import steps
from simulator.scenario.properties.property import PropertyBroken
from simulator.scenario.properties.property_registry import Lossless
from simulator.scenario.steps import History
from simulator.scenario.trial import Trial
from tests.enumeration.space import Space
from tests.live.servers import LiveServer
from tests.testing.live_player import factor_for, quicker, quicker_history
from tests.testing.test_counterexamples_live import depths, played

LOSSES = {1: 15, 2: 35}  # in topologies of so many queues
ACTIONS_MAX = 40
STRIDE = {1: 3, 2: 7}


class Case(NamedTuple):
    """A loss to play."""

    definitions: dict[str, Any]
    history: History


def cases(rules: Release, queues: int) -> Iterator[Case]:
    """Losses in topologies of so many queues: one of each kind, then a second one, and so on."""
    kinds: defaultdict[object, list[Case]] = defaultdict(list)
    space = Space(queues, rules)
    for topology in islice(space.topologies(), 0, None, STRIDE[queues]):
        definitions = space.definitions(topology)
        for loss in find_losses(Snapshot(Definitions(definitions, "definitions"), rules)).lost:
            if steps.length(loss.history) <= ACTIONS_MAX:
                kind = loss.reason, loss.fate, tuple(hop.reason for hop in loss.path)
                kinds[kind].append(Case(definitions, loss.history))
    for alike in zip_longest(*kinds.values()):
        yield from filter(None, alike)


@pytest.mark.parametrize("part", range(5))
def test_a_loss_that_lint_reports_happens_on_a_server(live_server: LiveServer, part: int, tmp_path: Path) -> None:
    rules = release(live_server.release)
    chosen = [case for queues, many in LOSSES.items() for case in islice(cases(rules, queues), many)]
    assert len(chosen) == sum(LOSSES.values())
    for definitions, history in chosen[part::5]:
        factor = factor_for(definitions, history)
        quick, hurried = quicker(definitions, factor), quicker_history(history, factor)
        trial = Trial(quick, release=live_server.release)
        trial.play(hurried)
        expected = depths(trial)
        _, found = played(live_server, quick, hurried, tmp_path, expected)
        assert found == expected, (definitions["queues"], history)
        with pytest.raises(PropertyBroken):
            Trial(quick, release=live_server.release, properties=[Lossless()]).play(hurried)
