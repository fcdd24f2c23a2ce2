"""docker/compose.yaml as it stands: a trace recorded in the containers, and replayed on their Spark by a notebook.

Run by ``make test-compose``, which makes the images first.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from simulator.capture import open_log
from simulator.definitions import read_definitions
from simulator.replay import replay_table

ROOT = Path(__file__).parents[2]
UP_SECONDS = 180
RUN_SECONDS = 400
STOP_SECONDS = 60
ENVIRONMENT = os.environ | {"RABBITMQ_IMAGE": "dlx-rabbitmq:4.3", "COMPOSE_PROJECT_NAME": "dlx-test"}
SERVICES = {"rabbitmq": 1, "spark-master": 1, "spark-worker": 2, "jupyter": 1}

pytestmark = pytest.mark.containers


def run(*command: str, seconds: int = RUN_SECONDS) -> str:
    """The output of a command; what it printed is the message of its failure."""
    done = subprocess.run(
        command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, timeout=seconds, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def compose(*arguments: str, seconds: int = RUN_SECONDS) -> str:
    """Run compose, version 1 or 2."""
    tool = ["docker-compose"] if shutil.which("docker-compose") else ["docker", "compose"]
    return run(*tool, "-f", "docker/compose.yaml", *arguments, seconds=seconds)


def containers(service: str) -> list[str]:
    return compose("ps", "-q", service).split()


def in_jupyter(command: str, **environment: str) -> str:
    given = [part for name, value in environment.items() for part in ("-e", f"{name}={value}")]
    return run("docker", "exec", *given, containers("jupyter")[0], "timeout", str(RUN_SECONDS), "sh", "-c", command)


@pytest.fixture(scope="module")
def project() -> Iterator[None]:
    """All services, each healthy and both workers known to the master."""
    try:
        compose("up", "-d", "--no-build", seconds=UP_SECONDS)
        deadline = time.monotonic() + UP_SECONDS
        while not ready():
            assert time.monotonic() < deadline, compose("ps") + compose("logs", "--tail=30")
            time.sleep(1)
        yield
    finally:
        compose("down", "--volumes", "--timeout", "5", seconds=STOP_SECONDS)


def ready() -> bool:
    states = [
        run("docker", "inspect", "-f", "{{.State.Health.Status}}", each).strip()
        for service in SERVICES
        for each in containers(service)
    ]
    if states != ["healthy"] * sum(SERVICES.values()):
        return False
    with urlopen("http://127.0.0.1:8080/json/", timeout=10) as page:
        workers = json.load(page)["workers"]
    return [worker["state"] for worker in workers] == ["ALIVE", "ALIVE"]


@pytest.mark.usefixtures("project")
def test_no_service_of_ours_runs_as_root() -> None:
    for service in ("spark-master", "spark-worker", "jupyter"):
        for each in containers(service):
            assert run("docker", "exec", each, "id", "-un").strip() == "dlx"
    assert run("docker", "exec", *containers("rabbitmq"), "ps", "-o", "user=", "-C", "beam.smp").split() == ["rabbitmq"]


@pytest.mark.usefixtures("project")
def test_a_trace_of_the_containers_is_replayed_on_their_cluster_as_here(tmp_path: Path) -> None:
    in_jupyter(
        'python3 -m examples.workload --url "$AMQP_URL" --management-url "$MANAGEMENT_URL" --messages 20 --out out/own'
    )
    in_jupyter(
        'MASTER="$SPARK_MASTER" jupyter nbconvert --to notebook --execute --output-dir out '
        "notebooks/replay-on-a-cluster.ipynb",
        CAPTURE="/srv/out/own",
        RESULT="/srv/out/verdicts.jsonl",
    )
    run("docker", "cp", f"{containers('jupyter')[0]}:/srv/out/.", str(tmp_path))
    sys.path.insert(0, str(ROOT / "notebooks"))
    from support import verdict_lines

    definitions = read_definitions(tmp_path / "own" / "definitions.json")
    here = verdict_lines(replay_table(open_log(tmp_path / "own" / "trace.log"), definitions, "4.3"))
    assert (tmp_path / "verdicts.jsonl").read_bytes() == "".join(here).encode()
    assert len(here) > 500
    assert {json.loads(line)["verdict"] for line in here} == {"agree"}
