"""What a redrive predicts comes true on real servers; ``python -m tests.redrive.fates`` tries far more."""

from __future__ import annotations

from collections import Counter

from tests.live.servers import LiveServer
from tests.redrive.fates import MESSAGES_OF_A_CASE, compare

SEEDS = [3, 4, 6, 9]


def test_predicted_fates_come_true_on_a_real_server(live_server: LiveServer) -> None:
    kinds = Counter[str]()
    assert compare(live_server, SEEDS, kinds) == []
    assert kinds.total() == MESSAGES_OF_A_CASE * len(SEEDS)
    assert len(kinds) >= 4
