"""What a real server counts: in small cases as recorded, and in random workloads so that the books of a replay balance.

The counters are those of the whole server. A case that somebody disturbed is tried again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dlx.releases import release
from simulator.capture.live import read_metrics
from tests.counters.__main__ import played_alone
from tests.counters.cases import CASES, counted
from tests.counters.judging import differences, problems
from tests.counters.playing import Target, play, undisturbed
from tests.counters.record import recorded
from tests.counters.simulators import simulated
from tests.counters.workloads import draw
from tests.live.servers import LiveServer

TRIES = 5
SEEDS = [1, 12, 24]


@pytest.fixture
def target(live_server: LiveServer) -> Target:
    """The server, if it counts dead letters."""
    if not release(live_server.release).dead_letters_counted:
        pytest.skip(f"RabbitMQ {live_server.release} does not count dead letters")
    found = Target(live_server)
    if found.metrics_url is None:
        pytest.skip("the server's Prometheus plugin is off")
    return found


def test_the_counters_are_there_from_the_start(target: Target) -> None:
    found = set(read_metrics(str(target.metrics_url)).reading.by_series())
    with simulated(target.server.release) as (other, _):
        expected = set(read_metrics(str(other.metrics_url)).reading.by_series())
    assert {series for series in found if series.name.startswith("messages_")} == expected


@pytest.mark.parametrize("name", CASES)
def test_a_case_counts_as_recorded(target: Target, name: str) -> None:
    expected = recorded(target.server.release)[name]
    found = {}
    for _ in range(TRIES):
        found = undisturbed(lambda: counted(target, name))
        if found == expected:
            break
    assert found == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_the_books_of_a_workload_balance(target: Target, seed: int, tmp_path: Path) -> None:
    played = played_alone(target, seed, tmp_path / "server")
    with simulated(target.server.release) as (other, _):
        expected = play(other, draw(seed), tmp_path / "simulated")
    assert [*problems(played), *differences(played, expected)] == []
