"""Random histories of both protocols on one queue: a real server and the simulator send the same frames."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("proton")

from simulator.server.node import Node
from tests.amqp10 import session_transcripts
from tests.amqp10.random_histories import live, simulated
from tests.broker import invariants
from tests.live.servers import LiveServer

SEEDS = range(200)
AT_A_TIME = 8  # histories mostly wait
PATIENCE_S = (0.1, 0.5)  # how long a server is quiet that has sent what it sends; a busy one may be late


def test_random_histories_come_out_as_on_the_server(live_server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    if live_server.release not in session_transcripts.RELEASES:
        pytest.skip("speaks no AMQP 1.0")

    def differs(seed: int) -> bool:
        return live(live_server, seed) != simulated(live_server.release, seed)

    differing = list(SEEDS)
    for quiet_s in PATIENCE_S:
        monkeypatch.setattr(session_transcripts, "QUIET_S", quiet_s)
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            differing = [seed for seed, so in zip(differing, pool.map(differs, differing), strict=True) if so]
    assert not differing, f"python -m tests.amqp10.random_histories --count 1 --seed {differing[0]} shows how"


@pytest.mark.parametrize("release", session_transcripts.RELEASES)
def test_whatever_links_do_the_broker_fits_together(release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its counters are right, and no link with credit waits for a message that is ready."""
    settle = Node.settle
    checked = 0

    def settled(node: Node) -> None:
        nonlocal checked
        settle(node)
        invariants.check(node.broker)
        checked += 1

    monkeypatch.setattr(Node, "settle", settled)
    for seed in range(40):
        simulated(release, seed)
    assert checked > 1_000
