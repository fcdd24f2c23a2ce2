"""Random scripts: the simulator does what a real server of its release does (``tests.differential.fuzz``)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.differential.fuzz.cases import Case, Outcome, judge
from tests.differential.fuzz.report import report
from tests.live.servers import LiveServer

SEED, CASES = 1, 125
WORKERS = 16  # servers mostly wait
UNDETERMINED_MOST = CASES // 20


@pytest.mark.live
def test_random_scripts(live_server: LiveServer) -> None:
    """None diverges; and hardly any is such that the server itself cannot say what happens."""
    cases = [Case.drawn(number, live_server) for number in range(SEED, SEED + CASES)]
    with ThreadPoolExecutor(WORKERS) as pool:
        others = [judged for judged in pool.map(judge, cases) if judged.outcome not in (Outcome.SAME, Outcome.KNOWN)]
    bad = [judged for judged in others if judged.outcome is not Outcome.UNDETERMINED]
    assert not bad, "\n".join(map(report, bad))
    assert len(others) <= UNDETERMINED_MOST, "\n".join(map(report, others))
