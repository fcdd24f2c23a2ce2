"""Topologies that users reported are found broken, each by its property; sound ones are not."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from dlx.releases import DEFAULT, release
from simulator.analysis.clients import Clients
from simulator.analysis.lint.linting import lint
from simulator.definitions import read_definitions
from simulator.lint_reports.project import read_config
from simulator.scenario.properties.property_registry import PROMISES
from simulator.testing import PropertyBroken, TopologyMachine, replay
from simulator.testing.fuzz.systematic_search import Search

ROOT = Path("examples/topologies")
TOPOLOGIES: dict[str, dict[str, dict[str, Any]]] = tomllib.loads((ROOT / "topologies.toml").read_text())
BROKEN, SOUND, FRAMEWORKS = TOPOLOGIES["broken"], TOPOLOGIES["sound"], TOPOLOGIES["frameworks"]
SOUND_IN = ("lossless", "settles")


def test_every_topology_is_described_and_every_description_has_one() -> None:
    for kind, described in TOPOLOGIES.items():
        assert {path.stem for path in (ROOT / kind).glob("*.json")} == set(described)
    assert len(BROKEN) >= 10
    assert len(SOUND) >= 10


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_topology_breaks_its_property_and_the_history_shows_it(name: str) -> None:
    definitions, broken = ROOT / "broken" / f"{name}.json", BROKEN[name]["property"]
    found = Search(definitions, broken).run()
    assert found is not None
    assert len(found.history) <= 3, "the history is not as short as it could be"
    with pytest.raises(PropertyBroken, match=f"^{broken} is broken"):
        replay(definitions, found.history, properties=[broken])


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.parametrize("name_of_property", SOUND_IN)
def test_no_way_that_a_message_can_go_breaks_a_sound_topology(name: str, name_of_property: str) -> None:
    search = Search(ROOT / "sound" / f"{name}.json", name_of_property)
    assert search.run() is None
    assert search.untried == []
    assert search.tried > len(search.publishes), "nothing was tried"


def clients_of(framework: str) -> Clients:
    return read_config(ROOT / "frameworks" / FRAMEWORKS[framework].get("clients", f"{framework}.toml")).clients


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_lint_says_of_a_framework_what_is_so_with_its_clients(name: str) -> None:
    rules = release(FRAMEWORKS[name].get("release", DEFAULT))
    report = lint(read_definitions(ROOT / "frameworks" / f"{name}.json"), rules, clients_of(name))
    assert {each.name for each in report.findings} == set(FRAMEWORKS[name]["lint"])
    lost = {each.about.name for each in report.findings if each.severity == "error"}
    told = {each.about.name for each in report.findings if each.name == "bounded-dead-letter-queue"}
    assert lost | told == set(FRAMEWORKS[name].get("lost", ()))
    assert report.unchecked == ()


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_fuzz_loses_in_a_framework_what_its_clients_let_it(name: str) -> None:
    rules = FRAMEWORKS[name].get("release", DEFAULT)
    path = ROOT / "frameworks" / f"{name}.json"
    search = Search(path, "lossless", release=rules, clients=clients_of(name))
    found = list(search.run_all())
    assert {each.broken.cause.queue for each in found} == set(FRAMEWORKS[name].get("lost", ()))
    assert search.complete
    for each in found:
        with pytest.raises(PropertyBroken, match=r"^lossless is broken"):
            replay(path, each.history, release=rules, properties=["lossless"])


@pytest.mark.parametrize("name", ["celery", "symfony"])
def test_without_its_clients_a_framework_would_seem_to_lose_more(name: str) -> None:
    definitions = read_definitions(ROOT / "frameworks" / f"{name}.json")
    rules = {each.name for each in lint(definitions, release(DEFAULT)).findings}
    assert rules - set(FRAMEWORKS[name]["lint"])


def machine(kind: str, name: str, *of: str, systematic: bool = True) -> type[TopologyMachine]:
    class Machine(TopologyMachine):
        definitions = ROOT / kind / f"{name}.json"
        properties = of

    Machine.systematic = systematic
    return Machine


def run(of: type[TopologyMachine], examples: int) -> None:
    quick = settings(
        max_examples=examples,
        stateful_step_count=25,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(of, settings=quick)


@pytest.mark.parametrize("name", BROKEN)
def test_the_machine_finds_it(name: str) -> None:
    broken = BROKEN[name]["property"]
    with pytest.raises(PropertyBroken, match=f"^{broken} is broken") as caught:
        run(machine("broken", name, broken), 5)
    (note,) = (each for each in caught.value.__notes__ if each.startswith(broken))
    for part in (
        "The shortest history found:",
        "What happened to that message:",
        "def test_",
        "sequenceDiagram",
        "dlx fuzz",
    ):
        assert part in note


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["ladder-cycle", "default-delivery-limit", "own-dead-letter-exchange", "key-not-covered"]
)
def test_the_machine_finds_it_at_random_alone(name: str) -> None:
    broken = BROKEN[name]["property"]
    with pytest.raises(PropertyBroken, match=f"^{broken} is broken"):
        run(machine("broken", name, broken, systematic=False), 200)


@pytest.mark.slow
@pytest.mark.parametrize("name", SOUND)
def test_the_machine_finds_nothing_in_a_sound_topology(name: str) -> None:
    run(machine("sound", name, *SOUND_IN), 8)


def test_the_properties_are_those_that_the_topologies_break() -> None:
    assert {each["property"] for each in BROKEN.values()} == set(PROMISES)
