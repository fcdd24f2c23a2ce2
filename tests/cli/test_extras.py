"""Where a library is missing, a command names the extra that brings all that it needs."""

from __future__ import annotations

import configparser
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from simulator.cli.main import COMMANDS
from simulator.cli.main import EXTRAS as EXTRA_OF_COMMAND
from simulator.extras import EXTRAS

ROOT = Path(__file__).parents[2]
LOG = str(ROOT / "examples/captured-4.3/trace.log.gz")
DEFINITIONS = str(ROOT / "examples/captured-4.3/definitions.json")
TOPOLOGY = str(ROOT / "examples/topologies/broken/ladder-cycle.json")
CASES = str(ROOT / "tests/queue_tests/cases/limits.yml")
HISTORY = str(ROOT / "examples/compare/consumers-that-die.json")
LIBRARIES = frozenset(library for libraries in EXTRAS.values() for library in libraries)

# Where a distribution's module has another name.
MODULES = {"pyyaml": "yaml", "opentelemetry-proto": "opentelemetry", "python-qpid-proton": "proton"}

SCENARIOS = {
    "rabbitmq.json": {"definitions": {}, "release": "4.3", "steps": []},
    "activemq.json": {"broker": {"activemq_xml": "<broker/>"}, "steps": []},
}

# As `dlx` in an environment that lacks some libraries.
WITHOUT = """
import sys
from simulator.cli.main import main

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {hidden!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hidden())
sys.exit(main({args!r}))
"""

# Nothing answers at this server: a command that asks it first does not name the library.
CAPTURE = ["capture", "--url", "amqp://127.0.0.1:1", "--out", "log.parquet"]
REDRIVE = ["redrive", "amqp://127.0.0.1:1", "dead", "--management-url", "http://127.0.0.1:1"]
REPLAY = ["replay", LOG, "--definitions", DEFINITIONS]
NEEDS_AN_EXTRA = [
    (CAPTURE, "capture", LIBRARIES),
    (CAPTURE, "capture", {"pika"}),
    (CAPTURE, "capture", {"pyarrow"}),
    (["convert", LOG, "--out", "log.parquet"], "capture", LIBRARIES),
    (["doctor", "amqp://127.0.0.1:1", "dead"], "ops", {"pyarrow"}),
    (["explain", LOG, "--definitions", DEFINITIONS, "--message", "order-1"], "replay", LIBRARIES),
    (["fuzz", TOPOLOGY], "testing", LIBRARIES),
    (["lint", str(ROOT / "tests/sources/topology")], "yaml", {"yaml"}),
    (["fuzz", TOPOLOGY], "testing", {"hypothesis"}),
    (["generate", "--definitions", DEFINITIONS, "--out", "log"], "capture", {"pyarrow"}),
    ([*CAPTURE, "--metrics-url", "http://127.0.0.1:1"], "capture", {"prometheus_client"}),
    (REDRIVE, "ops", LIBRARIES),
    (REDRIVE, "ops", {"pyarrow"}),
    (["inspect", LOG, "orders.work"], "ops", LIBRARIES),
    (["inspect", "amqp://127.0.0.1:1", "dead", "--out", "dead.parquet"], "ops", {"pyarrow"}),
    (REPLAY, "replay", LIBRARIES),
    (REPLAY, "replay", {"duckdb"}),
    ([*REPLAY, "--out", "out"], "replay", {"plotly"}),
    ([*REPLAY, "--otlp", "traces.jsonl"], "otlp", {"opentelemetry"}),
    ([*REPLAY, "--engine", "spark"], "spark", {"pyspark", "py4j"}),
    ([*REPLAY, "--engine", "spark"], "spark", {"pandas"}),
    (REPLAY, "replay", {"pyarrow"}),
    (["replay", "histories.jsonl", "--form", "histories"], "spark", LIBRARIES),
    (["test", CASES], "testing", {"yaml"}),
    (["watch", LOG, "--definitions", DEFINITIONS], "replay", LIBRARIES),
    (["whatif", LOG, "--definitions", DEFINITIONS], "replay", LIBRARIES),
    (["whatif", LOG, "--definitions", DEFINITIONS], "replay", {"duckdb"}),
    (["record", "--", "true"], "server", LIBRARIES),
    (["serve"], "server", LIBRARIES),
    (["serve"], "server", {"starlette"}),
    (["serve", "ironmq"], "server", LIBRARIES),
    (["serve", "zaqar"], "server", LIBRARIES),
    (["serve", "activemq", "--management-port", "0"], "server", LIBRARIES),
    (["serve", "activemq", "activemq.xml"], "activemq", LIBRARIES),
    (["simulate", "activemq", "activemq.json"], "activemq", LIBRARIES),
]
NEEDS_NONE = [
    ["explain", TOPOLOGY, "--publish", "", "orders"],
    ["graph", TOPOLOGY],
    ["lint", str(ROOT / "examples/topologies/sound/plain-dead-letter-queue.json")],
    ["plan", DEFINITIONS, DEFINITIONS, "--release", "4.3"],
    ["releases"],
    ["settings", DEFINITIONS],
    ["upgrade", DEFINITIONS, "--from", "4.3", "--to", "4.3"],
    ["compare", HISTORY],
    *([command, "--help"] for command in EXTRA_OF_COMMAND),
    ["simulate", "rabbitmq", "rabbitmq.json"],
]


