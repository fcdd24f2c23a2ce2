"""A few random topologies with random traffic on each server: its log replays without a finding."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.fuzzing.rounds import play
from tests.live.fuzzing.topology import ServerFault
from tests.live.servers import LiveServer

# Each of them has found a defect once: streams, forged histories, policies, the firehose.
SEEDS = [104, 109, 111, 113, 115, 209]


@pytest.fixture
def lost_sockets() -> Iterator[None]:
    """pika leaves sockets of lost connections open; have them collected before the next test."""
    yield
    gc.collect()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("lost_sockets")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_recorded_log_replays_without_a_finding(live_server: LiveServer, seed: int, tmp_path: Path) -> None:
    try:
        result = play(live_server, seed, tmp_path)
    except ServerFault as fault:
        pytest.skip(f"the server failed: {fault}")
    again = f"python -m tests.live.replay_fuzz --release {live_server.release}=... --seed {seed} --rounds 1"
    assert result.verdicts["agree"] > 0, f"nothing was delivered: {result.line()}"
    assert [(row["line"], row["verdict"], row["why"]) for row in result.findings] == [], again
