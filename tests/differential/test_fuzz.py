"""Random scripts: the simulator does what a real server of its release does (``tests.differential.fuzz``)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

import dlx
from tests.differential.fuzz.cases import Case, Outcome, judge
from tests.differential.fuzz.report import report
from tests.live.servers import LiveServer

SEED, CASES, HELD_CASES, PLUGIN_CASES = 1, 80, 10, 25
WORKERS = 16  # servers mostly wait
UNDETERMINED_ONE_IN = 20


def assert_same(server: LiveServer, kind: str, number: int) -> None:
    """None diverges; and hardly any is such that the server itself cannot say what happens."""
    cases = [Case.drawn(case, server, kind) for case in range(SEED, SEED + number)]
    with ThreadPoolExecutor(WORKERS) as pool:
        others = [judged for judged in pool.map(judge, cases) if judged.outcome not in (Outcome.SAME, Outcome.KNOWN)]
    bad = [judged for judged in others if judged.outcome is not Outcome.UNDETERMINED]
    assert not bad, "\n".join(map(report, bad))
    assert len(others) <= max(1, number // UNDETERMINED_ONE_IN), "\n".join(map(report, others))


@pytest.mark.live
def test_random_scripts(live_server: LiveServer) -> None:
    assert_same(live_server, "any", CASES)


@pytest.mark.live
def test_random_at_least_once_dead_lettering(live_server: LiveServer) -> None:
    """How many dead letters each queue holds, and where all others come."""
    if not dlx.release(live_server.release).quorum_at_least_once:
        pytest.skip(f"RabbitMQ {live_server.release} does not know at-least-once")
    assert_same(live_server, "held", HELD_CASES)


@pytest.mark.live
@pytest.mark.bundled
def test_random_exchanges_of_plugins(live_server: LiveServer) -> None:
    """Hash exchanges choose the queues that the server chooses, and histories are replayed as there."""
    assert_same(live_server, "plugins", PLUGIN_CASES)
