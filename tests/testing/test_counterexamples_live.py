"""RabbitMQ is the judge of what the search finds: real servers break as it says, and lose nothing where it says so."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dlx.releases import DEFAULT, release
from dlx.topology import QUORUM
from simulator.analysis.entries import entries
from simulator.analysis.slices import flows_of
from simulator.bootstrap import import_definitions
from simulator.broker import Broker
from simulator.broker.state import QueueState
from simulator.definitions import DefinitionsError
from simulator.events import Event
from simulator.lint_reports.project import read_config
from simulator.scenario import steps
from simulator.scenario.properties.property_registry import RETURNS_MAX
from simulator.scenario.steps import AnyStep, History
from simulator.testing import Trial
from simulator.testing.brokers.running_server import RunningServer
from simulator.testing.brokers.servers import Server
from simulator.testing.fuzz.systematic_search import Search
from simulator.testing.fuzz.topology_under_test import read_topology
from tests.live.servers import LiveServer
from tests.testing.live_player import LATE_MS, LivePlayer, factor_for, quicker, quicker_history

ROOT = Path("examples/topologies")
TOPOLOGIES: dict[str, dict[str, dict[str, Any]]] = tomllib.loads((ROOT / "topologies.toml").read_text())
BROKEN, SOUND = TOPOLOGIES["broken"], TOPOLOGIES["sound"]

PAUSE_MS = 300  # at least so long messages pause in sound topologies: longer than a consumer needs
FAILURES = 4
SOON_MS = 5_000


def played(
    server: LiveServer, definitions: Any, history: History, folder: Path, queues: dict[str, int]
) -> tuple[LivePlayer, dict[str, int]]:
    """The history on that server; the depths in the end, which are to be those of ``queues``."""
    path = folder / "definitions.json"
    path.write_text(json.dumps(definitions))
    real = Server(server.release, server.version, server.amqp_url, server.management_url)
    with RunningServer(real).broker(None, read_topology(path)) as broker:
        with LivePlayer(broker.amqp_url) as player:
            player.play(history)
            player.leave()
            found = player.settled(queues, lambda depths: depths == queues)
        return player, found


def depths(trial: Trial) -> dict[str, int]:
    """How many messages the simulator has ready in each queue, when its consumers have left."""
    for queue in list(trial.queues()):
        trial.leave(queue.name)
    return {queue.name: queue.messages - queue.store.pending for queue in trial.queues()}


# Broken


def breaks_in(name: str, of: str) -> bool:
    """Whether the topology is broken in a release: only new ones have a default delivery limit, or hold messages."""
    if name == "held-for-ever":
        return release(of).quorum_at_least_once
    return name != "default-delivery-limit" or release(of).quorum_default_delivery_limit is not None


def history_of(name: str, of: str) -> History:
    """What the search finds, or where it must find nothing, what it finds in the default release."""
    definitions, broken = ROOT / "broken" / f"{name}.json", BROKEN[name]["property"]
    found = Search(definitions, broken, release=of).run()
    assert (found is not None) == breaks_in(name, of)
    found = found or Search(definitions, broken).run()
    assert found is not None
    return found.history


@pytest.mark.parametrize("name", BROKEN)
def test_a_history_that_was_found_breaks_a_real_server(name: str, live_server: LiveServer, tmp_path: Path) -> None:
    definitions = json.loads((ROOT / "broken" / f"{name}.json").read_bytes())
    if is_refused(live_server, definitions):
        assert_refused(live_server, definitions, tmp_path)
        return
    history = history_of(name, live_server.release)
    factor = factor_for(definitions, history)
    definitions, history = quicker(definitions, factor), quicker_history(history, factor)

    trial = Trial(definitions, release=live_server.release)
    trial.play(history)
    expected = depths(trial)
    player, found = played(live_server, definitions, history, tmp_path, expected)

    assert player.idle == []
    assert found == expected
    assert is_broken(BROKEN[name]["property"], history, player, found) == breaks_in(name, live_server.release)


def is_broken(broken: str, history: History, player: LivePlayer, found: dict[str, int]) -> bool:
    """Whether what a server did breaks the property."""
    left = sum(found.values())
    match broken:
        case "lossless":
            return left < player.published
        case "arrives":  # a server does not count what it holds as ready
            return left < player.published
        case "accepts":
            return player.refused > 0
        case "settles":
            waited = any(isinstance(step, steps.Wait) for step in history)
            return not waited and left == player.published and max(player.deliveries.values()) > RETURNS_MAX
        case "punctual":
            passed_ms = sum(step.ms for step in history if isinstance(step, steps.Wait))
            overdue = [step for step in history if isinstance(step, steps.Publish) and _expired(step, passed_ms)]
            return len(overdue) == 1 and max(found.values()) == player.published == 2
    raise ValueError(broken)


def _expired(publish: steps.Publish, passed_ms: int) -> bool:
    return publish.expiration_ms is not None and publish.expiration_ms < passed_ms


# Frameworks


LOSING = ("celery-x-death", "dramatiq", "laravel")


@pytest.mark.parametrize("name", LOSING)
def test_a_real_server_loses_what_a_framework_loses_with_its_clients(
    name: str, live_server: LiveServer, tmp_path: Path
) -> None:
    folder, described = ROOT / "frameworks", TOPOLOGIES["frameworks"][name]
    clients = read_config(folder / f"{name}.toml").clients
    rules = described.get("release", DEFAULT)
    lossy = Search(folder / f"{name}.json", "lossless", release=rules, clients=clients).run()
    assert lossy is not None
    definitions = json.loads((folder / f"{name}.json").read_bytes())
    factor = factor_for(definitions, lossy.history)
    definitions, history = quicker(definitions, factor), quicker_history(lossy.history, factor)

    trial = Trial(definitions, release=live_server.release)
    trial.play(history)
    expected = depths(trial)
    player, found = played(live_server, definitions, history, tmp_path, expected)

    assert player.idle == []
    assert found == expected
    counts = name != "celery-x-death" or release(live_server.release).client_deaths_continued
    assert is_broken("lossless", history, player, found) == counts


# Sound


@pytest.mark.parametrize("name", SOUND)
def test_a_real_server_loses_nothing_in_a_sound_topology(name: str, live_server: LiveServer, tmp_path: Path) -> None:
    definitions = json.loads((ROOT / "sound" / f"{name}.json").read_bytes())
    definitions = quicker(definitions, factor_for(definitions, longest_ms=2 * PAUSE_MS), PAUSE_MS)
    if is_refused(live_server, definitions):
        assert_refused(live_server, definitions, tmp_path)
        return
    trial = Trial(definitions, release=live_server.release)
    copies = fail_all(trial)
    expected = depths(trial)
    player, found = played(live_server, definitions, tuple(trial.history), tmp_path, expected)
    assert player.published > 0
    assert sum(found.values()) == sum(expected.values())
    if live_server.release == DEFAULT:  # what older ones do not know yet may be lost there
        assert sum(expected.values()) == copies


def fail_all(trial: Trial) -> int:
    """Publish by every entry; consumers reject and crash until the message settles, and time passes.

    Returns how many copies the publishes put into queues.
    """
    copies = 0
    for publish in entries(flows_of(trial)).publishes:
        for failure in (steps.Reject, steps.Crash):
            trial.do(publish)
            copies += sum(event.event == Event.ROUTED and not message.deaths for event, message in trial.events)
            for _ in range(FAILURES):
                queue = next(_failing(trial, failure), None)
                if queue is not None:
                    trial.do(failure(queue.name))
                if queue is None or queue.settings.delayed_retry is not None:
                    _wait(trial)
        _wait(trial)
    return copies


def _failing(trial: Trial, failure: type[AnyStep]) -> Iterator[QueueState]:
    """Queues with messages whose consumers fail so; where messages pause, nobody consumes."""
    for queue, _ in trial.copies():
        crashes = failure is steps.Crash and queue.definition.type == QUORUM
        if queue.settings.message_ttl_ms is None and (queue.settings.dead_letters or crashes):
            yield queue


def _wait(trial: Trial) -> None:
    due_us = trial.broker.next_due()
    if due_us is not None and due_us - trial.now_us < SOON_MS * 1_000:
        trial.wait(max(0, (due_us - trial.now_us) // 1_000) + LATE_MS)


def is_refused(server: LiveServer, definitions: Any) -> bool:
    """Tell whether a simulated server of the release refuses to import the definitions."""
    try:
        import_definitions(Broker(server.release), definitions, 0, strict=True)
    except DefinitionsError:
        return True
    return False


def assert_refused(server: LiveServer, definitions: Any, folder: Path) -> None:
    """Where the simulator refuses definitions, so does the server."""
    with pytest.raises(DefinitionsError):
        played(server, definitions, (), folder, {})
