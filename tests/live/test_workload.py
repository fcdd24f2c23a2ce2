"""The workload of ``examples/`` on real servers: what they did is what their release's rules say."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from examples.workload.broker import Broker
from examples.workload.recording import collect, play, save, traced_vhost, wait_for_quiet
from simulator.capture import open_log
from simulator.capture.firehose import TRACE_EXCHANGE
from simulator.definitions import read_definitions
from simulator.replay import replay_table
from simulator.replay.rows.assumptions import Assumptions
from tests.live.servers import LiveServer

ROOT = Path(__file__).parents[2]
MESSAGES = 20  # the least at which every scenario shows its deaths
SECONDS = 60
# The plugin and the capture note when they see a trace, which on a busy machine is seconds later.
SEEN_LATE = Assumptions(tolerance_ms=10_000)
REASONS = {"rejected", "expired", "maxlen", "delivery_limit"}


@pytest.fixture
def vhost() -> str:
    """A name; the workload creates and deletes the virtual host."""
    return f"dlx-test-{uuid.uuid4().hex[:12]}"


def deliveries(log: Path, definitions: Path, release: str) -> list[dict[str, Any]]:
    """Every delivery of a recording, with its verdict under that release."""
    table = replay_table(open_log(log), read_definitions(definitions), release, SEEN_LATE)
    return [row for row in table.to_pylist() if row["event"] == "delivered"]


def findings(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    names = ("line", "queue", "verdict", "why", "differences")
    return [tuple(row[name] for name in names) for row in rows if row["verdict"] != "agree"]


def test_every_delivery_agrees_and_all_reasons_occur(live_server: LiveServer, vhost: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "examples.workload", "--vhost", vhost, "--messages", str(MESSAGES)]
    command += ["--url", live_server.amqp_url, "--management-url", live_server.management_url]
    run = subprocess.run([*command, "--out", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=SECONDS)
    assert run.returncode == 0, run.stderr
    rows = deliveries(tmp_path / "trace.log", tmp_path / "definitions.json", live_server.release)
    assert findings(rows) == []
    assert run.stdout.split()[-1] == str(len(rows)), "the last line of its table counts all deliveries"
    assert {hop["reason"] for row in rows for hop in row["hops"]} == REASONS
    assert vhost not in [entry["name"] for entry in live_server.api("GET", "vhosts")]


def test_the_firehose_gives_the_same_verdicts_as_the_log(live_server: LiveServer, vhost: str, tmp_path: Path) -> None:
    broker = Broker(live_server.amqp_url, live_server.management_url, vhost)
    with traced_vhost(broker) as trace:
        with firehose_captured(live_server, vhost, tmp_path / "firehose.parquet"):
            play(broker, MESSAGES, seed=1)
            wait_for_quiet(broker, trace)
        save(tmp_path, *collect(broker, trace))
    definitions = tmp_path / "definitions.json"
    from_log, from_firehose = (
        deliveries(tmp_path / name, definitions, live_server.release) for name in ("trace.log", "firehose.parquet")
    )
    assert len(from_log) > 15 * MESSAGES
    assert findings(from_firehose) == []
    assert judged(from_firehose) == judged(from_log)


def judged(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    """How often which message was delivered from which queue, with which verdict and hops (when, each log says)."""
    return Counter((row["lineage"], row["queue"], row["verdict"], _path(row), row["new_hops"]) for row in rows)


def _path(row: dict[str, Any]) -> str:
    return str([{name: hop[name] for name in hop if not name.endswith("_us")} for hop in row["hops"]])


@contextmanager
def firehose_captured(server: LiveServer, vhost: str, out: Path) -> Iterator[None]:
    """``dlx capture`` of what happens inside, ended by Ctrl-C.

    It publishes no probes, of which the log would grow. In a process of its own: while it runs, pika decodes values in
    another way, and the workload uses pika.
    """
    command = [sys.executable, "-m", "simulator.cli.main", "capture", "--url", server.vhost_url(vhost)]
    with subprocess.Popen(
        [*command, "--out", str(out), "--seconds", str(SECONDS), "--no-probes"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as process:  # fmt: skip
        try:
            wait_for_readers(server, vhost, 2, process)
            yield
        finally:
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, output


def wait_for_readers(server: LiveServer, vhost: str, count: int, process: subprocess.Popen[str]) -> None:
    """Wait until so many queues are bound to the trace exchange: the plugin's is one."""
    deadline = time.monotonic() + SECONDS
    while len(server.api("GET", f"exchanges/{vhost}/{TRACE_EXCHANGE}/bindings/source")) < count:
        assert process.poll() is None, "dlx capture ended before anything was published"
        assert time.monotonic() < deadline, f"only the plugin reads the trace after {SECONDS} s"
        time.sleep(0.1)
