"""Random histories of both protocols on one queue: a real server and the simulator send the same frames."""

from __future__ import annotations

import pytest

pytest.importorskip("proton")

from tests.amqp10 import session_transcripts
from tests.amqp10.random_histories import live, simulated
from tests.live.servers import LiveServer

SEEDS = range(100)
QUIET_S = 0.05


def test_random_histories_come_out_as_on_the_server(live_server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    if live_server.release not in session_transcripts.RELEASES:
        pytest.skip("speaks no AMQP 1.0")
    monkeypatch.setattr(session_transcripts, "QUIET_S", QUIET_S)
    differing = [seed for seed in SEEDS if _differs(live_server, seed)]
    assert not differing, f"python -m tests.amqp10.random_histories --count 1 --seed {differing[0]} shows how"


def _differs(server: LiveServer, seed: int) -> bool:
    """Whether a history comes out otherwise, twice: a busy server may be late with a frame."""
    return all(live(server, seed) != simulated(server.release, seed) for _ in range(2))
