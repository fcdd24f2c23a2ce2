"""Random histories with several consumers come out on a real ActiveMQ as in the simulator.

``DLX_ACTIVEMQ_HISTORIES`` says how many, and ``DLX_ACTIVEMQ_SEED`` from which on. A
history mostly waits, so several are played side by side.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.systems.activemq.live.agreement import assert_agreement
from tests.systems.activemq.live.cases import Case
from tests.systems.activemq.live.conftest import BROKER, why_not
from tests.systems.activemq.live.histories import LATE_MAX, SLOTS_MS, history, late_ms
from tests.systems.activemq.live.player import Line, Player
from tests.systems.activemq.test_recorded import simulated

COUNT = int(os.environ.get("DLX_ACTIVEMQ_HISTORIES", "100"))
SEED = int(os.environ.get("DLX_ACTIVEMQ_SEED", "0"))
AT_ONCE = 4

pytestmark = pytest.mark.live

Played = Callable[[int], tuple[Case, list[Line]]]


@pytest.fixture(scope="module")
def played(request: pytest.FixtureRequest) -> Iterator[Played]:
    """The history of a seed and what a broker made of it. All that are asked for begin to be played at once."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    subprocess.run([BROKER, "prepare"], check=True)
    players: list[Player] = []
    mine = threading.local()

    def begin() -> None:
        mine.player = Player(BROKER)
        players.append(mine.player)

    asked = [item for item in request.session.items if isinstance(item, pytest.Function)]
    seeds = [item.callspec.params["seed"] for item in asked if "played" in item.fixturenames]
    with ThreadPoolExecutor(AT_ONCE, initializer=begin) as pool:
        results = {seed: pool.submit(lambda seed: _in_time(mine.player, seed), seed) for seed in seeds}
        yield lambda seed: results[seed].result()
        pool.shutdown(cancel_futures=True)
    for player in players:
        player.close()


def _in_time(player: Player, seed: int) -> tuple[Case, list[Line]]:
    """Play a history in slots that are long enough for this machine."""
    for slot_ms in SLOTS_MS:
        case = history(seed, slot_ms)
        lines = player.play(case.xml, case.steps)
        late = late_ms(case, lines)
        if late <= LATE_MAX * slot_ms:
            return case, lines
    raise TimeoutError(f"this machine is busy: in slots of {slot_ms} ms something was {late} ms late")


@pytest.mark.parametrize("seed", range(SEED, SEED + COUNT))
def test_the_simulator_does_what_the_broker_does(played: Played, seed: int) -> None:
    case, lines = played(seed)
    assert_agreement(lines, simulated(case), late_ms=-1)
