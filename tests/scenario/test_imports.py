"""Scenarios are below the harness and the server: who plays one loads neither, and no library of theirs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HARNESS = ("simulator.testing", "simulator.server", "pytest", "hypothesis", "pika", "starlette", "uvicorn", "docker")
SOCKETS = ("socket", "asyncio", "ssl", "http")
SCENARIO = ROOT / "tests" / "scenario" / "orders.json"
HISTORY = ROOT / "examples" / "compare" / "name-with-a-dot.json"
SIMULATE = f"import simulator.cli.main as dlx; assert dlx.main(['simulate', 'rabbitmq', {str(SCENARIO)!r}]) == 0"
COMPARE = f"import simulator.cli.main as dlx; assert dlx.main(['compare', {str(HISTORY)!r}]) == 0"
ALL_OF_SCENARIO = """
import importlib, pkgutil, simulator.scenario as room
for module in pkgutil.walk_packages(room.__path__, "simulator.scenario."):
    importlib.import_module(module.name)
"""


def loaded(code: str) -> set[str]:
    """Return the modules that a fresh Python has loaded after it ran the code."""
    told = f"{code}\nimport sys; sys.stdout.write('\\n' + ' '.join(sys.modules))"
    run = subprocess.run([sys.executable, "-c", told], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(run.stdout.splitlines()[-1].split())


def among(modules: set[str], names: tuple[str, ...]) -> list[str]:
    """Return the modules that have one of the names, or are below one."""
    return sorted(each for each in modules if any(each == name or each.startswith(f"{name}.") for name in names))


@pytest.mark.parametrize("code", [ALL_OF_SCENARIO, SIMULATE, COMPARE], ids=["scenario", "simulate", "compare"])
def test_playing_a_scenario_loads_neither_the_harness_nor_the_server(code: str) -> None:
    modules = loaded(code)
    assert "simulator.scenario.player" in modules
    assert among(modules, HARNESS) == []


def test_the_player_opens_no_sockets() -> None:
    assert among(loaded("import simulator.scenario.player, simulator.scenario.rabbitmq_scenario"), SOCKETS) == []


def test_simulate_does_not_load_the_checks_of_a_trial() -> None:
    assert among(loaded(SIMULATE), ("simulator.scenario.properties", "simulator.scenario.trial")) == []
