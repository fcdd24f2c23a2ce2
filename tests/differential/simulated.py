"""The simulator as a target: in this process, on virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import simulator
from tests.differential.player import Target


@contextmanager
def simulated(release: str) -> Iterator[Target]:
    """A simulated server of a release, for one script at a time, as they share its clock."""
    with simulator.serve(release, management_port=0) as server:
        assert server.management_url is not None

        def advance(ms: int) -> None:
            server.clock.advance(milliseconds=ms)

        yield Target(server.amqp_url, server.management_url, advance, lambda: server.clock.now_us() / 1e6)
