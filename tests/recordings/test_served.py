"""``dlx serve`` in a process of its own: what is asked of real servers is asked of it, and ``dlx replay``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import real_servers
from tests.clients.broker import simulator
from tests.long import some_in_ci

ROOT = Path(__file__).parents[2]
SECONDS = 600
LIVE = ["tests/live/test_workload.py", "tests/live/test_firehose.py", "tests/live/test_replay_fuzz.py"]

pytestmark = pytest.mark.slow


def run(module: str, *arguments: str) -> str:
    """The output of a program of this repository, which must succeed."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


# In real time, which takes a minute or two each; the releases between them replay in virtual time
# (tests/replay/test_generated.py).
@pytest.mark.parametrize("release", some_in_ci([*real_servers.LIVE, "3.13"], ["4.3"]))
def test_captures_and_replays_agree_as_on_real_servers(release: str, tmp_path: Path) -> None:
    """The workload, the firehose and random topologies, in real time."""
    with simulator(release, tmp_path / "serve.txt") as broker:
        urls = f"{broker.server.amqp_url}|{broker.server.management_url}"
        output = run("pytest", "-q", "-p", "no:cacheprovider", "-m", "live", *LIVE, "--dlx-broker", urls)
    assert " passed" in output
    assert "skipped" not in output


@pytest.mark.parametrize("release", some_in_ci(real_servers.RECORDED, ["3.8", "3.13", "4.3"]))
def test_it_does_what_was_recorded_of_real_servers(release: str, tmp_path: Path) -> None:
    with simulator(release, tmp_path / "serve.txt") as broker:
        urls = f"{release}={broker.server.amqp_url},{broker.server.management_url}"
        run("tests.vectors.record", "--check", "--sample", "60", "--seed", "1", "--release", urls)


@pytest.mark.parametrize("release", ["3.8", "4.3"])
def test_dlx_replay_agrees_with_the_workload_in_virtual_time(release: str, tmp_path: Path) -> None:
    captured = str(tmp_path / "captured")
    with simulator(release, tmp_path / "serve.txt", "--clock", "virtual") as broker:
        urls = ["--url", broker.server.amqp_url, "--management-url", broker.server.management_url]
        run("examples.workload", *urls, "--out", captured, "--gzip", "--virtual-clock")
    replay = run(
        "simulator.cli.main", "replay", f"{captured}/trace.log.gz", "--definitions", f"{captured}/definitions.json",
        "--release", release, "--out", str(tmp_path / "out"), "--json",
    )  # fmt: skip
    summary = json.loads(replay)
    assert summary["agree"] == summary["deliveries"] > 2500
    assert summary["messages"] == 1123
    assert (summary["differ"], summary["ambiguous"], summary["unexplained"], summary["broken_lines"]) == (0,) * 4
    assert (tmp_path / "out" / "report.html").exists()
