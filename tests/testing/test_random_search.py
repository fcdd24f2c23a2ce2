"""Random histories: what only they find, what counts as found, and that a seed repeats them."""

from __future__ import annotations

from typing import Any

import pytest

from dlx.message import Message
from simulator.events import Event, Happened
from simulator.scenario import steps
from simulator.scenario.player import Player
from simulator.scenario.trial import Trial
from simulator.testing.fuzz.random_search import search_at_random
from simulator.testing.fuzz.systematic_search import Search
from tests.testing.test_search import topology
from tests.testing.test_trial import queue

STEPS = 25
DEFINITIONS = topology([queue("q", queue_type="quorum", delivery_limit=3), queue("other")])


def searched(seed: int, tried_max: int = 400, definitions: Any = DEFINITIONS) -> tuple[Any, int]:
    search = Search(definitions, "lossless")
    return search_at_random(search, seed, STEPS, lambda tried: tried < tried_max)


def test_it_finds_by_itself_what_is_broken() -> None:
    counterexample, _ = searched(0)
    assert counterexample is not None
    assert steps.length(counterexample.history) == 5  # a publish and four crashes
    assert counterexample.broken.property == "lossless"


def test_nothing_is_found_in_a_sound_topology() -> None:
    assert searched(7, 60, topology([queue("q")])) == (None, 7)


def test_the_seed_it_tells_finds_it_again_in_the_first_batch() -> None:
    counterexample, seed = searched(0)
    again, at = searched(seed, 25)
    assert again is not None
    assert (again.history, at) == (counterexample.history, seed)


def test_seeds_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    played: dict[int, list[Any]] = {}
    do = Trial.do
    for seed in (1, 2):
        played[seed] = seen = []
        monkeypatch.setattr(Trial, "do", lambda trial, step, seen=seen: (seen.append(step), do(trial, step))[1])
        searched(seed, 20, topology([queue("q")]))
    assert played[1] != played[2]


def test_a_fault_of_the_simulator_is_told_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    observe = Player._observe

    def forgetful(player: Player, happened: Happened, message: Message) -> None:
        if happened.event != Event.ACKED:
            observe(player, happened, message)

    monkeypatch.setattr(Player, "_observe", forgetful)
    counterexample, _ = searched(0, 400, topology([queue("q")]))
    assert counterexample is not None
    assert counterexample.broken.property == "conservation"
