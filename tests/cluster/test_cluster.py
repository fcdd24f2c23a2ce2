"""Replay on a Spark cluster: a master and a worker of their own process, whose Python lacks the project."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "captured-4.3"
START_SECONDS = 60
REPLAY_SECONDS = 240

pytestmark = [pytest.mark.cluster, pytest.mark.spark]


class Daemon:
    """One of Spark's standalone daemons, on loopback, in a process group of its own."""

    def __init__(self, kind: str, folder: Path, *arguments: str) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        self.log = folder / f"{kind.lower()}.log"
        main_class = f"org.apache.spark.deploy.{kind.lower()}.{kind}"
        address = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        settings = {
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "512m",
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",  # it would take a fixed port
        }
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [home / "bin" / "spark-class", main_class, *address, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=environment(**settings),
                start_new_session=True,
            )

    def said(self, pattern: str) -> str:
        """Wait until the log matches; the match's first group."""
        deadline = time.monotonic() + START_SECONDS
        log = ""
        while time.monotonic() < deadline and self.process.poll() is None:
            log = self.log.read_text(errors="replace")
            if found := re.search(pattern, log):
                return found[1]
            time.sleep(0.1)
        raise AssertionError(f"no {pattern!r} within {START_SECONDS} s in:\n{log}")

    def stop(self) -> None:
        """End it and what it started."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()


def environment(**more: str) -> dict[str, str]:
    """This process's environment without what would tell a child's Spark where this one's Python is."""
    told = ("PYTHONPATH", "PYSPARK_PYTHON", "SPARK_HOME")
    return {name: value for name, value in os.environ.items() if name not in told} | more


@pytest.fixture(scope="module")
def worker_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with the project's dependencies but without the project, as on the nodes of a cluster.

    Its path names this environment's site-packages, whose own .pth files (an editable install is one) are
    then not followed.
    """
    folder = tmp_path_factory.mktemp("worker-python")
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    paths = {"base": str(folder), "platbase": str(folder)}
    packages = Path(sysconfig.get_path("purelib", "venv", vars=paths))
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    code = "from importlib.util import find_spec;print([m for m in ('pyarrow', 'dlx', 'simulator') if find_spec(m)])"
    done = subprocess.run(
        [python, "-c", code], cwd=folder, env=environment(), capture_output=True, text=True, check=True
    )
    seen = done.stdout.strip()
    if seen != "['pyarrow']":
        pytest.fail(f"before anything is shipped a worker must see pyarrow alone, and sees {seen}")
    return python


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a master with one worker of two cores."""
    folder = tmp_path_factory.mktemp("cluster")
    master = Daemon("Master", folder)
    daemons = [master]
    try:
        url = master.said(r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
        resources = ("--cores", "2", "--memory", "1g", "--work-dir", str(folder / "work"))
        worker = Daemon("Worker", folder, *resources, url)
        daemons.append(worker)
        worker.said(r"(Successfully registered with master)")
        yield url
    finally:
        for daemon in reversed(daemons):
            daemon.stop()


def replay(master: str, folder: Path, **more: str) -> dict[str, int]:
    """The summary that ``dlx replay --json`` prints for the example."""
    dlx = Path(sys.executable).with_name("dlx")
    traces = sorted(str(path) for path in EXAMPLE.glob("trace.log*"))
    source = [*traces, "--definitions", str(EXAMPLE / "definitions.json"), "--release", "4.3"]
    done = subprocess.run(
        [dlx, "replay", *source, "--out", str(folder / "out"), "--json", "--master", master],
        capture_output=True,
        text=True,
        timeout=REPLAY_SECONDS,
        cwd=folder,
        env=environment(SPARK_LOCAL_IP="127.0.0.1", **more),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    summary: dict[str, int] = json.loads(done.stdout)
    return summary


def test_a_cluster_finds_what_one_machine_finds(cluster: str, worker_python: Path, tmp_path: Path) -> None:
    (tmp_path / "local").mkdir()
    (tmp_path / "cluster").mkdir()
    alone = replay("local[2]", tmp_path / "local")
    together = replay(cluster, tmp_path / "cluster", PYSPARK_PYTHON=str(worker_python))
    assert alone["agree"] == alone["deliveries"] > 2000
    assert alone["messages"] > 1000
    assert alone["dead_letters"] > 2000
    assert all(alone[name] == 0 for name in ("differ", "ambiguous", "unexplained", "broken_lines"))
    assert together == alone
