"""All topologies of up to two queues, in every release: lint says that messages are lost exactly where they can be.

The oracle of ``tests.enumeration`` says where; it knows nothing of lint, nor lint of it.
"""

from __future__ import annotations

from itertools import product

import pytest

from dlx.deaths import DELIVERY_LIMIT
from dlx.releases import RELEASES, release
from simulator.analysis.losses import Losses, find_losses
from simulator.analysis.snapshot import Snapshot
from simulator.definitions import Definitions
from tests.enumeration.oracle import NO_EXCHANGE, Oracle, Queue
from tests.enumeration.space import Space
from tests.long import some_in_ci


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "queues"), some_in_ci(product(RELEASES, [1, 2]), [*product(RELEASES, [1]), ("4.3", 2)])
)
def test_lint_and_the_oracle_agree(name: str, queues: int) -> None:
    space = Space(queues, release(name))
    judged = disagreed = 0
    for topology in space.topologies():
        definitions = space.definitions(topology)
        found = find_losses(Snapshot(Definitions(definitions, "definitions"), space.release))
        expected = Oracle([Queue(space.kinds[kind], target) for kind, target in topology], space.release).losses()
        judged += 1
        if bool(found.lost) != bool(expected) and not _promised(found, expected):
            disagreed += 1
            print(definitions["queues"], expected, [(each.queue, each.reason, each.fate) for each in found.lost])
    assert judged > 10
    assert disagreed == 0


def _promised(found: Losses, expected: set[str]) -> bool:
    """Whether only returns to a parking queue lose messages: consumers promise not to."""
    return expected == {NO_EXCHANGE} and any(each.reason == DELIVERY_LIMIT for each in found.promised)
