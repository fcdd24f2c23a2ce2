"""The simulator against the recorded vectors: the recorder's own steps, with the answers of the real servers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import msgspec
import pytest

import simulator
from tests import real_servers
from tests.vectors.build import Case
from tests.vectors.outcomes import Outcome, Settings, run
from tests.vectors.record import RECORDED, pretty, read
from tests.vectors.server import Server


@functools.cache
def recorded() -> dict[tuple[str, str], list[tuple[Case, Outcome]]]:
    """Return the vectors with what was recorded of them, by their kind and the release."""
    found: dict[tuple[str, str], list[tuple[Case, Outcome]]] = {}
    for path in sorted(RECORDED.glob("*.json")):
        for vector in read(path.stem):
            case = msgspec.convert(vector, Case)
            for seen in vector["seen"]:
                for release in seen["releases"]:
                    found.setdefault((case.kind, release), []).append((case, seen["outcome"]))
    return found


@pytest.fixture(scope="module")
def server_of() -> Iterator[Callable[[str], Server]]:
    """Serve the releases that are asked for, each once, on virtual time."""
    servers: dict[str, Server] = {}
    with ExitStack() as stack:

        def get(release: str) -> Server:
            if release not in servers:
                served = stack.enter_context(simulator.serve(release, management_port=0))
                servers[release] = stack.enter_context(_simulated(release, served))
            return servers[release]

        yield get


def _simulated(release: str, served: simulator.Server) -> Server:
    assert served.management_url is not None
    now_s = served.clock.now_us() / 1e6

    def now() -> float:
        return now_s

    def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s = served.clock.advance(seconds=seconds) / 1e6

    return Server(release, served.amqp_url, served.management_url, now, sleep)


@pytest.mark.parametrize(("kind", "release"), recorded())
def test_the_simulator_does_what_the_server_did(server_of: Callable[[str], Server], kind: str, release: str) -> None:
    """Copies with all their headers in order, refusals with their texts, effective policies, values in force."""
    found = {case.name: pretty(_outcome(server_of(release), case)) for case, _ in recorded()[kind, release]}
    assert found == {case.name: pretty(outcome) for case, outcome in recorded()[kind, release]}


def _outcome(server: Server, case: Case) -> Outcome:
    if case.kind != "settings":
        return run(server, case)
    settings = Settings(server, case, 0)
    settings.set_up()
    try:
        return settings.outcome()
    finally:
        server.drop_vhost(settings.vhost)


def test_there_are_vectors_of_every_kind_and_release() -> None:
    """A lost file or a changed form must not turn these tests into none."""
    least = {"letters": 190, "routing": 50, "publish": 6, "settings": 30, "effective": 40, "validation": 10}
    for kind, number in least.items():
        for release in real_servers.RECORDED:
            assert len({case.name for case, _ in recorded()[kind, release]}) >= number, (kind, release)
