"""Other distributions add systems, adapters and releases by entry points; a broken one is named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from dlx.plugins import PluginError, Registry
from dlx.releases import RELEASES

ROOT = Path(__file__).resolve().parents[2]
ACME = """
import msgspec
from dlx.releases import rules_of
from simulator.systems.compare.outcome import Left, Ran
from simulator.scenario.scenario_errors import ScenarioError

VERSIONS = ("v1", "v2")
RELEASE = msgspec.structs.replace(rules_of("4.3-acme", "4.3.6"), quorum_default_delivery_limit=1)
OTHER_NAME = rules_of("4.4", "4.4.0")


def simulate(scenario):
    if "steps" not in scenario:
        raise ScenarioError("steps", "expected a list")
    return {"system": "acme", "events": [], "queues": {}}


def run(neutral, version):
    left = {message.name: Left("warehouse", {}) for message in neutral.messages}
    return Ran(scenario={"version": version}, events=[], attempts=[], acknowledged=(), left=left, notes=["no clock"])
"""
ACME_TYPES = """
import msgspec


class Scenario(msgspec.Struct):
    steps: list
"""
ENTRY_POINTS = """
[dlx.systems]
acme = acme:simulate
broken = acme:not_there
gone = acme_that_is_gone:simulate
number = acme:VERSIONS
rabbitmq = acme:simulate

[dlx.compare_adapters]
acme = acme
poor = acme:simulate

