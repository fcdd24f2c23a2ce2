"""RabbitMQ is the judge of its own side of a move: on a server messages are lost, kept and dead-lettered as it says.

Each history is played with short times. Only that of a consumer that settles nothing is left out: servers look for
those once a minute.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from dlx.releases import release
from simulator.analysis.snapshot import Snapshot
from simulator.events import Event
from simulator.scenario import steps
from simulator.scenario.steps import AnyStep
from simulator.sources import definitions_from_file
from simulator.systems.compare.outcome import Ran
from simulator.systems.move.moving import Moving
from simulator.systems.move.playing import HISTORIES, Fate, is_told_by
from simulator.systems.move.reading import read
from simulator.systems.zaqar import nearest
from simulator.testing.brokers.running_server import RunningServer
from simulator.testing.fuzz.topology_under_test import read_topology
from tests.compare.moves import MOVES, ROOT
from tests.live.servers import LiveServer
from tests.testing.live_player import LivePlayer, quicker, quicker_history
from tests.testing.test_counterexamples_live import assert_refused, is_refused

SOURCES = [
    *sorted({case.source for case in MOVES.values() if case.source != "-"}),
    "examples/topologies/broken/held-for-ever.json",
]
LONGEST_MS = 100
AT_A_TIME = 12
ROUNDS = 4


class SaidOfRabbitMQ(NamedTuple):
    """What a move says of one history, and how the simulator came to say it."""

    name: str
    fate: Fate
    ran: Ran


def test_rabbitmq_does_what_a_move_says_of_it(live_server: LiveServer, tmp_path: Path) -> None:
    said = [each for source in SOURCES for each in said_of(source, live_server.release)]
    folders = [tmp_path / str(number) for number in range(len(said))]
    for folder in folders:
        folder.mkdir()
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        found = pool.map(lambda each, folder: differences(live_server, each, folder), said, folders)
        assert [each for each in found if each] == []


def said_of(source: str, of: str) -> Iterator[SaidOfRabbitMQ]:
    topology = read(Snapshot(definitions_from_file(ROOT / source), release(of)))
    moving = Moving(topology, nearest, "zaqar", "redis", of)
    for to_play, *_ in moving.shapes:
        for history in HISTORIES:
            if history.how != "hold" and is_told_by(history, to_play.queue):
                plays = moving.plays(to_play, history)
                name = f"{source}, {to_play.queue.name}: {history.words}"
                yield SaidOfRabbitMQ(name, plays.under_rabbitmq(), plays.ran_under_rabbitmq()[1])


def differences(server: LiveServer, said: SaidOfRabbitMQ, folder: Path) -> dict[str, Any]:
    """Return what a server does otherwise; nothing where it refuses the topology."""
    definitions = said.ran.scenario["definitions"]
    if is_refused(server, definitions):
        assert_refused(server, definitions, folder)
        return {}
    history = tuple(eventful(said))
    factor = max(1.0, max((step.ms for step in history if isinstance(step, steps.Wait)), default=0) / LONGEST_MS)
    path = folder / "definitions.json"
    path.write_text(json.dumps(quicker(definitions, factor)))
    topology, expected = read_topology(path), ready(said)
    with RunningServer(server).broker(None, topology) as broker, LivePlayer(broker.amqp_url) as player:
        player.play(quicker_history(history, factor))
        player.leave()
        found = player.settled(topology.topology.queues, lambda depths: counted(said, depths) == expected)
    done = {"left": counted(said, found), "refused": player.refused, "idle": player.idle}
    told = {"left": expected, "refused": dict(said.fate.ends).get("refused", 0), "idle": []}
    if not said.fate.endless:  # what its consumer has when it is stopped counts as delivered
        done["deliveries"], told["deliveries"] = player.deliveries.total(), said.fate.deliveries
    return {} if done == told else {"history": said.name, "said": said.fate.words(), "done": done, "told": told}


def counted(said: SaidOfRabbitMQ, depths: Mapping[str, int]) -> Counter[str]:
    """Return how many messages there are by queue; of what goes round for ever, how many there are somewhere."""
    return Counter(all=sum(depths.values())) if said.fate.endless else +Counter(depths)


def ready(said: SaidOfRabbitMQ) -> Counter[str]:
    """Return how many messages a consumer would find, as ``counted``."""
    last = {event["message"]: event["event"] for event in said.ran.events}
    if said.fate.endless:
        return Counter(all=len(last))
    return Counter(each.queue for name, each in said.ran.left.items() if last[name] != Event.HELD)


def eventful(said: SaidOfRabbitMQ) -> Iterator[AnyStep]:
    """Yield the steps of the history, without the time in which nothing happens to a message, or could.

    Subscriptions are left out as well: the first step that settles a message makes them. What goes round for ever goes
    round ``ROUNDS`` times, of which moves compare the pauses.
    """
    history = steps.from_builtins(said.ran.scenario["steps"])
    lives_ms = [step.expiration_ms or 0 for step in history if isinstance(step, steps.Publish)]
    events = said.ran.attempts[:ROUNDS] if said.fate.endless else said.ran.events
    left_ms, rounds = math.ceil(max(*lives_ms, *(event["time_ms"] for event in events))), 0
    for step in history:
        if isinstance(step, steps.Wait):
            step = steps.Wait(min(step.ms, left_ms))
            left_ms -= step.ms
        if step != steps.Wait(0) and not isinstance(step, steps.Hold):
            yield step
        rounds += isinstance(step, (steps.Reject, steps.Requeue, steps.Crash))
        if said.fate.endless and rounds == ROUNDS:
            return