def without(hidden: set[str] | frozenset[str], args: list[str], work: Path) -> tuple[int, str]:
    for name, scenario in SCENARIOS.items():
        (work / name).write_text(json.dumps(scenario))
    for empty in ("histories.jsonl", "activemq.xml"):
        (work / empty).write_text("")
    code = WITHOUT.format(hidden=set(hidden), args=args)
    done = subprocess.run([sys.executable, "-c", code], cwd=work, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("args", "extra", "hidden"),
    NEEDS_AN_EXTRA,
    ids=[f"{args[0]}-{'all' if hidden is LIBRARIES else min(hidden)}-{at}" for at, (args, _, hidden) in
         enumerate(NEEDS_AN_EXTRA)],
)  # fmt: skip
def test_the_extra_is_named(args: list[str], extra: str, hidden: set[str], tmp_path: Path) -> None:
    status, said = without(hidden, args, tmp_path)
    assert status == 69, said
    (library,) = re.findall(rf"^dlx: this needs (\w+): pip install '\.\[{extra}\]' in a checkout of dlx$", said, re.M)
    assert library in hidden


def test_a_replay_needs_no_more_than_its_extra(tmp_path: Path) -> None:
    status, said = without(LIBRARIES - set(EXTRAS["replay"]), [*REPLAY, "--out", "out"], tmp_path)
    assert status == 0, said


@pytest.mark.parametrize("args", NEEDS_NONE, ids=lambda args: f"{args[0]}-{args[-1].rpartition('/')[2]}")
def test_what_needs_no_extra_runs_without_any(args: list[str], tmp_path: Path) -> None:
    assert without(LIBRARIES, args, tmp_path) == (0, "")


def test_every_command_is_tried() -> None:
    assert set(COMMANDS) == {args[0] for args, _, _ in NEEDS_AN_EXTRA} | {args[0] for args in NEEDS_NONE}
    named = {(args[0], extra) for args, extra, _ in NEEDS_AN_EXTRA if args[0] != "simulate"}
    named = {
        each for each in named if each[1] not in ("activemq", "otlp", "spark", "yaml")
    }  # which the command's arguments decide
    assert named == set(EXTRA_OF_COMMAND.items())


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_has_the_libraries_that_it_is_said_to_have(extra: str) -> None:
    libraries = set(EXTRAS[extra]) - {"py4j"}  # comes with pyspark
    assert libraries == _required(extra)


def _required(extra: str) -> set[str]:
    """The libraries of an extra and of those that it includes, by setup.cfg."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    project = config["metadata"]["name"]
    found: set[str] = set()
    for line in filter(None, config["options.extras_require"][extra].splitlines()):
        name, _, inner = line.partition("[")
        if name == project:
            found |= {each for more in inner.rstrip("]").split(",") for each in _required(more)}
        else:
            found |= {MODULES.get(each, each.replace("-", "_")) for each in re.findall(r"^[\w-]+", line)}
    return found