[dlx.releases]
4.3-acme = acme:RELEASE
4.4-acme = acme:OTHER_NAME
"""


def install(folder: Path, name: str, entry_points: str, source: str = "") -> None:
    """Install a distribution of one module into a folder, as pip lays it out."""
    info = folder / f"{name}-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(entry_points)
    if source:
        (folder / f"{name}.py").write_text(source)


@pytest.fixture
def acme(tmp_path: Path) -> Path:
    install(tmp_path / "site", "acme", ENTRY_POINTS, ACME)
    return tmp_path


def dlx(folder: Path, *arguments: str, **files: object) -> tuple[int, str, str]:
    """Run ``dlx`` in a Python that has the folder's distributions, with these JSON files."""
    for name, document in files.items():
        (folder / f"{name}.json").write_text(json.dumps(document))
    path = os.pathsep.join([str(folder / "site"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "simulator.cli.main", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "120"},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_system_of_another_distribution_runs(acme: Path) -> None:
    status, out, _ = dlx(acme, "simulate", "acme", "scenario.json", "--json", scenario={"steps": []})
    assert (status, json.loads(out)["system"]) == (0, "acme")
    status, _, err = dlx(acme, "simulate", "acme", "scenario.json", scenario={})
    assert (status, err) == (65, "Error: scenario.json: steps: expected a list\n")


def test_a_system_of_another_distribution_has_a_schema_if_that_offers_one(acme: Path) -> None:
    status, _, err = dlx(acme, "simulate", "acme", "--schema")
    assert status == 64
    assert "acme has no schema; expected one of rabbitmq, activemq, ibm_mq, ironmq, zaqar" in err
    install(acme / "site", "acme_types", "[dlx.scenario_types]\nacme = acme_types:Scenario\n", ACME_TYPES)
    status, out, _ = dlx(acme, "simulate", "acme", "--schema")
    assert status == 0
    assert json.loads(out)["$defs"]["Scenario"]["properties"] == {"steps": {"type": "array"}}


@pytest.mark.parametrize(
    ("system", "problem"),
    [
        ("broken", "system 'broken' ('acme:not_there' in the distribution acme 1.2) cannot be loaded: AttributeError"),
        ("gone", "in the distribution acme 1.2) cannot be loaded: ModuleNotFoundError: No module named 'acme_that"),
        ("number", "system 'number' ('acme:VERSIONS' in the distribution acme 1.2) has no attribute '__call__'"),
    ],
)
def test_a_broken_system_names_its_distribution(acme: Path, system: str, problem: str) -> None:
    status, out, err = dlx(acme, "simulate", system, "scenario.json", "--json", scenario={})
    assert (status, out) == (69, "")
    assert problem in err


def test_what_is_built_in_keeps_its_name_and_works_beside_a_broken_one(acme: Path) -> None:
    scenario = {"definitions": {"queues": []}, "steps": []}
    status, out, _ = dlx(acme, "simulate", "rabbitmq", "scenario.json", "--json", scenario=scenario)
    assert (status, json.loads(out)["system"]) == (0, "rabbitmq")


def test_an_unknown_system_is_told_those_of_other_distributions(acme: Path) -> None:
    status, _, err = dlx(acme, "simulate", "acne", "scenario.json", scenario={})
    assert status == 64
    assert "rabbitmq" in err
    assert "did you mean 'acme'" in err


def test_an_adapter_of_another_distribution_is_compared(acme: Path) -> None:
    neutral = {"messages": [{"name": "a"}], "until_ms": 1_000}
    status, out, err = dlx(acme, "compare", "neutral.json", "--systems", "acme:v2,ironmq", "--json", neutral=neutral)
    assert status == 0, err
    own, ironmq = json.loads(out)
    assert (own["system"], own["version"], own["messages"][0]["queue"]) == ("acme", "v2", "warehouse")
    assert ironmq["messages"][0]["end"] == "acknowledged"
    status, _, err = dlx(acme, "compare", "neutral.json", "--systems", "acme:v3")
    assert status == 64
    assert "no acme 'v3'; expected one of v1, v2" in err
    status, _, err = dlx(acme, "compare", "neutral.json", "--systems", "poor")
    assert status == 69
    assert "adapter 'poor' ('acme:simulate' in the distribution acme 1.2) has no attribute 'VERSIONS'" in err


def test_a_release_of_another_distribution_is_simulated(acme: Path) -> None:
    queue = {"name": "q", "vhost": "/", "durable": True, "auto_delete": False}
    steps = [{"do": "publish", "exchange": "", "routing_key": "q"}, {"do": "crash", "queue": "q", "times": 3}]
    definitions = {"queues": [queue | {"arguments": {"x-queue-type": "quorum"}}]}
    events = {}
    for release in ("4.3", "4.3-acme"):
        scenario = {"release": release, "definitions": definitions, "steps": steps}
        status, out, err = dlx(acme, "simulate", "rabbitmq", "scenario.json", "--json", scenario=scenario)
        assert status == 0, err
        events[release] = [event["event"] for event in json.loads(out)["events"]]
    assert "limit-dropped" not in events["4.3"]
    assert "limit-dropped" in events["4.3-acme"]
    (acme / "empty.json").write_text(json.dumps({"queues": []}))
    assert dlx(acme, "settings", "empty.json", "--release", "4.3-acme")[0] == 0
    status, _, err = dlx(acme, "simulate", "rabbitmq", "scenario.json", scenario=scenario | {"release": "4.4-acme"})
    assert status == 69
    assert "release '4.4-acme' ('acme:OTHER_NAME' in the distribution acme 1.2) is Release(" in err
    assert err.endswith("and not a dlx.Release of that name\n")


def python(folder: Path, program: str) -> tuple[int, str, str]:
    """Run a program in a Python that has the folder's distributions."""
    path = os.pathsep.join([str(folder / "site"), str(ROOT)])
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_a_snapshot_under_a_release_of_another_distribution_is_restored(acme: Path) -> None:
    program = """
        import dlx
        from simulator.broker import Broker

        rules = dlx.release("4.3-acme")
        restored = Broker.restore(Broker(rules).snapshot())
        assert restored.release is rules
        print(restored.release.quorum_default_delivery_limit)
    """
    assert python(acme, program) == (0, "1\n", "")


def test_a_replay_asks_every_release_that_can_be_loaded_for_causes(acme: Path) -> None:
    program = """
        from simulator.replay.kernel.attribution import releases_by_likelihood

        print([each.name for each in releases_by_likelihood()])
    """
    status, out, err = python(acme, program)
    assert (status, err) == (0, "")
    assert out == f"{[*reversed(RELEASES), '4.3-acme']}\n"


def test_a_recorded_history_is_played_under_the_release_it_was_found_with(acme: Path) -> None:
    queue = {"name": "q", "vhost": "/", "durable": True, "auto_delete": False}
    definitions = {"queues": [queue | {"arguments": {"x-queue-type": "quorum"}}]}
    steps = [{"do": "publish", "exchange": "", "routing_key": "q"}, {"do": "crash", "queue": "q", "times": 3}]
    found = {}
    for release in ("4.3", "4.3-acme"):
        report = {"history": steps, "property": "lossless", "release": release}
        command = ("fuzz", "definitions.json", "--history", "report.json", "--json")
        status, out, err = dlx(acme, *command, definitions=definitions, report=report)
        assert status in (0, 1), err
        found[release] = (status, json.loads(out)["release"])
    assert found == {"4.3": (0, "4.3"), "4.3-acme": (1, "4.3-acme")}


def test_two_distributions_with_one_name_are_both_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("acme", "bolt"):
        install(tmp_path, name, "[dlx.test]\nx = json\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry = Registry("dlx.test", "thing", {"own": "json:dumps"})
    assert list(registry) == ["own", "x"]
    assert registry.load("own") is json.dumps
    with pytest.raises(PluginError, match=r"^thing 'x' is in several distributions: acme 1\.2, bolt 1\.2$"):
        registry.load("x")
    with pytest.raises(KeyError):
        registry.load("y")


@pytest.mark.parametrize("arguments", [["--help"], ["simulate", "--help"], ["compare", "--help"]])
def test_help_looks_for_no_entry_points(arguments: list[str]) -> None:
    run = f"import sys, simulator.cli.main as dlx; dlx.main({arguments!r})"
    code = f"{run}; sys.exit('importlib.metadata' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
