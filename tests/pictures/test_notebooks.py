"""What notebooks show of definitions, of a message's history and of a replay, and when that is loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest

from simulator.analysis.life import live
from simulator.definitions import Definitions
from simulator.message_history import RecordingBroker
from simulator.replay.results.summary import Summary
from simulator.scenario.player import Player
from simulator.scenario.steps import Publish
from tests.pictures.test_graph import LADDER


def test_definitions_are_a_picture_under_the_release_that_exported_them() -> None:
    shown = Definitions(LADDER, "definitions")._repr_html_()
    assert "<svg" in shown
    assert "definitions under RabbitMQ 4.3" in shown
    assert "cycle: back to orders" in shown
    assert "under RabbitMQ 3.13" in Definitions({**LADDER, "rabbitmq_version": "3.13.2"}, "definitions")._repr_html_()


def test_what_no_broker_takes_is_told_under_the_picture() -> None:
    policy = {"vhost": "/", "name": "<none>", "pattern": "", "apply-to": "queues", "definition": {"message-ttl": -1}}
    shown = Definitions({**LADDER, "policies": [policy]}, "definitions")._repr_html_()
    assert "refuses policy &#x27;&lt;none&gt;&#x27;" in shown
    assert "<none>" not in shown


def test_a_history_is_a_picture_and_sentences() -> None:
    history = live(LADDER, Publish("shop", "order.a"), {"orders": ["reject"]}).history
    player = Player(LADDER)
    seen = RecordingBroker().histories
    player.broker.observe(seen.keep)
    player.play(history)
    found = seen.get(1)
    assert found is not None
    shown = found._repr_html_()
    assert "<svg" in shown
    assert "<li>1 min 30 s later its time to live ran out" in shown


def test_the_totals_of_a_replay_are_a_table() -> None:
    shown = Summary(
        messages=9, deliveries=1_000, dead_letters=4, agree=999, differ=1, ambiguous=0, unexplained=0, broken_lines=0
    )._repr_html_()
    assert "The rules do not explain every delivery: 99.90 % agree." in shown
    assert '<td class="n">1,000</td>' in shown


@pytest.mark.parametrize(
    "module", ["simulator.definitions", "simulator.message_history", "simulator.replay.results.summary"]
)
def test_pictures_are_loaded_when_somebody_looks(module: str) -> None:
    code = f"import sys, {module}; sys.exit(any(name.startswith('simulator.pictures') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
