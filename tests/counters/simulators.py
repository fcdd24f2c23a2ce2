"""Simulators to play workloads on, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import simulator
from simulator.server.in_process import Server
from simulator.testing.brokers.servers import ask
from tests.counters.playing import Target


@contextmanager
def simulated(release: str) -> Iterator[tuple[Target, Server]]:
    """Yield a simulator of the release, as one to play on and as what it is."""
    with simulator.serve(release, management_port=0, metrics_port=0) as server:

        def pass_time(milliseconds: int) -> None:
            server.clock.advance(milliseconds=milliseconds)

        yield Target(ask(f"{server.amqp_url}|{server.management_url}"), pass_time, quiet_s=0), server
