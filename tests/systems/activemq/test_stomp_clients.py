"""Other people's clients of STOMP see of the simulator what they see of a real broker.

``python -m tests.systems.activemq.test_stomp_clients`` asks a real broker, and keeps what they saw.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.clients.cache import npm_packages, virtualenv
from tests.systems.activemq.live.player import Player
from tests.systems.activemq.live.record_stomp import free_port
from tests.systems.activemq.live.side_by_side import BROKER
from tests.systems.activemq.live.stomp_cases import Talk

HERE = Path(__file__).parent
SEEN = HERE / "recorded_stomp_clients.json"
CLIENTS = ("stomp.py", "stompit")
SECONDS = 180
QUIET_S, QUIET_LIVE_S = 0.3, 1.0


def seen(client: str, port: int, quiet_s: float) -> list[str]:
    """Return the lines of a client's program, one for each behaviour."""
    env = dict(os.environ)
    if client == "stomp.py":
        program = [virtualenv(["stomp.py==9.0.0"]), HERE / "with_stomp_py.py"]
    else:
        program = ["node", HERE / "with_stompit.js"]
        env["NODE_PATH"] = os.fspath(npm_packages("stompit", ["stompit@1.0.0"]) / "node_modules")
    command = [*program, str(port), str(quiet_s)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=SECONDS, check=True)
    return done.stdout.splitlines()


@contextmanager
def simulated() -> Iterator[int]:
    """Serve a broker without a configuration, in real time; yield its port."""
    serve = [sys.executable, "-m", "simulator.cli.main", "serve", "activemq", "--port", "0", "--management-port", "0"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline().split()[0].rpartition(":")[2])
        finally:
            process.terminate()


@contextmanager
def real() -> Iterator[int]:
    """Start a real broker without a configuration but for STOMP; yield its port."""
    subprocess.run([BROKER, "prepare"], check=True)
    port, player = free_port(), Player(BROKER)
    try:
        with player.broker(Talk([]).xml.replace("{port}", str(port))):
            yield port
    finally:
        player.close()


@pytest.mark.frameworks
@pytest.mark.parametrize("client", CLIENTS)
def test_it_sees_what_it_sees_of_a_real_broker(client: str) -> None:
    with simulated() as port:
        assert seen(client, port, QUIET_S) == json.loads(SEEN.read_text())[client]


def main() -> None:
    """Ask a real broker, a new one for each client."""
    found = {}
    for client in CLIENTS:
        with real() as port:
            found[client] = seen(client, port, QUIET_LIVE_S)
    SEEN.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
