"""Random histories within a time: batches of ``TopologyMachine``, each with a seed of its own."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis.errors import Flaky
from hypothesis.stateful import run_state_machine_as_test

from simulator.scenario.properties.property import PropertyBroken
from simulator.scenario.properties.property_registry import named
from simulator.scenario.steps import AnyStep
from simulator.testing.fuzz.counterexample import Counterexample
from simulator.testing.fuzz.systematic_search import Search, Tick
from simulator.testing.topology_machine import TopologyMachine

BATCH = 20


class _TimeIsUp(BaseException):
    """Ends a batch: Hypothesis takes an ``Exception`` for a failure of the test."""


def search_at_random(search: Search, first_seed: int, steps_max: int, tick: Tick) -> tuple[Counterexample | None, int]:
    """Run batches until something is found or ``tick`` says that time is up; with the seed of the last batch."""
    machine, at = _machine(search, tick), first_seed
    while tick(search.tried):
        try:
            run_state_machine_as_test(seed(at)(machine), settings=_settings(steps_max))
        except PropertyBroken as broken:
            found = _confirmed(search, broken)
            if found is not None:
                return found, at
        except (_TimeIsUp, Flaky):  # to Hypothesis, a test that ends early for no reason of its own is flaky
            if tick(search.tried):
                raise
        at += 1
    return None, first_seed


def _confirmed(search: Search, broken: PropertyBroken) -> Counterexample | None:
    """Return the counterexample, shortened unless it breaks an invariant: then the simulator is at fault."""
    if broken.property not in [each.name for each in search.properties]:
        return search.play(broken.history, lambda: named(broken.property))
    return search.counterexample(broken.history) or search.play(broken.history)


def _settings(steps_max: int) -> settings:
    """Return settings that store and shorten nothing: ``search.counterexample`` shortens in bounded time."""
    return settings(
        max_examples=BATCH,
        stateful_step_count=steps_max,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
        print_blob=False,
    )


def _machine(search: Search, tick: Tick) -> type[TopologyMachine]:
    class Random(TopologyMachine):
        definitions = search.definitions
        release = search.release
        properties = search.makers
        publishes = search.publishes
        discards = search.discards
        clients = search.clients
        systematic = False

        def do(self, step: AnyStep) -> None:
            if not tick(search.tried):
                raise _TimeIsUp
            super().do(step)

        def teardown(self) -> None:
            search.tried += 1

    return Random
